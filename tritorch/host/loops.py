"""Native loops of the CPU, each with its NumPy definition.

# Note [NumPy defines]
NumPy is the definition of what the CPU computes.  A loop of our own stands in for a NumPy function
with the same arguments, its *twin*, which is declared here: `@loop` gives the native function, or
with TRITORCH_NUMPY_ONLY=1 the twin.  Some loops stand in front of NumPy code that follows the call:
their twins decline (`False` or `None`: "not mine"), or their `gate`, which says whether a call is
the loop's, says no.  Chains (Note [Chains]) are declared beside what they trace: `chains/`.
`LOOPS` is the table of all: tests/cpu/test_numpy_twins.py compares each pair, docs/backends.md says
what each gains, and `make judge-numpy-only` runs the operators on the twins.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from tritorch import _C

Array = np.ndarray[Any, Any]
Function = TypeVar("Function", bound=Callable[..., Any])
NUMPY_ONLY = os.environ.get("TRITORCH_NUMPY_ONLY", "").lower() in ("1", "on", "true")


class Loop(NamedTuple):
    """A native function and its twin; a twin that is None is the NumPy code after a gate."""

    native: Callable[..., Any]
    twin: Callable[..., Any] | None


LOOPS: dict[str, Loop] = {}


def loop(twin: Function) -> Function:
    """Declares a twin; gives the native function of its name, or the twin with NumPy alone."""
    native = getattr(_C, twin.__name__)
    LOOPS[twin.__name__] = Loop(native, twin)
    return twin if NUMPY_ONLY else native


def step(function: Function) -> Function:
    """A loop that call plans see in functions made of steps (`arrays.by_steps`)."""
    return cast(Function, _C.Seen(function))


def pair(name: str, native: Function, twin: Callable[..., Any]) -> Function:
    """Declares a native function and its twin; gives the one that computes."""
    LOOPS[name] = Loop(native, twin)
    return cast(Function, twin) if NUMPY_ONLY else native


def gate(*names: str) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Declares what says whether a call is for native loops; with NumPy alone none is."""
    LOOPS.update({name: Loop(getattr(_C, name), None) for name in names})

    def decorate(asked: Callable[..., bool]) -> Callable[..., bool]:
        return (lambda *call: False) if NUMPY_ONLY else asked

    return decorate


# ---- functions of one number: NumPy's, or the C library's ----------------------------------------


def _by_library(function: Callable[[float], float]) -> Callable[[Array], Array]:
    run = np.vectorize(function, otypes=[np.float64])
    return lambda x: np.asarray(run(x))


_erf, _erfc = _by_library(math.erf), _by_library(math.erfc)


def _log_gamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # a pole, or too large
        return math.inf


_lgamma = _by_library(_log_gamma)


exp = pair("exp", _C.exp, np.exp)
expm1 = pair("expm1", _C.expm1, np.expm1)
log = pair("log", _C.log, np.log)
log1p = pair("log1p", _C.log1p, np.log1p)
tanh = pair("tanh", _C.tanh, np.tanh)


@loop
def sigmoid(x: Array, out: Array | None = None) -> Array:
    """1 / (1 + exp(-x)), of float32."""
    with np.errstate(over="ignore"):
        return np.reciprocal(1 + np.exp(-x), out=out)


@loop
def normal(x: Array) -> Array:
    """The normal distribution function, of float32."""
    return (_erfc(x / -math.sqrt(2)) / 2).astype(x.dtype)


@loop
def erf(x: Array) -> Array:
    """The error function, of float32."""
    return _erf(x).astype(x.dtype)


@loop
def erf64(x: Array) -> Array:
    """The error function, of float64."""
    return _erf(x)


@loop
def erfc64(x: Array) -> Array:
    """1 - erf(x), of float64."""
    return _erfc(x)


@loop
def lgamma64(x: Array) -> Array:
    """log |gamma(x)|, of float64."""
    return _lgamma(x)


