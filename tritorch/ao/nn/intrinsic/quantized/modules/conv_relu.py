"""Quantized convolutions with relu."""

from __future__ import annotations

from typing import Any, ClassVar

import tritorch as torch
from tritorch.ao.nn import intrinsic as nni, quantized as nnq
from tritorch.ao.nn.intrinsic import qat as nniqat
from tritorch.ao.nn.quantized.modules.conv import (
    _padded,
    _reverse_repeat_padding as _reverse_repeat_padding,
)
from tritorch.nn.utils.fusion import fuse_conv_bn_weights

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d"]


def _fold(mod: Any, kind: Any) -> None:
    """Folds the norm of a module that was trained for quantization, if it is of this type."""
    if type(mod) is kind:
        mod._check_statistics()
        bn = mod.bn
        mod.weight, mod.bias = fuse_conv_bn_weights(
            mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )


def _check_folded(mod: Any, kind: Any, n: int) -> None:
    if type(mod) is kind:
        raise AssertionError(
            f"BatchNorm{n}d should be fused into Conv{n}d before converting to reference module"
        )


class ConvReLU1d(nnq.Conv1d):
    """A quantized convolution of sequences and relu."""

    _FLOAT_MODULE: ClassVar[Any] = nni.ConvReLU1d

    def forward(self, input):  # type: ignore[no-untyped-def]
        """The relu of the convolution."""
        input = _padded(input, "N, C, L", self.padding[:1], self.padding_mode)
        return torch.ops.quantized.conv1d_relu(
            input, self._packed_params, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return "QuantizedConvReLU1d"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:  # type: ignore[override]
        """The quantized module of an observed one, or of one that was trained for it."""
        _fold(mod, nniqat.ConvBnReLU1d)
        return super().from_float(mod, use_precomputed_fake_quant)

    @classmethod
    def from_reference(cls, ref_qconv: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a fused one that has a reference module."""
        _check_folded(ref_qconv, nni.ConvBnReLU1d, 1)
        return super().from_reference(ref_qconv[0], output_scale, output_zero_point)


class ConvReLU2d(nnq.Conv2d):
    """A quantized convolution of images and relu."""

    _FLOAT_MODULE: ClassVar[Any] = nni.ConvReLU2d

    def forward(self, input):  # type: ignore[no-untyped-def]
        """The relu of the convolution."""
        input = _padded(input, "N, C, H, W", self.padding, self.padding_mode)
        return torch.ops.quantized.conv2d_relu(
            input, self._packed_params, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return "QuantizedConvReLU2d"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:  # type: ignore[override]
        """The quantized module of an observed one, or of one that was trained for it."""
        _fold(mod, nniqat.ConvBnReLU2d)
        return super().from_float(mod, use_precomputed_fake_quant)

    @classmethod
    def from_reference(cls, ref_qconv: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a fused one that has a reference module."""
        _check_folded(ref_qconv, nni.ConvBnReLU2d, 2)
        return super().from_reference(ref_qconv[0], output_scale, output_zero_point)


class ConvReLU3d(nnq.Conv3d):
    """A quantized convolution of volumes and relu."""

    _FLOAT_MODULE: ClassVar[Any] = nni.ConvReLU3d

    def forward(self, input):  # type: ignore[no-untyped-def]
        """The relu of the convolution."""
        input = _padded(input, "N, C, D, H, W", self.padding, self.padding_mode)
        return torch.ops.quantized.conv3d_relu(
            input, self._packed_params, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return "QuantizedConvReLU3d"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:  # type: ignore[override]
        """The quantized module of an observed one, or of one that was trained for it."""
        _fold(mod, nniqat.ConvBnReLU3d)
        return super().from_float(mod, use_precomputed_fake_quant)

    @classmethod
    def from_reference(cls, ref_qconv: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a fused one that has a reference module."""
        _check_folded(ref_qconv, nni.ConvBnReLU3d, 3)
        return super().from_reference(ref_qconv[0], output_scale, output_zero_point)
