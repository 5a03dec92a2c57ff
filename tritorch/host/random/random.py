"""Random numbers from the native generator: PyTorch's, bit for bit.

Which words of the generator's stream become which number is the native samplers' (Note [The
samplers] in src/random/samplers.cpp); here is in which order a tensor's elements get them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.core.dtype import bool_, dtype
from tritorch.host import threads
from tritorch.host.pointwise.narrow import computing, widen

Array = np.ndarray[Any, Any]
Generator = _C.CpuGenerator
Ints = tuple[int, ...]

WIDE = 1 << 28  # ranges of integers from which each takes two words

# ---- samplers ------------------------------------------------------------------------------------


def _native(name: str) -> Callable[..., None]:
    """The native sampler of that name: into a dense array, of complex numbers into both parts."""

    def into(rng: Generator, out: Array, dtype: dtype, p: float, q: float = 0.0) -> None:
        if dtype.is_complex:
            dtype = dtype.to_real()
            out = out.reshape(-1).view(dtype.numpy)
        rng.draw(name, out, dtype, p, q, threads.get_num_threads())

    return into


def _normal(name: str) -> Callable[..., None]:
    native = _native(name)

    def into(rng: Generator, out: Array, dtype: dtype, mean: float, std: float) -> None:
        # Each part of a complex number has half of the variance, and the whole mean.
        native(rng, out, dtype, mean, std / math.sqrt(2) if dtype.is_complex else std)

    return into


def _integers(rng: Generator, out: Array, dtype: dtype, low: int, high: int) -> None:
    span = high - low
    rng.draw_integers(out, dtype, span % 2**64, low % 2**64, span >= WIDE)


def _all_integers(rng: Generator, out: Array, dtype: dtype, top: int) -> None:
    rng.draw_integers(out, dtype, top + 1, 0, dtype.itemsize == 8)


# What fills a dense array with numbers of a dtype: the one table of them.
SAMPLERS: dict[str, Callable[..., None]] = {
    "uniform": _native("uniform"),
    "normal": _normal("normal"),
    "normal_by_pairs": _normal("normal_by_pairs"),
    "log_normal": _native("log_normal"),
    "exponential": _native("exponential"),
    "cauchy": _native("cauchy"),
    "geometric": _native("geometric"),
    "coins": _native("bernoulli"),
    "randint": _integers,
    "random": _all_integers,
}


def _drawn(name: str) -> Callable[..., Array]:
    sampler = SAMPLERS[name]

    def function(rng: Generator, shape: Ints, dtype: dtype, *params: Any) -> Array:
        out = np.empty(shape, dtype.numpy)
        sampler(rng, out, dtype, *params)
        return out

    return function


uniform = _drawn("uniform")  # (low, high)
normal = _drawn("normal")  # (mean, std)
log_normal = _drawn("log_normal")  # (mean, std) of the logarithm
exponential = _drawn("exponential")  # (rate)
cauchy = _drawn("cauchy")  # (median, sigma)
geometric = _drawn("geometric")  # (p): how many trials until the first success
coins = _drawn("coins")  # (p): 1 with that probability, else 0
randint = _drawn("randint")  # (low, high): integers in [low, high)
random = _drawn("random")  # (top): integers from 0 to top, the last below which the dtype has all


def randperm(rng: Generator, n: int, dtype: dtype) -> Array:
    """0 .. n - 1 in random order."""
    out = np.empty(n, dtype.numpy)
    rng.draw_permutation(out, dtype)
    return out


# ---- in place ------------------------------------------------------------------------------------


def _outermost_first(array: Array) -> list[int]:
    strides = _C.copy_strides(array.shape, array.strides)
    return sorted(range(array.ndim), key=lambda dim: -strides[dim])


def _in_memory_order(array: Array) -> Array:
    """A view with the dims as they lie in memory: how PyTorch goes through a tensor."""
    return array if array.flags.c_contiguous else array.transpose(_outermost_first(array))


def empty_like(array: Array, kind: Any = None) -> Array:
    """New memory, dense, whose dims lie in another array's order."""
    if array.flags.c_contiguous:
        return np.empty(array.shape, kind or array.dtype)
    order = _outermost_first(array)
    memory = np.empty(array.transpose(order).shape, kind or array.dtype)
    return memory.transpose(sorted(range(array.ndim), key=order.__getitem__))