@loop
def erfinv(x: Array) -> Array:
    """The y with erf(y) = x: Newton's steps from Winitzki's approximation."""
    a = np.abs(x.astype(np.float64))
    with np.errstate(all="ignore"):
        rest = 1 - a  # exact from 1/2 on
        ends = np.log(rest * (1 + a))
        half = 2 / (math.pi * 0.147) + ends / 2
        y = np.sqrt(np.sqrt(half * half - ends / 0.147) - half)
        for _ in range(4):
            lack = np.where(a < 0.5, a - _erf(y), _erfc(y) - rest)
            step = lack * (math.sqrt(math.pi) / 2) * np.exp(y * y)
            y = y + step / (1 + step * y)
        y = np.where(a < 1, y, np.where(a == 1, np.inf, np.nan))
    return np.copysign(y, x).astype(x.dtype)


# ---- sums ----------------------------------------------------------------------------------------


@step
@loop
def sum_dims(x: Any, first: int, count: int, keepdim: bool) -> Any:
    """Sums over dims that follow each other; None of what is no dense array of floats."""
    if type(x) is not np.ndarray or not x.flags.c_contiguous or x.dtype.char not in "fd":
        return None
    dims = tuple(range(first, first + count))
    return np.asarray(np.sum(x, dims, dtype=np.float64, keepdims=keepdim), x.dtype)


@step
@loop
def fold_columns(x: Array, out: Array, kind: str, name: str, outer: int, rows: int, n: int) -> bool:
    """Matrices reduced down their columns, by a ufunc; False if there is no loop for it."""
    if name not in ("add", "multiply", "maximum", "minimum"):
        return False
    wide = {} if name in ("maximum", "minimum") else {"dtype": np.float64}
    columns = getattr(np, name).reduce(x.reshape(outer, rows, n), axis=1, **wide)
    out.reshape(outer, n)[...] = columns
    return True


def _scan(ufunc: np.ufunc, x: Array, out: Array, outer: int, n: int, inner: int) -> None:
    wide = ufunc.accumulate(x.reshape(outer, n, inner), axis=1, dtype=np.float64)
    out.reshape(outer, n, inner)[...] = wide


@step
@loop
def running_sums(x: Array, out: Array, outer: int, n: int, inner: int, kind: str) -> None:
    """Sums of all elements so far, along the middle one of three dims."""
    _scan(np.add, x, out, outer, n, inner)


@step
@loop
def running_products(x: Array, out: Array, outer: int, n: int, inner: int, kind: str) -> None:
    """Products of all elements so far, along the middle one of three dims."""
    _scan(np.multiply, x, out, outer, n, inner)


@step
@loop
def add_scaled(x: Array, y: Array, scale: float, kind: str) -> None:
    """x += scale y"""
    np.add(x, np.multiply(y, x.dtype.type(scale)), out=x)


# ---- products: NumPy's own follow the call -------------------------------------------------------


@step
@loop
def multiply(a: Array, b: Array, out: Array | None, bias: Array | None = None) -> Array | None:
    """A product of matrices; None: numpy.matmul computes it."""
    return None


@step
@loop
def dot(a: Array, b: Array) -> float | None:
    """The sum of two vectors' products; None: numpy.dot computes it."""
    return None


@step
@loop
def attend(*call: Any) -> bool:
    """Attention in tiles; False: the whole matrix of scores is made."""
    return False


@step
@loop
def attend_backward(*call: Any) -> bool:
    """The gradients of attention in tiles; False: whole matrices are made."""
    return False


# ---- indices -------------------------------------------------------------------------------------


def _inside(index: Array, n: int) -> bool:
    return not index.size or (int(index.min()) >= 0 and int(index.max()) < n)


@step
@loop
def all_inside(index: Array, n: int) -> bool:
    """Says if all numbers are indices into n elements."""
    return _inside(index, n)


@step
@loop
def gather(
    x: Array, index: Array, out: Array, before: int, along: int, after: int, count: int, size: int
) -> bool:
    """Elements at indices along the middle one of three dims; False if one is outside."""
    places = index.reshape(before, count, after)
    if not _inside(places, along):
        return False
    found = np.take_along_axis(x.reshape(before, along, after), places, 1)
    out.reshape(before, count, after)[...] = found
    return True


