"""Weights of reference modules: quantized and dequantized before each use."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch.core.tensor import Tensor

__all__ = ["ReferenceQuantizedModule"]

_BY_CHANNEL = (torch.per_channel_affine, torch.per_channel_affine_float_qparams)
_SCHEMES = (torch.per_tensor_affine, *_BY_CHANNEL)
_INTEGERS = (torch.quint8, torch.qint8, torch.qint32)
# The integers of a quantized dtype, with their bounds.
_BOUNDS = {
    torch.quint8: (torch.uint8, 0, 255),
    torch.qint8: (torch.int8, -128, 127),
    torch.qint32: (torch.int32, -(2**31), 2**31 - 1),
}
_QPARAMS = ("scale", "zero_point", "axis")


def default_qparams() -> dict[str, Any]:
    """The parameters of a weight for which a program gives none."""
    return {
        "qscheme": torch.per_tensor_affine, "dtype": torch.quint8, "scale": 1.0, "zero_point": 0,
    }  # fmt: skip


def as_buffer(value: Any, dtype: Any, device: Any) -> Tensor:
    """A copy of a tensor, or a number as one."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    return torch.tensor(value, dtype=dtype, device=device)


def register_qparams(module: Any, name: str, qparams: Any, device: Any) -> None:
    """Makes the scale, the zero point and the axis of a weight a module's buffers."""
    by_channel = qparams["qscheme"] in _BY_CHANNEL
    zero = qparams["zero_point"]
    zero_dtype = zero.dtype if isinstance(zero, Tensor) else torch.int
    values = {
        "scale": as_buffer(qparams["scale"], torch.float, device),
        "zero_point": as_buffer(zero, zero_dtype, device),
        "axis": as_buffer(qparams["axis"] if by_channel else 0, torch.int, device),
    }
    for end, value in values.items():
        module.register_buffer(f"{name}_{end}", value)


class ReferenceQuantizedModule(torch.nn.Module):
    """A float module that knows how its weight is to be quantized."""

    def _init_weight_qparams(self, weight_qparams: Any, device: Any) -> None:
        qparams = default_qparams() if weight_qparams is None else weight_qparams
        self.weight_qscheme: torch.qscheme = qparams["qscheme"]
        self.weight_dtype = qparams["dtype"]
        if self.weight_qscheme not in (None, *_SCHEMES):
            raise AssertionError(
                f"qscheme: {self.weight_qscheme} is not supported in reference quantized "
                f"{self._get_name()}"
            )
        if self.weight_dtype not in (*_INTEGERS, torch.quint4x2):  # float16, say
            used = {"qscheme": None, "scale": 1.0, "zero_point": 0}
        else:
            used = qparams
        register_qparams(self, "weight", used, device)
        self.is_decomposed: bool = qparams.get("is_decomposed", False)
        self.weight_axis_int: int = self.weight_axis.item()
        self.weight_quant_min: int | None = qparams.get("quant_min")
        self.weight_quant_max: int | None = qparams.get("quant_max")

    def _qparams(self) -> tuple[Any, ...]:
        for name in ("weight_scale", "weight_zero_point"):
            if not isinstance(getattr(self, name), Tensor):
                raise AssertionError(f"{name} must be a Tensor")
        found = (
            self.weight, self.weight_qscheme, self.weight_dtype, self.weight_scale,
            self.weight_zero_point, self.weight_axis_int,
        )  # fmt: skip
        return (
            (*found, self.weight_quant_min, self.weight_quant_max) if self.is_decomposed else found
        )

    def get_weight(self) -> Tensor:
        """The weight after quantizing and dequantizing."""
        if self.is_decomposed:
            return _quantize_and_dequantize_weight_decomposed(*self._qparams())
        return _quantize_and_dequantize_weight(*self._qparams())

    def get_quantized_weight(self) -> Tensor:
        """The quantized weight; integers, if operators of integers are wanted."""
        if self.is_decomposed:
            return _quantize_weight_decomposed(*self._qparams())
        return _quantize_weight(*self._qparams())

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        _save_weight_qparams(
            destination, prefix, self.weight_qscheme, self.weight_dtype, self.weight_scale,
            self.weight_zero_point, self.weight_axis,
        )  # fmt: skip

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        for key in _get_weight_qparam_keys(state_dict, prefix):
            setattr(self, key, state_dict.pop(prefix + key))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys,
                                      unexpected_keys, error_msgs)  # fmt: skip


def _unsupported(dtype: Any, qscheme: Any) -> ValueError:
    return ValueError(f"Unsupported dtype and qscheme: {dtype}, {qscheme}")


