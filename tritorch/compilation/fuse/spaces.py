"""Rows and columns: the positions of each value that the positions of a kernel stand for.

# Note [Spaces]
A group's values all have so many *rows*: the product of the first dims of their shapes is that
number, the others are its columns.  A kernel without reductions has one row.  The elements of a row
are counted in row-major order, however a value lies in memory, so `reshape` changes no position.  A
value with one column has the same element for all columns of its row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

from tritorch.core.layout import contiguous_strides
from tritorch.gpu.pointwise.layout import broadcast_strides

Shape = tuple[int, ...]


class Walk(NamedTuple):
    """A way to count positions off: offset + for each dim, its index times its stride."""

    offset: int
    dims: tuple[tuple[int, int], ...]  # (size, stride), outermost first; merged where they can be

    @property
    def size(self) -> int:
        """The number of positions."""
        return math.prod(n for n, _ in self.dims)

    @property
    def is_same(self) -> bool:
        """True if each position is itself."""
        return self.offset == 0 and len(self.dims) <= 1 and all(s == 1 for _, s in self.dims)

    @property
    def is_still(self) -> bool:
        """True if all positions are the offset."""
        return all(s == 0 for _, s in self.dims)

    def at(self, index: str) -> str:
        """The text of a position, given the text of its number."""
        terms, inner = [], self.size
        for i, (n, stride) in enumerate(self.dims):
            inner //= n
            if stride == 0:
                continue
            text = f"{index} // {inner}" if inner > 1 else index
            if i:
                text = f"{text} % {n}"
            if stride != 1:
                text = f"({text}) * {stride}" if " " in text else f"{text} * {stride}"
            terms.append(text)
        if self.offset:
            terms.append(str(self.offset))
        return " + ".join(terms) or "0"


def walk(sizes: Sequence[int], strides: Sequence[int], offset: int = 0) -> Walk:
    """A walk through dims, of which neighbours are merged that lie as one."""
    dims: list[tuple[int, int]] = []
    for n, s in zip(sizes, strides):
        if n == 1:
            continue
        if dims and dims[-1][1] == s * n:
            dims[-1] = (dims[-1][0] * n, s)
        else:
            dims.append((n, s))
    return Walk(offset, tuple(dims))


class RowSplit(NamedTuple):
    """A shape's dims as rows and columns; one dim may be some of both."""

    pieces: tuple[tuple[int, int, int], ...]  # (dim, size, how many of its elements a step is)
    at: int  # how many of the first pieces are rows

    def walks(self, strides: Sequence[int], offset: int = 0) -> tuple[Walk, Walk]:
        """By rows and by columns, through memory with strides."""
        steps = [(n, strides[dim] * each) for dim, n, each in self.pieces]
        rows, columns = steps[: self.at], steps[self.at :]
        return (
            walk([n for n, _ in rows], [s for _, s in rows]),
            walk([n for n, _ in columns], [s for _, s in columns], offset),
        )


@functools.lru_cache(4096)
def row_split(shape: Shape, rows: int) -> RowSplit | None:
    """The first dims as so many rows, the others as columns; None if that many are not to be
    had."""
    pieces: list[tuple[int, int, int]] = []
    left, at = rows, 0
    for dim, n in enumerate(shape):
        if left == 1:
            pieces.append((dim, n, 1))
            continue
        if left % n == 0:
            pieces.append((dim, n, 1))
            left //= n
            at = len(pieces)
        elif n % left == 0:
            pieces += [(dim, left, n // left), (dim, n // left, 1)]
            left, at = 1, len(pieces) - 1
        else:
            return None
    return RowSplit(tuple(pieces), at) if left == 1 else None


def split(shape: Shape, rows: int) -> int | None:
    """The number of a shape's first dims that are its rows; None if that splits a dim."""
    found = row_split(shape, rows)
    return found.at if found is not None and len(found.pieces) == len(shape) else None


def columns(shape: Shape, rows: int) -> int | None:
    """The number of a value's columns; None if it does not have so many rows."""
    return None if row_split(shape, rows) is None else math.prod(shape) // rows


@functools.lru_cache(4096)
def own(shape: Shape, to: Shape, rows: int) -> Walk | None:
    """Through the columns of a value of the group, for the columns of a value that it broadcasts
    to; None where the rows do not meet."""
    return seen(shape, to, broadcast_strides(shape, contiguous_strides(shape), to), 0, rows)


@functools.lru_cache(4096)
def seen(
    base: Shape, shape: Shape, strides: Sequence[int], offset: int, rows: int
) -> Walk | None:  # fmt: skip
    """Through the columns of a value of the group, for those of a view of it, if each row is a part
    of the same row."""
    found, row = row_split(shape, rows), columns(base, rows)
    if found is None or row is None:
        return None
    across, along = found.walks(strides, offset)
    if rows > 1 and across.dims != ((rows, row),):
        return None
    reach = along.offset + sum((n - 1) * s for n, s in along.dims)
    return along if reach < row else None


@functools.lru_cache(4096)
def outside(
    shape: Shape, strides: Sequence[int], to: Shape, rows: int
) -> tuple[Walk, Walk] | None:  # fmt: skip
    """Through the memory of an array from outside, by rows and by columns, for the positions of a
    value that it broadcasts to."""
    found = row_split(to, rows)
    return None if found is None else found.walks(broadcast_strides(shape, strides, to))
