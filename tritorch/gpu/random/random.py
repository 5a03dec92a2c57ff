"""Random numbers on the GPU; `rng` is (seed, offset, device index)."""

from __future__ import annotations

import math

import numpy as np

from tritorch import _C
from tritorch.arrays.strides import copy_strides
from tritorch.core.dtype import bool_, dtype, float32, float64, int64
from tritorch.gpu.index import sorting
from tritorch.gpu.pointwise import pointwise
from tritorch.gpu.pointwise.layout import INT32_MAX, float_bits, is_dense, reach
from tritorch.gpu.reduce import reduction, scan
from tritorch.gpu.shape import shaping
from tritorch.triton.kernel import kernel
from tritorch.triton.names import function

Array = _C.Array
Rng = tuple[int, int, int]
Ints = tuple[int, ...]
_BLOCK = 256


def signed(seed: int) -> int:
    """A seed as the int64 that a kernel takes."""
    # Its class stays: that of a number which is recorded.
    return type(seed)(seed - 2**64) if seed >= 2**63 else seed


def _draw(name: str, rng: Rng, shape: Ints, kind: dtype, p: float, q: float = 0.0) -> Array:
    seed, offset, device = rng
    if kind.is_complex:
        real = _draw(name, rng, (*shape, 2), kind.to_real(), p, q)
        return real.view_dtype(kind).reshape(shape)
    out = _C.empty(shape, kind, device)
    n = out.numel()
    if n:
        kernel("random", "draw")(
            (-(-n // (4 * _BLOCK)),), out, n, signed(seed), offset, float_bits(p), float_bits(q),
            OP=function("random", name), BLOCK=_BLOCK, num_warps=4,
            COMPUTE=pointwise.triton_type(float64 if kind is float64 else float32),
        )  # fmt: skip
    return out


def uniform(rng: Rng, shape: Ints, dtype: dtype, low: float, high: float) -> Array:
    """Uniform in [low, high)."""
    narrow = dtype.name in ("float16", "bfloat16")
    return _draw(f"uniform_{dtype.name}" if narrow else "uniform", rng, shape, dtype, low, high)


def normal(rng: Rng, shape: Ints, dtype: dtype, mean: float, std: float) -> Array:
    """Normally distributed."""
    if dtype.is_complex:
        return _draw("normal", rng, shape, dtype, mean, std / math.sqrt(2))
    return _draw("normal", rng, shape, dtype, mean, std)


def exponential(rng: Rng, shape: Ints, dtype: dtype, rate: float) -> Array:
    """Exponentially distributed."""
    return _draw("exponential", rng, shape, dtype, rate)


def cauchy(rng: Rng, shape: Ints, dtype: dtype, median: float, sigma: float) -> Array:
    """Cauchy distributed."""
    return _draw("cauchy", rng, shape, dtype, median, sigma)


def geometric(rng: Rng, shape: Ints, dtype: dtype, p: float) -> Array:
    """How many trials until the first success."""
    return _draw("geometric", rng, shape, dtype, p)


def log_normal(rng: Rng, shape: Ints, dtype: dtype, mean: float, std: float) -> Array:
    """exp of normally distributed."""
    return _draw("log_normal", rng, shape, dtype, mean, std)


def randint(rng: Rng, shape: Ints, dtype: dtype, low: int, high: int) -> Array:
    """Integers in [low, high)."""
    seed, offset, device = rng
    span = high - low
    out = _C.empty(shape, dtype, device)
    n = out.numel()
    if n:
        kernel("random", "integers")(
            (-(-n // (4 * _BLOCK)),), out, n, signed(seed), offset, low, signed(span),
            WIDE=span > 2**32, BLOCK=_BLOCK, num_warps=4,
        )  # fmt: skip
    return out


def random(rng: Rng, shape: Ints, dtype: dtype, top: int) -> Array:
    """Integers from 0 to the largest that the dtype holds, with all below it."""
    return randint(rng, shape, dtype, 0, min(top + 1, 2**63 - 1))


def coins(rng: Rng, shape: Ints, dtype: dtype, p: float) -> Array:
    """1 with probability p, else 0."""
    drawn = _draw("uniform", rng, shape, float32, 0.0, 1.0)
    return pointwise.call("lt", (drawn, float(np.float32(p))), float32, bool_).astype(dtype)


def bernoulli(rng: Rng, probabilities: Array, dtype: dtype) -> Array:
    """1 with the given probabilities."""
    drawn = _draw("uniform", rng, tuple(probabilities.shape), float32, 0.0, 1.0)
    hit = pointwise.call("lt", (drawn, probabilities), float32, bool_)
    return hit.astype(dtype)


def dropout(x: Array, p: float, seed: int, offset: int) -> Array:
    """x with elements dropped, the rest scaled; the same ones for the same numbers."""
    n = x.numel()
    if is_dense(x.shape, x.strides):
        y = _C.empty_strided(x.shape, x.strides, x.dtype, x.device_index)
    else:
        y = _C.empty(x.shape, x.dtype, x.device_index)
    if n == 0:
        return y
    shape, (x_strides, y_strides) = _C.collapse(x.shape, [x.strides, y.strides])
    wide = max(n, reach(x.shape, x.strides), reach(y.shape, y.strides)) > INT32_MAX
    kernel("random", "dropout")(
        (-(-n // (4 * _BLOCK)),), x, y, n, shape or (1,), x_strides or (1,), y_strides or (1,),
        signed(seed), offset, float_bits(p), NDIM=max(len(shape), 1), WIDE=wide, BLOCK=_BLOCK,
        COMPUTE=pointwise.triton_type(float64 if x.dtype is float64 else float32), num_warps=4,
    )  # fmt: skip
    return y


def dropout_with_mask(x: Array, p: float, seed: int, offset: int) -> tuple[Array, Array]:
    """The same with which elements were kept; of complex numbers too."""
    strides = copy_strides(x.shape, x.strides)
    ones = _C.empty_strided(x.shape, strides, x.dtype.to_real(), x.device_index).fill_(1.0)
    factors = dropout(ones, p, seed, offset)
    return (
        pointwise.call("mul", (x, factors.astype(x.dtype)), x.dtype, x.dtype),
        pointwise.call("ne", (factors, 0.0), factors.dtype, bool_),
    )


def randperm(rng: Rng, n: int, dtype: dtype) -> Array:
    """0 .. n - 1 in random order: that of random keys of 64 bits."""
    keys = randint(rng, (n,), int64, -(2**63), 2**63 - 1)
    return sorting.sort(keys, 0, False)[1].astype(dtype)


def multinomial(rng: Rng, probabilities: Array, n: int, replacement: bool) -> Array:
    """n draws from each row of weights."""
    shape = (*probabilities.shape[:-1], n)
    n_cols = probabilities.shape[-1]
    weights = probabilities.astype(float64).reshape((math.prod(shape[:-1]), n_cols))
    if 0 in (*shape, n_cols):
        return _C.empty(shape, int64, rng[2])
    if replacement:
        return _by_share(rng, weights, n).reshape(shape)
    noise = exponential(rng, weights.shape, float64, 1.0)
    shares = pointwise.call("div", (weights, noise), float64, float64)
    return sorting.topk(shares, n, 1, True)[1].reshape(shape)


def _by_share(rng: Rng, weights: Array, n: int) -> Array:
    """n places in each row's running sums."""
    edges = scan.cumsum(weights, 1, float64)
    drawn = uniform(rng, (weights.shape[0], n), float64, 0.0, 1.0)
    drawn = pointwise.call("mul", (drawn, edges[:, -1:]), float64, float64)
    found = sorting.searchsorted(edges, drawn, True)
    places = shaping.arange(0, 1, weights.shape[1], int64, rng[2])
    some = pointwise.call("gt", (weights, 0.0), float64, bool_)
    last = reduction.amax(pointwise.call("where", (some, places, 0), int64, int64), (1,), True)
    # A draw may round up to the total.
    return pointwise.call("minimum", (found, last), int64, int64)
