"""Sobol' sequences, as in torch.quasirandom.

The direction numbers are those of S. Joe and F. Y. Kuo (SIAM J. Sci. Comput. 30, 2008), under the
license in ops/random/sobol_LICENSE.txt; tools/pack_sobol.py packs them.  Their polynomials are all
primitive ones in order, and found when they are needed (the 7,776 of degree 18 take half a second).
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core import defaults
from tritorch.core.dtype import dtype as Dtype, int64
from tritorch.core.tensor import Tensor
from tritorch.ops.random.random import randint
from tritorch.ops.shape.factory import zeros
from tritorch.ops.shape.joining import cat

__all__ = ["SobolEngine"]
Array = np.ndarray[Any, Any]
_BITS = 30


def _prime_factors(n: int) -> list[int]:
    found, q = [], 2
    while n > 1:
        if q * q > n:
            q = n
        if n % q == 0:
            found.append(q)
            while n % q == 0:
                n //= q
        q += 1
    return found


def _power_of_x(exponent: int, modulo: Array, degree: int) -> Array:
    """x^exponent modulo each polynomial over the field of two elements, as bits."""
    top, out = 1 << degree, np.ones_like(modulo)
    for bit in bin(exponent)[2:]:
        square, rest, term = np.zeros_like(out), out.copy(), out
        for _ in range(degree):
            square ^= np.where(rest & 1, term, 0)
            rest >>= 1
            term = term << 1
            term ^= np.where(term & top, modulo, 0)
        if bit == "1":
            square <<= 1
            square ^= np.where(square & top, modulo, 0)
        out = square
    return out


@functools.cache
def _primitive(degree: int) -> Array:
    """The primitive polynomials of a degree, ascending: x has order 2^degree - 1."""
    if degree == 1:
        return np.array([3])
    order = (1 << degree) - 1
    found = np.arange((1 << degree) + 1, 2 << degree, 2, dtype=np.int64)
    found = found[_power_of_x(order, found, degree) == 1]
    for q in _prime_factors(order):
        if q != order:
            found = found[_power_of_x(order // q, found, degree) != 1]
    return found


@functools.lru_cache(4)
def _table(count: int) -> tuple[Array, Array]:
    """Of `count` dims after the first the polynomials, and the numbers that they start with."""
    parts: list[Array] = []
    while sum(map(len, parts)) < count:
        parts.append(_primitive(len(parts) + 1))
    polynomials = np.concatenate(parts)[:count]
    degrees = np.frexp(polynomials.astype(np.float64))[1] - 1
    counts = degrees * (degrees - 1) // 2
    packed = np.load(Path(__file__).parent / "ops" / "random" / "sobol.npz")["bits"]
    bits = np.unpackbits(packed, count=int(counts.sum())).astype(np.int64)
    starts = np.cumsum(counts) - counts
    numbers = np.zeros((count, int(degrees.max())), np.int64)
    for i in range(numbers.shape[1]):
        has = degrees > i
        first = starts[has] + i * (i - 1) // 2
        numbers[has, i] = 1 + sum(bits[first + k] << (k + 1) for k in range(i))
    return polynomials, numbers


def _directions(dimension: int) -> Array:
    """(dimension, bits) numbers, the j-th with its highest bit at bits - 1 - j."""
    out = np.ones((dimension, _BITS), np.int64)
    if dimension > 1:
        polynomials, numbers = _table(dimension - 1)
        degrees = np.frexp(polynomials.astype(np.float64))[1] - 1
        for degree in np.unique(degrees):
            which = degrees == degree
            v = np.zeros((which.sum(), _BITS), np.int64)
            v[:, :degree] = numbers[which, :degree]
            for j in range(degree, _BITS):
                v[:, j] = v[:, j - degree]
                for k in range(1, degree + 1):
                    term = polynomials[which] >> (degree - k) & 1
                    v[:, j] ^= term * (v[:, j - k] << k)
            out[1:][which] = v
    return out << np.arange(_BITS - 1, -1, -1)


def _parity(x: Array) -> Array:
    for shift in (32, 16, 8, 4, 2, 1):
        x = x ^ x >> shift
    return x & 1


def _scrambled(directions: Array, lower: Array) -> Array:
    """Each number as a column of bits, times a lower triangular matrix of bits."""
    rows = lower | np.eye(_BITS, dtype=np.int64)
    rows = (rows << np.arange(_BITS - 1, -1, -1)).sum(-1)  # (dims, bits) words
    out = np.zeros_like(directions)
    for p in range(_BITS):
        out |= _parity(rows[:, p, None] & directions) << (_BITS - 1 - p)
    return out


def _lowest_zero(n: Array) -> Array:
    """Where the lowest bit is that is 0."""
    return np.bitwise_count(n ^ (n + 1)).astype(np.int64) - 1 if _HAS_COUNT else (
        np.frexp((~n & (n + 1)).astype(np.float64))[1] - 1
    )  # fmt: skip


_HAS_COUNT = hasattr(np, "bitwise_count")


class SobolEngine:
    """Points of a low-discrepancy sequence in the unit cube."""

    MAXBIT = _BITS
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        """dimension: of the points.  scramble: by random lower triangular matrices and a shift."""
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.seed = seed
        self._twister: np.random.RandomState | None = None  # of the seed
        self.scramble = scramble
        self.dimension = dimension
        self.sobolstate: Tensor = _C.wrap(_directions(dimension))
        if scramble:
            self._scramble()
        else:
            self.shift: Tensor = zeros(dimension, dtype=int64, device="cpu")
        self.quasi: Tensor = self.shift.clone()
        self._first_point = (self.quasi / 2**_BITS).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Dtype | None = None) -> Tensor:
        """The next n points, one a row."""
        kind = defaults.get_default_dtype() if dtype is None else dtype
        if self.num_generated == 0:
            result = self._first_point.to(kind)
            if n > 1:
                rest = self._advanced(n - 1, 0).to(kind) * 2.0**-_BITS
                result = cat([result, rest])
        else:
            result = self._advanced(n, self.num_generated - 1).to(kind) * 2.0**-_BITS
        self.num_generated += n
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Dtype | None = None) -> Tensor:
        """The next 2^m points; with those before they must be a power of two."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                f"'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Back to the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skips n points."""
        before = max(self.num_generated - 1, 0)
        after = before + n - (self.num_generated == 0)
        # Point k is the sum of the directions where k's Gray code has a bit.
        changed = (before ^ before >> 1) ^ (after ^ after >> 1)
        quasi, directions = self.quasi.numpy(), self.sobolstate.numpy()
        for bit in range(_BITS):
            if changed >> bit & 1:
                quasi ^= directions[:, bit]
        self.num_generated += n
        return self

    def _advanced(self, n: int, start: int) -> Tensor:
        """The next n points as integers; the last is kept."""
        quasi, directions = self.quasi.numpy(), self.sobolstate.numpy()
        which = _lowest_zero(np.arange(start, start + n, dtype=np.int64))
        steps = directions.T[which]
        if n:
            steps[0] ^= quasi
            np.bitwise_xor.accumulate(steps, axis=0, out=steps)
            quasi[:] = steps[-1]
        return _C.wrap(steps)

    def _scramble(self) -> None:
        bits = self._random_bits(self.dimension, _BITS)
        self.shift = _C.wrap((bits << np.arange(_BITS)).sum(-1))
        lower = np.tril(self._random_bits(self.dimension, _BITS, _BITS))
        self.sobolstate = _C.wrap(_scrambled(self.sobolstate.numpy(), lower))

    def _random_bits(self, *shape: int) -> Array:
        """Of a seed those that PyTorch draws, by its Mersenne twister."""
        if self.seed is None:
            return randint(2, shape, device="cpu").numpy()
        if self._twister is None:
            self._twister = np.random.RandomState(self.seed & 0xFFFFFFFF)
        words = self._twister.randint(0, 1 << 32, math.prod(shape), dtype=np.uint32)
        return (words & 1).astype(np.int64).reshape(shape)

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"
