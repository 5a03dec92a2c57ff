"""Quantizing weights, and what quantized modules share."""

from __future__ import annotations

import abc
import collections.abc
from collections.abc import Callable
from typing import Any

import tritorch as torch
from tritorch.core.tensor import Tensor
from tritorch.nn.modules.module import _addindent

__all__ = ["WeightedQuantizedModule"]

_BY_TENSOR = (torch.per_tensor_symmetric, torch.per_tensor_affine)
_BY_CHANNEL = (torch.per_channel_symmetric, torch.per_channel_affine)
_BY_FLOATS = torch.per_channel_affine_float_qparams


class WeightedQuantizedModule(torch.nn.Module, metaclass=abc.ABCMeta):
    """A quantized module with weights."""

    @classmethod
    @abc.abstractmethod
    def from_reference(cls, ref_module: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a reference module."""
        raise NotImplementedError


def save_qparams(module: Any, destination: Any, prefix: str) -> None:
    """Writes the scale and the zero point of a module's output."""
    destination[prefix + "scale"] = torch.tensor(module.scale)
    destination[prefix + "zero_point"] = torch.tensor(module.zero_point)


def load_qparams(module: Any, state_dict: Any, prefix: str) -> None:
    """Reads what `save_qparams` has written, and takes it out of the state dict."""
    module.scale = float(state_dict.pop(prefix + "scale"))
    module.zero_point = int(state_dict.pop(prefix + "zero_point"))


def set_qparams(module: Any, scale: Any, zero_point: Any) -> Any:
    """The module, whose output has this scale and zero point from now on."""
    module.scale = float(scale)
    module.zero_point = int(zero_point)
    return module


def qparams_of(mod: Any) -> tuple[float, int]:
    """The scale and the zero point that a float module's observer has found."""
    scale, zero_point = mod.activation_post_process.calculate_qparams()
    return float(scale), int(zero_point)


def observed_weight(weight: Tensor, observer: Any, observe: bool = True) -> Tensor:
    """A weight as qint8 as its observer says; AssertionError if that is for another dtype."""
    if observe:
        observer(weight)
    if observer.dtype != torch.qint8:
        raise AssertionError(f"Weight observer must have dtype torch.qint8, got {observer.dtype}")
    return _quantize_weight(weight.float(), observer)


def weight_observer_of(mod: Any) -> Callable[[], Any]:
    """The maker of observers of a float module's weight: its qconfig's, or the default one."""
    if mod.qconfig is not None and mod.qconfig.weight is not None:
        return mod.qconfig.weight
    return torch.ao.quantization.qconfig.default_dynamic_qconfig.weight


def _get_weight_observer(observer: Any) -> Any:
    """The observer inside of a fake-quantizing one."""
    return getattr(observer, "activation_post_process", observer)


def _needs_weight_clamping(observer: Any, dtype: Any) -> bool:
    """Tells if the observer allows fewer integers than the dtype has."""
    if dtype not in (torch.qint8, torch.quint8, torch.qint32):
        return False
    observer, info = _get_weight_observer(observer), torch.iinfo(dtype)
    return observer.quant_min > info.min or observer.quant_max < info.max


def _clamp_weights(qweight: Tensor, observer: Any, scale: Tensor, zp: Tensor) -> Tensor:
    """A quantized weight whose integers are within the observer's bounds."""
    if not _needs_weight_clamping(observer, qweight.dtype):
        return qweight
    observer = _get_weight_observer(observer)
    integers = qweight.int_repr().clamp(observer.quant_min, observer.quant_max)
    if observer.qscheme in _BY_TENSOR:
        return torch._make_per_tensor_quantized_tensor(integers, float(scale), int(zp))
    if observer.qscheme in (*_BY_CHANNEL, _BY_FLOATS):
        return torch._make_per_channel_quantized_tensor(integers, scale, zp, axis=observer.ch_axis)
    raise ValueError(f"Unexpected qscheme {observer.qscheme}")


def _quantize_weight(float_wt: Tensor, observer: Any) -> Tensor:
    """A weight, quantized with the scales and zero points that its observer has found."""
    scale, zp = observer.calculate_qparams()
    if observer.qscheme in _BY_TENSOR:
        qweight = torch.quantize_per_tensor(float_wt, float(scale), int(zp), torch.qint8)
    elif observer.qscheme in _BY_CHANNEL:
        qweight = torch.quantize_per_channel(
            float_wt, scale.to(torch.double), zp.to(torch.int64), observer.ch_axis, torch.qint8
        )
    elif observer.qscheme == _BY_FLOATS:
        qweight = torch.quantize_per_channel(
            float_wt, scale.to(torch.float), zp.to(torch.float), observer.ch_axis, observer.dtype
        )
    else:
        raise ValueError(f"Unexpected qscheme {observer.qscheme}")
    return _clamp_weights(qweight, observer, scale, zp)


def _ntuple_from_first(n: int) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives n times a number, or the first of a sequence of another length."""

    def parse(x: Any) -> tuple[Any, ...]:
        while isinstance(x, collections.abc.Sequence) and len(x) != n:
            x = x[0]
        return tuple(x) if isinstance(x, collections.abc.Sequence) else (x,) * n

    return parse


_pair_from_first = _ntuple_from_first(2)


def _hide_packed_params_repr(self: Any, params: Any) -> str:
    """A module's repr without its children of some types."""
    extra = self.extra_repr().splitlines()
    shown = {n: child for n, child in self._modules.items() if not isinstance(child, params)}
    children = [f"({name}): {_addindent(repr(child), 2)}" for name, child in shown.items()]
    if len(extra) == 1 and not children:
        return f"{self._get_name()}({extra[0]})"
    lines = "".join(f"\n  {line}" for line in (*extra, *children))
    return f"{self._get_name()}({lines}\n)" if lines else f"{self._get_name()}()"
