"""Chains of arrays that broadcast: over rows that are dense, with columns of one number a row.

A function of NumPy's is called once with stand-ins; what it comes to then runs row by row,
natively.  It may make columns of rows: `total` and `largest`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch.host import loops
from tritorch.host.chains.chains import Steps, native
from tritorch.host.chains.steps import Traced, Untraceable

Array = np.ndarray[Any, Any]
SINGLE = np.dtype(np.float32)
FLOATS = frozenset((SINGLE, np.dtype(np.float64)))
_LONGEST = 1 << 16  # elements of rows for which each thread has buffers
LARGE = 1 << 15  # elements of what `write` writes, which threads may share
_SHORT, _FEW = 16, 1024  # elements of rows that pay one by one, and of arrays whose rows all do


@functools.lru_cache(64)
def _rowwise(function: Callable[..., Any], given: str, kind: Any = SINGLE) -> Callable[..., None]:
    """A function of arrays of one dtype, as one of arrays and of those that its results go into.

    given: for each argument "a" for an array, "c" for a column, "-" for None.  The results are a
    tuple, or one; arrays have up to 3 dims, and results all sizes, or those of a column."""
    rows = loops.step(_chain(function, given, kind).rows)
    return rows if "-" not in given else lambda *arrays: rows(*[x for x in arrays if x is not None])


def _by_numpy(function: Callable[..., Any], given: str, kind: Any = SINGLE) -> Callable[..., None]:
    """The twin: the function is called with the arrays themselves."""

    def run(*arrays: Any) -> None:
        found = function(*arrays[: len(given)])
        for out, x in zip(arrays[len(given) :], found if isinstance(found, tuple) else (found,)):
            out[...] = x.reshape(out.shape) if x.size == out.size else x

    return run


rowwise = loops.pair("rowwise", _rowwise, _by_numpy)


def _chain(function: Callable[..., Any], given: str, kind: Any) -> Any:
    steps = Steps()
    stand_ins = [None if x == "-" else Traced(steps, steps.input(kind, x == "a")) for x in given]
    found = function(*stand_ins)
    made = found if isinstance(found, tuple) else (found,)
    return native(steps, [x.value for x in made])


def kinds(*given: Any) -> str:
    """What `rowwise` wants to know of arrays, and of columns that may be None."""
    return "".join("-" if x is None else "c" if x.shape[-1] == 1 else "a" for x in given)


@functools.lru_cache(256)
def _written(function: Callable[..., Any], given: str, kind: Any) -> Any:
    try:
        return _chain(function, given, kind)
    except Untraceable:
        return None


def _write(function: Callable[..., Any], out: Array, *given: Any) -> bool:
    """out = function(*given), over threads, of numbers and of arrays, which may be `out` itself or
    lie apart from it; False, and nothing is done, where that is better left to NumPy."""
    kind = out.dtype
    if kind not in FLOATS or out.size < LARGE or not out.flags.c_contiguous:
        return False
    operands, which = [], ""
    for x in given:
        if type(x) is not np.ndarray or not x.ndim:
            operands.append(np.full(1, x, kind))
            which += "c"
        elif x.shape == out.shape and x.dtype is kind and x.flags.c_contiguous:
            if x is not out and np.may_share_memory(x, out):
                return False
            operands.append(x)
            which += "a"
        else:
            return False
    run = _written(function, which, kind)
    if run is None:
        return False
    run(0, out.size, *operands, out)
    return True


write = loops.pair("write", _write, lambda function, out, *given: False)


def total(x: Any) -> Any:
    """The sum of each row, as a column."""
    return np.add.reduce(x, axis=-1, keepdims=True)


def product(x: Any) -> Any:
    """The product of each row, as a column."""
    return np.multiply.reduce(x, axis=-1, keepdims=True)


def largest(x: Any) -> Any:
    """The largest of each row, as a column."""
    return np.maximum.reduce(x, axis=-1, keepdims=True)


def smallest(x: Any) -> Any:
    """The smallest of each row, as a column."""
    return np.minimum.reduce(x, axis=-1, keepdims=True)


def pays(n: int, x: Array, y: Array | None = None) -> bool:
    """Whether functions of rows of n elements, which make columns of them, are better computed row
    by row: of dense arrays of one dtype, not empty, whose rows are not many short ones."""
    if not 0 < n <= _LONGEST or not (n >= _SHORT or x.size <= _FEW) or not x.size:
        return False
    kind = x.dtype
    if kind not in FLOATS or not x.flags.c_contiguous:
        return False
    return y is None or (y.dtype is kind and y.flags.c_contiguous)


@functools.lru_cache(256)
def number(x: float, kind: Any) -> Array:
    """A number as a column of one, for what sizes determine."""
    found = np.full((1, 1), x, kind)
    found.setflags(write=False)
    return found
