"""GRUs: a step is a product and a chain, of rows that threads share; so is its gradient's."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.host import loops
from tritorch.host.chains.rowwise import rowwise
from tritorch.host.linalg import blas
from tritorch.host.nn.lstm import Steps

Array = np.ndarray[Any, Any]


def _gate(x: Any, h: Any, bias: Any) -> Any:
    z = x + (h if bias is None else h + bias)
    return loops.tanh(z * 0.5) * 0.5 + 0.5


def _next(
    xr: Any, xu: Any, xn: Any, hr: Any, hu: Any, hn: Any, h: Any, br: Any, bu: Any, bn: Any
) -> Any:
    """n = tanh(x + r (U h + b)); h = n + u (h - n), as the state and as what is shown."""
    inner = hn if bn is None else hn + bn
    r, u = _gate(xr, hr, br), _gate(xu, hu, bu)
    new = loops.tanh(xn + r * inner)
    h = (h - new) * u + new
    return r, u, new, inner, h, h


def _back(d: Any, g: Any, r: Any, u: Any, new: Any, inner: Any, h: Any) -> Any:
    """The gradients of the inputs' gates, of the hidden state's, and of the state but for those."""
    d = d + g
    d_new = (1 - u) * d * (1 - new * new)
    d_u = (h - new) * d * u * (1 - u)
    d_r = d_new * inner * r * (1 - r)
    return d_r, d_u, d_new, d_r, d_u, d_new * r, d * u


def _parts(x: Array, hidden: int) -> tuple[Array, ...]:
    """What belongs to each of the three gates."""
    return tuple(x[..., k * hidden : (k + 1) * hidden] for k in range(3))


def scan(gates: Array, h: Array, w: Array, b: Array | None, steps: Steps, shown: Array) -> Any:
    """Writes the hidden states into `shown`, and the last ones into h; (activated gates, the hidden
    state's share of the third).  gates (N, 3 hidden): what inputs give."""
    (n, width), hidden, kind = gates.shape, h.shape[1], gates.dtype
    acts, inner = np.empty((n, width), kind), np.empty((n, hidden), kind)
    across = np.ascontiguousarray(w.T)  # a product takes it faster than a view
    bias = (None,) * 3 if b is None else _parts(np.ascontiguousarray(b, kind), hidden)
    step = rowwise(_next, "a" * 7 + ("---" if b is None else "aaa"), kind)
    for low, high in steps:
        state = h[: high - low]
        from_h = blas.dot(state, across)
        step(
            *_parts(gates[low:high], hidden), *_parts(from_h, hidden), state, *bias,
            *_parts(acts[low:high], hidden), inner[low:high], state, shown[low:high],
        )  # fmt: skip
    return acts, inner


def backward(
    g: Array, dh: Array, acts: Array, inner: Array, before: Array, w: Array, steps: Steps
) -> tuple[Array, Array]:
    """The gradients of the inputs' gates and of the hidden states', from those of all hidden states
    (g) and of the last ones; dh becomes that of the first.  before: the state of each row."""
    hidden, kind = dh.shape[1], g.dtype
    d_gates, d_hidden = np.empty(acts.shape, kind), np.empty(acts.shape, kind)
    step = rowwise(_back, "a" * 7, kind)
    for low, high in reversed(steps):
        d = dh[: high - low]
        step(
            d, g[low:high], *_parts(acts[low:high], hidden), inner[low:high], before[low:high],
            *_parts(d_gates[low:high], hidden), *_parts(d_hidden[low:high], hidden), d,
        )  # fmt: skip
        d += blas.dot(d_hidden[low:high], w)
    return d_gates, d_hidden
