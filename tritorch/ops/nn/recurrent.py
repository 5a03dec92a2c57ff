"""Recurrent networks: torch.lstm, gru, rnn_tanh, rnn_relu, and one step of each.

The inputs of all steps go through one matrix product; `scan` does the rest of a layer in one
direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.arrays.meta import MetaArray
from tritorch.core import published
from tritorch.core.dtype import float32
from tritorch.core.published import PUBLIC, autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.linear import linear
from tritorch.ops.record.backends import backend
from tritorch.ops.record.ends import ends_as
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.operator import Operator
from tritorch.ops.shape.joining import cat, stack

# ---- one step: the shares of the inputs and of the states in the gates, and the states, to the new
# states -------------------------------------------------------------------------------------------


def _tanh_step(from_x: Tensor, from_h: Tensor, state: Sequence[Any]) -> tuple[Any, ...]:
    return ((from_x + from_h).tanh(),)


def _relu_step(from_x: Tensor, from_h: Tensor, state: Sequence[Any]) -> tuple[Any, ...]:
    return ((from_x + from_h).relu(),)


def _lstm_step(from_x: Tensor, from_h: Tensor, state: Sequence[Any]) -> tuple[Any, ...]:
    i, f, g, o = (from_x + from_h).chunk(4, -1)
    cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def _gru_step(from_x: Tensor, from_h: Tensor, state: Sequence[Any]) -> tuple[Any, ...]:
    x, h = from_x.chunk(3, -1), from_h.chunk(3, -1)
    reset = (x[0] + h[0]).sigmoid()
    update = (x[1] + h[1]).sigmoid()
    new = (x[2] + reset * h[2]).tanh()
    return (new + update * (state[0] - new),)


STEPS = {"rnn_tanh": _tanh_step, "rnn_relu": _relu_step, "lstm": _lstm_step, "gru": _gru_step}

# ---- all steps of a layer, in one direction ------------------------------------------------------


def _composed(gates: Tensor, h: Tensor, c: Any, w: Tensor, b: Any, mode: str, sizes: Any,
              reverse: bool, project: Any = None) -> tuple[Tensor, Sequence[Any]]:  # fmt: skip
    """(hidden states of all rows and the last ones, the last cell), by small operators.

    project: an LSTM's projection."""
    from tritorch.host.nn.recurrent import spans

    state: tuple[Any, ...] = (h,) if c is None else (h, c)
    outs = []
    batch = h.shape[0]
    n = gates.shape[0]
    for low, high in spans(sizes, reverse, n, batch):
        rows = high - low
        begin = [s[:rows] for s in state]
        new = STEPS[mode](gates[low:high], linear(begin[0], w, b), begin)
        if project is not None:
            new = (linear(new[0], project), *new[1:])
        outs.append(new[0])
        state = tuple(n if rows == len(s) else cat([n, s[rows:]]) for n, s in zip(new, state))
    return cat([*(outs[::-1] if reverse else outs), state[0]]), state[1:]


def _composed_packed(gates: Tensor, h: Tensor, c: Any, w: Tensor, b: Any, mode: str,
                     sizes: Any, reverse: bool) -> Tensor:  # fmt: skip
    packed, cell = _composed(gates, h, c, w, b, mode, sizes, reverse)
    return cat([packed, *cell])


