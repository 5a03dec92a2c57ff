"""How a Fourier transform is cut into stages and launches: pure functions."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

LIMIT = {4: 8192, 8: 4096}  # points of a program, by the bytes of a part
_BITS = {4: 4, 8: 3}  # of the largest radix: registers hold 16 numbers of 8 bytes, 8 of 16
_ODD = (13, 11, 7, 5, 3)
_FILL = 264  # programs that fill a GPU: two on each of 132 multiprocessors
_PROGRAMS = 528  # with a scratch of their own, which stays in the cache


class Stages(NamedTuple):
    """One program's transform of n points: the radix of each stage, the next power of two of how
    many numbers it has for each (WIDTHS), and how far they are apart (SPANS)."""

    n: int
    radices: tuple[int, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(power(self.n // radix) for radix in self.radices)

    @property
    def spans(self) -> tuple[int, ...]:
        before = [math.prod(self.radices[: i + 1]) for i in range(len(self.radices))]
        return tuple(self.n // each for each in before)

    @property
    def points(self) -> int:
        """Numbers that a row takes, with those that nothing is in."""
        return max(radix * width for radix, width in zip(self.radices, self.widths))


def power(n: int) -> int:
    """The next power of two."""
    return 1 << max(n - 1, 0).bit_length()


@functools.cache
def stages(n: int, itemsize: int) -> Stages | None:
    """The stages of n points in parts of itemsize; None where a prime is too large.

    What goes there and back in one program takes those of itemsize 8: it has more at hand.
    """
    odd, rest = [], n
    for prime in _ODD:
        while rest % prime == 0:
            odd.append(prime)
            rest //= prime
    bits = rest.bit_length() - 1
    if rest != 1 << bits:
        return None
    count = -(-bits // _BITS[itemsize])
    twos = [1 << (bits // count + (i < bits % count)) for i in range(count)]
    return Stages(n, tuple(sorted(twos + odd, reverse=True)) or (1,))


@functools.cache
def halved(n: int, itemsize: int) -> tuple[int, int] | None:
    """n as a product of two sizes, each of one program, as equal as can be."""
    low, high = -(-n // LIMIT[itemsize]), math.isqrt(n)
    return next(((d, n // d) for d in range(high, low - 1, -1) if n % d == 0), None)


def convolved(n: int) -> int:
    """How many points a transform of n is a convolution of (Bluestein's)."""
    return power(2 * n - 1)


class Tile(NamedTuple):
    """rows lines at a time, by so many warps and programs."""

    rows: int
    warps: int
    programs: int


def tile(line: Stages, n_lines: int, itemsize: int, across: bool) -> Tile:
    """across: lines lie side by side.  A thread holds one stage's numbers, or a few of them."""
    points, most = line.points, max(line.radices[0], 8)
    threads = min(max(power(-(-points // most)), 128), 512)
    rows = min(power(most * threads // power(points) + 1) // 2 or 1, power(n_lines), 64)
    least = min(rows, 32 // itemsize if across else 1)  # whole sectors of memory
    while rows > least and -(-n_lines // rows) < _FILL:
        rows //= 2
    threads = min(threads, max(32, power(-(-points * rows // most))))
    return Tile(rows, threads // 32, min(-(-n_lines // rows), _PROGRAMS))


# ---- tables, in float64 --------------------------------------------------------------------------


def roots(n: int, count: int, step: int = 1) -> np.ndarray:
    """w_n^(step k) for k below count."""
    exact = np.arange(count, dtype=np.int64) * step % n
    return np.exp(exact * (-2j * math.pi / n))


def two_steps(n: int) -> np.ndarray:
    """Powers of w_n: the first 1,024, and those of each 1,024th."""
    return np.concatenate([roots(n, 1024), roots(n, n // 1024 + 1, 1024)])


def chirp(n: int) -> np.ndarray:
    """exp(-i pi k^2 / n)."""
    exact = np.arange(n, dtype=np.int64)
    return np.exp(exact * exact % (2 * n) * (-1j * math.pi / n))


def filter_of(n: int, m: int) -> np.ndarray:
    """By what the transform of m points is multiplied between chirps, so that they are one of n."""
    c = chirp(n).conj()
    line = np.zeros(m, complex)
    line[:n] = c
    line[m - n + 1 :] = c[:0:-1]
    return np.fft.fft(line) / m
