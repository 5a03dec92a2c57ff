"""Random numbers from a numpy.random.Generator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch.core import arrays
from tritorch.core.dtype import dtype

Array = np.ndarray[Any, Any]
Generator = np.random.Generator
Ints = tuple[int, ...]


def _unit(rng: Generator, shape: Ints, kind: dtype) -> Array:
    """Uniform in [0, 1)."""
    return rng.random(shape, np.float64 if kind.itemsize == 8 else np.float32)


def uniform(rng: Generator, shape: Ints, dtype: dtype, low: float, high: float) -> Array:
    """Uniform in [low, high)."""
    if dtype.is_complex:
        real = dtype.to_real()
        return (uniform(rng, shape, real, low, high) + 1j * uniform(rng, shape, real, low, high)).astype(
            dtype.numpy
        )
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
    out = rng.standard_normal(shape, np.float64 if dtype.itemsize == 8 else np.float32)
    if (mean, std) != (0.0, 1.0):
        out = out * np.float64(std) + np.float64(mean)
    return np.asarray(out).astype(dtype.numpy, copy=False)


def randint(rng: Generator, shape: Ints, dtype: dtype, low: int, high: int) -> Array:
    """Integers in [low, high)."""
    if high > 2**63:
        return rng.integers(low, high, shape, np.uint64).astype(dtype.numpy)
    return arrays.cast(np.asarray(rng.integers(low, high, shape, np.int64)), dtype)


def exponential(rng: Generator, shape: Ints, dtype: dtype, rate: float) -> Array:
    """Exponentially distributed."""
    return np.asarray(rng.standard_exponential(shape) / rate).astype(dtype.numpy)


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
        out = np.stack([np.searchsorted(e, d, "right") for e, d in zip(edges, draws)])
        out = np.minimum(out, rows.shape[1] - 1)
    else:  # the largest of weight / exponential noise
        keys = rows / rng.standard_exponential(rows.shape)
        out = np.argsort(-keys, axis=1, kind="stable")[:, :n]
    return out.reshape(*probabilities.shape[:-1], n).astype(np.int64)


def dropout(rng: Generator, x: Array, p: float) -> tuple[Array, Array]:
    """x with elements dropped, the rest scaled; and which were kept."""
    kept = rng.random(x.shape, np.float32) >= np.float32(p)
    kind = np.float32 if x.dtype.itemsize == 2 else x.dtype
    out = x.astype(kind) * (kept * (1 / (1 - p) if p < 1 else 0.0)).astype(x.real.dtype if x.dtype.kind == "c" else kind)
    return out.astype(x.dtype), kept
