"""Reference modules of recurrent networks and their cells."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn.quantized.reference.modules.utils import (
    _quantize_and_dequantize_weight,
    _quantize_weight,
    default_qparams,
    register_qparams,
)
from tritorch.core.tensor import Tensor

__all__ = [
    "GRU",
    "LSTM",
    "GRUCell",
    "LSTMCell",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "get_quantized_weight",
]  # fmt: skip


def _get_weight_and_quantization_params(module: Any, wn: str) -> list[Any]:
    """A weight of a module by its name, with what the module says of quantizing it."""
    ends = ("_qscheme", "_dtype", "_scale", "_zero_point", "_axis_int")
    return [getattr(module, wn), *(getattr(module, wn + end, None) for end in ends)]


def get_quantized_weight(module: Any, wn: str) -> Tensor | None:
    """A quantized weight of a module; None if it has none of this name."""
    if not hasattr(module, wn):
        return None
    return _quantize_weight(*_get_weight_and_quantization_params(module, wn))


def _get_quantize_and_dequantized_weight(module: Any, wn: str) -> Tensor | None:
    """A weight of a module after quantizing and dequantizing; None if it has none of this name."""
    if not hasattr(module, wn):
        return None
    return _quantize_and_dequantize_weight(*_get_weight_and_quantization_params(module, wn))


def _init_weight_qparams_dict(module: Any, weight_qparams_dict: Any, device: Any) -> None:
    """Writes down how each weight of a module is quantized: attributes and buffers."""
    module.is_decomposed = weight_qparams_dict["is_decomposed"]
    for name, qparams in weight_qparams_dict.items():
        if name == "is_decomposed":
            continue
        scheme = qparams["qscheme"]
        setattr(module, f"{name}_qscheme", scheme)
        setattr(module, f"{name}_dtype", qparams["dtype"])
        if scheme not in (None, torch.per_tensor_affine, torch.per_channel_affine):
            raise AssertionError(f"qscheme: {scheme} is not supported in {module._get_name()}")
        if scheme is not None:
            register_qparams(module, name, qparams, device)
            setattr(module, f"{name}_axis_int", getattr(module, f"{name}_axis").item())


class RNNCellBase(nn.RNNCellBase):
    """One step of a recurrent network, whose weights are rounded to what quantization gives."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None,
        dtype: Any = None, weight_qparams_dict: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, num_chunks, device=device, dtype=dtype)
        if weight_qparams_dict is None:
            qparams = default_qparams()
            weight_qparams_dict = {
                "weight_ih": qparams, "weight_hh": qparams, "is_decomposed": False,
            }  # fmt: skip
        if len(weight_qparams_dict) != 3:
            raise AssertionError(
                "Expected length for weight_qparams_dict to be 3 for "
                f"QuantizedRNNCellBase(Reference), got {len(weight_qparams_dict)}"
            )
        self._init_weight_qparams_dict(weight_qparams_dict, device)

    def _init_weight_qparams_dict(self, weight_qparams_dict: Any, device: Any) -> None:
        if weight_qparams_dict is None:
            raise AssertionError("weight_qparams_dict must not be None")
        _init_weight_qparams_dict(self, weight_qparams_dict, device)

    def _get_name(self) -> str:
        return "QuantizedRNNCellBase(Reference)"

    def get_quantized_weight_ih(self) -> Tensor | None:
        """The quantized weight of inputs."""
        return get_quantized_weight(self, "weight_ih")

    def get_quantized_weight_hh(self) -> Tensor | None:
        """The quantized weight of states."""
        return get_quantized_weight(self, "weight_hh")

    def get_weight_ih(self) -> Tensor | None:
        """The weight of inputs after quantizing and dequantizing."""
        return _get_quantize_and_dequantized_weight(self, "weight_ih")

    def get_weight_hh(self) -> Tensor | None:
        """The weight of states after quantizing and dequantizing."""
        return _get_quantize_and_dequantized_weight(self, "weight_hh")

    def _weights(self) -> tuple[Any, ...]:
        return self.get_weight_ih(), self.get_weight_hh(), self.bias_ih, self.bias_hh

    @classmethod
    def _from_float(cls, mod: Any, *settings: Any) -> Any:
        """A module with these settings and a float one's parameters."""
        weight = mod.weight_ih
        kind: Any = cls
        ref = kind(
            mod.input_size, mod.hidden_size, mod.bias, *settings[:-1], weight.device, weight.dtype,
            settings[-1],
        )  # fmt: skip
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(ref, name, getattr(mod, name))
        return ref