def _decomposed(
    what: str, weight: Tensor, qscheme: Any, dtype: Any, scale: Tensor, zero_point: Tensor,
    axis: int, quant_min: int | None, quant_max: int | None,
) -> Tensor:  # fmt: skip
    """Quantizes or dequantizes with an operator of plain tensors."""
    if qscheme not in _SCHEMES or dtype not in _INTEGERS:
        raise _unsupported(dtype, qscheme)
    integers, low, high = _BOUNDS[dtype]
    if quant_min is None or quant_max is None:
        quant_min, quant_max = low, high
    by_channel = qscheme in _BY_CHANNEL
    operator = getattr(
        torch.ops.quantized_decomposed, f"{what}_per_{'channel' if by_channel else 'tensor'}"
    )
    axes = (axis,) if by_channel else ()
    return operator(weight, scale, zero_point, *axes, quant_min, quant_max, integers)


def _quantize_weight_decomposed(
    weight: Tensor, weight_qscheme: Any, weight_dtype: Any, weight_scale: Tensor,
    weight_zero_point: Tensor, weight_axis: int, weight_quant_min: int | None,
    weight_quant_max: int | None,
) -> Tensor:  # fmt: skip
    """The integers of a weight."""
    return _decomposed(
        "quantize", weight, weight_qscheme, weight_dtype, weight_scale, weight_zero_point,
        weight_axis, weight_quant_min, weight_quant_max,
    )  # fmt: skip


def _dequantize_weight_decomposed(
    weight: Tensor, weight_qscheme: Any, weight_dtype: Any, weight_scale: Tensor,
    weight_zero_point: Tensor, weight_axis: int, weight_quant_min: int | None,
    weight_quant_max: int | None,
) -> Tensor:  # fmt: skip
    """The floats of a weight of integers."""
    return _decomposed(
        "dequantize", weight, weight_qscheme, weight_dtype, weight_scale, weight_zero_point,
        weight_axis, weight_quant_min, weight_quant_max,
    )  # fmt: skip


def _quantize_weight(
    weight: Tensor, weight_qscheme: Any, weight_dtype: Any, weight_scale: Tensor,
    weight_zero_point: Tensor, weight_axis_int: int,
) -> Tensor:  # fmt: skip
    """A weight, quantized or of half floats."""
    if weight_dtype == torch.float16:
        return weight.to(weight_dtype)
    if weight_qscheme == torch.per_tensor_affine and weight_dtype in _INTEGERS:
        return torch.quantize_per_tensor(weight, weight_scale, weight_zero_point, weight_dtype)
    if weight_qscheme in _BY_CHANNEL and weight_dtype in (*_INTEGERS, torch.quint4x2):
        return torch.quantize_per_channel(
            weight, weight_scale, weight_zero_point, weight_axis_int, weight_dtype
        )
    raise _unsupported(weight_dtype, weight_qscheme)


def _quantize_and_dequantize_weight_decomposed(
    weight: Tensor, weight_qscheme: Any, *qparams: Any
) -> Tensor:
    """A weight after quantizing and dequantizing by operators of plain tensors."""
    if weight_qscheme not in _SCHEMES:
        return weight
    integers = _quantize_weight_decomposed(weight, weight_qscheme, *qparams)
    return _dequantize_weight_decomposed(integers, weight_qscheme, *qparams)


def _quantize_and_dequantize_weight(weight: Tensor, weight_qscheme: Any, *qparams: Any) -> Tensor:
    """A weight after quantizing and dequantizing."""
    if weight_qscheme not in _SCHEMES:
        return weight
    return _quantize_weight(weight, weight_qscheme, *qparams).dequantize()


def _save_weight_qparams(
    destination: Any, prefix: str, weight_qscheme: Any, weight_dtype: Any, weight_scale: Any,
    weight_zero_point: Any, weight_axis: Any,
) -> None:  # fmt: skip
    """Writes how a weight is quantized into a state dict."""
    destination[prefix + "weight_qscheme"] = weight_qscheme
    destination[prefix + "weight_dtype"] = weight_dtype
    if weight_qscheme is not None:
        destination[prefix + "weight_scale"] = weight_scale
        destination[prefix + "weight_zero_point"] = weight_zero_point
        if weight_qscheme == torch.per_channel_affine:
            destination[prefix + "weight_axis"] = weight_axis


def _get_weight_qparam_keys(state_dict: Any, prefix: str) -> list[str]:
    """The entries of a state dict that say how a weight is quantized; the axis is a buffer."""
    keys = ["weight_qscheme", "weight_dtype"]
    if state_dict[prefix + "weight_qscheme"] is not None:
        keys += ["weight_scale", "weight_zero_point"]
    return keys
