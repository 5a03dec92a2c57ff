"""Dynamically quantized recurrent networks and their cells."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn.quantized.dynamic.modules._weights import (
    Cell,
    Network,
    float_module_dtype,
    quantized,
    random_weights,
)
from tritorch.ao.nn.quantized.modules.utils import _hide_packed_params_repr
from tritorch.core.deprecation import deprecated
from tritorch.core.tensor import Tensor
from tritorch.nn.utils.rnn import PackedSequence

__all__ = [
    "GRU",
    "LSTM",
    "GRUCell",
    "LSTMCell",
    "PackedParameter",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "apply_permutation",
    "pack_weight_bias",
]  # fmt: skip

_CHUNKS = {"LSTM": 4, "GRU": 3}  # a weight has as many parts of the hidden size


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    return tensor.index_select(dim, permutation)


@deprecated(
    "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead",
    category=FutureWarning,
)
def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Deprecated: index_select."""
    return _apply_permutation(tensor, permutation, dim)


def pack_weight_bias(qweight: Tensor, bias: Tensor | None, dtype: Any) -> Any:
    """A weight of integers or, for another dtype than qint8, of half floats with its bias."""
    if dtype == torch.qint8:
        return torch.ops.quantized.linear_prepack(qweight, bias)
    return torch.ops.quantized.linear_prepack_fp16(qweight, bias)


class PackedParameter(nn.Module):
    """A module that holds packed parameters, which state dicts have as they are."""

    def __init__(self, param: Any) -> None:
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        self.param = state_dict[prefix + "param"]
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys,
                                      unexpected_keys, error_msgs)  # fmt: skip


class RNNBase(Network):
    """Packed weights by layer and direction, for LSTM and GRU."""

    _FLOAT_MODULE: ClassVar[Any] = nn.RNNBase
    _version = 2  # since then inputs are quantized to a bit less, so that sums do not overflow

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        dtype: Any = torch.qint8,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.dtype = dtype
        self.version = 2
        self.training = False
        if (
            not isinstance(dropout, numbers.Number)
            or isinstance(dropout, bool)
            or not 0 <= dropout <= 1
        ):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={num_layers}",
                stacklevel=2,
            )
        if mode not in _CHUNKS:
            raise ValueError("Unrecognized RNN mode: " + mode)
        size = _CHUNKS[mode] * hidden_size
        params = []
        for layer, _ in self._layers():
            inputs = input_size if layer == 0 else hidden_size * (2 if bidirectional else 1)
            weights = random_weights(size, (inputs, hidden_size), dtype, 0.1)
            biases = [torch.randn(size).to(torch.float) for _ in range(2)]
            params.append(self._packed(*weights, *biases))
        self._all_weight_values = nn.ModuleList(params)

    def _layers(self) -> Iterator[tuple[int, str]]:
        """Each layer's number with the end of its parameters' names, by direction."""
        for layer in range(self.num_layers):
            for end in ("", "_reverse") if self.bidirectional else ("",):
                yield layer, f"_l{layer}{end}"

    def _packed(self, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any) -> PackedParameter:
        """The parameters of one layer and direction."""
        dtype = w_ih.dtype
        packed = pack_weight_bias(w_ih, b_ih, dtype), pack_weight_bias(w_hh, b_hh, dtype)
        if dtype != torch.qint8:
            cell = torch.ops.quantized.make_quantized_cell_params_fp16(*packed)
        else:
            reduces = () if self.version is None or self.version < 2 else (True,)
            make = torch.ops.quantized.make_quantized_cell_params_dynamic
            cell = make(*packed, b_ih, b_hh, *reduces)
        return PackedParameter(cell)

    def _get_name(self) -> str:
        return "DynamicQuantizedRNN"

    def extra_repr(self) -> str:
        """Sizes, and what is not the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            text += f", bidirectional={self.bidirectional}"
        return text

    def __repr__(self) -> str:
        return _hide_packed_params_repr(self, (PackedParameter, nn.ModuleList))

    def check_forward_args(self, input: Tensor, hidden: Tensor, batch_sizes: Tensor | None) -> None:
        """RuntimeError if the input or hidden states have other shapes."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden, expected, msg="Expected hidden size {}, got {}")

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        self.version = local_metadata.get("version", None)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys,
                                      unexpected_keys, error_msgs)  # fmt: skip

    def set_weight_bias(self, weight_bias_dict: Any) -> None:
        """Packs weights and biases, by a float module's names for them."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        self._all_weight_values = nn.ModuleList(
            self._packed(*(weight_bias_dict[name + end] for name in names))
            for _, end in self._layers()
        )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of a float one."""
        if type(mod) not in (nn.LSTM, nn.GRU):
            raise AssertionError(
                "nn.quantized.dynamic.RNNBase.from_float only works for nn.LSTM and nn.GRU"
            )
        dtype = float_module_dtype(mod)
        kind = {"LSTM": LSTM, "GRU": GRU}[mod.mode]
        module = kind(
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
            mod.bidirectional, dtype,
        )  # fmt: skip
        if not mod.bias:
            raise AssertionError("mod.bias must be True")
        values = {}
        for _, end in module._layers():
            for part in ("_ih", "_hh"):
                weight = getattr(mod, f"weight{part}{end}")
                values[f"weight{part}{end}"] = quantized(weight, mod, dtype)
                values[f"bias{part}{end}"] = getattr(mod, f"bias{part}{end}")
        module.set_weight_bias(values)
        return module

    @classmethod
    def from_reference(cls, ref_mod: Any) -> Any:
        """The quantized module of a reference module."""
        if not hasattr(ref_mod, "weight_ih_l0_dtype"):
            raise AssertionError(
                f"We are assuming weight_ih_l0 exists in {cls.__name__}, may need to relax the "
                "assumption to support the use case"
            )
        qmod = cls(
            ref_mod.input_size, ref_mod.hidden_size, ref_mod.num_layers, ref_mod.bias,
            ref_mod.batch_first, ref_mod.dropout, ref_mod.bidirectional,
            ref_mod.weight_ih_l0_dtype,
        )  # fmt: skip
        qmod.set_weight_bias(ref_mod.get_quantized_weight_bias_dict())
        return qmod

    def _weight_bias(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"weight": {}, "bias": {}}
        for (_, end), holder in zip(self._layers(), self._all_weight_values):
            packed = holder.param.__getstate__()[0][4]
            for part, params in zip(("_ih", "_hh"), packed):
                weight, bias = params.__getstate__()[0][:2]
                found["weight"][f"weight{part}{end}"] = weight
                found["bias"][f"bias{part}{end}"] = bias
        return found

    def get_weight(self) -> dict[str, Any]:
        """Weights by their names."""
        return self._weight_bias()["weight"]

    def get_bias(self) -> dict[str, Any]:
        """Biases by their names."""
        return self._weight_bias()["bias"]


