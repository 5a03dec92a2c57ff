"""Command lines of `python -m tritorch`: parsers that suggest, and files that are looked at first.

What is wrong with a command line is said in one sentence, and the exit status is 2.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Iterable
from typing import NoReturn


class Refused(Exception):
    """A command line that cannot be followed; says why in one sentence."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """The nearest of known names as a question, or nothing."""

    def likeness(other: str) -> float:
        """Of a name, or of its first letters: the end may be what was left out."""
        ratio = lambda text: difflib.SequenceMatcher(None, name, text).ratio()
        return max(ratio(other), ratio(other[: len(name)]) - 0.01)

    near = max(known, key=likeness, default="")
    return f"; did you mean {near}?" if near and likeness(near) > 0.6 else ""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, and name the nearest option to one it does not
    know."""

    def parse_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        options, rest = self.parse_known_args(args, namespace)
        if rest:
            unknown = next((each for each in rest if each.startswith("-")), rest[0])
            known = [name for action in self._actions for name in action.option_strings]
            near = suggestion(unknown.partition("=")[0], known) if unknown[0] == "-" else ""
            what = "option" if unknown[0] == "-" else "argument"
            self.error(f"unknown {what} {unknown}" + (near or "; --help shows what there is"))
        return options

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def readable(path: str | os.PathLike[str]) -> None:
    """Raises Refused unless a path is a file that can be read."""
    if not os.path.exists(path):
        raise Refused(f"no such file: {path}")
    if os.path.isdir(path):
        raise Refused(f"{path} is a folder, not a file")
    if not os.access(path, os.R_OK):
        raise Refused(f"{path} cannot be read: permission denied")


def writable(path: str | os.PathLike[str]) -> None:
    """Raises Refused unless a file can be written at a path."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise Refused(f"{path} is a folder, not a file to write")
    if not os.path.isdir(folder):
        raise Refused(f"{path} cannot be written: there is no folder {folder}")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise Refused(f"{path} cannot be written: permission denied")


def folder(path: str | os.PathLike[str]) -> None:
    """Makes a folder for results; raises Refused where that cannot be."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise Refused(f"{path} cannot be made: {error.strerror}") from None
    if not os.access(path, os.W_OK):
        raise Refused(f"{path} cannot be written to: permission denied")


def program(words: list[str]) -> None:
    """Raises Refused unless `script.py args...`, `-m module args...`, `-c code` or `-` names what
    can be run."""
    first = words[0]
    if first in ("-m", "-c") and len(words) == 1:
        raise Refused(f"{first} takes an argument")
    if first == "-m":
        module(words[1])
    elif first not in ("-c", "-") and not os.path.exists(first):
        raise Refused(f"no such file: {first}")


def module(name: str) -> None:
    """Raises Refused unless there is a module of a name.  Its packages are not imported, which is
    the program's business: of `a.b` only a is looked for."""
    import importlib.util

    first = name.partition(".")[0]
    sys.path.insert(0, "")
    try:
        there = first in ("torch", "functorch") or importlib.util.find_spec(first) is not None
    except (ImportError, ValueError):
        there = False
    finally:
        sys.path.remove("")
    if not there:
        raise Refused(f"no module named {name}")
