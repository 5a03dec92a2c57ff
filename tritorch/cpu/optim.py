"""Updates of many parameters at once, in blocks that stay in the cache through a whole formula.

Large parameters are updated in place, block by block.  Small ones, and those of narrow or mixed
types, are gathered into blocks of the type that they compute in, and scattered.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tritorch.cpu import threads
from tritorch.cpu.program import NAMES, Program, compiled
from tritorch.kernels.optim_rules import Variant, whole

Array = np.ndarray[Any, Any]
Row = Sequence[Array | None]  # parameter, gradient, state; all of one size, in one order of memory

_BYTES = 1 << 16  # of one array in a block
_DIRECT = 1 << 11  # elements from which a parameter is not worth gathering


class _Piece(NamedTuple):
    row: Row  # flat
    low: int
    high: int


class _Scratch(threading.local):
    """A thread's blocks: memory once touched is worth keeping."""

    def __init__(self) -> None:
        self.arrays: dict[Any, list[Array]] = {}

    def get(self, kind: Any, count: int, size: int, use: str = "results") -> list[Array]:
        """So many blocks of a size and a type, the same ones for the same use."""
        have = self.arrays.setdefault((kind, use), [])
        have += [np.empty(_BYTES // 4, kind) for _ in range(count - len(have))]
        return [x[:size] for x in have[:count]]


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
    known = tuple(x if x in (0.0, 1.0) else None for x in numbers)
    program = _program(variant, tuple(x is not None for x in rows[0]), known)
    writes = [k for k in range(len(rows[0])) if k != 1 or variant.scaled]
    for kind in {np.float64 if row[0].dtype == np.float64 else np.float32 for row in rows}:  # type: ignore[union-attr]
        work = _Work(program, writes, np.dtype(kind), numbers)
        work.plan(rows)
        work.run()


class _Work:
    """The blocks of one computing type."""

    def __init__(self, program: Program, writes: list[int], kind: Any, numbers: Any) -> None:
        self.program, self.writes, self.kind, self.numbers = program, writes, kind, numbers
        self.size = _BYTES // kind.itemsize
        self.direct: list[_Piece] = []
        self.gathered: list[list[_Piece]] = []
        self.total = 0

    def plan(self, rows: Sequence[Row]) -> None:
        """Cuts the rows into blocks."""
        kind, size, room = self.kind, self.size, 0
        for row in rows:
            p = row[0]
            if (p.dtype == np.float64) != (kind == np.float64):  # type: ignore[union-attr]
                continue
            n = p.size  # type: ignore[union-attr]
            self.total += n
            flat = [x if x is None else x.reshape(-1) for x in row]
            if n >= _DIRECT and all(x is None or x.dtype == kind for x in row):
                self.direct += [_Piece(flat, i, min(i + size, n)) for i in range(0, n, size)]
                continue
            low = 0
            while low < n:
                if not room:
                    self.gathered.append([])
                    room = size
                high = min(low + room, n)
                self.gathered[-1].append(_Piece(flat, low, high))
                low, room = high, room - (high - low)

    def run(self) -> None:
        """Updates all blocks, large groups over threads."""
        done = len(self.direct)

        def block(i: int, _: int) -> None:
            self._directly(self.direct[i]) if i < done else self._gathered(self.gathered[i - done])

        threads.blocks(done + len(self.gathered), 1, block, self.total >= threads.PARALLEL)

    def _call(self, arrays: Sequence[Array | None], size: int) -> None:
        program = self.program
        floats = _scratch.get(self.kind, program.floats, size)
        bools = _scratch.get(np.bool_, program.bools, size) if program.bools else ()
        program.run(*arrays, *self.numbers, *floats, *bools)

    def _directly(self, piece: _Piece) -> None:
        row, low, high = piece
        self._call([x if x is None else x[low:high] for x in row], high - low)

    def _gathered(self, pieces: list[_Piece]) -> None:
        size = sum(high - low for _, low, high in pieces)
        columns: list[Any] = list(zip(*(row for row, _, _ in pieces)))
        buffers = iter(_scratch.get(self.kind, len(columns), size, "gathered"))
        arrays: list[Array | None] = []
        for column in columns:
            arrays.append(None if column[0] is None else next(buffers))
            if arrays[-1] is not None:
                parts = [x[low:high] for x, (_, low, high) in zip(column, pieces)]
                np.concatenate(parts, out=arrays[-1], casting="unsafe")
        self._call(arrays, size)
        for k in self.writes:
            source, at = arrays[k], 0
            if source is None:
                continue
            for row, low, high in pieces:
                row[k][low:high] = source[at : at + high - low]  # type: ignore[index]
                at += high - low
