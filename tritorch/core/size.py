"""`Size`: the tuple that a shape is."""

from __future__ import annotations

import math
from typing import Any

from tritorch import _C
from tritorch.arrays.symbolic import as_size
from tritorch.core.naming import as_native, error_names, qualified


def _as_sizes(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    if kwargs:
        raise TypeError("tuple() takes no keyword arguments")
    return tuple(_sized(i, value) for i, value in enumerate(tuple(*args)))


def _sized(i: int, value: Any) -> Any:
    """An item as a size."""
    tensor = isinstance(value, _C.TensorBase)
    whole = not tensor or (value.numel() == 1 and value.dtype.name in _WHOLE)
    if not (hasattr(value, "__index__") and whole):
        raise TypeError(
            f"{qualified('Size')}() takes an iterable of 'int' (item {i} is "
            f"'{type(value).__name__}')"
        )
    size = as_size(value)
    if type(size) is int and not -(2**63) <= size < 2**63:
        raise ValueError("Overflow when unpacking long long")
    return size


_WHOLE = ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")


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
            kind = error_names.get(type(other), type(other).__name__)
            raise TypeError(f"can only concatenate tuple (not {kind}) to {qualified('Size')}")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any) -> Size:
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Size:
        if not hasattr(times, "__index__"):
            raise TypeError(f"can't multiply sequence by non-int of type '{type(times).__name__}'")
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)


Size.__module__ = "tritorch"
as_native(Size, "torch.Size")
_C.register_part("Size", Size)
_C.register_part("as_sizes", _as_sizes)