def fill(rng: Generator, name: str, array: Array, dtype: dtype, *params: Any) -> None:
    """The numbers of SAMPLERS[name] into memory of any strides."""
    target = _in_memory_order(array)
    if name == "normal" and target is not array:
        name = "normal_by_pairs"  # PyTorch makes 16 at a time in contiguous tensors alone
    out = target if target.flags.c_contiguous else np.empty(target.shape, target.dtype)
    SAMPLERS[name](rng, out, dtype, *params)
    if out is not target:
        target[...] = out


def fill_bernoulli(rng: Generator, array: Array, dtype: dtype, probabilities: Array) -> None:
    """1 with the given probabilities, of the array's shape, into memory of any strides."""
    target = _in_memory_order(array)
    if target is not array:
        probabilities = probabilities.transpose(_outermost_first(array))
    target[...] = bernoulli(rng, probabilities, dtype)


# ---- with parameters of each element -------------------------------------------------------------


def floats(x: Array) -> tuple[Array, bool]:
    """The array dense, in float64 (and True) or else in float32."""
    wide = x.dtype == np.float64
    return x.astype(np.float64 if wide else np.float32, order="C", copy=False), wide


def bernoulli(rng: Generator, probabilities: Array, dtype: dtype) -> Array:
    """1 with the given probabilities."""
    out = np.empty(probabilities.shape, dtype.numpy)
    rng.draw_bernoulli(out, dtype, *floats(probabilities))
    return out


def slopes(rng: Generator, x: Array, low: float, high: float) -> Array:
    """Uniform in [low, high) where x is not above 0, else 1: in float64 or else in float32."""
    given, wide = floats(x)
    out = np.empty(given.shape, given.dtype)
    bound = out.dtype.type
    rng.draw_slopes(out, given, wide, float(bound(low)), float(bound(high)))
    return out


def multinomial(rng: Generator, probabilities: Array, n: int, replacement: bool) -> Array:
    """n draws from each row of weights."""
    out = np.empty((*probabilities.shape[:-1], n), np.int64)
    rows = math.prod(out.shape[:-1])
    if not out.size:
        return out
    if replacement and n > 1:
        rng.draw_by_weight(out, *floats(probabilities), rows)
        return out
    # The largest of weight / exponential noise.
    noise = empty_like(probabilities)
    fill(rng, "exponential", noise, arrays.dtype_of(noise), 1.0)
    with np.errstate(all="ignore"):
        shares = (widen(probabilities) / widen(noise)).astype(probabilities.dtype, copy=False)
    if n == 1:
        np.argmax(widen(shares), axis=-1, keepdims=True, out=out)
    else:
        _C.largest(out, *floats(shares), rows)
    return out


# ---- dropout -------------------------------------------------------------------------------------


def dropout_scale(kind: np.dtype[Any], p: float) -> Any:
    """By what dropout multiplies what it keeps: 1 / (1 - p), divided and rounded in a dtype."""
    wide = computing(kind)
    return (wide.type(1) / wide.type(1 - p) if p < 1 else wide.type(0)).astype(kind)


def dropout(rng: Generator, x: Array, p: float) -> tuple[Array, Array]:
    """x with elements dropped, the rest scaled; and which were kept."""
    kept = empty_like(x, np.bool_)
    SAMPLERS["coins"](rng, _in_memory_order(kept), bool_, 1 - p)
    scale = widen(dropout_scale(x.dtype, p))
    out = widen(x) * np.multiply(kept, scale, dtype=scale.dtype)  # NaN times 0 is NaN
    return out.astype(x.dtype, copy=False), kept
