"""Random numbers from a numpy.random.Generator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch.core import arrays
from tritorch.core.dtype import dtype
from tritorch.cpu.narrow import computing

Array = np.ndarray[Any, Any]
Generator = np.random.Generator
Ints = tuple[int, ...]


def _unit(rng: Generator, shape: Ints, kind: dtype) -> Array:
    """Uniform in [0, 1)."""
    return rng.random(shape, np.float64 if kind.itemsize == 8 else np.float32)


def _tiny(kind: dtype) -> Any:
    """The smallest normal number."""
    import ml_dtypes

    return ml_dtypes.finfo(kind.numpy).tiny


def uniform(rng: Generator, shape: Ints, dtype: dtype, low: float, high: float) -> Array:
    """Uniform in [low, high)."""
    if dtype.is_complex:
        real = dtype.to_real()
        parts = uniform(rng, shape, real, low, high), uniform(rng, shape, real, low, high)
        return np.asarray(parts[0] + 1j * parts[1]).astype(dtype.numpy)
    if dtype.itemsize == 2:  # as many values as the type has between 0 and 1
        bits = 11 if dtype.name == "float16" else 8
        unit = rng.integers(0, 1 << bits, shape) / (1 << bits)
        return np.asarray(unit * (high - low) + low).astype(dtype.numpy)
    unit = _unit(rng, shape, dtype)
    if (low, high) != (0.0, 1.0):
        unit = unit * unit.dtype.type(high - low) + unit.dtype.type(low)
    return np.asarray(unit).astype(dtype.numpy, copy=False)


def normal(rng: Generator, shape: Ints, dtype: dtype, mean: float, std: float) -> Array:
    """Normally distributed."""
    if dtype.is_complex:
        real, share = dtype.to_real(), std / math.sqrt(2)
        parts = normal(rng, shape, real, 0.0, share) + 1j * normal(rng, shape, real, 0.0, share)
        return (parts + mean).astype(dtype.numpy)
    if dtype.itemsize < 8 and math.prod(shape) >= MANY:
        out: Any = _normal32(rng, math.prod(shape)).reshape(shape)
    else:
        kind = np.float64 if dtype.itemsize == 8 else np.float32
        out = np.asarray(rng.standard_normal(shape, kind))
    if (mean, std) != (0.0, 1.0):
        out *= std
        out += mean
    return np.asarray(out).astype(dtype.numpy, copy=False)


MANY = 1 << 10  # normal numbers from which Box and Muller's way is faster than NumPy's
PAIRS = 1 << 15  # of a block


def _normal32(rng: Generator, n: int) -> Array:
    """Normal numbers in float32: r cos(t) and r sin(t), radius and angle of 32 bits each."""
    out = np.empty(n + n % 2, np.float32)
    unit = np.float32(2**-32)
    for low in range(0, n, 2 * PAIRS):
        half = min(PAIRS, (len(out) - low) // 2)
        bits = rng.bit_generator.random_raw(half).view(np.uint32)
        radius, angle = bits[::2].astype(np.float32), bits[1::2].astype(np.float32)
        radius += np.float32(0.5)  # the logarithm of 0 is none
        radius *= unit
        np.log(radius, out=radius)
        radius *= np.float32(-2)
        np.sqrt(radius, out=radius)
        angle *= unit * np.float32(2 * math.pi)
        first, second = out[low : low + half], out[low + half : low + 2 * half]
        np.cos(angle, out=first)
        first *= radius
        np.sin(angle, out=second)
        second *= radius
    return out[:n]


def randint(rng: Generator, shape: Ints, dtype: dtype, low: int, high: int) -> Array:
    """Integers in [low, high)."""
    if high > 2**63:
        return rng.integers(low, high, shape, np.uint64).astype(dtype.numpy)
    return arrays.cast(np.asarray(rng.integers(low, high, shape, np.int64)), dtype)


def exponential(rng: Generator, shape: Ints, dtype: dtype, rate: float) -> Array:
    """Exponentially distributed."""
    out = np.asarray(rng.standard_exponential(shape) / rate).astype(dtype.numpy)
    return np.maximum(out, _tiny(dtype))  # never 0: people take its logarithm


def cauchy(rng: Generator, shape: Ints, dtype: dtype, median: float, sigma: float) -> Array:
    """Cauchy distributed."""
    return np.asarray(rng.standard_cauchy(shape) * sigma + median).astype(dtype.numpy)


def geometric(rng: Generator, shape: Ints, dtype: dtype, p: float) -> Array:
    """How many trials until the first success."""
    return np.asarray(rng.geometric(p, shape)).astype(dtype.numpy)


def log_normal(rng: Generator, shape: Ints, dtype: dtype, mean: float, std: float) -> Array:
    """exp of normally distributed."""
    return np.asarray(rng.lognormal(mean, std, shape)).astype(dtype.numpy)


def bernoulli(rng: Generator, probabilities: Array, dtype: dtype) -> Array:
    """1 with the given probabilities."""
    draws = rng.random(probabilities.shape)
    return np.asarray(draws < probabilities.astype(np.float64)).astype(dtype.numpy)


def randperm(rng: Generator, n: int, dtype: dtype) -> Array:
    """0 .. n - 1 in random order."""
    return rng.permutation(n).astype(dtype.numpy)


def multinomial(rng: Generator, probabilities: Array, n: int, replacement: bool) -> Array:
    """n draws from each row of weights."""
    rows = probabilities.reshape(-1, probabilities.shape[-1]).astype(np.float64)
    if replacement:
        edges = np.cumsum(rows, axis=1)
        draws = rng.random((rows.shape[0], n)) * edges[:, -1:]
        out = np.zeros(draws.shape, np.int64)
        count, width = rows.shape
        if width * (1 + draws.size / 1000) < 3 * count:  # in microseconds, about
            for edge in edges.T:
                out += draws >= edge[:, None]
        else:
            for target, edge, draw in zip(out, edges, draws):
                target[...] = np.searchsorted(edge, draw, "right")
        last = width - 1 - np.argmax(rows[:, ::-1] > 0, axis=1)  # a draw may round up to the total
        np.minimum(out, last[:, None], out=out)
    else:  # the largest of weight / exponential noise
        keys = rows / rng.standard_exponential(rows.shape)
        out = np.argsort(-keys, axis=1, kind="stable")[:, :n]
    return out.reshape(*probabilities.shape[:-1], n).astype(np.int64)


def dropout(rng: Generator, x: Array, p: float) -> tuple[Array, Array]:
    """x with elements dropped, the rest scaled; and which were kept."""
    kept = np.asarray(rng.random(x.shape, np.float32) >= np.float32(p))
    kind = computing(x.dtype)
    factor = kind.type(1 / (1 - p) if p < 1 else 0)
    wide = x.astype(kind, copy=False)
    out = np.where(kept, wide * factor, wide * kind.type(0))  # NaN * 0 is NaN, as in PyTorch
    return out.astype(x.dtype, copy=False), kept