class LSTM(RNNBase):
    """An LSTM with quantized weights."""

    _FLOAT_MODULE: ClassVar[Any] = nn.LSTM
    __overloads__ = {"forward": ["forward_packed", "forward_tensor"]}  # noqa: RUF012

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _get_name(self) -> str:
        return "DynamicQuantizedLSTM"

    def forward_impl(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None, batch_sizes: Tensor | None,
        max_batch_size: int, sorted_indices: Tensor | None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:  # fmt: skip
        """Outputs and last states; batch_sizes: of a packed sequence."""
        if hx is None:
            num_directions = 2 if self.bidirectional else 1
            zeros = torch.zeros(
                self.num_layers * num_directions, max_batch_size, self.hidden_size,
                dtype=input.dtype, device=input.device,
            )  # fmt: skip
            hx = (zeros, zeros)
        else:
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(input, hx, batch_sizes)
        params = [m.param for m in self._all_weight_values]
        if batch_sizes is None:
            result = torch.quantized_lstm(
                input, hx, params, self.bias, self.num_layers, float(self.dropout), self.training,
                self.bidirectional, self.batch_first, dtype=self.dtype, use_dynamic=True,
            )  # fmt: skip
        else:
            result = torch.quantized_lstm(
                input, batch_sizes, hx, params, self.bias, self.num_layers, float(self.dropout),
                self.training, self.bidirectional, dtype=self.dtype, use_dynamic=True,
            )  # fmt: skip
        output = result[0]
        hidden = result[1:]
        return output, hidden

    @torch.jit.export
    def forward_tensor(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Outputs and last states of sequences of one length."""
        max_batch_size = input.size(0) if self.batch_first else input.size(1)
        output, hidden = self.forward_impl(input, hx, None, max_batch_size, None)
        return output, self.permute_hidden(hidden, None)

    @torch.jit.export
    def forward_packed(
        self, input: PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[PackedSequence, tuple[Tensor, Tensor]]:
        """Outputs and last states of sequences of several lengths."""
        input_, batch_sizes, sorted_indices, unsorted_indices = input
        max_batch_size = int(batch_sizes[0])
        output_, hidden = self.forward_impl(input_, hx, batch_sizes, max_batch_size, sorted_indices)
        output = PackedSequence(output_, batch_sizes, sorted_indices, unsorted_indices)
        return output, self.permute_hidden(hidden, unsorted_indices)

    def permute_hidden(  # type: ignore[override]
        self, hx: tuple[Tensor, Tensor], permutation: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """States in another order of the batch."""
        if permutation is None:
            return hx
        return _apply_permutation(hx[0], permutation), _apply_permutation(hx[1], permutation)

    def check_forward_args(  # type: ignore[override]
        self, input: Tensor, hidden: tuple[Tensor, Tensor], batch_sizes: Tensor | None
    ) -> None:
        """RuntimeError if the input or states have other shapes."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(hidden[1], expected, "Expected hidden[1] size {}, got {}")

    @torch.jit.ignore
    def forward(self, input: Any, hx: Any = None) -> Any:
        """Outputs and last states."""
        if isinstance(input, PackedSequence):
            return self.forward_packed(input, hx)
        return self.forward_tensor(input, hx)


class GRU(RNNBase):
    """A GRU with quantized weights."""

    _FLOAT_MODULE: ClassVar[Any] = nn.GRU
    __overloads__ = {"forward": ["forward_packed", "forward_tensor"]}  # noqa: RUF012

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)

    def _get_name(self) -> str:
        return "DynamicQuantizedGRU"

    def forward_impl(
        self, input: Tensor, hx: Tensor | None, batch_sizes: Tensor | None,
        max_batch_size: int, sorted_indices: Tensor | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Outputs and last states; batch_sizes: of a packed sequence."""
        if hx is None:
            num_directions = 2 if self.bidirectional else 1
            hx = torch.zeros(
                self.num_layers * num_directions, max_batch_size, self.hidden_size,
                dtype=input.dtype, device=input.device,
            )  # fmt: skip
        else:
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(input, hx, batch_sizes)
        params = [m.param for m in self._all_weight_values]
        if batch_sizes is None:
            result = torch.quantized_gru(
                input, hx, params, self.bias, self.num_layers, self.dropout, self.training,
                self.bidirectional, self.batch_first,
            )  # fmt: skip
        else:
            result = torch.quantized_gru(
                input, batch_sizes, hx, params, self.bias, self.num_layers, self.dropout,
                self.training, self.bidirectional,
            )  # fmt: skip
        return result[0], result[1]

    @torch.jit.export
    def forward_tensor(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Outputs and last states of sequences of one length."""
        max_batch_size = input.size(0) if self.batch_first else input.size(1)
        output, hidden = self.forward_impl(input, hx, None, max_batch_size, None)
        return output, self.permute_hidden(hidden, None)

    @torch.jit.export
    def forward_packed(
        self, input: PackedSequence, hx: Tensor | None = None
    ) -> tuple[PackedSequence, Tensor]:
        """Outputs and last states of sequences of several lengths."""
        input_, batch_sizes, sorted_indices, unsorted_indices = input
        max_batch_size = int(batch_sizes[0])
        output_, hidden = self.forward_impl(input_, hx, batch_sizes, max_batch_size, sorted_indices)
        output = PackedSequence(output_, batch_sizes, sorted_indices, unsorted_indices)
        return output, self.permute_hidden(hidden, unsorted_indices)

    @torch.jit.ignore
    def forward(self, input: Any, hx: Any = None) -> Any:
        """Outputs and last states."""
        if isinstance(input, PackedSequence):
            return self.forward_packed(input, hx)
        return self.forward_tensor(input, hx)


class RNNCellBase(Cell):
    """Two packed weights, for cells."""

    __constants__ = ["input_size", "hidden_size", "bias"]  # noqa: RUF012

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, num_chunks: int = 4,
        dtype: Any = torch.qint8,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        self.weight_dtype = dtype
        rows = num_chunks * hidden_size
        if bias:
            self.bias_ih = torch.randn(rows).to(dtype=torch.float)
            self.bias_hh = torch.randn(rows).to(dtype=torch.float)
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        weights = random_weights(rows, (input_size, hidden_size), dtype, 1)
        self._packed_weight_ih = pack_weight_bias(weights[0], self.bias_ih, dtype)
        self._packed_weight_hh = pack_weight_bias(weights[1], self.bias_hh, dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedRNNBase"

    def extra_repr(self) -> str:
        """Sizes, and what is not the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of a float one."""
        kinds: dict[type, Any] = {
            nn.LSTMCell: LSTMCell, nn.GRUCell: GRUCell, nn.RNNCell: RNNCell,
        }  # fmt: skip
        if type(mod) not in kinds:
            raise AssertionError(
                "nn.quantized.dynamic.RNNCellBase.from_float only works for nn.LSTMCell, "
                "nn.GRUCell and nn.RNNCell"
            )
        dtype = float_module_dtype(mod)
        more = {"nonlinearity": mod.nonlinearity} if type(mod) is nn.RNNCell else {}
        cell = kinds[type(mod)](mod.input_size, mod.hidden_size, bias=mod.bias, dtype=dtype, **more)
        if not mod.bias:
            raise AssertionError("mod.bias must be True")
        cell._pack(
            quantized(mod.weight_ih, mod, dtype), quantized(mod.weight_hh, mod, dtype),
            mod.bias_ih, mod.bias_hh,
        )  # fmt: skip
        return cell

    @classmethod
    def from_reference(cls, ref_mod: Any) -> Any:
        """The quantized module of a reference module."""
        if not hasattr(ref_mod, "weight_ih_dtype"):
            raise AssertionError(
                "We are assuming weight_ih exists in reference module, may need to relax the "
                "assumption to support the use case"
            )
        kind: Any = cls
        settings = [ref_mod.input_size, ref_mod.hidden_size, ref_mod.bias]
        if hasattr(ref_mod, "nonlinearity"):
            settings.append(ref_mod.nonlinearity)
        qmod = kind(*settings, dtype=ref_mod.weight_ih_dtype)
        qmod._pack(
            ref_mod.get_quantized_weight_ih(), ref_mod.get_quantized_weight_hh(),
            ref_mod.bias_ih, ref_mod.bias_hh,
        )  # fmt: skip
        return qmod

    def _pack(self, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> None:
        self._packed_weight_ih = pack_weight_bias(w_ih, b_ih, self.weight_dtype)
        self._packed_weight_hh = pack_weight_bias(w_hh, b_hh, self.weight_dtype)

    def _weight_bias(self) -> dict[str, dict[str, Any]]:
        w1, b1 = self._packed_weight_ih.__getstate__()[0][:2]
        w2, b2 = self._packed_weight_hh.__getstate__()[0][:2]
        return {
            "weight": {"weight_ih": w1, "weight_hh": w2},
            "bias": {"bias_ih": b1, "bias_hh": b2},
        }

    def get_weight(self) -> dict[str, Any]:
        """Weights by their names."""
        return self._weight_bias()["weight"]

    def get_bias(self) -> dict[str, Any]:
        """Biases by their names."""
        return self._weight_bias()["bias"]

    def set_weight_bias(self, weight_bias_dict: Any) -> None:
        """Packs weights and biases, in the form of what `_weight_bias` gives."""
        weights, biases = weight_bias_dict["weight"], weight_bias_dict["bias"]
        self._pack(weights["weight_ih"], weights["weight_hh"], biases["bias_ih"], biases["bias_hh"])

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "_packed_weight_ih"] = self._packed_weight_ih
        destination[prefix + "_packed_weight_hh"] = self._packed_weight_hh

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        self._packed_weight_ih = state_dict.pop(prefix + "_packed_weight_ih")
        self._packed_weight_hh = state_dict.pop(prefix + "_packed_weight_hh")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys,
                                      unexpected_keys, error_msgs)  # fmt: skip


class RNNCell(RNNCellBase):
    """One step of a recurrent network, with quantized weights."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]  # noqa: RUF012

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        dtype: Any = torch.qint8,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, num_chunks=1, dtype=dtype)
        self.nonlinearity = nonlinearity

    def _get_name(self) -> str:
        return "DynamicQuantizedRNNCell"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state."""
        self.check_forward_input(input)
        if hx is None:
            hx = self.zeros(input)
        self.check_forward_hidden(input, hx, "")
        if self.nonlinearity == "tanh":
            ret = torch.ops.quantized.quantized_rnn_tanh_cell_dynamic(
                input, hx, self._packed_weight_ih, self._packed_weight_hh, self.bias_ih,
                self.bias_hh,
            )  # fmt: skip
        elif self.nonlinearity == "relu":
            ret = torch.ops.quantized.quantized_rnn_relu_cell_dynamic(
                input, hx, self._packed_weight_ih, self._packed_weight_hh, self.bias_ih,
                self.bias_hh,
            )  # fmt: skip
        else:
            ret = input
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return ret


class LSTMCell(RNNCellBase):
    """One step of an LSTM, with quantized weights."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, num_chunks=4, **kwargs)  # type: ignore[misc]

    def _get_name(self) -> str:
        return "DynamicQuantizedLSTMCell"

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """The next states."""
        self.check_forward_input(input)
        if hx is None:
            hx = (self.zeros(input), self.zeros(input))
        self.check_forward_hidden(input, hx[0], "[0]")
        self.check_forward_hidden(input, hx[1], "[1]")
        return torch.ops.quantized.quantized_lstm_cell_dynamic(
            input, hx, self._packed_weight_ih, self._packed_weight_hh, self.bias_ih, self.bias_hh
        )


class GRUCell(RNNCellBase):
    """One step of a GRU, with quantized weights."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = torch.qint8
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, dtype=dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedGRUCell"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state."""
        self.check_forward_input(input)
        if hx is None:
            hx = self.zeros(input)
        self.check_forward_hidden(input, hx, "")
        return torch.ops.quantized.quantized_gru_cell_dynamic(
            input, hx, self._packed_weight_ih, self._packed_weight_hh, self.bias_ih, self.bias_hh
        )
