"""Quantized linear maps with activations."""

from __future__ import annotations

from typing import Any, ClassVar

import tritorch as torch
from tritorch.ao.nn import intrinsic as nni, quantized as nnq
from tritorch.ao.nn.quantized.modules.utils import set_qparams

__all__ = ["LinearLeakyReLU", "LinearReLU", "LinearTanh"]


class LinearReLU(nnq.Linear):
    """A quantized linear map and relu."""

    _FLOAT_MODULE: ClassVar[Any] = nni.LinearReLU

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: Any = torch.qint8
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The relu of the linear map."""
        return torch.ops.quantized.linear_relu(
            x, self._packed_params._packed_params, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return "QuantizedLinearReLU"

    @classmethod
    def from_reference(cls, ref_linear_relu: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a fused one that has a reference module."""
        return super().from_reference(ref_linear_relu[0], output_scale, output_zero_point)


class LinearLeakyReLU(nnq.Linear):
    """A quantized linear map and leaky relu."""

    _FLOAT_MODULE: ClassVar[Any] = nni.LinearLeakyReLU

    def __init__(
        self, in_features: int, out_features: int, negative_slope: float, bias: bool = True,
        dtype: Any = torch.qint8,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The leaky relu of the linear map."""
        return torch.ops.quantized.linear_leaky_relu(
            x, self._packed_params._packed_params, self.scale, self.zero_point, self.negative_slope
        )

    def _get_name(self) -> str:
        return "QuantizedLinearLeakyReLU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one."""
        observer = _observer_of(mod, nni.LinearLeakyReLU)
        slope = mod[1].negative_slope
        return cls._from_observed(
            mod[0], mod.activation_post_process, observer, negative_slope=slope
        )

    @classmethod
    def from_reference(cls, ref_mod: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a fused one that has a reference module."""
        linear = ref_mod[0]
        qlinear = cls(linear.in_features, linear.out_features, ref_mod[1].negative_slope)
        qlinear.set_weight_bias(linear.get_quantized_weight(), linear.bias)
        return set_qparams(qlinear, output_scale, output_zero_point)


class LinearTanh(nnq.Linear):
    """A quantized linear map and tanh."""

    _FLOAT_MODULE: ClassVar[Any] = nni.LinearTanh

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: Any = torch.qint8
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The tanh of the linear map."""
        return torch.ops.quantized.linear_tanh(
            x, self._packed_params._packed_params, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return "QuantizedLinearTanh"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one."""
        observer = _observer_of(mod, nni.LinearTanh)
        return cls._from_observed(mod[0], mod.activation_post_process, observer)

    @classmethod
    def from_reference(cls, ref_mod: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a fused one that has a reference module."""
        return super().from_reference(ref_mod[0], output_scale, output_zero_point)


def _observer_of(mod: Any, kind: Any) -> Any:
    """A new observer of a fused module's weight."""
    if type(mod) is not kind:
        raise AssertionError(f"Input float module should be {kind.__name__}")
    if not hasattr(mod, "qconfig"):
        raise AssertionError("Input float module must have qconfig defined")
    return mod[0].qconfig.weight()
