"""`sym_*`: functions of Python's numbers and of dynamic ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tritorch.arrays.symbolic import Composite, SymBool, SymFloat, SymInt, as_float
from tritorch.core import published


def _own(a: Any, method: str) -> Any:
    """What an object answers by a method of its own; None without one."""
    found = getattr(type(a), method, None)
    return None if found is None else found(a)


def sym_not(a: Any) -> Any:
    """`not a`."""
    own = _own(a, "__sym_not__")
    if own is not None:
        return own
    return ~a if type(a) is SymBool else not a


def sym_float(a: Any) -> Any:
    """`float(a)`."""
    if type(a) is SymInt:
        return as_float(a)
    if isinstance(a, SymFloat):
        return a
    own = _own(a, "__sym_float__")
    if own is not None:
        return own
    return float(a)


def sym_fresh_size(expr: Any) -> Any:
    """The number, by way of a tensor: a tracer would not know the result."""
    return published.public.tensor(expr).item()


def sym_int(a: Any) -> Any:
    """`int(a)`: towards zero."""
    if isinstance(a, SymInt):
        return a
    of_node = isinstance(a, SymFloat) and type(a) is not SymFloat
    return a.__trunc__() if of_node else int(a)


def _extreme(choose: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if type(a) in (int, bool) and type(b) in (int, bool):
        return choose(a, b)
    for one, other in ((a, b), (b, a)):
        own = getattr(type(one), f"__sym_{choose.__name__}__", None)
        if own is not None and isinstance(one, (SymInt, SymFloat)):  # of a program's node
            return own(one, other)
    if SymInt in (type(a), type(b)) and {type(a), type(b)} <= {int, SymInt}:
        return _chosen(choose, a, b)
    kinds = (np.integer, np.floating, int, float)
    for value in (a, b):
        assert isinstance(value, kinds), f"expected {kinds}, got {type(value)}"
    whole = all(isinstance(value, (int, np.integer)) for value in (a, b))
    return choose(a, b) if whole else float(choose(a, b))


def _chosen(choose: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """min or max of integers, one of them open: one of both where ranges decide."""
    env = (a if type(a) is SymInt else b).env
    both = [x if type(x) is SymInt else SymInt({(): x}, env) for x in (a, b)]
    apart = both[0] - both[1]
    low, high = (apart, apart) if isinstance(apart, int) else apart.range
    if low >= 0 or high <= 0:
        larger, smaller = both if low >= 0 else both[::-1]
        return (larger if choose is max else smaller)._plain()
    first, second = sorted(both, key=str)
    return SymInt({((Composite(choose.__name__, first, second), 1),): 1}, env)


def sym_max(a: Any, b: Any) -> Any:
    """The larger; a float if either is one."""
    return _extreme(max, a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller; a float if either is one."""
    return _extreme(min, a, b)


def sym_sum(args: Iterable[Any]) -> Any:
    """The sum of numbers."""
    return sum(args)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """t if b, else f: of one type."""
    assert isinstance(b, (bool, SymBool)), f"expected SymBool or bool, got {type(b)}"
    choose = getattr(b, "__sym_ite__", None)
    if choose is not None:
        return choose(t, f)
    assert type(t) is type(f), f"type mismatch: {type(t)} vs {type(f)}"
    return t if b else f


def _applied(name: str) -> Callable[[Any], Any]:
    """A function of math, of open numbers too, and of what has `__sym_<name>__`."""
    function = getattr(math, name)

    def apply(a: Any) -> Any:
        own = _own(a, f"__sym_{name}__")
        if own is not None:
            return own
        if isinstance(a, (SymInt, SymFloat)):
            return sym_float(a)._applied(name, function, apply)
        return function(a)

    apply.__name__ = apply.__qualname__ = f"sym_{name}"
    apply.__doc__ = f"`math.{name}(a)`."
    return apply


_sym_sqrt, _sym_cos, _sym_cosh, _sym_sin, _sym_sinh = map(_applied, ("sqrt", "cos", "cosh", "sin",
                                                                     "sinh"))  # fmt: skip
_sym_tan, _sym_tanh, _sym_asin, _sym_acos, _sym_atan = map(_applied, ("tan", "tanh", "asin", "acos",
                                                                      "atan"))  # fmt: skip
_sym_log2 = _applied("log2")
sym_sqrt = _sym_sqrt


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
