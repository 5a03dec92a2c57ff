"""Recurrent networks: a matrix product and one kernel a step.  See
tritorch/host/nn/recurrent.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.gpu.linalg.matmul import accumulator, mm, triton_name
from tritorch.host.nn.recurrent import spans
from tritorch.triton.kernel import kernel

Array = _C.Array
BLOCK = 256


def _launch(name: str, n: int, *arguments: Any, kind: Any, **constants: Any) -> None:
    compute = triton_name(accumulator(kind))
    kernel("recurrent", name)(
        (-(-n // BLOCK),), *arguments, COMPUTE=compute, BLOCK=BLOCK, num_warps=4, **constants
    )


def _dense(x: Array | None) -> Any:
    return x if x is None or x.is_contiguous() else arrays.copy(x)


def scan(
    gates: Array, h0: Array, c0: Array | None, w: Array, b: Array | None, mode: str,
    sizes: Sequence[int] | None, reverse: bool,
) -> tuple[Array, Array | None, Array | None]:  # fmt: skip
    """(packed result, activated gates, what else the gradient needs)."""
    gates, b = _dense(gates), _dense(b)
    (n, width), (batch, hidden), kind, where = (
        gates.shape,
        h0.shape,
        gates.dtype,
        gates.device_index,
    )
    empty = lambda rows, columns: _C.empty((rows, columns), kind, where)
    packed = empty(n + batch * (2 if c0 is not None else 1), hidden)
    gated = mode in ("lstm", "gru")
    acts: Any = empty(n, width) if gated else None
    rest: Any = empty(n, hidden) if gated else None
    h = packed[n : n + batch]
    h.copy_(h0)
    c = None
    if c0 is not None:
        c = packed[n + batch :]
        c.copy_(c0)
    across = w.transpose(0, 1)
    bias = h if b is None else b
    for low, high in spans(sizes, reverse, n, batch):
        rows = high - low
        x, out, states = gates[low:high], packed[low:high], rows * hidden
        z = mm(h[:rows], across)
        if mode == "lstm":
            _launch("lstm_step", states, x, z, h, c, acts[low:high], rest[low:high], out,
                    states, hidden, kind=kind)  # fmt: skip
        elif mode == "gru":
            _launch("gru_step", states, x, z, bias, h, acts[low:high], rest[low:high], out,
                    states, hidden, kind=kind, HAS_BIAS=b is not None)  # fmt: skip
        else:
            _launch("rnn_step", states, x, z, bias, h, out, states, hidden, kind=kind,
                    HAS_BIAS=b is not None, TANH=mode == "rnn_tanh")  # fmt: skip
    return packed, acts, rest


def backward(
    g: Array, packed: Array, acts: Any, rest: Any, h0: Array, c0: Array | None, w: Array,
    b: Array | None, mode: str, sizes: Sequence[int] | None, reverse: bool,
) -> tuple[Array | None, ...]:  # fmt: skip
    """The gradients of gates, h0, c0, w and b."""
    g, w = _dense(g), _dense(w)
    (batch, hidden), kind, where = h0.shape, packed.dtype, packed.device_index
    n = packed.shape[0] - batch * (1 if c0 is None else 2)
    steps = spans(sizes, reverse, n, batch)
    before = _previous(packed, h0, steps)
    dh = arrays.copy(g[n : n + batch])
    dc = None if c0 is None else arrays.copy(g[n + batch :])
    d_gates = _C.empty((n, w.shape[0]), kind, where)
    d_hidden = _C.empty(d_gates.shape, kind, where) if mode == "gru" else d_gates
    cells = _previous(rest, c0, steps) if mode == "lstm" else None
    for low, high in reversed(steps):
        rows = high - low
        d, dz, given, states = dh[:rows], d_gates[low:high], g[low:high], rows * hidden
        if mode == "lstm":
            assert cells is not None
            _launch("lstm_step_backward", states, given, d, dc, acts[low:high], rest[low:high],
                    cells[low:high], dz, states, hidden, kind=kind)  # fmt: skip
            d.copy_(mm(dz, w))
        elif mode == "gru":
            dw = d_hidden[low:high]
            _launch("gru_step_backward", states, given, d, acts[low:high], rest[low:high],
                    before[low:high], dz, dw, states, hidden, kind=kind)  # fmt: skip
            _add(d, mm(dw, w))
        else:
            _launch("rnn_step_backward", states, given, d, packed[low:high], dz, states, kind=kind,
                    TANH=mode == "rnn_tanh")  # fmt: skip
            d.copy_(mm(dz, w))
    d_w = mm(d_hidden.transpose(0, 1), before)
    return d_gates, dh, dc, d_w, None if b is None else _column_sums(d_hidden)


def _add(out: Array, x: Array) -> None:
    from tritorch.gpu.pointwise import pointwise

    pointwise.call("add", (out, x), accumulator(out.dtype), out.dtype, out)


def _column_sums(x: Array) -> Array:
    ones = _C.empty((1, x.shape[0]), x.dtype, x.device_index).fill_(1)
    return mm(ones, x).reshape_view((x.shape[1],))  # type: ignore[return-value]


def _previous(states: Array, first: Any, steps: Sequence[tuple[int, int]]) -> Array:
    """The state that each row's step began with."""
    n = max(high for _, high in steps)
    before = _C.empty((n, first.shape[1]), first.dtype, first.device_index)
    batch, count = steps[0][1] - steps[0][0], len(steps)
    if all(high - low == batch for low, high in steps):  # one shift of all steps
        forward = steps[0][0] == 0
        here, there = (slice(batch, n), slice(0, n - batch)) if forward else (
            slice(0, n - batch), slice(batch, n))  # fmt: skip
        if count > 1:
            before[here].copy_(states[there])
        low, high = steps[0]
        before[low:high].copy_(first)
        return before
    have, start = 0, 0
    for low, high in steps:
        known = min(have, high - low)
        if known:
            before[low : low + known].copy_(states[start : start + known])
        if low + known < high:
            before[low + known : high].copy_(first[known : high - low])
        have, start = high - low, low
    return before
