"""Source text of a function: its syntax tree, and the ranges that errors and nodes show."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from tritorch.jit._sources import ErrorReport, SourceRange, SourceRangeFactory


class Source:
    """A text with the offsets of its lines.  Makes the ranges of syntax nodes."""

    def __init__(
        self, text: str, filename: str | None, first_line: int = 1, indent: int = 0
    ) -> None:
        """indent: how many columns of each line were taken away before parsing."""
        self.text, self.filename, self.first_line = text, filename, first_line
        self.factory = SourceRangeFactory(text, filename, first_line, indent)
        self._indent = indent
        self._is_ascii = text.isascii()

    def _offset(self, line: int, column: int) -> int:
        begins = self.factory._begins
        line = min(max(line, 1), len(begins))
        begin = begins[line - 1]
        if not self._is_ascii:  # columns of syntax trees count bytes
            text = self.text[begin : begin + self._indent + column]
            raw = text.encode()[: self._indent + column]
            return begin + len(raw.decode(errors="ignore"))
        return begin + self._indent + column

    def range(self, node: Any) -> SourceRange:
        """The range of a syntax node."""
        line = getattr(node, "lineno", 1)
        start = self._offset(line, getattr(node, "col_offset", 0))
        if isinstance(node, (ast.stmt, ast.ExceptHandler)) and hasattr(node, "body"):
            end_of_line = self.text.find("\n", start)
            return SourceRange(self.factory, start, end_of_line if end_of_line > 0 else start)
        end = self._offset(
            getattr(node, "end_lineno", None) or line, getattr(node, "end_col_offset", None) or 0
        )
        return SourceRange(self.factory, start, max(start, end))


class ScriptError(RuntimeError):
    """A program that TorchScript refuses: the message, and the place in its text."""


def fail(place: SourceRange | None, message: str) -> NoReturn:
    """Raises the error of a program, with the lines of its text around the place."""
    if place is None:
        raise ScriptError(message)
    raise ScriptError(f"\n{message}:\n{place.highlight()}{ErrorReport.call_stack()}")


class FrontendError(Exception):
    """A construct that the compiler cannot read, with its place."""

    def __init__(self, source_range: Any, msg: str) -> None:
        self.source_range, self.msg = source_range, msg
        self.error_report = ErrorReport(source_range)

    def __str__(self) -> str:
        return f"{self.msg}{self.error_report.what().lstrip()}"


class NotSupportedError(FrontendError):
    """A construct of Python that TorchScript lacks."""


class UnsupportedNodeError(NotSupportedError):
    """A kind of syntax that TorchScript lacks."""


_NAMES = {
    "FunctionDef": "function definitions", "For": "for loops", "Delete": "del statements",
    "ClassDef": "class definitions", "With": "with statements", "Raise": "raise statements",
    "Assert": "assertions", "Import": "import statements", "ImportFrom": "import statements",
    "Global": "global variables", "Break": "break statements", "Continue": "continue statements",
    "Try": "try blocks", "Exec": "exec statements", "AsyncFunctionDef": "async function "
    "definitions",
    "AsyncFor": "async for loops", "AsyncWith": "async with statements",
    "Nonlocal": "nonlocal variables", "Yield": "yield statements", "Await": "await expressions",
    "YieldFrom": "yield from statements", "Lambda": "lambda functions", "Set": "set expressions",
    "SetComp": "set comprehensions", "GeneratorExp": "generator expressions",
    "NamedExpr": "assignment expressions",
}  # fmt: skip


def unsupported(source: Source, node: ast.AST) -> NoReturn:
    """Raises the error of a kind of syntax that TorchScript lacks."""
    kind = type(node).__name__
    place = source.range(node)
    raise UnsupportedNodeError(place, f"{_NAMES.get(kind, kind)} aren't supported:\n")
