"""Element types, with PyTorch's names."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tritorch import _C
from tritorch.core.naming import as_native, qualified


class dtype:
    """The type of a tensor's elements; one object each, compared by identity."""

    __slots__ = (
        "_signed", "code", "is_complex", "is_floating_point", "itemsize", "name", "numpy", "opaque",
    )  # fmt: skip
    _told_by_value = True
    numpy: np.dtype[Any]  # of the same elements (ml_dtypes has those that NumPy lacks)

    def __init__(self, name: str, code: int, itemsize: int, kind: str) -> None:
        self.name = name
        self.code = code  # shared with the native DType
        self.itemsize = itemsize
        self.is_floating_point = kind == "f"
        self.is_complex = kind == "c"
        self._signed: bool | str = kind in "ifcx"
        self.opaque = False  # NumPy knows bytes of it, nothing more

    def __repr__(self) -> str:
        return qualified(self.name)

    def __reduce__(self) -> str:
        return self.name

    @property
    def is_signed(self) -> bool:
        """Whether the type has negative numbers."""
        if isinstance(self._signed, str):
            raise RuntimeError(self._signed)
        return self._signed

    @property
    def native(self) -> bool:
        """Whether operators compute in this type, on the CPU and on the GPU."""
        return self.code < len(_TABLE)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name != "numpy":
                raise AttributeError(f"'torch.dtype' object has no attribute '{name}'")
            self.numpy = _numpy_dtype(self)  # at first use: ml_dtypes is imported for it
            return self.numpy

    @property
    def abbr(self) -> str:
        """A short name: f32, i64, b8."""
        if self.name in _SHORT:
            return _SHORT[self.name]
        if self.opaque or self.itemsize * 8 != int("0" + re.sub(r"\D", "", self.name)):
            return _SHORT.get(self.name, re.sub("^float(?=[48]_)", "f", self.name).replace("_", ""))
        return self.name[0] + re.sub(r"\D", "", self.name)

    def to_real(self) -> dtype:
        """The type of the real and imaginary parts."""
        return {complex32: float16, complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> dtype:
        """The complex type whose parts are of this type."""
        if self.is_complex:
            return self
        found = {float16: complex32, bfloat16: complex64, float32: complex64, float64: complex128}
        if self not in found:
            raise RuntimeError(f"Unknown Complex ScalarType for {self._scalar_name()}")
        return found[self]

    def _scalar_name(self) -> str:
        """The name of the type in PyTorch's C++."""
        return scalar_name(self)


dtype.__module__ = "tritorch"

_SHORT = {"complex32": "c32", "bool": "b8", "bfloat16": "bf16", "bits16": "b16x1", "bits8": "b8x1",
          "bits1x8": "b1x8", "bits2x4": "b2x4", "bits4x2": "b4x2"}  # fmt: skip
_SCALAR_NAMES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int",
    "int64": "Long", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float",
    "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
    "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
    "complex32": "ComplexHalf",
}  # fmt: skip


def scalar_name(kind: dtype) -> str:
    """The name of a type in PyTorch's C++."""
    name = kind.name
    if name in _SCALAR_NAMES:
        return _SCALAR_NAMES[name]
    letters = 3 if name.startswith("qu") else 2 if name.startswith(("q", "ui")) else 1
    return (name[:letters].upper() + name[letters:]) if letters < 3 else "QUI" + name[3:]


_TABLE = _C.dtypes()  # (name, bytes, kind), in the order of the native codes
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


# Python's types as dtypes.
BUILTIN: dict[Any, dtype] = {float: float64, int: int64, bool: bool_, complex: complex128}


def as_dtype(kind: Any) -> Any:
    """A dtype for one of Python's types; anything else as it is."""
    return BUILTIN.get(kind, kind) if isinstance(kind, type) else kind


# ---- types that are only stored ------------------------------------------------------------------

# On the CPU alone.  Numbers are converted to and from the first ones; complex32 computes by way of
# complex64.  The others are names of bytes: tensors can be made of them and viewed as them.
_STORED = (
    ("float8_e4m3fnuz", 1, "f"), ("float8_e5m2fnuz", 1, "f"), ("float8_e8m0fnu", 1, "f"),
    ("complex32", 4, "c"), ("float4_e2m1fn_x2", 1, "f"),
    *((f"int{bits}", 1, "i") for bits in range(1, 8)),
    *((f"uint{bits}", 1, "u") for bits in range(1, 8)),
    ("bits1x8", 1, "b"), ("bits2x4", 1, "b"), ("bits4x2", 1, "b"), ("bits8", 1, "b"),
    ("bits16", 2, "b"), ("qint8", 1, "q"), ("quint8", 1, "q"), ("qint32", 4, "q"),
    ("quint4x2", 1, "q"), ("quint2x4", 1, "q"),
)  # fmt: skip
STORED = {
    name: dtype(name, code, size, kind)
    for code, (name, size, kind) in enumerate(_STORED, len(_TABLE))
}
as_native(dtype, "torch.dtype", makes=False)
complex32 = STORED["complex32"]
for _name, _, _kind_letter in _STORED[3:]:
    STORED[_name].opaque = True
    if _kind_letter == "b":
        STORED[_name]._signed = "Bits types are undefined"
    elif _kind_letter == "q":
        STORED[_name]._signed = "isSignedType not supported for quantized types"
STORED["float8_e8m0fnu"]._signed = False
globals().update(STORED)  # found here by pickle
FROM_ML_DTYPES = frozenset((
    "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e8m0fnu",
))  # fmt: skip

half, float_, double = float16, float32, float64
chalf, bit = complex32, STORED["uint1"]
short, int_, long = int16, int32, int64
cfloat, cdouble = complex64, complex128

# What the native half makes of an ndarray's dtype.  Those of ml_dtypes are added with its import.
_from_numpy: dict[Any, dtype] = {}
_C.register_part("dtype_map", _from_numpy)
_C.register_part("dtype", dtype)


@functools.cache
def _numpy_dtype(kind: dtype) -> np.dtype[Any]:
    if kind is complex32:
        theirs = np.dtype([("real", np.float16), ("imag", np.float16)])
    elif kind.opaque:
        theirs = np.dtype([(kind.name, f"u{kind.itemsize}")])
    elif kind.name in FROM_ML_DTYPES:
        import ml_dtypes

        theirs = np.dtype(getattr(ml_dtypes, kind.name))
    else:
        theirs = np.dtype(kind.name)
    _from_numpy[theirs] = kind
    return theirs


for _kind in all_dtypes:
    if _kind.name not in FROM_ML_DTYPES:
        _numpy_dtype(_kind)


@functools.cache
def from_numpy_dtype(kind: np.dtype[Any]) -> dtype:
    """The element type of a NumPy array; an error for one that tritorch lacks."""
    for ours in (*all_dtypes, *STORED.values()):
        if ours.name == kind.name or (ours.opaque and kind == ours.numpy):
            if not kind.isnative:
                raise ValueError(
                    "given numpy array has byte order different from the native byte order. "
                    "Conversion between byte orders is currently not supported."
                )
            _from_numpy[kind] = ours
            return ours
    raise TypeError(
        f"can't convert np.ndarray of type numpy.{kind.type.__name__}. The only supported "
        "types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, "
        "uint64, uint32, uint16, uint8, and bool."
    )
