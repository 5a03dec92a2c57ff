"""`Size`: the tuple that a shape is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tritorch import _C
from tritorch.arrays.symbolic import as_size
from tritorch.core.naming import qualified


def _as_sizes(sizes: Iterable[Any] = ()) -> tuple[Any, ...]:
    values = tuple(sizes)
    for value in values:
        if not hasattr(value, "__index__"):
            raise TypeError(
                f"{qualified('Size')}() takes an iterable of 'int' (item is "
                f"'{type(value).__name__}')"
            )
    return tuple(map(as_size, values))


class Size(_C.SizeBase):
    """A tuple of sizes."""  # which src/tensor/size.cpp makes, by `_as_sizes` where it has to

    __slots__ = ()

    def numel(self) -> int:
        """How many elements a tensor of this shape has."""
        return math.prod(self)

    def __repr__(self) -> str:
        return qualified(f"Size([{', '.join(map(str, self))}])")

    __str__ = __repr__

    def __add__(self, other: Any) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any) -> Size:
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)


Size.__module__ = "tritorch"
_C.register_part("Size", Size)
_C.register_part("as_sizes", _as_sizes)
