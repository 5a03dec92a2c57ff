"""`finfo` and `iinfo`: the limits of the numeric types."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from tritorch.core import defaults
from tritorch.core.dtype import FROM_ML_DTYPES, as_dtype, dtype
from tritorch.core.naming import as_native, qualified
from tritorch.core.promotion import not_implemented


def _only_type(name: str, args: tuple[Any, ...], other: dict[str, Any]) -> Any:
    """The argument `type`, checked; None where it was not passed."""
    if len(args) > 1 or (name == "iinfo" and not args) or set(other) - {"type"}:
        if len(args) > 1 and name == "iinfo":
            raise TypeError(f"iinfo() takes 1 positional argument but {len(args)} were given")
        if len(args) > 1:
            got = ", ".join(builtins.type(arg).__name__ for arg in args)
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got ({got}), but "
                "expected one of:\n * (torch.dtype type)\n * ()\n"
            )
        if "type" not in other:
            raise TypeError(f'{name}() missing 1 required positional arguments: "type"')
    if not args and "type" not in other:
        return None
    where, value = (" (position 1)", args[0]) if args else ("", other["type"])
    kind = as_dtype(value)
    if not isinstance(kind, dtype):
        raise TypeError(
            f"{name}(): argument 'type'{where} must be {qualified('dtype')}, not "
            f"{builtins.type(value).__name__}"
        )
    return kind


class finfo:
    """The limits of a floating-point type; of a complex one, those of its parts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kind = _only_type("finfo", args, kwargs) or defaults.dtype()
        if not (kind.is_floating_point or kind.is_complex):
            raise TypeError(
                f"{qualified('finfo')}() requires a floating point input type. Use "
                f"{qualified('iinfo')} to handle '{qualified('finfo')}'"
            )
        kind = kind.to_real()
        limits: Any = np.finfo
        if kind.opaque:
            raise TypeError(f"{qualified('finfo')}: {kind} has no limits")
        if kind.name in FROM_ML_DTYPES:
            import ml_dtypes

            limits = ml_dtypes.finfo
        values = limits(kind.numpy)
        self.dtype = kind.name
        self.bits = kind.itemsize * 8
        self.eps = float(values.eps)
        self.max = float(values.max)
        self.min = float(values.min)
        self.tiny = float(values.smallest_normal)
        self.smallest_normal = self.tiny
        self.resolution = 10.0 ** -math.floor(-math.log10(self.eps))

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("cannot pickle 'torch.finfo' object")


_QUANTIZED = {
    "qint8": np.int8, "quint8": np.uint8, "qint32": np.int32, "quint4x2": np.uint8,
    "quint2x4": np.uint8,
}  # fmt: skip


class iinfo:
    """The limits of an integer type."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        type = _only_type("iinfo", args, kwargs)
        if type.name in _QUANTIZED:
            self._set(np.iinfo(_QUANTIZED[type.name]))
            self._refused = type
            return
        if type.is_floating_point or type.is_complex or type.opaque:
            raise TypeError(
                f"{qualified('iinfo')}() requires an integer input type. Use {qualified('finfo')} "
                f"to handle '{qualified('iinfo')}'"
            )
        if type.name == "bool":
            raise TypeError(f"{qualified('bool')} is not supported by {qualified('iinfo')}")
        self._set(np.iinfo(type.numpy))
        self.dtype = type.name

    def _set(self, values: Any) -> None:
        self.bits = values.bits
        self.max = int(values.max)
        self.min = int(values.min)

    def __getattr__(self, name: str) -> Any:
        if name == "dtype" and "_refused" in vars(self):  # of a quantized type
            raise not_implemented("dtype", self._refused)
        raise AttributeError(f"'torch.iinfo' object has no attribute '{name}'")

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("cannot pickle 'torch.iinfo' object")


as_native(finfo, "torch.finfo")
as_native(iinfo, "torch.iinfo")
