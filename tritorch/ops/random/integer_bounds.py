"""Which integers random_ and randint draw from: what a dtype can hold of the bounds given."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.core import defaults
from tritorch.core.dtype import dtype, float64
from tritorch.core.info import finfo, iinfo
from tritorch.core.promotion import category
from tritorch.ops.record.outputs import cpp_name

_LEAST, _MOST = -(2**63), 2**63 - 1
_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def most(kind: dtype) -> int:
    """The largest integer that a dtype holds with all below it."""
    if category(kind) == 0:
        return 1
    digits = _DIGITS.get(kind.name)
    return iinfo(kind).max if digits is None else 1 << digits


def _in_dtype(value: int, kind: dtype) -> int:
    """An integer as a float dtype has it."""
    wide: Any = np.float64 if kind is float64 else np.float32
    with np.errstate(over="ignore"):
        held = float(wide(value).astype(kind.numpy))
    return int(held) if _LEAST <= held < 2**63 else _LEAST


def _inwards(low: int, high: int, kind: dtype) -> tuple[int, int]:
    """Bounds moved to each other to where no integer between them rounds out of them."""
    step = lambda bound: 1 << max(abs(bound).bit_length() - _DIGITS[kind.name], 0)
    first, last = _in_dtype(low + 1, kind), _in_dtype(high - 1, kind)
    if first < low:
        low = first + step(low + 1)
    if last >= high:
        high = last - step(high - 1)
    return low, high


def _check(low: int, last: int, kind: dtype) -> None:
    if kind.is_complex:
        raise RuntimeError(
            "check_random_bounds handles only integral, floating-point and boolean types"
        )
    name = cpp_name(kind)
    if kind.is_floating_point:
        limit, digits = finfo(kind).max, _DIGITS[kind.name]
        least, greatest = -limit, limit
    else:
        limits = iinfo(kind) if category(kind) else None
        least, greatest = (limits.min, limits.max) if limits else (0, 1)
        digits = 64
    for which, value in (("from", low), ("to - 1", last)):
        if not least <= value <= greatest:
            raise RuntimeError(f"{which} is out of bounds for {name}")
        if abs(value) > 1 << digits:
            defaults.warn(
                f"{which} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision "
                f"limitations {name} can support discrete uniform distribution only within this "
                "range. This warning will become an error in version 1.7 release, please fix the "
                "code in advance",
                stacklevel=5,
            )


def between(low: int, high: int | None, kind: dtype) -> tuple[int, int]:
    """The bounds of what is drawn from [low, high), or from low to all that the dtype holds."""
    for bound in (low, high or 0):
        if not _LEAST <= bound <= _MOST:
            raise ValueError("Overflow when unpacking long long")
    if high is None:
        if low == _LEAST:
            return low, 2**63
        high = most(kind) + 1
        _check(low, high - 1, kind)
    elif low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    else:
        if kind.name in _DIGITS and max(-low, high) >= 1 << _DIGITS[kind.name]:
            low, high = _inwards(low, high, kind)
        _check(low, high - 1, kind)
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got "
            f"from={low} >= to={high}"
        )
    return low, high
