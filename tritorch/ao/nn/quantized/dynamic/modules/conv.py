"""Dynamically quantized convolutions."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn import quantized as nnq
from tritorch.ao.nn.quantized.modules.conv import (
    _padded,
    _reverse_repeat_padding as _reverse_repeat_padding,
)
from tritorch.core.tensor import Tensor

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip


def _warn_of(module: Any) -> None:
    warnings.warn(
        f"The current implementation of the {module._get_name()} module has poor numerical "
        "accuracy and its use is not recommended",
        stacklevel=3,
    )


class Conv1d(nnq.Conv1d):
    """A convolution of sequences with a quantized weight; inputs are quantized by their range."""

    _FLOAT_MODULE: ClassVar[Any] = nn.Conv1d
    _NNIQAT_CONV_BN_MODULE: ClassVar[Any] = None
    _NNI_CONV_RELU_MODULE: ClassVar[Any] = None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
        reduce_range: bool = True,
    ) -> None:  # fmt: skip
        _warn_of(self)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "DynamicQuantizedConv1d"

    def forward(self, input: Tensor, reduce_range: bool = True) -> Tensor:
        """The convolution."""
        input = _padded(input, "N, C, L", self.padding[:1], self.padding_mode)
        return torch.ops.quantized.conv1d_dynamic(input, self._packed_params, reduce_range)


class Conv2d(nnq.Conv2d):
    """A convolution of images with a quantized weight; inputs are quantized by their range."""

    _FLOAT_MODULE: ClassVar[Any] = nn.Conv2d
    _NNIQAT_CONV_BN_MODULE: ClassVar[Any] = None
    _NNI_CONV_RELU_MODULE: ClassVar[Any] = None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        _warn_of(self)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "DynamicQuantizedConv2d"

    def forward(self, input: Tensor, reduce_range: bool = True) -> Tensor:
        """The convolution."""
        input = _padded(input, "N, C, H, W", self.padding, self.padding_mode)
        return torch.ops.quantized.conv2d_dynamic(input, self._packed_params, reduce_range)


class Conv3d(nnq.Conv3d):
    """A convolution of volumes with a quantized weight; inputs are quantized by their range."""

    _FLOAT_MODULE: ClassVar[Any] = nn.Conv3d
    _NNIQAT_CONV_BN_MODULE: ClassVar[Any] = None
    _NNI_CONV_RELU_MODULE: ClassVar[Any] = None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        _warn_of(self)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "DynamicQuantizedConv3d"

    def forward(self, input: Tensor, reduce_range: bool = True) -> Tensor:
        """The convolution."""
        input = _padded(input, "N, C, D, H, W", self.padding, self.padding_mode)
        return torch.ops.quantized.conv3d_dynamic(input, self._packed_params, reduce_range)


class ConvTranspose1d(nnq.ConvTranspose1d):
    """A transposed convolution of sequences with a quantized weight; inputs are
    quantized by their range."""

    _FLOAT_MODULE: ClassVar[Any] = nn.ConvTranspose1d

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        _warn_of(self)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias,
            dilation, padding_mode, device, dtype,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "DynamicQuantizedConvTranspose1d"

    def forward(self, input: Tensor, reduce_range: bool = True) -> Tensor:
        """The transposed convolution."""
        input = _padded(input, "N, C, L", self.padding, self.padding_mode)
        return torch.ops.quantized.conv_transpose1d_dynamic(
            input, self._packed_params, reduce_range
        )


class ConvTranspose2d(nnq.ConvTranspose2d):
    """A transposed convolution of images with a quantized weight; inputs are
    quantized by their range."""

    _FLOAT_MODULE: ClassVar[Any] = nn.ConvTranspose2d

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        _warn_of(self)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias,
            dilation, padding_mode, device, dtype,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "DynamicQuantizedConvTranspose2d"

    def forward(self, input: Tensor, reduce_range: bool = True) -> Tensor:
        """The transposed convolution."""
        input = _padded(input, "N, C, H, W", self.padding, self.padding_mode)
        return torch.ops.quantized.conv_transpose2d_dynamic(
            input, self._packed_params, reduce_range
        )


class ConvTranspose3d(nnq.ConvTranspose3d):
    """A transposed convolution of volumes with a quantized weight; inputs are
    quantized by their range."""

    _FLOAT_MODULE: ClassVar[Any] = nn.ConvTranspose3d

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        _warn_of(self)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias,
            dilation, padding_mode, device, dtype,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "DynamicQuantizedConvTranspose3d"

    def forward(self, input: Tensor, reduce_range: bool = True) -> Tensor:
        """The transposed convolution."""
        input = _padded(input, "N, C, T, H, W", self.padding, self.padding_mode)
        return torch.ops.quantized.conv_transpose3d_dynamic(
            input, self._packed_params, reduce_range
        )
