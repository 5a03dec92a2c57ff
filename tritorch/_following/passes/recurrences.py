"""LSTMs with one chain for a step's gates, where eager has a call for each function.

Bits are those of `host.recurrent`, whose formulas these are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch._following.lowering import Lowered
from tritorch._following.passes.rowwise import SINGLE, rowwise
from tritorch._following.tape import Form, Value
from tritorch.core.arrays import ndarray
from tritorch.host.recurrent import previous, spans

Array = np.ndarray[Any, Any]
Sizes = Sequence[int] | None


def _activated(z: Any, gates: Any, half: Any) -> Any:
    return np.tanh(z + gates * half) * 0.5 + 0.5


def _next(c: Any, i: Any, f: Any, g: Any, o: Any) -> Any:
    """What g is, then the new cell three times over: saved, as the state, and as what is shown."""
    g = g * 2 - 1
    cell = c * f + i * g
    h = np.tanh(cell) * o
    return g, cell, cell, h, h


def _back(
    i: Any, f: Any, g: Any, o: Any, cell: Any, before: Any, d: Any, grad: Any, dc: Any
) -> Any:
    """The gradients of the gates and of the cell before."""
    d = d + grad
    t = np.tanh(cell)
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


def scan(
    gates: Array, h0: Array, c0: Array, w: Array, b: None, mode: str, sizes: Sizes, reverse: bool
) -> tuple[Array, Array, Array]:
    """`host.recurrent.scan` of an LSTM."""
    (n, width), (batch, hidden) = gates.shape, h0.shape
    packed = np.empty((n + 2 * batch, hidden), SINGLE)
    acts, cells = np.empty((n, width), SINGLE), np.empty((n, hidden), SINGLE)
    h, c = packed[n : n + batch], packed[n + batch :]
    h[...], c[...] = h0, c0
    half = np.full(width, 0.5, SINGLE)
    half[2 * hidden : 3 * hidden] = 1
    across = np.ascontiguousarray((w * half[:, None]).T)
    activate, advance = rowwise(_activated, "aaa"), rowwise(_next, "aaaaa")
    for low, high in spans(sizes, reverse, n, batch):
        state, cell, z = h[: high - low], c[: high - low], acts[low:high]
        np.dot(state, across, out=z)
        activate(z, gates[low:high], half, z)
        i, f, g, o = _parts(z, hidden)
        advance(cell, i, f, g, o, g, cells[low:high], cell, state, packed[low:high])
    return packed, acts, cells


def backward(
    g: Array, packed: Array, acts: Array, cells: Array, h0: Array, c0: Array, w: Array, b: None,
    mode: str, sizes: Sizes, reverse: bool,
) -> tuple[Array | None, ...]:  # fmt: skip
    """`host.recurrent.backward` of an LSTM."""
    batch, hidden = h0.shape
    n = packed.shape[0] - 2 * batch
    steps = spans(sizes, reverse, n, batch)
    hiddens, before = previous(packed, h0, steps), previous(cells, c0, steps)
    dh, dc = g[n : n + batch].copy(), g[n + batch :].copy()
    d_gates = np.empty((n, 4 * hidden), SINGLE)
    step = rowwise(_back, "aaaaaaaaa")
    given, made = _parts(acts, hidden), _parts(d_gates, hidden)
    for low, high in reversed(steps):
        d, part = dh[: high - low], dc[: high - low]
        step(
            *(x[low:high] for x in given), cells[low:high], before[low:high], d, g[low:high], part,
            *(x[low:high] for x in made), part,
        )  # fmt: skip
        np.dot(d_gates[low:high], w, out=d)
    return d_gates, dh, dc, d_gates.T.dot(hiddens), None


def recurring(calls: Sequence[Lowered], forms: Sequence[Form]) -> list[Lowered]:
    """The calls, LSTMs of float32 by chains."""
    return [
        call._replace(function=_C.Quiet(_CHAINED[call.note.op.name]))
        if _is_lstm(call, forms)
        else call
        for call in calls
    ]


_CHAINED = {"recurrent": scan, "recurrent_backward": backward}


def _is_lstm(call: Lowered, forms: Sequence[Form]) -> bool:
    note = call.note
    if note.form != "call" or note.op.name not in _CHAINED or note.params[0] != "lstm":
        return False
    given = [forms[x.number] for x in note.inputs if type(x) is Value]
    return (
        call.function is note.op.cpu
        and len(given) == len(note.inputs) - 1  # a bias is added before
        and all(form.kind is ndarray and form.dtype == SINGLE for form in given)
        and all(form.strides[-1] == 1 for form in given)
    )
