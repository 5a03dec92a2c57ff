"""Element types, with PyTorch's names."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tritorch import _C


class dtype:
    """The type of a tensor's elements; one object each, compared by identity."""

    __slots__ = ("code", "is_complex", "is_floating_point", "is_signed", "itemsize", "name")

    def __init__(self, name: str, code: int, itemsize: int, kind: str) -> None:
        self.name = name
        self.code = code  # shared with the native DType
        self.itemsize = itemsize
        self.is_floating_point = kind == "f"
        self.is_complex = kind == "c"
        self.is_signed = kind in "ifc"

    def __repr__(self) -> str:
        return f"tritorch.{self.name}"

    def __reduce__(self) -> str:
        return "bool_" if self.name == "bool" else self.name

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of the same elements (ml_dtypes has those that NumPy lacks)."""
        return _numpy_dtype(self)

    def to_real(self) -> dtype:
        """The type of the real and imaginary parts."""
        return {complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> dtype:
        """The complex type whose parts are of this type."""
        if self.is_complex:
            return self
        return complex128 if self is float64 else complex64


_TABLE = (
    # name, bytes, kind; the order is that of the native DType
    ("bool", 1, "b"),
    ("uint8", 1, "u"),
    ("int8", 1, "i"),
    ("uint16", 2, "u"),
    ("int16", 2, "i"),
    ("uint32", 4, "u"),
    ("int32", 4, "i"),
    ("uint64", 8, "u"),
    ("int64", 8, "i"),
    ("float16", 2, "f"),
    ("bfloat16", 2, "f"),
    ("float32", 4, "f"),
    ("float64", 8, "f"),
    ("float8_e4m3fn", 1, "f"),
    ("float8_e5m2", 1, "f"),
    ("complex64", 8, "c"),
    ("complex128", 16, "c"),
)
all_dtypes = tuple(dtype(name, code, size, kind) for code, (name, size, kind) in enumerate(_TABLE))
_C.set_dtypes(list(all_dtypes))
(
    bool_,
    uint8,
    int8,
    uint16,
    int16,
    uint32,
    int32,
    uint64,
    int64,
    float16,
    bfloat16,
    float32,
    float64,
    float8_e4m3fn,
    float8_e5m2,
    complex64,
    complex128,
) = all_dtypes


half, float_, double = float16, float32, float64
short, int_, long = int16, int32, int64
cfloat, cdouble = complex64, complex128

# What the native half makes of an ndarray's dtype.  Those of ml_dtypes are added with its import.
_from_numpy: dict[Any, dtype] = {}
_C.register_part("dtype_map", _from_numpy)


@functools.cache
def _numpy_dtype(kind: dtype) -> np.dtype[Any]:
    if kind.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        import ml_dtypes

        theirs = np.dtype(getattr(ml_dtypes, kind.name))
    else:
        theirs = np.dtype(kind.name)
    _from_numpy[theirs] = kind
    return theirs


for _kind in all_dtypes:
    if _kind.name not in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        _numpy_dtype(_kind)


@functools.cache
def from_numpy_dtype(kind: np.dtype[Any]) -> dtype:
    """The element type of a NumPy array; TypeError for one that tritorch lacks."""
    for ours in all_dtypes:
        if ours.name == kind.name:
            if not kind.isnative:
                raise TypeError(
                    f"given numpy array has byte order different from the native byte order "
                    f"({kind.str}): convert it with array.astype(array.dtype.newbyteorder('='))"
                )
            _from_numpy[kind] = ours
            return ours
    supported = ", ".join(known.name for known in all_dtypes)
    raise TypeError(
        f"can't convert np.ndarray of type {kind}. The supported types are: {supported}."
    )
