"""Updates of many parameters at once, piece by piece through a whole formula.

Parameters are updated in place.  Those of narrow or mixed types are gathered into blocks of the
type that they compute in, and scattered.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tritorch.host import threads
from tritorch.host.chains.program import NAMES, Program, compiled
from tritorch.host.linalg import blas
from tritorch.kernels.optim_rules import Variant, whole

Array = np.ndarray[Any, Any]
Row = list[Array | None]  # parameter, gradient, state; dense, in one order of memory

_BYTES = 1 << 17  # of one array in a block: half a dozen of them fit the second level cache
_DIRECT = 1 << 11  # elements from which a parameter is not worth gathering


class _Scratch(threading.local):
    """A thread's blocks: memory once touched is worth keeping."""

    def __init__(self) -> None:
        self.arrays: dict[Any, list[Array]] = {}

    def get(self, kind: Any, use: str, count: int, size: int) -> list[Array]:
        """So many blocks of a size and a type, the same ones for the same use."""
        have = self.arrays.setdefault((kind, use), [])
        have += [np.empty(_BYTES // 4, kind) for _ in range(count - len(have))]
        return [x if x.size == size else x[:size] for x in have[:count]]


_scratch = _Scratch()


@functools.lru_cache(256)
def _program(
    variant: Variant, present: tuple[bool, ...], known: tuple[float | None, ...]
) -> Program:
    formula, n = whole(variant, NAMES), len(present)
    return compiled(lambda *args: formula(*args[:2], args[2:n], args[n:]), present, known)


def update(
    variant: Variant, rows: Sequence[Row], numbers: Sequence[float], scale: Any, found: Any
) -> None:
    """One step of all rows by one formula and one set of numbers, in place.

    scale: what gradients are divided by.  found: nothing happens if it is not 0.
    """
    if found is not None and found.item():
        return
    numbers = [1.0 if scale is None else 1.0 / scale.item(), *numbers]
    known = tuple([float(x) if x in (0.0, 1.0) else None for x in numbers])
    program = _program(variant, tuple([x is not None for x in rows[0]]), known)
    writes = [k for k in range(len(rows[0])) if k != 1 or variant.scaled]
    wide = [row for row in rows if row[0].itemsize == 8]  # type: ignore[union-attr]
    if len(wide) < len(rows):
        narrow = [row for row in rows if row[0].itemsize != 8] if wide else rows  # type: ignore[union-attr]
        _update(program, writes, np.dtype(np.float32), numbers, narrow)
    if wide:
        _update(program, writes, np.dtype(np.float64), numbers, wide)


def _update(
    program: Program, writes: list[int], kind: Any, numbers: Sequence[float], rows: Sequence[Row]
) -> None:
    """The same for rows that compute in one type."""
    itemsize = kind.itemsize
    direct: list[Row] = []
    mixed: list[Row] = []
    for row in rows:
        alike = all(x is None or x.itemsize == itemsize for x in row)
        (direct if alike else mixed).append(row)
    if direct:
        program.update(direct, numbers, kind)
    if not mixed:
        return
    per, room = _BYTES // itemsize, 0
    gathered: list[list[Row]] = []
    for row in mixed:
        row = [x if x is None else x.reshape(-1) for x in row]
        low, n = 0, row[0].size  # type: ignore[union-attr]
        while low < n:
            if not room:
                gathered.append([])
                room = per
            high = min(low + room, n)
            gathered[-1].append(row if high - low == n else _part(row, low, high))
            room -= high - low
            low = high
    call = lambda arrays: program.update([arrays], numbers, kind)
    block = lambda i, _: _gathered(gathered[i], writes, kind, call)
    threads.blocks(len(gathered), 1, block, len(gathered) * per >= threads.PARALLEL)


def _part(row: Row, low: int, high: int) -> Row:
    return [x if x is None else x[low:high] for x in row]


def _gathered(
    rows: list[Row], writes: list[int], kind: Any, call: Callable[[list[Any]], None]
) -> None:
    """Rows of several types, joined in memory for a call."""
    sizes = [row[0].size for row in rows]  # type: ignore[union-attr]
    total = sum(sizes)
    buffers = _scratch.get(kind, "gathered", len(rows[0]), total)
    columns: list[Any] = list(zip(*rows))
    arrays = [None if column[0] is None else x for column, x in zip(columns, buffers)]
    for column, array in zip(columns, arrays):
        if array is not None:
            np.concatenate(column, out=array, casting="unsafe")
    call(arrays)
    for k in writes:
        source, at = arrays[k], 0
        if source is not None:
            for x, n in zip(columns[k], sizes):
                x[...] = source[at : at + n]
                at += n


# ---- gradients -----------------------------------------------------------------------------------


def _blocks(arrays: Sequence[Array]) -> Iterator[Array]:
    """The elements of flat arrays in blocks of float32 or float64; small arrays together."""
    per = _BYTES // 4
    small: dict[Any, list[Array]] = {np.float32: [], np.float64: []}
    for x in arrays:
        kind = np.float64 if x.itemsize == 8 else np.float32
        if x.size >= _DIRECT:
            for i in range(0, x.size, per):
                yield x[i : i + per].astype(kind, copy=False)
        else:
            small[kind].append(x)
    for kind, rest in small.items():
        while rest:
            count = per // _DIRECT
            part, rest = rest[:count], rest[count:]
            out = _scratch.get(kind, "gathered", 1, sum([x.size for x in part]))[0]
            yield np.concatenate(part, out=out, casting="unsafe")


def _is_finite(arrays: Sequence[Array]) -> bool:
    # Where no square overflows, their sum tells, at the speed of BLAS.
    return all(math.isfinite(blas.inner(x, x)) or np.isfinite(x).all() for x in _blocks(arrays))


def rescale(arrays: Sequence[Array], factor: Any, found: Any) -> None:
    """Multiplies arrays by a factor, in place; `found` becomes 1 if an element is not finite."""
    if factor is not None and factor.item() != 1:
        for x in arrays:
            np.multiply(x, factor.astype(x.dtype), x)
    if found is not None and not _is_finite(arrays):
        found[...] = 1


def norm(arrays: Sequence[Array], order: float, out_dtype: Any) -> Array:
    """The norm of all elements of all arrays, of order 1, 2 or infinity."""
    total = 0.0
    for x in _blocks(arrays):
        if order == 2:
            total += blas.inner(x, x)
        elif order == 1:
            total += float(np.absolute(x).sum())
        else:
            total = float(np.maximum(total, np.absolute(x).max(initial=0)))
    return np.asarray(np.sqrt(total) if order == 2 else total, out_dtype.numpy)
