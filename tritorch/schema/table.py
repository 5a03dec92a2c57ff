"""The schemas of ATen's operators, by name and overload: `aten.txt`, read when one is asked for.

`tools/record_aten.py` writes the file.
"""

from __future__ import annotations

import functools
from pathlib import Path

from tritorch.schema.parser import parse_schema
from tritorch.schema.signature import FunctionSchema


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    """The text of every schema, by name and then by overload."""
    found: dict[str, dict[str, str]] = {}
    text = (Path(__file__).parent / "aten.txt").read_text(encoding="ascii")
    for line in text.splitlines():
        name, _, overload = line[: line.index("(")].partition(".")
        found.setdefault(name, {})[overload] = line
    return found


def names() -> list[str]:
    """The operators of ATen, without their namespace."""
    return list(_table())


def overloads(name: str) -> list[str]:
    """The overloads of an operator, the one without a name being ""; none of what ATen lacks."""
    return list(_table().get(name, ()))


@functools.cache
def find(name: str, overload: str = "") -> FunctionSchema:
    """The schema of an overload; KeyError if ATen has no such."""
    return parse_schema(f"aten::{_table()[name][overload]}")
