"""Convolutions with fake-quantized weights."""

from __future__ import annotations

from typing import Any, ClassVar

from tritorch import nn
from tritorch.ao.nn.intrinsic import _FusedModule
from tritorch.ao.nn.qat.modules._checks import check_float, copied, required
from tritorch.core.tensor import Tensor
from tritorch.nn.modules.conv import _ConvNd as _FloatConvNd, repeated

__all__ = ["Conv1d", "Conv2d", "Conv3d"]


def float_conv(module: Any) -> Any:
    """The plain convolution with a module's sizes and parameters."""
    conv = module._FLOAT_CONV_MODULE(
        module.in_channels, module.out_channels, module.kernel_size, module.stride, module.padding,
        module.dilation, module.groups, module.bias is not None, module.padding_mode,
    )  # fmt: skip
    conv.weight, conv.bias = copied(module.weight), copied(module.bias)
    return conv


class _ConvNd(_FloatConvNd):
    """A convolution; `weight_fake_quant` rounds its weight as quantization will."""

    _FLOAT_MODULE: ClassVar[Any]
    _FLOAT_CONV_MODULE: ClassVar[Any]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: tuple[int, ...],
        stride: tuple[int, ...], padding: str | tuple[int, ...], dilation: tuple[int, ...],
        transposed: bool, output_padding: tuple[int, ...], groups: int, bias: bool,
        padding_mode: str, qconfig: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        _FloatConvNd.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed,
            output_padding, groups, bias, padding_mode, device, dtype,
        )  # fmt: skip
        self.qconfig = required(qconfig)
        self.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})

    def forward(self, input: Tensor) -> Tensor:
        """The convolution."""
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)

    @staticmethod
    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that trains the parameters of a float one."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(
                f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}, got "
                f"{type(mod).__name__}"
            )
        check_float(mod)
        if isinstance(mod, _FusedModule):
            mod = mod[0]
        qat = cls(
            mod.in_channels, mod.out_channels, mod.kernel_size, stride=mod.stride,
            padding=mod.padding, dilation=mod.dilation, groups=mod.groups,
            bias=mod.bias is not None, padding_mode=mod.padding_mode, qconfig=mod.qconfig,
        )  # fmt: skip
        qat.weight, qat.bias = mod.weight, mod.bias
        return qat

    def to_float(self) -> Any:
        """The float module with the same parameters: a convolution, or a fused one with relu."""
        cls: Any = type(self)
        conv = float_conv(self)
        if not issubclass(cls, _FusedModule):
            return conv
        if not hasattr(cls, "_FLOAT_RELU_MODULE"):
            raise AssertionError(f"{cls.__name__} must have _FLOAT_RELU_MODULE attribute")
        return cls._FLOAT_MODULE(conv, cls._FLOAT_RELU_MODULE()).train(self.training)


class _Conv(_ConvNd):
    _n: int

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", qconfig: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        n = self._n
        super().__init__(
            in_channels, out_channels, repeated(kernel_size, n), repeated(stride, n),
            padding if isinstance(padding, str) else repeated(padding, n), repeated(dilation, n),
            False, (0,) * n, groups, bias, padding_mode, qconfig, device, dtype,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:  # type: ignore[override]
        """The module that trains the parameters of a float one."""
        return _ConvNd.from_float(cls, mod, use_precomputed_fake_quant)


class Conv1d(_Conv, nn.Conv1d):
    """A convolution of sequences with a fake-quantized weight."""

    _FLOAT_MODULE: ClassVar[Any] = nn.Conv1d
    _FLOAT_CONV_MODULE: ClassVar[Any] = nn.Conv1d


class Conv2d(_Conv, nn.Conv2d):
    """A convolution of images with a fake-quantized weight."""

    _FLOAT_MODULE: ClassVar[Any] = nn.Conv2d
    _FLOAT_CONV_MODULE: ClassVar[Any] = nn.Conv2d


class Conv3d(_Conv, nn.Conv3d):
    """A convolution of volumes with a fake-quantized weight."""

    _FLOAT_MODULE: ClassVar[Any] = nn.Conv3d
    _FLOAT_CONV_MODULE: ClassVar[Any] = nn.Conv3d
