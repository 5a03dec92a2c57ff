"""Recurrent networks: RNN, LSTM and GRU, their cells, packed sequences."""

from __future__ import annotations

import math
import warnings
from typing import Any

from tritorch.core.deprecation import deprecated
from tritorch.core.gates import GATES
from tritorch.core.tensor import Tensor
from tritorch.nn import init
from tritorch.nn.modules.linear import parameter
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter
from tritorch.nn.utils.rnn import PackedSequence

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def _function(name: str) -> Any:
    """The public function: autocast and overrides act on it."""
    return GATES["tritorch"][name.lower()]


_FLAT = "_flat_weights_names", "_flat_weights"


class RNNBase(Module):
    """What RNN, LSTM and GRU share: weights by layer and direction, and the loops."""

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if (
            isinstance(dropout, bool)
            or not isinstance(dropout, (int, float))
            or not 0 <= dropout <= 1
        ):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={num_layers}",
                stacklevel=3,
            )
        if not isinstance(hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
        if hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = float(dropout), bidirectional, proj_size
        directions = 2 if bidirectional else 1
        gates = _GATES[mode]
        real = proj_size or hidden_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(directions):
                suffix = f"_l{layer}" + ("_reverse" if direction else "")
                inputs = input_size if layer == 0 else real * directions
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates * hidden_size, inputs),
                          "weight_hh": (gates * hidden_size, real)}  # fmt: skip
                if bias:
                    shapes |= {"bias_ih": (gates * hidden_size,), "bias_hh": (gates * hidden_size,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, name + suffix, parameter(*shape, device=device, dtype=dtype))
                self._all_weights.append([name + suffix for name in shapes])
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform, by the size of the hidden state."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def _flat_weights_names(self) -> list[str]:
        if (assigned := self.__dict__.get("_assigned_names")) is not None:
            return assigned
        return [name for names in self._all_weights for name in names]

    @_flat_weights_names.setter
    def _flat_weights_names(self, names: list[str]) -> None:
        self.__dict__["_assigned_names"] = names

    @property
    def _flat_weights(self) -> list[Any]:
        if (assigned := self.__dict__.get("_assigned_weights")) is not None:
            return assigned
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Any]) -> None:
        self.__dict__["_assigned_weights"] = weights

    def __setattr__(self, name: str, value: Any) -> None:
        assigned = self.__dict__.get("_assigned_weights")
        if assigned is not None and name in self._flat_weights_names:
            assigned[self._flat_weights_names.index(name)] = value
        super().__setattr__(name, value)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self.__dict__.pop("_assigned_weights", None)
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict[str, Any]:
        flat = {name: getattr(self, name) for name in _FLAT}  # PyTorch's modules hold them
        state = super().__getstate__() | flat
        state.pop("_assigned_weights", None)  # copies use weights of their own, as PyTorch's do
        state.pop("_assigned_names", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        names = state.get("_flat_weights_names")
        state = {name: value for name, value in state.items() if name not in _FLAT}
        super().__setstate__({"proj_size": 0} | state)
        if names is not None and names != self._flat_weights_names:
            self._flat_weights_names = names

    @property
    def all_weights(self) -> list[list[Any]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing: weights lie where they are."""

    def _zeros(self, like: Tensor, batch: int) -> tuple[Tensor, ...]:
        layers = len(self._all_weights)
        hidden = like.new_zeros((layers, batch, self.proj_size or self.hidden_size))
        if self.mode != "LSTM":
            return (hidden,)
        return hidden, like.new_zeros((layers, batch, self.hidden_size))

    def _check(self, input: Tensor, state: tuple[Tensor, ...], batch: int) -> None:
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.size(-1)}"
            )
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)
        names = ("hidden[0]", "hidden[1]") if self.mode == "LSTM" else ("hidden",)
        for value, size, name in zip(state, sizes, names):
            expected = (len(self._all_weights), batch, size)
            if tuple(value.shape) != expected:
                raise RuntimeError(f"Expected {name} size {expected}, got {list(value.shape)}")

    def forward(self, input: Any, hx: Any = None) -> Any:
        """(outputs of the last layer, last states of all layers)"""
        packed = isinstance(input, PackedSequence)
        if packed:
            data, sizes, order, back = input
            batch = int(sizes[0])
            single = False
        else:
            if input.dim() not in (2, 3):
                raise ValueError(
                    f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D "
                    f"instead"
                )
            single = input.dim() == 2
            data = input.unsqueeze(1) if single else input
            sizes = order = back = None
            batch = data.size(0 if self.batch_first and not single else 1)
        state = self._given(hx, data, batch, single, order)
        self._check(data, state, batch)
        weights = self._flat_weights
        options = (
            weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional,
        )  # fmt: skip
        run = _function(self.mode)
        given = state if self.mode == "LSTM" else state[0]
        if packed:
            out, *last = run(data, sizes, given, *options)
            result: Any = PackedSequence(out, sizes, order, back)
        else:
            out, *last = run(data, given, *options, self.batch_first and not single)
            result = out.squeeze(1) if single else out
        last = [
            s.squeeze(1) if single else s if back is None else s.index_select(1, back) for s in last
        ]
        return result, tuple(last) if self.mode == "LSTM" else last[0]

    def _given(self, hx: Any, data: Tensor, batch: int, single: bool, order: Any) -> Any:
        if hx is None:
            return self._zeros(data, batch)
        state = tuple(hx) if self.mode == "LSTM" else (hx,)
        for value in state:
            if value.dim() != (2 if single else 3):
                raise RuntimeError(
                    f"For {'unbatched 2' if single else 'batched 3'}-D input, hx should also be "
                    f"{2 if single else 3}-D but got {value.dim()}-D tensor"
                )
        if single:
            state = tuple(value.unsqueeze(1) for value in state)
        return state if order is None else tuple(s.index_select(1, order) for s in state)

    def extra_repr(self) -> str:
        """Sizes, and what is not the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if not self.bias:
            text += f", bias={self.bias}"
        if self.batch_first:
            text += f", batch_first={self.batch_first}"
        if self.dropout:
            text += f", dropout={self.dropout}"
        if self.bidirectional:
            text += f", bidirectional={self.bidirectional}"
        return text


class RNN(RNNBase):
    """h' = tanh(W x + b + U h + c), or relu."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        self.nonlinearity = nonlinearity
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias,
                         batch_first, dropout, bidirectional, 0, device, dtype)  # fmt: skip


class LSTM(RNNBase):
    """A hidden state and a cell, with input, forget and output gates."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, proj_size, device, dtype)  # fmt: skip


class GRU(RNNBase):
    """A hidden state with reset and update gates."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, 0, device, dtype)  # fmt: skip


# ---- cells ---------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """What the cells share: the weights of one step."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter
    bias_hh: Parameter
    _mode = ""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        new = lambda *shape: parameter(*shape, device=device, dtype=dtype)
        self.weight_ih = new(num_chunks * hidden_size, input_size)
        self.weight_hh = new(num_chunks * hidden_size, hidden_size)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, new(num_chunks * hidden_size) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform, by the size of the hidden state."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes, and what is not the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _weights(self) -> tuple[Any, ...]:
        """The weights and biases with which a step computes."""
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _go(self, input: Tensor, state: tuple[Any, ...]) -> tuple[Tensor, ...]:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        single = input.dim() == 1
        x = input.unsqueeze(0) if single else input
        zeros = lambda: x.new_zeros((x.size(0), self.hidden_size))
        given = tuple(zeros() if s is None else s.unsqueeze(0) if single else s for s in state)
        out = _function(f"{self._mode}_cell")(
            x, given if self._mode == "LSTM" else given[0], *self._weights()
        )
        states = out if self._mode == "LSTM" else (out,)
        return tuple(s.squeeze(0) for s in states) if single else states


class RNNCell(RNNCellBase):
    """One step of an RNN."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The new hidden state."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        self._mode = f"RNN_{self.nonlinearity.upper()}"
        return self._go(input, (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM."""

    _mode = "LSTM"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        """The new hidden state and cell."""
        hidden, cell = self._go(input, (None, None) if hx is None else tuple(hx))
        return hidden, cell


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    _mode = "GRU"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The new hidden state."""
        return self._go(input, (hx,))[0]


@deprecated(
    "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead"
)
def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """The slices along a dim in another order."""
    return tensor.index_select(dim, permutation)
