"""The objects that programs see for what a schema's defaults write as numbers and text: dtypes,
layouts, memory formats and devices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tritorch.core import layout as layouts
from tritorch.core.device import device
from tritorch.core.dtype import STORED, all_dtypes
from tritorch.schema import types
from tritorch.schema.parser import DTYPES
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.types import Type

_LAYOUTS = (
    "strided", "sparse_coo", "sparse_csr", None, "sparse_csc", "sparse_bsr", "sparse_bsc", None,
    "jagged",
)  # fmt: skip
_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


@functools.cache
def _dtypes() -> tuple[Any, ...]:
    by_name = {kind.name: kind for kind in (*all_dtypes, *STORED.values())}
    return tuple(by_name.get(name) for name in DTYPES)


def _numbered(value: Any, objects: tuple[Any, ...], what: str) -> Any:
    if type(value) is not int:
        return value
    found = objects[value] if 0 <= value < len(objects) else None
    if found is None:
        raise RuntimeError(f"{value} is the number of no {what}")
    return getattr(layouts, found) if isinstance(found, str) else found


def converter(kind: Type) -> Callable[[Any], Any] | None:
    """A function from an argument of a type, which may be a number or a text, to the object that it
    stands for; None for types that have none."""
    if isinstance(kind, types.OptionalType):
        return converter(kind.getElementType())
    if isinstance(kind, types.ListType):
        inner = converter(kind.getElementType())
        if inner is None:
            return None
        return lambda value: [inner(x) for x in value] if isinstance(value, list) else value
    if isinstance(kind, types.ScalarTypeType):
        return lambda value: _numbered(value, _dtypes(), "dtype")
    if isinstance(kind, types.LayoutType):
        return lambda value: _numbered(value, _LAYOUTS, "layout")
    if isinstance(kind, types.MemoryFormatType):
        return lambda value: _numbered(value, _FORMATS, "memory format")
    if isinstance(kind, types.DeviceObjType):
        return lambda value: device(value) if isinstance(value, str) else value
    return None


def converters(schema: FunctionSchema) -> list[tuple[int, Callable[[Any], Any]]]:
    """The places of arguments that may be numbers or texts for objects, with their functions."""
    made = ((place, converter(a.real_type)) for place, a in enumerate(schema.arguments))
    return [(place, convert) for place, convert in made if convert is not None]


def default_of(argument: Argument) -> Any:
    """An argument's default as a program's function gets it."""
    convert = converter(argument.real_type)
    value = argument.default_value
    return value if convert is None else convert(value)
