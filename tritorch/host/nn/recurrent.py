"""Recurrent networks: all steps of one layer in one direction.

Rows of `gates` are the inputs' share of each step's gates, step after step; `sizes` says how many
sequences each step still has, longest first.  The result is packed: the hidden states of all rows,
then the last hidden state of each sequence, then, for an LSTM, its last cell.

# Note [Recurrent steps]
The states of all sequences stay in one array, of which a step reads and writes the first rows: so
sequences that have ended keep their last state, and in reverse those that have not begun their
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch.host import loops
from tritorch.host.linalg import blas
from tritorch.host.nn import gru, lstm
from tritorch.host.pointwise.narrow import like, row_major, widen

Array = np.ndarray[Any, Any]


def spans(sizes: Sequence[int] | None, reverse: bool, n: int, batch: int) -> list[tuple[int, int]]:
    """(first row, row after the last) of each step, in the order in which they are computed.

    sizes: of the steps; None: n rows, so many in each step as the batch has."""
    found, low = [], 0
    for size in (batch,) * (n // batch) if sizes is None else sizes:
        found.append((low, low + size))
        low += size
    return found[::-1] if reverse else found


def scan(
    gates: Array, h0: Array, c0: Array | None, w: Array, b: Array | None, mode: str,
    sizes: Sequence[int] | None, reverse: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """(packed result, activated gates, what else the gradient needs)."""
    kind = gates
    gates, h0, w = widen(gates), widen(h0), widen(w)
    c0, b = (None if x is None else widen(x) for x in (c0, b))
    n, (batch, hidden) = len(gates), h0.shape
    packed = np.empty((n + batch * (2 if c0 is not None else 1), hidden), gates.dtype)
    h = packed[n : n + batch]
    h[...] = h0
    steps = spans(sizes, reverse, n, batch)
    narrow = lambda x: None if x is None else like(x, kind)
    if mode == "lstm":
        c = packed[n + batch :]
        c[...] = c0
        acts, cells = lstm.scan(row_major(gates), h, c, w, steps, packed)
        return narrow(packed), narrow(acts), narrow(cells)
    if mode == "gru":
        acts, inner = gru.scan(row_major(gates), h, w, b, steps, packed)
        return narrow(packed), narrow(acts), narrow(inner)
    across = np.ascontiguousarray(w.T)  # a product takes it faster than a transposed view
    for low, high in steps:
        state = h[: high - low]
        z = blas.dot(state, across)
        z += gates[low:high]
        if b is not None:
            z += b
        (loops.tanh if mode == "rnn_tanh" else _relu)(z, state)
        packed[low:high] = state
    return narrow(packed), None, None


def _relu(x: Array, out: Array) -> None:
    np.maximum(x, 0, out=out)


def backward(
    g: Array, packed: Array, acts: Array | None, rest: Array | None, h0: Array, c0: Array | None,
    w: Array, b: Array | None, mode: str, sizes: Sequence[int] | None, reverse: bool,
) -> tuple[Array | None, ...]:  # fmt: skip
    """The gradients of gates, h0, c0, w and b."""
    kind = packed
    g, packed, h0, w = widen(g), widen(packed), widen(h0), widen(w)
    acts, rest, c0 = (None if x is None else widen(x) for x in (acts, rest, c0))
    batch = h0.shape[0]
    n = packed.shape[0] - batch * (1 if c0 is None else 2)
    steps = spans(sizes, reverse, n, batch)
    before = previous(packed, h0, steps)
    dh = g[n : n + batch].copy()
    dc = None if c0 is None else g[n + batch :].copy()
    if mode == "lstm":
        assert acts is not None and rest is not None and dc is not None
        cells = previous(rest, c0, steps)
        d_gates = lstm.backward(row_major(g), dh, dc, acts, rest, cells, w, steps)
        made = (d_gates, dh, dc, blas.dot(d_gates.T, before), None if b is None else d_gates.sum(0))
        return tuple(None if x is None else like(x, kind) for x in made)
    if mode == "gru":
        assert acts is not None and rest is not None
        d_gates, d_hidden = gru.backward(row_major(g), dh, acts, rest, before, w, steps)
    else:
        d_gates = d_hidden = np.empty((n, w.shape[0]), g.dtype)
        for low, high in reversed(steps):
            d, dz, y = dh[: high - low], d_gates[low:high], packed[low:high]
            d += g[low:high]
            np.multiply(d, 1 - y * y if mode == "rnn_tanh" else y > 0, out=dz)
            blas.matmul(dz, w, d)
    d_w = blas.dot(d_hidden.T, before)
    d_b = None if b is None else d_hidden.sum(0)
    return tuple(None if x is None else like(x, kind) for x in (d_gates, dh, dc, d_w, d_b))


def previous(states: Any, first: Any, steps: Sequence[tuple[int, int]]) -> Array:
    """The state that each row's step began with."""
    before = np.empty((max(high for _, high in steps), first.shape[1]), first.dtype)
    have, start = 0, 0  # rows of the step before this one, and where they are
    for low, high in steps:
        known = min(have, high - low)
        before[low : low + known] = states[start : start + known]
        before[low + known : high] = first[known : high - low]
        have, start = high - low, low
    return before
