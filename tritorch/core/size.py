"""`Size`: the tuple that a shape is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tritorch import _C
from tritorch.core.naming import qualified
from tritorch.core.symbolic import as_size


class Size(_C.SizeBase):
    """A tuple of sizes."""

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        values = tuple(sizes)
        for value in values:
            if not hasattr(value, "__index__"):
                raise TypeError(
                    f"{qualified('Size')}() takes an iterable of 'int' (item is "
                    f"'{type(value).__name__}')"
                )
        return super().__new__(cls, map(as_size, values))

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
