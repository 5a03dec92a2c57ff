"""Reference modules of convolutions."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn.quantized.reference.modules.linear import take_parameters
from tritorch.ao.nn.quantized.reference.modules.utils import ReferenceQuantizedModule
from tritorch.nn import functional as F
from tritorch.nn.modules.conv import (
    _ConvNd as _FloatConvNd,
    _ConvTransposeNd as _FloatConvTransposeNd,
)

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip


def _where(conv: Any) -> dict[str, Any]:
    return {"device": conv.weight.device, "dtype": conv.weight.dtype}


class _ConvNd(_FloatConvNd, ReferenceQuantizedModule):
    """A convolution of floats with a weight that is rounded to what quantization gives."""

    _IS_REFERENCE = True
    _float: Any  # the float module's class

    @staticmethod
    def from_float(cls: Any, float_conv: Any, weight_qparams: Any) -> Any:
        """The reference module of a float one."""
        ref = cls(
            float_conv.in_channels, float_conv.out_channels, float_conv.kernel_size,
            float_conv.stride, float_conv.padding, float_conv.dilation, float_conv.groups,
            float_conv.bias is not None, float_conv.padding_mode, **_where(float_conv),
            weight_qparams=weight_qparams,
        )  # fmt: skip
        return take_parameters(ref, float_conv)


class _Conv(_ConvNd):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
        weight_qparams: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._float.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._init_weight_qparams(weight_qparams, device)

    @classmethod
    def from_float(cls, float_conv: Any, weight_qparams: Any) -> Any:  # type: ignore[override]
        """The reference module of a float one."""
        return _ConvNd.from_float(cls, float_conv, weight_qparams)


class Conv1d(_Conv, nn.Conv1d):
    """A convolution of sequences of floats with a rounded weight."""

    _float = nn.Conv1d

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The convolution; padding is of zeros, whatever the mode."""
        return F.conv1d(
            x, self.get_weight(), self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def _get_name(self) -> str:
        return "QuantizedConv1d(Reference)"


class Conv2d(_Conv, nn.Conv2d):
    """A convolution of images of floats with a rounded weight."""

    _float = nn.Conv2d

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The convolution; padding is of zeros, whatever the mode."""
        return F.conv2d(
            x, self.get_weight(), self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def _get_name(self) -> str:
        return "QuantizedConv2d(Reference)"


class Conv3d(_Conv, nn.Conv3d):
    """A convolution of volumes of floats with a rounded weight."""

    _float = nn.Conv3d

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The convolution; padding is of zeros, whatever the mode."""
        return F.conv3d(
            x, self.get_weight(), self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def _get_name(self) -> str:
        return "QuantizedConv3d(Reference)"


class _ConvTransposeNd(_ConvNd, _FloatConvTransposeNd):
    """A transposed convolution of floats with a rounded weight."""

    @staticmethod
    def from_float(cls: Any, float_conv: Any, weight_qparams: Any) -> Any:
        """The reference module of a float one."""
        ref = cls(
            float_conv.in_channels, float_conv.out_channels, float_conv.kernel_size,
            float_conv.stride, float_conv.padding, float_conv.output_padding, float_conv.groups,
            float_conv.bias is not None, float_conv.dilation, float_conv.padding_mode,
            **_where(float_conv), weight_qparams=weight_qparams,
        )  # fmt: skip
        return take_parameters(ref, float_conv)


class _ConvTranspose(_ConvTransposeNd):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
        weight_qparams: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._float.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups,
            bias, dilation, padding_mode, device, dtype,
        )  # fmt: skip
        self._init_weight_qparams(weight_qparams, device)

    def _added(self, x: torch.Tensor, output_size: list[int] | None) -> Any:
        """The output padding for an output of this size, and the padding."""
        if not isinstance(self.padding, tuple):
            raise AssertionError(f"Expected self.padding to be a tuple, got {type(self.padding)}")
        added = self._output_padding(
            x, output_size, self.stride, self.padding, self.kernel_size, len(self.kernel_size),
            self.dilation,
        )  # fmt: skip
        return added, self.padding

    @classmethod
    def from_float(cls, float_conv: Any, weight_qparams: Any) -> Any:  # type: ignore[override]
        """The reference module of a float one."""
        return _ConvTransposeNd.from_float(cls, float_conv, weight_qparams)


class ConvTranspose1d(_ConvTranspose, nn.ConvTranspose1d):
    """A transposed convolution of sequences of floats with a rounded weight."""

    _float = nn.ConvTranspose1d

    def forward(self, x: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:
        """The transposed convolution."""
        added, padding = self._added(x, output_size)
        return F.conv_transpose1d(
            x, self.get_weight(), self.bias, self.stride, padding, added, self.groups,
            self.dilation,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "QuantizedConvTranspose1d(Reference)"


class ConvTranspose2d(_ConvTranspose, nn.ConvTranspose2d):
    """A transposed convolution of images of floats with a rounded weight."""

    _float = nn.ConvTranspose2d

    def forward(self, x: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:
        """The transposed convolution."""
        added, padding = self._added(x, output_size)
        return F.conv_transpose2d(
            x, self.get_weight(), self.bias, self.stride, padding, added, self.groups,
            self.dilation,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "QuantizedConvTranspose2d(Reference)"


class ConvTranspose3d(_ConvTranspose, nn.ConvTranspose3d):
    """A transposed convolution of volumes of floats with a rounded weight."""

    _float = nn.ConvTranspose3d

    def forward(self, x: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:
        """The transposed convolution."""
        added, padding = self._added(x, output_size)
        return F.conv_transpose3d(
            x, self.get_weight(), self.bias, self.stride, padding, added, self.groups,
            self.dilation,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "QuantizedConvTranspose3d(Reference)"
