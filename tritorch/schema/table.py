"""The schemas of PyTorch's operators, by namespace, name and overload, read when one is asked for.

`aten.txt` has ATen's, `others.txt` those of other namespaces, `core.txt` the names of ATen's core
set, `order.txt` the order of overloads where they are not sorted; `tools/record/aten.py` writes
them.
"""

from __future__ import annotations

import functools
from pathlib import Path

from tritorch.schema.parser import parse_schema
from tritorch.schema.signature import FunctionSchema

Texts = dict[str, dict[str, str]]


def _lines(file: str) -> list[str]:
    return (Path(__file__).parent / file).read_text(encoding="ascii").splitlines()


@functools.cache
def _aten() -> Texts:
    """The text of every schema, by name and then by overload."""
    found: Texts = {}
    for line in _lines("aten.txt"):
        name, _, overload = line[: line.index("(")].partition(".")
        found.setdefault(name, {})[overload] = line
    return found


@functools.cache
def _others() -> dict[str, Texts]:
    """The same by namespace."""
    found: dict[str, Texts] = {}
    for line in _lines("others.txt"):
        space, _, text = line.partition("::")
        name, _, overload = text[: text.index("(")].partition(".")
        found.setdefault(space, {}).setdefault(name, {})[overload] = text
    return found


@functools.cache
def core() -> frozenset[tuple[str, str]]:
    """The overloads of ATen's core set, into which exported graphs are decomposed."""
    parts = (line.partition(".") for line in _lines("core.txt"))
    return frozenset((name, overload) for name, _, overload in parts)


def _table(space: str) -> Texts:
    return _aten() if space == "aten" else _others().get(space, {})


def names(space: str = "aten") -> list[str]:
    """The operators of a namespace, without it."""
    return list(_table(space))


def overloads(name: str, space: str = "aten") -> list[str]:
    """The overloads of an operator, the one without a name being ""; none of what PyTorch lacks."""
    return list(_table(space).get(name, ()))


@functools.cache
def _order() -> dict[str, list[str]]:
    parts = (line.split() for line in _lines("order.txt"))
    return {name: ["" if x == "-" else x for x in overloads] for name, *overloads in parts}


def ordered(name: str, space: str = "aten") -> list[str]:
    """The overloads of an operator in the order in which TorchScript tries them."""
    return _order().get(f"{space}::{name}") or sorted(overloads(name, space))


@functools.cache
def find(name: str, overload: str = "", space: str = "aten") -> FunctionSchema:
    """The schema of an overload; KeyError if PyTorch has no such."""
    return parse_schema(f"{space}::{_table(space)[name][overload]}")
