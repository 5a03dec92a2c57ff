"""Numbers that TorchScript has for dtypes, layouts, memory formats and schemes of quantization."""

from __future__ import annotations

import functools
from typing import Any

from tritorch.core import layout as layouts
from tritorch.core.dtype import dtype
from tritorch.schema.objects import _FORMATS, _LAYOUTS, _dtypes


@functools.cache
def _numbers() -> dict[Any, int]:
    found: dict[Any, int] = {scheme: number for number, scheme in enumerate(layouts.SCHEMES)}
    for names in (_LAYOUTS, _FORMATS):
        for number, name in enumerate(names):
            if name is not None:
                found[getattr(layouts, name)] = number
    for number, kind in enumerate(_dtypes()):
        if kind is not None:
            found[kind] = number
    return found


_KINDS = (dtype, layouts.layout, layouts.memory_format, layouts.qscheme)


def is_numbered(value: Any) -> bool:
    """Tells whether TorchScript has a number for it."""
    return isinstance(value, _KINDS)


def number_of(value: Any) -> Any:
    """The number of a dtype, layout, memory format or scheme; other values as they are."""
    return _numbers()[value] if isinstance(value, _KINDS) else value


def dtype_of(number: Any) -> Any:
    """The dtype of a number."""
    return _dtypes()[number] if type(number) is int else number
