"""The source of functions."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple


def get_source_lines_and_file(
    obj: Any, error_msg: str | None = None
) -> tuple[list[str], int, str | None]:
    """The lines of a source, the number of its first, and its file."""
    try:
        filename = inspect.getsourcefile(obj)
        lines, first = inspect.getsourcelines(obj)
    except OSError as error:
        message = (
            f"Can't get source for {obj}. TorchScript requires source access in "
            "order to carry out compilation, make sure original .py files are available."
        )
        raise OSError(f"{message}\n{error_msg}" if error_msg else message) from error
    return lines, first, filename


def normalize_source_lines(sourcelines: list[str]) -> list[str]:
    """A function's lines, its body moved to the column of its `def`."""
    at = next((i for i, x in enumerate(sourcelines) if x.lstrip().startswith("def")), None)
    if at is None:
        return sourcelines
    margin = len(sourcelines[at]) - len(sourcelines[at].lstrip())
    body = [x[margin:] if not x[:margin].strip() else x for x in sourcelines[at:]]
    return [*(x.lstrip() for x in sourcelines[:at]), *body]


class ParsedDef(NamedTuple):
    """A function's syntax tree and where it is."""

    ast: ast.Module
    source: str
    filename: str | None
    file_lineno: int


def parse_def(fn: Callable[..., Any]) -> ParsedDef:
    """The syntax tree of a function."""
    lines, first, filename = get_source_lines_and_file(fn)
    source = "".join(lines)
    tree = ast.parse(textwrap.dedent(source))
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise RuntimeError(f"Expected a single top-level function: {filename}:{first}")
    return ParsedDef(tree, source, filename, first)
