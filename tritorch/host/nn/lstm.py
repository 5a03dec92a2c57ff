"""LSTMs: a step is a product and two chains, of rows that threads share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch.host import loops
from tritorch.host.chains.rowwise import rowwise
from tritorch.host.linalg import blas

Array = np.ndarray[Any, Any]
Steps = Sequence[tuple[int, int]]  # the rows of each


def _activated(z: Any, gates: Any, half: Any) -> Any:
    return loops.tanh(z + gates * half) * 0.5 + 0.5


def _next(c: Any, i: Any, f: Any, g: Any, o: Any) -> Any:
    """What g is, then the new cell three times over: saved, as the state, and as what is shown."""
    g = g * 2 - 1
    cell = c * f + i * g
    h = loops.tanh(cell) * o
    return g, cell, cell, h, h


def _back(
    i: Any, f: Any, g: Any, o: Any, cell: Any, before: Any, d: Any, grad: Any, dc: Any
) -> Any:
    """The gradients of the gates and of the cell before."""
    d = d + grad
    t = loops.tanh(cell)
    dc = dc + d * ((1 - t * t) * o)
    return (
        dc * ((1 - i) * i * g),
        dc * ((1 - f) * f * before),
        dc * ((1 - g * g) * i),
        d * ((1 - o) * o * t),
        dc * f,
    )


def _parts(x: Array, hidden: int) -> tuple[Array, ...]:
    """What belongs to each of the four gates."""
    return tuple(x[:, k * hidden : (k + 1) * hidden] for k in range(4))


def scan(gates: Array, h: Array, c: Array, w: Array, steps: Steps, shown: Array) -> Any:
    """Writes the hidden states into `shown`, and the last states into h and c; (activated gates,
    cells).  gates (N, 4 hidden): what inputs give; sigmoid(x) = tanh(x / 2) / 2 + 1 / 2, so one
    tanh serves all four."""
    (n, width), hidden, kind = gates.shape, h.shape[1], gates.dtype
    acts, cells = np.empty((n, width), kind), np.empty((n, hidden), kind)
    half = np.full(width, 0.5, kind)
    half[2 * hidden : 3 * hidden] = 1
    across = np.ascontiguousarray((w * half[:, None]).T)  # a product takes it faster than a view
    activate, advance = rowwise(_activated, "aaa", kind), rowwise(_next, "aaaaa", kind)
    for low, high in steps:
        state, cell, z = h[: high - low], c[: high - low], acts[low:high]
        blas.matmul(state, across, z)
        activate(z, gates[low:high], half, z)
        i, f, g, o = _parts(z, hidden)
        advance(cell, i, f, g, o, g, cells[low:high], cell, state, shown[low:high])
    return acts, cells


def backward(
    g: Array, dh: Array, dc: Array, acts: Array, cells: Array, before: Array, w: Array,
    steps: Steps,
) -> Array:  # fmt: skip
    """The gradient of the gates, from those of all hidden states (g) and of the last ones; dh and
    dc become those of the first.  before: the cell that each row began with."""
    hidden = dh.shape[1]
    d_gates = np.empty(acts.shape, g.dtype)
    step = rowwise(_back, "aaaaaaaaa", g.dtype)
    given, made = _parts(acts, hidden), _parts(d_gates, hidden)
    for low, high in reversed(steps):
        d, part = dh[: high - low], dc[: high - low]
        step(
            *(x[low:high] for x in given), cells[low:high], before[low:high], d, g[low:high], part,
            *(x[low:high] for x in made), part,
        )  # fmt: skip
        blas.matmul(d_gates[low:high], w, d)
    return d_gates
