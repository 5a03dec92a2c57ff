"""Operators that are none of tensors: on numbers, strings, lists and dicts, and questions about
tensors.  A function stands for all overloads of a name, unless it says otherwise."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tritorch.jit.run.builtins import (
    containers,
    numbers,
    prims,
    strings,
    tensors,
)
from tritorch.schema import types
from tritorch.schema.signature import FunctionSchema
from tritorch.schema.tensor_type import TensorType

# By name and overload; by name; by name and the first argument's type, of which there is no tensor.
_EXACT: dict[str, Callable[..., Any]] = {}
_ALL: dict[str, Callable[..., Any]] = {}
_LISTS: dict[str, Callable[..., Any]] = {}
_DICTS: dict[str, Callable[..., Any]] = {}
_STRINGS: dict[str, Callable[..., Any]] = {}
_PLAIN: dict[str, Callable[..., Any]] = {}
# Functions that choose by the schema.
_CHOSEN: dict[str, Callable[[FunctionSchema], Callable[..., Any]]] = {}
_TABLES: dict[str, dict[str, Any]] = {
    "EXACT": _EXACT, "ALL": _ALL, "LISTS": _LISTS, "DICTS": _DICTS, "STRINGS": _STRINGS,
    "PLAIN": _PLAIN, "CHOSEN": _CHOSEN,
}  # fmt: skip

for _module in (numbers, strings, containers, tensors, prims):
    for _name, _table in _TABLES.items():
        _table.update(getattr(_module, _name, {}))


def _is_of_tensors(kind: types.Type) -> bool:
    if isinstance(kind, (types.OptionalType, types.ListType)):
        return _is_of_tensors(kind.getElementType())
    return isinstance(kind, TensorType)


@functools.cache
def takes_tensors(schema: FunctionSchema) -> bool:
    """Tells whether an argument is a tensor or a list of tensors."""
    return any(_is_of_tensors(argument.type) for argument in schema._arguments)


@functools.cache
def find(schema: FunctionSchema) -> Callable[..., Any] | None:
    """The function of a schema, which takes all arguments by position; None if it is an operator
    of tensors, or not there."""
    name = schema.name
    found = _EXACT.get(f"{name}.{schema.overload_name}") or _ALL.get(name)
    if found is not None:
        return found
    first = schema._arguments[0].type if schema._arguments else None
    if isinstance(first, types.ListType) and name in _LISTS:
        return _LISTS[name]
    if isinstance(first, types.DictType):
        return _DICTS.get(name)
    if isinstance(first, types.StringType) and name in _STRINGS:
        return _STRINGS[name]
    if takes_tensors(schema):
        return None
    return _CHOSEN[name](schema) if name in _CHOSEN else _PLAIN.get(name)