class RNNCell(RNNCellBase):
    """One step of an RNN with rounded weights."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: Any = None, dtype: Any = None, weight_qparams_dict: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype, weight_qparams_dict)
        self.nonlinearity = nonlinearity

    def _get_name(self) -> str:
        return "QuantizedRNNCell(Reference)"

    forward = nn.RNNCell.forward

    @classmethod
    def from_float(cls, mod: Any, weight_qparams_dict: Any) -> Any:
        """The reference module of a float one."""
        return cls._from_float(mod, mod.nonlinearity, weight_qparams_dict)


class LSTMCell(RNNCellBase):
    """One step of an LSTM with rounded weights."""

    _mode = "LSTM"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None, weight_qparams_dict: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 4, device, dtype, weight_qparams_dict)

    def _get_name(self) -> str:
        return "QuantizedLSTMCell(Reference)"

    forward = nn.LSTMCell.forward

    @classmethod
    def from_float(
        cls, mod: Any, weight_qparams_dict: Any, use_precomputed_fake_quant: bool = False
    ) -> Any:
        """The reference module of a float one."""
        return cls._from_float(mod, weight_qparams_dict)


class GRUCell(RNNCellBase):
    """One step of a GRU with rounded weights."""

    _mode = "GRU"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None, weight_qparams_dict: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 3, device, dtype, weight_qparams_dict)

    def _get_name(self) -> str:
        return "QuantizedGRUCell(Reference)"

    forward = nn.GRUCell.forward

    @classmethod
    def from_float(cls, mod: Any, weight_qparams_dict: Any) -> Any:
        """The reference module of a float one."""
        return cls._from_float(mod, weight_qparams_dict)


class RNNBase(nn.RNNBase):
    """A recurrent network, whose weights are rounded to what quantization gives."""

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
        weight_qparams_dict: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(mode, input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, proj_size, device, dtype)  # fmt: skip
        if weight_qparams_dict is None:
            weights = [name for name in self._flat_weights_names if name.startswith("weight")]
            weight_qparams_dict = dict.fromkeys(weights, default_qparams())
            weight_qparams_dict["is_decomposed"] = False
        self._init_weight_qparams_dict(weight_qparams_dict, device)

    def _init_weight_qparams_dict(self, weight_qparams_dict: Any, device: Any) -> None:
        _init_weight_qparams_dict(self, weight_qparams_dict, device)

    def get_quantized_weight_bias_dict(self) -> dict[str, Any]:
        """Quantized weights, and biases, by their names."""
        return {
            name: get_quantized_weight(self, name)
            if name.startswith("weight")
            else getattr(self, name, None)
            for name in self._flat_weights_names
        }

    def get_flat_weights(self) -> list[Any]:
        """Weights after quantizing and dequantizing, and biases, in the order of their names."""
        return [
            _get_quantize_and_dequantized_weight(self, name)
            if name.startswith("weight")
            else getattr(self, name, None)
            for name in self._flat_weights_names
        ]

    @property
    def _flat_weights(self) -> list[Any]:
        """The weights with which it computes."""
        return self.get_flat_weights()

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Any]) -> None:
        """Does nothing: the weights follow from the parameters."""

    @classmethod
    def from_float(cls, mod: Any, weight_qparams_dict: Any) -> Any:
        """The reference module of a float one."""
        ref: Any = cls(
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
            mod.bidirectional, weight_qparams_dict=weight_qparams_dict,
        )  # fmt: skip
        for name in mod._flat_weights_names:
            setattr(ref, name, getattr(mod, name))
        return ref


class LSTM(RNNBase):
    """An LSTM with rounded weights."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _get_name(self) -> str:
        return "QuantizedLSTM(Reference)"


class GRU(RNNBase):
    """A GRU with rounded weights."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def _get_name(self) -> str:
        return "QuantizedGRU(Reference)"
