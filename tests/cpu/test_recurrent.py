"""LSTMs and GRUs by chains of rows have the bits of the same formulas, array by array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compile.fusing.test_fused_loops import bits
from tritorch import _C
from tritorch.host.nn import recurrent


def _gates(x: Any) -> list[Any]:
    return np.split(x, 4, axis=1)


def _scan(gates: Any, h: Any, c: Any, w: Any, steps: Any) -> tuple[Any, Any, Any]:
    """(all hidden states, the last ones and the cells; activated gates; cells)"""
    hidden, h, c = h.shape[1], h.copy(), c.copy()
    acts, cells, shown = np.empty_like(gates), *np.empty((2, len(gates), hidden), gates.dtype)
    half = np.repeat(np.array([0.5, 0.5, 1, 0.5], gates.dtype), hidden)
    across = np.ascontiguousarray((w * half[:, None]).T)
    for low, high in steps:
        n = high - low
        z = _C.tanh(np.dot(h[:n], across) + gates[low:high] * half) * 0.5 + 0.5
        i, f, g, o = _gates(z)
        g[...] = g * 2 - 1
        c[:n] = c[:n] * f + i * g
        h[:n] = _C.tanh(c[:n]) * o
        acts[low:high], cells[low:high], shown[low:high] = z, c[:n], h[:n]
    return np.concatenate([shown, h, c]), acts, cells


def _backward(grad: Any, acts: Any, cells: Any, before: Any, w: Any, batch: int, steps: Any) -> Any:
    n = len(acts)
    dh, dc, made = grad[n : n + batch].copy(), grad[n + batch :].copy(), np.empty_like(acts)
    for low, high in reversed(steps):
        rows = high - low
        d, (i, f, g, o) = dh[:rows] + grad[low:high], _gates(acts[low:high])
        t = _C.tanh(cells[low:high])
        part = dc[:rows] + d * ((1 - t * t) * o)
        made[low:high] = np.concatenate([
            part * ((1 - i) * i * g), part * ((1 - f) * f * before[low:high]),
            part * ((1 - g * g) * i), d * ((1 - o) * o * t),
        ], 1)  # fmt: skip
        dc[:rows] = part * f
        dh[:rows] = np.dot(made[low:high], w)
    return made, dh, dc


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [None, (5, 4, 4, 2, 1, 1)])
def test_sequences_that_end(sizes: Any, reverse: bool, kind: str) -> None:
    rng, n, hidden = np.random.default_rng(0), 17 if sizes else 30, 9
    normal = lambda *shape: rng.standard_normal(shape).astype(kind)
    gates, w, (h, c) = normal(n, 36), normal(36, hidden), normal(2, 5, hidden)
    params = (w, None, "lstm", sizes, reverse)
    steps = recurrent.spans(sizes, reverse, n, 5)
    # What is not dense is read as well.
    made = recurrent.scan(np.asfortranarray(gates), h, c, *params)
    expected = _scan(gates, h, c, w, steps)
    assert [bits(x) for x in made] == [bits(x) for x in expected]
    g = normal(*made[0].shape)
    packed, acts, cells = expected
    back = recurrent.backward(np.asfortranarray(g), packed, acts, cells, h, c, *params)
    before = recurrent.previous(cells, c, steps)
    d_gates, dh, dc = _backward(g, acts, cells, before, w, 5, steps)
    d_w = d_gates.T.dot(recurrent.previous(packed, h, steps))
    assert [bits(x) for x in back[:4]] == [bits(x) for x in (d_gates, dh, dc, d_w)]


def _gru(gates: Any, h: Any, w: Any, b: Any, steps: Any) -> tuple[Any, Any, Any]:
    """(all hidden states and the last ones; activated gates; the hidden state's share)"""
    h, acts, inner = h.copy(), np.empty_like(gates), np.empty((len(gates), h.shape[1]), h.dtype)
    shown = np.empty_like(inner)
    for low, high in steps:
        x, y = np.split(gates[low:high], 3, axis=1), h[: high - low] @ np.ascontiguousarray(w.T)
        hr, hu, hn = np.split(y if b is None else y + b, 3, axis=1)
        r, u = (_C.tanh((a + c) * 0.5) * 0.5 + 0.5 for a, c in ((x[0], hr), (x[1], hu)))
        new = _C.tanh(x[2] + r * hn)
        h[: high - low] = (h[: high - low] - new) * u + new
        acts[low:high] = np.concatenate([r, u, new], 1)
        inner[low:high], shown[low:high] = hn, h[: high - low]
    return np.concatenate([shown, h]), acts, inner


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("sizes", "reverse", "hidden"),
    [(None, False, 9), (None, True, 1), ((5, 4, 4, 2, 1, 1), True, 40)],
)
def test_grus(sizes: Any, reverse: bool, hidden: int, biased: bool, kind: str) -> None:
    rng, n = np.random.default_rng(0), 17 if sizes else 30
    normal = lambda *shape: rng.standard_normal(shape).astype(kind)
    gates, w, h = normal(n, 3 * hidden), normal(3 * hidden, hidden), normal(5, hidden)
    b = normal(3 * hidden) if biased else None
    rest = (w, b, "gru", sizes, reverse)
    steps = recurrent.spans(sizes, reverse, n, 5)
    made = recurrent.scan(np.asfortranarray(gates), h, None, *rest)
    assert [bits(x) for x in made] == [bits(x) for x in _gru(gates, h, w, b, steps)]
    if kind == "f4":
        return
    g = normal(*made[0].shape)
    found = recurrent.backward(np.asfortranarray(g), *made, h, None, *rest)
    given = [gates, h, w, *([] if b is None else [b])]
    for x, d in zip(given, (found[0], found[1], found[3], found[4])):
        assert d.shape == x.shape
        way = rng.standard_normal(x.shape)  # the slope in one direction
        ends = []
        for sign in (1, -1):
            moved = [v + sign * 1e-6 * way if v is x else v for v in given]
            last = None if b is None else moved[3]
            ends.append((_gru(*moved[:3], last, steps)[0] * g).sum())
        np.testing.assert_allclose((d * way).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