def _results(
    gates: MetaArray, h: MetaArray, c: Any, w: MetaArray, b: Any, mode: str, sizes: Any,
    reverse: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    n, (batch, hidden) = gates.shape[0], h.shape
    gated = mode in ("lstm", "gru")
    packed = gates.new((n + batch * (1 if c is None else 2), hidden))
    return (
        packed,
        gates.new(gates.shape) if gated else None,
        gates.new((n, hidden)) if gated else None,
    )


def _gradients(
    g: MetaArray, packed: Any, acts: Any, rest: Any, h: MetaArray, c: Any, w: MetaArray, b: Any,
    mode: str, sizes: Any, reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    n = packed.shape[0] - h.shape[0] * (1 if c is None else 2)
    gates = g.new((n, w.shape[0]))
    like = lambda x: None if x is None else x.new(x.shape)
    return gates, like(h), like(c), like(w), like(b)


_backward = Operator(
    "recurrent_backward", "g packed acts rest h c w b", "mode sizes reverse",
    schema="(Tensor g, Tensor packed, Tensor? acts, Tensor? rest, Tensor h, Tensor? c, "
        "Tensor w, Tensor? b, str mode, int[]? sizes, bool reverse) -> (Tensor, Tensor, "
        "Tensor, Tensor, Tensor)",
    kind="internal", cpu=lambda *given: backend("cpu", "recurrent").backward(*given),
    gpu=lambda *given: backend("gpu", "recurrent").backward(*given),
    grad=Gradient(outputs=0b11111),
    rules=Rules(
        infer=_gradients,
        cost=lambda outs, g, packed, acts, rest, h, c, w, *params: (
            4 * packed.numel() // h.shape[-1] * w.numel()
        ),
    ),
)  # fmt: skip
_scan = Operator(
    "recurrent", "gates h c w b", "mode sizes reverse",
    schema="(Tensor gates, Tensor h, Tensor? c, Tensor w, Tensor? b, str mode, int[]? sizes,"
        " bool reverse) -> (Tensor, Tensor, Tensor)",
    cpu=lambda *given: backend("cpu", "recurrent").scan(*given),
    gpu=lambda *given: backend("gpu", "recurrent").scan(*given), composed=_composed_packed,
    grad=Gradient(
        joint=lambda g, h, c, w, b, out, mode, sizes, reverse: _backward.call(
            (g[0], *out, h, c, w, b), (mode, sizes, reverse)
        ),
        outputs=0b001,
    ),
    rules=Rules(infer=_results),
)  # fmt: skip
_scan.step = lambda gates, h, c, w, b: h.shape[0] * w.shape[0] * w.shape[1]
_backward.step = lambda g, packed, acts, rest, *inputs: _scan.step(None, *inputs)


def one_direction(
    data: Tensor, state: Sequence[Any], weights: Sequence[Any], mode: str, sizes: Any,
    reverse: bool, has_biases: bool,
) -> tuple[Tensor, tuple[Any, ...]]:  # fmt: skip
    """(hidden states of all rows, last states) of one layer in one direction."""
    w_in, w_hidden, *rest = weights
    b_in, b_hidden = (rest[0], rest[1]) if has_biases else (None, None)
    project = rest[-1] if len(rest) % 2 else None
    if b_in is not None and mode != "gru":
        b_in, b_hidden = b_in + b_hidden, None  # one addition for all steps
    gates = linear(data, w_in, b_in)
    h, c = (*state, None)[:2]
    n, batch = data.shape[0], h.shape[0]
    if n == 0:
        return data.new_zeros((0, h.shape[1])), tuple(state)
    if project is not None:
        packed, cell = _composed(gates, h, c, w_hidden, b_hidden, mode, sizes, reverse, project)
        return packed[:n], (packed[n:], *cell)
    packed = _scan.call((gates, h, c, w_hidden, b_hidden), (mode, sizes, reverse))[0]
    last = (packed[n : n + batch], packed[n + batch :]) if mode == "lstm" else (packed[n:],)
    return packed[:n], last


def _layers(
    mode: str, data: Tensor, hx: Sequence[Tensor], sizes: Any,
    steps: tuple[int, ...] | None, params: Sequence[Any], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """`data`: rows, step after step.  `sizes`: rows of each step; None: as many as the batch has.
    `steps`: (steps, batch) where that is their shape."""
    directions = 2 if bidirectional else 1
    places = num_layers * directions
    per = len(params) // places
    lasts = []
    for layer in range(num_layers):
        outs = []
        for direction in range(directions):
            place = layer * directions + direction
            weights = params[place * per : (place + 1) * per]
            begin = tuple(s[place] for s in hx)
            out, last = one_direction(data, begin, weights, mode, sizes, direction == 1, has_biases)
            outs.append(out)
            lasts.append(last)
        data = outs[0] if directions == 1 else cat(outs, -1)
        if dropout and train and layer < num_layers - 1:
            data = published.functional.dropout(data, dropout, True)
    out = data if steps is None else data.reshape(*steps, data.shape[-1])
    return out, tuple(stack(parts) for parts in zip(*lasts))


def _network(mode: str, n_states: int) -> Any:
    def network(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        names = ["input", "hx", "params", "has_biases", "num_layers", "dropout", "train",
                 "bidirectional", "batch_first"]  # fmt: skip
        packed = "batch_sizes" in kwargs or (len(args) > 3 and isinstance(args[3], (list, tuple)))
        if packed:  # data, batch_sizes, hx, ...
            names = ["data", "batch_sizes", *names[1:-1]]
        given = dict(zip(names, args)) | kwargs
        hx = given["hx"] if n_states == 2 else (given["hx"],)
        options: list[Any] = [given[name] for name in names[names.index("params") :]]
        if packed:
            sizes = tuple(given["batch_sizes"].tolist())
            out, last = _layers(mode, given["data"], hx, sizes, None, *options)
            return out, *last
        data, batch_first = given["input"], options.pop()
        if batch_first:
            data = data.transpose(0, 1)
        steps, batch, width = data.shape
        rows = data.reshape(steps * batch, width)
        out, last = _layers(mode, rows, hx, None, (steps, batch), *options)
        fused = mode == "lstm" and out.is_cpu and out.dtype is float32  # in PyTorch, by oneDNN
        if batch_first:
            turned = out.transpose(0, 1)
            return turned if fused else ends_as("transpose_", turned), *last
        return ends_as("mkldnn_rnn_layer" if fused else "stack", out), *last

    network.__name__ = network.__qualname__ = mode
    network.__doc__ = (
        "(outputs of the last layer, last states of all layers), of (input, hx, params, has_biases,"
        " num_layers, dropout, train, bidirectional, batch_first), or, for packed sequences, of"
        " (data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)."
    )
    return network


def _cell(mode: str) -> Any:
    def cell(input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None,
             b_hh: Any = None) -> Any:  # fmt: skip
        state = tuple(hx) if mode == "lstm" else (hx,)
        new = STEPS[mode](linear(input, w_ih, b_ih), linear(state[0], w_hh, b_hh), state)
        return new if mode == "lstm" else new[0]

    cell.__name__ = cell.__qualname__ = f"{mode}_cell"
    cell.__doc__ = "The new state after one step."
    return cell


for _mode in STEPS:
    PUBLIC[_mode] = _network(_mode, 2 if _mode == "lstm" else 1)
    PUBLIC[f"{_mode}_cell"] = _cell(_mode)
    autocast("lower" if _mode == "lstm" else "cuda:lower")(PUBLIC[_mode])
    autocast("cuda:lower")(PUBLIC[f"{_mode}_cell"])
