"""Errors of programs that run: where each was raised, and the text that users see.

Blocks write the place that failed onto the exception (`mark`), functions add it to its list
(`leave`), and only what leaves TorchScript is turned into text (`shown`).
"""

from __future__ import annotations

from typing import Any

from tritorch.jit._errors import Error

_PLACE, _PLACES, _PYTHON = "_script_place", "_script_places", "_script_python"


class Place:
    """A node of a function, and the place of the call that it was inlined for."""

    __slots__ = ("name", "node", "outer")

    def __init__(self, node: Any, name: str, outer: Place | None) -> None:
        self.node, self.name, self.outer = node, name, outer


class LimitError(RuntimeError):
    """A limit of the program's budget was reached."""


class Raised(Exception):
    """An exception of a program's `raise`; class_name is qualified, None if unknown."""

    def __init__(self, message: str, class_name: str | None) -> None:
        super().__init__(message)
        self.message, self.class_name = message, class_name


def mark(error: Exception, place: Place) -> None:
    """Keeps the place at which an exception was raised, unless a block inside of it did."""
    error.__dict__.setdefault(_PLACE, place)


def leave(error: Exception) -> None:
    """Adds the place that failed to those of an exception, when it leaves a function."""
    place = error.__dict__.pop(_PLACE, None)
    places = error.__dict__.setdefault(_PLACES, [])
    while place is not None:
        places.append((place.node.source, place.name))
        place = place.outer


def shown(error: Exception) -> Exception:
    """The exception that a caller from Python gets: RuntimeError, or torch.jit.Error for one that
    the program raised, with the places in the program's text."""
    places = error.__dict__.pop(_PLACES, ())
    text = "The following operation failed in the TorchScript interpreter.\n"
    text += "Traceback of TorchScript (most recent call last):\n"
    text += "".join(_place_text(source, name) for source, name in reversed(places))
    if isinstance(error, Raised):
        made: Exception = Error(f"{text}{error.class_name or 'RuntimeError'}: {error.message}\n")
    elif isinstance(error, NotImplementedError):
        made = NotImplementedError(f"{text}RuntimeError: {error}\n")
    else:
        made = RuntimeError(f"{text}RuntimeError: {message_of(error)}\n")
    return made


def of_python(error: Exception) -> None:
    """Says that a function of Python raised it, whose class and lines are shown then."""
    error.__dict__.setdefault(_PYTHON, error.__traceback__)


def _python_text(error: Exception, traceback: Any) -> str:
    """The class and message, and the lines that raised it, the innermost first."""
    frames = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        frames.append(f"  {code.co_filename}({traceback.tb_lineno}): {code.co_name}\n")
        traceback = traceback.tb_next
    lines = "".join(reversed(frames[1:]))  # the first is ours
    return f"{type(error).__name__}: {error}\n\nAt:\n{lines}"


def message_of(error: Exception) -> str:
    """The message, with the class of those errors whose text does not tell them."""
    if _PYTHON in error.__dict__:
        return _python_text(error, error.__dict__.pop(_PYTHON))
    if isinstance(error, KeyError):
        return f"KeyError: {error.args[0] if error.args else ''}"
    if isinstance(error, RecursionError):
        return "maximum recursion depth exceeded"
    return str(error)


def _place_text(source: Any, name: str) -> str:
    """One place of the traceback, with the function's name behind the line's number."""
    if source is None:
        return ""
    text: str = source.highlight()
    head, newline, rest = text.partition("\n")
    place = source.file_line_col()
    if place is not None and head.startswith("  File "):
        return f"{head}, in {name}{newline}{rest}"
    return text
