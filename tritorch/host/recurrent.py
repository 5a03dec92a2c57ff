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

from tritorch.host.narrow import like, widen

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
    (n, width), (batch, hidden) = gates.shape, h0.shape
    packed = np.empty((n + batch * (2 if c0 is not None else 1), hidden), gates.dtype)
    acts = np.empty_like(gates, order="C") if mode in ("lstm", "gru") else None
    rest = np.empty((n, hidden), gates.dtype) if mode in ("lstm", "gru") else None
    h = packed[n : n + batch]
    h[...] = h0
    c = None
    if c0 is not None:
        c = packed[n + batch :]
        c[...] = c0
    if mode == "lstm":  # sigmoid(x) = tanh(x / 2) / 2 + 1 / 2: one tanh serves all four gates
        half = np.full(width, 0.5, gates.dtype)
        half[2 * hidden : 3 * hidden] = 1
        gates, w = gates * half, w * half[:, None]
    across = np.ascontiguousarray(w.T)  # a product takes it faster than a transposed view
    for low, high in spans(sizes, reverse, n, batch):
        rows = high - low
        if mode == "lstm":
            assert acts is not None and rest is not None and c is not None
            _lstm_step(gates[low:high], h[:rows], c[:rows], across, acts[low:high], rest[low:high])
        elif mode == "gru":
            assert acts is not None and rest is not None
            _gru_step(gates[low:high], h[:rows], across, b, acts[low:high], rest[low:high])
        else:
            z = h[:rows].dot(across)
            z += gates[low:high]
            if b is not None:
                z += b
            (np.tanh if mode == "rnn_tanh" else _relu)(z, h[:rows])
        packed[low:high] = h[:rows]
    narrow = lambda x: None if x is None else like(x, kind)
    return narrow(packed), narrow(acts), narrow(rest)


def _relu(x: Array, out: Array) -> None:
    np.maximum(x, 0, out=out)


def _lstm_step(gates: Array, h: Array, c: Array, w: Array, z: Array, cells: Array) -> None:
    """c = f c + i g; h = o tanh(c)"""
    n = h.shape[1]
    np.dot(h, w, out=z)
    z += gates
    np.tanh(z, z)
    z *= 0.5
    z += 0.5  # the sigmoids
    g = z[:, 2 * n : 3 * n]
    g *= 2
    g -= 1  # g itself is a tanh
    np.multiply(c, z[:, n : 2 * n], out=cells)
    np.multiply(z[:, :n], g, out=h)
    cells += h
    c[...] = cells
    np.tanh(cells, h)
    h *= z[:, 3 * n :]


def _gru_step(gates: Array, h: Array, w: Array, b: Any, z: Array, inner: Array) -> None:
    """n = tanh(x + r (U h + b)); h = n + u (h - n)"""
    n = h.shape[1]
    from_h = h.dot(w)
    if b is not None:
        from_h += b
    inner[...] = from_h[:, 2 * n :]
    ru, new = z[:, : 2 * n], z[:, 2 * n :]
    np.add(gates[:, : 2 * n], from_h[:, : 2 * n], out=ru)
    ru *= 0.5
    np.tanh(ru, ru)
    ru *= 0.5
    ru += 0.5
    np.multiply(z[:, :n], inner, out=new)
    new += gates[:, 2 * n :]
    np.tanh(new, new)
    h -= new
    h *= z[:, n : 2 * n]
    h += new


def backward(
    g: Array, packed: Array, acts: Array | None, rest: Array | None, h0: Array, c0: Array | None,
    w: Array, b: Array | None, mode: str, sizes: Sequence[int] | None, reverse: bool,
) -> tuple[Array | None, ...]:  # fmt: skip
    """The gradients of gates, h0, c0, w and b."""
    kind = packed
    g, packed, h0, w = widen(g), widen(packed), widen(h0), widen(w)
    acts, rest, c0 = (None if x is None else widen(x) for x in (acts, rest, c0))
    batch, hidden = h0.shape
    n = packed.shape[0] - batch * (1 if c0 is None else 2)
    steps = spans(sizes, reverse, n, batch)
    before = previous(packed, h0, steps)
    dh = g[n : n + batch].copy()
    dc = None if c0 is None else g[n + batch :].copy()
    d_gates = np.empty((n, w.shape[0]), g.dtype)
    d_hidden = np.empty_like(d_gates) if mode == "gru" else d_gates
    if mode == "lstm":
        slopes, through = _lstm_slopes(acts, rest, previous(rest, c0, steps))
    for low, high in reversed(steps):
        rows = high - low
        d, dz = dh[:rows], d_gates[low:high]
        d += g[low:high]
        if mode == "lstm":
            assert acts is not None and dc is not None
            part, slope = dc[:rows], slopes[low:high]
            part += d * through[low:high]
            by_gate = dz.reshape(rows, 4, hidden)
            np.multiply(part[:, None], slope[:, :3], out=by_gate[:, :3])
            np.multiply(d, slope[:, 3], out=dz[:, 3 * hidden :])
            part *= acts[low:high, hidden : 2 * hidden]
            np.dot(dz, w, out=d)
        elif mode == "gru":
            assert acts is not None and rest is not None
            a = acts[low:high]
            dw = d_hidden[low:high]
            _gru_back(d, a, rest[low:high], before[low:high], dz, dw)
            d *= a[:, hidden : 2 * hidden]
            d += dw.dot(w)
        else:
            y = packed[low:high]
            np.multiply(d, 1 - y * y if mode == "rnn_tanh" else y > 0, out=dz)
            np.dot(dz, w, out=d)
    d_w = d_hidden.T.dot(before)
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


def _lstm_slopes(z: Any, cells: Any, before: Array) -> tuple[Array, Array]:
    """For all steps at once: by what the gates i, f, g multiply the gradient of the cell, and o
    that of the hidden state (N, 4, hidden); and what passes from the hidden state to the cell."""
    n, hidden = cells.shape
    gates = z.reshape(n, 4, hidden)
    i, g, o = gates[:, 0], gates[:, 2], gates[:, 3]
    t = np.tanh(cells)
    through = t * t
    np.subtract(1, through, out=through)
    through *= o
    slopes = 1 - gates
    slopes *= gates  # of a sigmoid
    slopes[:, 0] *= g
    slopes[:, 1] *= before
    np.multiply(g, g, out=slopes[:, 2])
    np.subtract(1, slopes[:, 2], out=slopes[:, 2])
    slopes[:, 2] *= i
    slopes[:, 3] *= t
    return slopes, through


def _gru_back(d: Array, z: Array, inner: Array, h: Array, dz: Array, dw: Array) -> None:
    """dz: the gradient of the inputs' gates, dw: of the hidden state's."""
    n = d.shape[1]
    r, u, new = (z[:, k * n : (k + 1) * n] for k in range(3))
    d_new = dz[:, 2 * n :]
    np.subtract(1, u, out=d_new)
    d_new *= d
    d_new *= 1 - new * new
    d_u = dz[:, n : 2 * n]
    np.subtract(h, new, out=d_u)
    d_u *= d
    d_r = dz[:, :n]
    np.multiply(d_new, inner, out=d_r)
    both = dz[:, : 2 * n]
    both *= z[:, : 2 * n]
    both *= 1 - z[:, : 2 * n]
    dw[:, : 2 * n] = both
    np.multiply(d_new, r, out=dw[:, 2 * n :])