@step
@loop
def scatter_add(
    x: Array, index: Array, src: Array, before: int, along: int, after: int, count: int, kind: str
) -> bool:
    """Adds elements at indices along the middle one of three dims; False if one is outside."""
    places = index.reshape(before, count, after)
    if not _inside(places, along):
        return False
    first, _, last = np.ogrid[:before, :count, :after]
    np.add.at(x.reshape(before, along, after), (first, places, last), src.reshape(places.shape))
    return True


@step
@loop
def first_of_rows(
    x: Array, values: Array, places: Array, count: int, n: int, k: int, largest: bool, kind: str
) -> None:
    """The k largest or smallest of each row, in order, the first of equals first; NaN is the
    greatest."""
    rows = x.reshape(count, n)
    order = np.argsort(rows[:, ::-1] if largest else rows, axis=1, kind="stable")
    if largest:
        order = n - 1 - order[:, ::-1]
    best = order[:, :k]
    places.reshape(count, k)[...] = best
    values.reshape(count, k)[...] = np.take_along_axis(rows, best, 1)


# ---- norms of rows -------------------------------------------------------------------------------

Sizes = tuple[int, int, int, int]  # rows, groups of channels, channels of a row, elements of one


def _wide(x: Array, sizes: Sizes) -> Array:
    rows, groups, channels, plane = sizes
    return x.reshape(rows // groups, groups, channels, plane).astype(np.float64)


def _of_rows(x: Array, sizes: Sizes) -> Array:
    """One number a row."""
    return x.reshape(sizes[0] // sizes[1], sizes[1], 1, 1).astype(np.float64)


def _of_channels(x: Array, sizes: Sizes) -> Array:
    return x.reshape(sizes[1], sizes[2], 1).astype(np.float64)


@step
@loop
def normalise_rows(
    x: Array, weight: Array | None, bias: Array | None, out: Array, mean: Array | None, rstd: Array,
    kind: str, sizes: Sizes, eps: float,
) -> None:  # fmt: skip
    """A layer, RMS (without mean) or group norm."""
    y = _wide(x, sizes)
    if mean is not None:
        average = y.mean((2, 3), keepdims=True)
        mean.reshape(-1)[...] = average.reshape(-1)
        y -= average
    scale = 1 / np.sqrt(np.square(y).mean((2, 3), keepdims=True) + eps)
    rstd.reshape(-1)[...] = scale.reshape(-1)
    y *= scale
    if weight is not None:
        y *= _of_channels(weight, sizes)
    if bias is not None:
        y += _of_channels(bias, sizes)
    out.reshape(y.shape)[...] = y


@step
@loop
def normalise_rows_backward(
    g: Array, x: Array, weight: Array | None, mean: Array | None, rstd: Array, out: Array,
    dw: Array, db: Array, kind: str, sizes: Sizes,
) -> None:  # fmt: skip
    """The gradients of a layer, RMS or group norm; in groups, dw and db are those of each row."""
    rows, groups, channels, plane = sizes
    grad, y, scale = _wide(g, sizes), _wide(x, sizes), _of_rows(rstd, sizes)
    if mean is not None:
        y -= _of_rows(mean, sizes)
    y *= scale
    kept = 0 if groups == plane == 1 else None  # the rows' sums, or each row's
    for target, terms in ((dw, grad * y), (db, grad)):
        sums = terms.sum(3).reshape(rows, channels)
        target.reshape(-1)[...] = (sums if kept is None else sums.sum(kept)).reshape(-1)
    dy = grad if weight is None else grad * _of_channels(weight, sizes)
    dx = dy - y * (dy * y).mean((2, 3), keepdims=True)
    if mean is not None:
        dx -= dy.mean((2, 3), keepdims=True)
    out.reshape(dx.shape)[...] = dx * scale
