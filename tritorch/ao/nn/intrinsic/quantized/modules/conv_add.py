"""Quantized convolutions to which another tensor is added."""

from __future__ import annotations

from typing import Any, ClassVar

import tritorch as torch
from tritorch.ao.nn import intrinsic as nni, quantized as nnq
from tritorch.ao.nn.quantized.modules.conv import (
    _padded,
    _reverse_repeat_padding as _reverse_repeat_padding,
)


class ConvAdd2d(nnq.Conv2d):
    """The sum of a quantized convolution of images and another tensor."""

    _FLOAT_MODULE: ClassVar[Any] = nni.ConvAdd2d

    def forward(self, input, extra_input):  # type: ignore[no-untyped-def, override]
        """The sum."""
        input = _padded(input, "N, C, H, W", self.padding, self.padding_mode)
        return torch.ops.quantized.conv2d_add(
            input, extra_input, self._packed_params, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return "QuantizedConvAdd2d"

    @classmethod
    def from_reference(cls, ref_qconv: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a fused one that has a reference module."""
        return super().from_reference(ref_qconv[0], output_scale, output_zero_point)


class ConvAddReLU2d(nnq.Conv2d):
    """The relu of the sum of a quantized convolution of images and another tensor."""

    _FLOAT_MODULE: ClassVar[Any] = nni.ConvAddReLU2d

    def forward(self, input, extra_input):  # type: ignore[no-untyped-def, override]
        """The relu of the sum."""
        input = _padded(input, "N, C, H, W", self.padding, self.padding_mode)
        return torch.ops.quantized.conv2d_add_relu(
            input, extra_input, self._packed_params, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return "QuantizedConvAddReLU2d"

    @classmethod
    def from_reference(cls, ref_qconv: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a fused one that has a reference module."""
        return super().from_reference(ref_qconv[0], output_scale, output_zero_point)
