"""Norms of quantized tensors."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn.quantized.modules.utils import qparams_of
from tritorch.core.tensor import Tensor

__all__ = ["GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm"]


def register_qparams(module: Any, scale: Any, zero_point: Any, **where: Any) -> None:
    """Makes the scale and the zero point of a module's output its buffers."""
    module.register_buffer("scale", torch.tensor(scale, **where))
    module.register_buffer("zero_point", torch.tensor(zero_point, **where))


class LayerNorm(nn.LayerNorm):
    """A layer norm, to a tensor with this module's scale and zero point."""

    def __init__(
        self, normalized_shape: Any, weight: Any, bias: Any, scale: Any, zero_point: Any,
        eps: float = 1e-5, elementwise_affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine,
                         device=device, dtype=dtype)  # fmt: skip
        self.weight = weight
        self.bias = bias
        register_qparams(self, scale, zero_point, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        """The norm."""
        return torch.ops.quantized.layer_norm(
            input, self.normalized_shape, weight=self.weight, bias=self.bias, eps=self.eps,
            output_scale=self.scale, output_zero_point=self.zero_point,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "QuantizedLayerNorm"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one."""
        return cls.from_reference(mod, *qparams_of(mod))

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        """The quantized module of a float one, with this scale and zero point."""
        return cls(
            mod.normalized_shape, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps,
            mod.elementwise_affine,
        )  # fmt: skip


class GroupNorm(nn.GroupNorm):
    """A group norm, to a tensor with this module's scale and zero point."""

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]  # noqa: RUF012

    def __init__(
        self, num_groups: int, num_channels: int, weight: Any, bias: Any, scale: Any,
        zero_point: Any, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_groups, num_channels, eps, affine, device=device, dtype=dtype)
        self.weight = weight
        self.bias = bias
        register_qparams(self, scale, zero_point, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        """The norm."""
        return torch.ops.quantized.group_norm(
            input, self.num_groups, self.weight, self.bias, self.eps, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return "QuantizedGroupNorm"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one."""
        return cls(
            mod.num_groups, mod.num_channels, mod.weight, mod.bias, *qparams_of(mod), mod.eps,
            mod.affine,
        )  # fmt: skip


class _InstanceNorm(nn.modules.norm._InstanceNorm):
    """An instance norm, to a tensor with this module's scale and zero point."""

    def __init__(
        self, num_features: int, weight: Any, bias: Any, scale: Any, zero_point: Any,
        eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device,
                         dtype=dtype)  # fmt: skip
        self.weight = weight
        self.bias = bias
        register_qparams(self, scale, zero_point, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        """The norm."""
        return torch.ops.quantized.instance_norm(
            input, self.weight, self.bias, self.eps, self.scale, self.zero_point
        )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one."""
        return cls.from_reference(mod, *qparams_of(mod))

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        """The quantized module of a float one, with this scale and zero point."""
        # As in PyTorch, the eighth setting is `momentum`: it is not used.
        return cls(
            mod.num_features, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps,
            mod.affine,
        )  # fmt: skip


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    """An instance norm of sequences."""

    def _get_name(self) -> str:
        return "QuantizedInstanceNorm1d"


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """An instance norm of images."""

    def _get_name(self) -> str:
        return "QuantizedInstanceNorm2d"


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    """An instance norm of volumes."""

    def _get_name(self) -> str:
        return "QuantizedInstanceNorm3d"
