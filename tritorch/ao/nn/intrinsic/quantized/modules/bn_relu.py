"""Quantized batch norms with relu."""

from __future__ import annotations

from typing import Any, ClassVar

import tritorch as torch
from tritorch.ao.nn import intrinsic as nni, quantized as nnq

__all__ = ["BNReLU2d", "BNReLU3d"]


class BNReLU2d(nnq.BatchNorm2d):
    """A quantized batch norm of images and relu."""

    _FLOAT_MODULE: ClassVar[Any] = nni.BNReLU2d

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The relu of the norm."""
        if len(input.shape) != 4:
            raise ValueError("Input shape must be `(N, C, H, W)`!")
        return torch.ops.quantized.batch_norm2d_relu(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps,
            self.scale, self.zero_point,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "QuantizedBNReLU2d"

    @classmethod
    def from_reference(cls, bn_relu: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a fused float one, with this scale and zero point."""
        return super().from_reference(bn_relu[0], output_scale, output_zero_point)


class BNReLU3d(nnq.BatchNorm3d):
    """A quantized batch norm of volumes and relu."""

    _FLOAT_MODULE: ClassVar[Any] = nni.BNReLU3d

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The relu of the norm."""
        if len(input.shape) != 5:
            raise ValueError("Input shape must be `(N, C, D, H, W)`!")
        return torch.ops.quantized.batch_norm3d_relu(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps,
            self.scale, self.zero_point,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "QuantizedBNReLU3d"

    @classmethod
    def from_reference(cls, bn_relu: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a fused float one, with this scale and zero point."""
        return super().from_reference(bn_relu[0], output_scale, output_zero_point)
