"""Activations of quantized tensors."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn import quantizable
from tritorch.ao.nn.quantized.modules.normalization import register_qparams
from tritorch.ao.nn.quantized.modules.utils import qparams_of
from tritorch.core.tensor import Tensor

__all__ = [
    "ELU",
    "Hardswish",
    "LeakyReLU",
    "MultiheadAttention",
    "PReLU",
    "ReLU6",
    "Sigmoid",
    "Softmax",
]  # fmt: skip


class ReLU6(nn.ReLU):
    """relu with results of 6 at most."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return torch.ops.quantized.relu6(input, self.inplace)

    def _get_name(self) -> str:
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of a float one."""
        return ReLU6(mod.inplace)


class Hardswish(nn.Hardswish):
    """hardswish, to a tensor with this module's scale and zero point."""

    def __init__(self, scale: Any, zero_point: Any, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        register_qparams(self, scale, zero_point, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return torch.ops.quantized.hardswish(input, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedHardswish"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one."""
        return Hardswish(*qparams_of(mod))

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        """The quantized module of a float one, with this scale and zero point."""
        return cls(float(scale), int(zero_point))


class ELU(nn.ELU):
    """elu, to a tensor with this module's scale and zero point."""

    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(alpha)
        self.scale = scale
        self.zero_point = zero_point

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return torch.ao.nn.quantized.functional.elu(input, self.scale, self.zero_point, self.alpha)

    def _get_name(self) -> str:
        return "QuantizedELU"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one."""
        return ELU(*qparams_of(mod), mod.alpha)

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        """The quantized module of a float one, with this scale and zero point."""
        return cls(float(scale), int(zero_point), mod.alpha)


class LeakyReLU(nn.LeakyReLU):
    """Leaky relu, to a tensor with this module's scale and zero point."""

    def __init__(
        self, scale: float, zero_point: int, negative_slope: float = 0.01, inplace: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(negative_slope, inplace)
        register_qparams(self, scale, zero_point, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return torch.ops.quantized.leaky_relu(
            input, self.negative_slope, self.inplace, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return "QuantizedLeakyReLU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one."""
        return cls(*qparams_of(mod), mod.negative_slope, mod.inplace)

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        """The quantized module of a float one, with this scale and zero point."""
        return cls(float(scale), int(zero_point), mod.negative_slope, mod.inplace)


class Sigmoid(nn.Sigmoid):
    """The sigmoid, to a tensor with this module's scale and zero point."""

    def __init__(self, output_scale: float, output_zero_point: int) -> None:
        super().__init__()
        self.output_scale = output_scale
        self.output_zero_point = output_zero_point

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return torch.ops.quantized.sigmoid(input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one."""
        return cls(*qparams_of(mod))


class Softmax(nn.Softmax):
    """The softmax, to a tensor with this module's scale and zero point."""

    def __init__(self, dim: int | None = None, scale: float = 1.0, zero_point: int = 0) -> None:
        super().__init__()
        self.dim = dim
        self.scale = scale
        self.zero_point = zero_point

    def forward(self, input: Tensor) -> Tensor:
        """The softmax along the dim."""
        dim = self.dim
        if dim is None:
            dim = nn.functional._get_softmax_dim("softmax", input.dim(), 3)
        return torch.ops.quantized.softmax(input, dim, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedSoftmax"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one."""
        return Softmax(mod.dim, *qparams_of(mod))

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        """The quantized module of a float one, with this scale and zero point."""
        return cls(mod.dim, float(scale), int(zero_point))


class MultiheadAttention(quantizable.MultiheadAttention):
    """Quantizable attention after conversion."""

    _FLOAT_MODULE: ClassVar[Any] = quantizable.MultiheadAttention

    def _get_name(self) -> str:
        return "QuantizedMultiheadAttention"

    @classmethod
    def from_float(cls, other: Any) -> Any:
        """Raises NotImplementedError: it must have been observed."""
        raise NotImplementedError(
            "It looks like you are trying to convert a non-observed MHA module. Please, see the "
            "examples on quantizable MHAs."
        )

    @classmethod
    def from_observed(cls, other: Any) -> Any:
        """The quantized module of an observed one."""
        converted = torch.ao.quantization.convert(
            other, mapping=None, inplace=False, remove_qconfig=True,
            convert_custom_config_dict=None,
        )  # fmt: skip
        converted.__class__ = cls
        ranged = None  # as in PyTorch, both have the range of bias_k; bias_v once that is rounded
        for name in ("bias_k", "bias_v"):
            if getattr(converted, name) is not None:
                bias = converted._parameters.pop(name)
                values = bias if ranged is None else ranged
                scale, zero_point = torch._choose_qparams_per_tensor(values, reduce_range=False)
                bias = torch.quantize_per_tensor(bias, scale, zero_point, torch.quint8)
                ranged = bias.dequantize()
                setattr(converted, name, bias)
        del converted.in_proj_weight
        del converted.in_proj_bias
        return converted


class PReLU(nn.Module):
    """prelu with a quantized weight, to a tensor with this module's scale and zero point."""

    def __init__(
        self, output_scale: float, output_zero_point: int, num_parameters: int = 1
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.scale = output_scale
        self.zero_point = output_zero_point
        weight = torch.randn(num_parameters, dtype=torch.float)
        self.set_weight(
            torch.quantize_per_tensor(weight, scale=1.0, zero_point=0, dtype=torch.quint8)
        )

    def set_weight(self, w: torch.Tensor) -> None:
        """Sets the quantized weight."""
        self.weight = w

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The activation."""
        return torch.ops.quantized.prelu(input, self.weight, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedPReLU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one."""
        return cls.from_reference(mod, *qparams_of(mod))

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        """The quantized module of a float one, with this scale and zero point."""
        qprelu = cls(float(scale), int(zero_point), mod.num_parameters)
        weight = mod.weight.float()
        observer = mod.qconfig.weight()
        observer(weight)
        if observer.dtype != torch.quint8:
            warnings.warn(
                f"PReLU's weight observer should have dtype quint8 but got {observer.dtype}",
                stacklevel=2,
            )
        step, zero = observer.calculate_qparams()
        qprelu.set_weight(torch.quantize_per_tensor(weight, float(step), int(zero), torch.quint8))
        return qprelu
