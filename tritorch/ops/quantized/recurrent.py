"""Recurrent networks with quantized weights: cells, and `quantized_lstm` and `quantized_gru`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tritorch.core import scopes
from tritorch.core.published import INTERNAL
from tritorch.core.tensor import Tensor
from tritorch.ops.nn.dropout import dropout as float_dropout
from tritorch.ops.nn.recurrent import STEPS
from tritorch.ops.quantized.common import operator
from tritorch.ops.quantized.linear import dynamic_product, half_product
from tritorch.ops.quantized.packed import LinearParams, Packed, ScriptObject, known, packed_of
from tritorch.ops.shape.joining import cat, stack


@known
class CellParams(Packed):
    """The two linear layers of a cell, for inputs and for states."""

    name = "rnn.CellParamsBase"
    state_type = (
        "(str, Tensor[], float[], int[], "
        "__torch__.torch.classes.quantized.LinearPackedParamsBase[])"
    )

    def __init__(
        self, kind: str, from_input: Any, from_state: Any, biases: Any = (), reduce: bool = False
    ) -> None:
        self.kind, self.reduce = kind, reduce
        self.layers, self.biases = (from_input, from_state), tuple(biases)

    def project(self, x: Tensor, which: int) -> Tensor:
        """Gates from inputs (0) or states (1)."""
        params: Any = self.layers[which]._packed
        if self.kind == "quantized_fp16":
            return half_product(x, params)
        return dynamic_product(x, params.rows, params.bias_tensor, self.reduce)

    def state(self) -> Any:
        if self.kind == "quantized_fp16":
            return self.kind, [], [], [], list(self.layers)
        return self.kind, list(self.biases), [], [int(self.reduce)], list(self.layers)

    @classmethod
    def of_state(cls, state: Any) -> Packed:
        kind, biases, _, numbers, layers = state
        from_input, from_state = layers
        return cls(kind, from_input, from_state, biases, bool(numbers and numbers[0]))


@operator()
def make_quantized_cell_params_dynamic(
    w_ih: Any, w_hh: Any, bias_ih: Tensor, bias_hh: Tensor, reduce_range: bool = False
) -> ScriptObject:
    """The parameters of a cell with int8 weights that quantizes its input."""
    return ScriptObject(
        CellParams("quantized_dynamic", w_ih, w_hh, (bias_ih, bias_hh), reduce_range)
    )


@operator()
def make_quantized_cell_params_fp16(w_ih: Any, w_hh: Any) -> ScriptObject:
    """The parameters of a cell with float16 weights."""
    return ScriptObject(CellParams("quantized_fp16", w_ih, w_hh))


def _cell(mode: str) -> None:
    def cell(input: Tensor, hx: Any, w_ih: Any, w_hh: Any, *biases: Any) -> Any:
        state = tuple(hx) if mode == "lstm" else (hx,)
        gates = []
        for x, params in ((input, w_ih), (state[0], w_hh)):
            packed = packed_of(params, LinearParams, f"quantized::{function.__name__}")
            if packed.rows is None:
                gates.append(half_product(x, packed))
            else:
                gates.append(dynamic_product(x, packed.rows, packed.bias_tensor, True))
        new = STEPS[mode](gates[0], gates[1], state)
        return new if mode == "lstm" else new[0]

    def function(
        input: Tensor, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None,
        bias_ih: Any = None, bias_hh: Any = None,
    ) -> Any:  # fmt: skip
        return cell(input, hx, w_ih, w_hh)

    function.__name__ = f"quantized_{mode}_cell_dynamic"
    function.__doc__ = f"{mode}_cell with packed int8 weights."
    operator(function.__name__)(function)


for _mode in STEPS:
    _cell(_mode)

# ---- networks ------------------------------------------------------------------------------------


def _spans(sizes: Sequence[int], reverse: bool) -> Iterator[tuple[int, int]]:
    """The rows of each step."""
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    spans = [(start, start + size) for start, size in zip(starts, sizes)]
    return iter(reversed(spans) if reverse else spans)


def _layer(
    mode: str, x: Tensor, state: Any, params: CellParams, sizes: Sequence[int], reverse: bool
) -> tuple[Tensor, Any]:
    """(outputs of all rows, the last state) of one direction; rows are those of all steps."""
    gates = params.project(x, 0)
    outputs: list[Tensor] = []
    for low, high in _spans(sizes, reverse):
        rows = high - low
        begin = [s[:rows] for s in state]
        new = STEPS[mode](gates[low:high], params.project(begin[0], 1), begin)
        outputs.append(new[0])
        state = [n if rows == len(s) else cat([n, s[rows:]]) for n, s in zip(new, state)]
    return cat(outputs[::-1] if reverse else outputs), state


def _network(
    mode: str, x: Tensor, sizes: Sequence[int], hx: Sequence[Tensor], params: Sequence[Any],
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    cells = [packed_of(p, CellParams, f"quantized_{mode}") for p in params]
    directions = 2 if bidirectional else 1
    last: list[Any] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            i = layer * directions + direction
            state = [h[i] for h in hx]
            out, state = _layer(mode, x, state, cells[i], sizes, direction == 1)
            outputs.append(out)
            last.append(state)
        x = cat(outputs, -1) if bidirectional else outputs[0]
        if dropout and train and layer < num_layers - 1:
            x = float_dropout(x, dropout, True)
    return x, [stack([state[k] for state in last]) for k in range(len(hx))]


def _public(mode: str) -> Callable[..., Any]:
    def of_input(
        input: Tensor, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool, *, dtype: Any = None,
        use_dynamic: bool = False,
    ) -> Any:  # fmt: skip
        states = list(hx) if mode == "lstm" else [hx]
        x = input.transpose(0, 1) if batch_first else input
        steps, batch = x.shape[:2]
        out, last = _network(
            mode, x.reshape(steps * batch, -1), [batch] * steps, states, params, num_layers,
            dropout, train, bidirectional,
        )  # fmt: skip
        out = out.reshape(steps, batch, -1)
        return (out.transpose(0, 1) if batch_first else out, *last)

    def of_packed(
        data: Tensor, batch_sizes: Tensor, hx: Any, params: Any, has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool, *, dtype: Any = None,
        use_dynamic: bool = False,
    ) -> Any:  # fmt: skip
        states = list(hx) if mode == "lstm" else [hx]
        out, last = _network(
            mode, data, batch_sizes.tolist(), states, params, num_layers, dropout, train,
            bidirectional,
        )  # fmt: skip
        return (out, *last)

    def function(*args: Any, **kwargs: Any) -> Any:
        packed = "batch_sizes" in kwargs or "data" in kwargs
        if len(args) > 2 and isinstance(args[1], Tensor):
            packed = isinstance(args[2], (list, tuple, Tensor)) and not isinstance(
                args[2][0], ScriptObject
            )
        with scopes.as_plain:
            return (of_packed if packed else of_input)(*args, **kwargs)

    function.__name__ = function.__qualname__ = f"quantized_{mode}"
    function.__doc__ = f"{mode} with quantized weights; of a packed sequence with its batch sizes."
    INTERNAL[function.__name__] = function
    return function


quantized_lstm, quantized_gru = _public("lstm"), _public("gru")
