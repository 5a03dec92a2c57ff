"""Places in a program's text, and errors that show them: what torch.jit's messages are made of."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from tritorch.schema.source import highlight


class SourceRange:
    """A piece of a text: shown with the lines around it, and the file's name and line if known."""

    def __init__(self, source: SourceRangeFactory, start: int, end: int) -> None:
        self._source = source
        self.start, self.end = start, end

    def highlight(self) -> str:
        """The lines around, what is meant marked."""
        source = self._source
        shown = highlight(source.source, self.start, self.end)
        if source._filename is None:
            return shown
        line = source._line + source.source.count("\n", 0, self.start)
        return f'  File "{source._filename}", line {line}\n{shown}'

    def file_line_col(self) -> tuple[str, int, int] | None:
        """The file, the line in it and the column from 0; None for a text of no file."""
        source = self._source
        if source._filename is None:
            return None
        begin = source.source.rfind("\n", 0, self.start) + 1
        line = source._line + source.source.count("\n", 0, self.start)
        return source._filename, line, self.start - begin

    def __repr__(self) -> str:
        return self.highlight()

    def __str__(self) -> str:
        return f"SourceRange at:\n{self.highlight()}"


class SourceRangeFactory:
    """Makes ranges of a text whose first line has a number in its file.

    leading_whitespace_chars: how far the text is indented more than the columns that are given.
    """

    def __init__(
        self, text: str, filename: Any, file_lineno: int, leading_whitespace_chars: int
    ) -> None:
        self.source = text
        self._filename, self._line = filename, file_lineno
        self._indent = leading_whitespace_chars
        lines = text.split("\n")
        self._begins = [0]
        for line in lines[:-1]:
            self._begins.append(self._begins[-1] + len(line) + 1)

    def make_range(self, line: int, start_col: int, end_col: int) -> SourceRange:
        """Columns of a line; the first line is 1."""
        if not 1 <= line <= len(self._begins):
            raise IndexError(f"line {line} of a text with {len(self._begins)}")
        begin = self._begins[line - 1] + self._indent
        return SourceRange(self, begin + start_col, begin + end_col)

    def make_raw_range(self, start: int, end: int) -> SourceRange:
        """From one character of the text to another."""
        return SourceRange(self, start, end)


class _Frames(threading.local):
    """What is being compiled in this thread, the outermost first."""

    def __init__(self) -> None:
        self.open: list[weakref.ref[CallStack]] = []
        self.reference: tuple[str, SourceRange] | None = None


_frames = _Frames()


def _open_frames() -> list[CallStack]:
    return [frame for ref in _frames.open if (frame := ref()) is not None]


class CallStack:
    """As long as it lives, errors of its thread say that `name` was called from the one before."""

    def __init__(self, name: str, range: SourceRange) -> None:
        if not isinstance(name, str) or not isinstance(range, SourceRange):
            raise TypeError("CallStack(): expected a str and a SourceRange")
        self.name, self.range = name, range
        _frames.open = [weakref.ref(frame) for frame in _open_frames()] + [weakref.ref(self)]


@contextlib.contextmanager
def referring(name: str, range: SourceRange | None) -> Iterator[None]:
    """A class that is compiled inside is compiled because of this place of a function."""
    before = _frames.reference
    _frames.reference = None if range is None else (name, range)
    try:
        yield
    finally:
        _frames.reference = before


@contextlib.contextmanager
def referred(name: str) -> Iterator[None]:
    """Errors inside say that `name` is compiled because of the place that refers to it."""
    reference = _frames.reference
    if reference is None:
        yield
        return
    frames = CallStack(*reference), CallStack(name, reference[1])
    with referring("", None):
        yield
    del frames


class ErrorReport:
    """A message that shows a place, and the calls that led there when it was made."""

    def __init__(self, range: SourceRange) -> None:
        if not isinstance(range, SourceRange):
            raise TypeError(f"ErrorReport(): expected a SourceRange, got {range!r}")
        self._range, self._stack = range, self.call_stack()

    def what(self) -> str:
        """The text."""
        return f"\n:\n{self._range.highlight()}{self._stack}"

    @staticmethod
    def call_stack() -> str:
        """The calls that lead to what is being compiled, the innermost first."""
        frames = _open_frames()
        return "".join(
            f"'{inner.name}' is being compiled since it was called from '{outer.name}'\n"
            f"{outer.range.highlight()}"
            for outer, inner in reversed(list(zip(frames, frames[1:])))
        )


for _class in (CallStack, ErrorReport):
    _class.__module__ = "tritorch"
