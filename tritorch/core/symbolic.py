"""Arithmetic that programs write for numbers which a tracer may leave open (`torch.sym_max`).

Nothing is traced here, so the numbers are Python's, and no SymInt ever exists: the classes are
there for `isinstance`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np


class _Symbolic:
    """A number that is not known yet."""

    def __init__(self, node: Any) -> None:
        raise TypeError(f"{type(self).__name__}: tritorch does not trace, so every number is known")


class SymInt(_Symbolic):
    """An integer that a tracer leaves open; there is none."""


class SymFloat(_Symbolic):
    """A float that a tracer leaves open; there is none."""


class SymBool(_Symbolic):
    """A bool that a tracer leaves open; there is none."""


for _class in (SymInt, SymFloat, SymBool):
    _class.__module__ = "tritorch"


def sym_not(a: Any) -> bool:
    """`not a`."""
    return not a


def sym_float(a: Any) -> float:
    """`float(a)`."""
    return float(a)


def sym_fresh_size(expr: Any) -> Any:
    """The number, by way of a tensor: a tracer would not know the result."""
    from tritorch.ops.factory import tensor

    return tensor(expr).item()


def sym_int(a: Any) -> int:
    """`int(a)`: towards zero."""
    return int(a)


def _extreme(choose: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if type(a) in (int, bool) and type(b) in (int, bool):
        return choose(a, b)
    kinds = (np.integer, np.floating, int, float)
    for value in (a, b):
        assert isinstance(value, kinds), f"expected {kinds}, got {type(value)}"
    whole = all(isinstance(value, (int, np.integer)) for value in (a, b))
    return choose(a, b) if whole else float(choose(a, b))


def sym_max(a: Any, b: Any) -> Any:
    """The larger; a float if either is one."""
    return _extreme(max, a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller; a float if either is one."""
    return _extreme(min, a, b)


def sym_sum(args: Iterable[Any]) -> Any:
    """The sum of numbers."""
    return sum(args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """t if b, else f: of one type."""
    assert isinstance(b, bool), f"expected SymBool or bool, got {type(b)}"
    assert type(t) is type(f), f"expected the same type, got {type(t)} and {type(f)}"
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """`math.sqrt(a)`."""
    return math.sqrt(a)


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """RuntimeError unless min <= size <= max."""
    low = -(2**63) if min is None else min
    high = 2**63 - 1 if max is None else max
    if high < low:
        raise RuntimeError(f"Max must be greater than or equal to min. Got min={low} max={high}")
    if not low <= size <= high:
        raise RuntimeError(f"Invalid value range for {size} between [{low}, {high}].")


def sym_constrain_range_for_size(
    size: Any, *, min: int | None = None, max: int | None = None
) -> None:
    """The same for the size of a dim, whose max is above 2."""
    if max is not None and max <= 2:
        raise RuntimeError(
            f"Max value to constrain_range_for_size must be greater than 2. got: {max}"
        )
    sym_constrain_range(size, min=0 if min is None else min, max=max)


def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """true_fn(*operands) or false_fn(*operands), by a bool or a tensor with one element."""
    from tritorch.core.tensor import Tensor

    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    return true_fn(*operands) if pred else false_fn(*operands)
