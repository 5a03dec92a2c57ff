"""Functions of quantized tensors."""

from __future__ import annotations

import warnings
from typing import Any

import tritorch as torch
from tritorch.ao.nn.quantized.modules.utils import _pair_from_first
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as F
from tritorch.nn.modules.utils import _pair, _triple

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool2d",
    "avg_pool3d",
    "celu",
    "clamp",
    "conv1d",
    "conv2d",
    "conv3d",
    "elu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "interpolate",
    "leaky_relu",
    "linear",
    "max_pool1d",
    "max_pool2d",
    "threshold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip


def _check_quantized(input: Tensor, name: str) -> None:
    """ValueError if the input is no quantized tensor."""
    if not input.is_quantized:
        raise ValueError("Input to 'quantized." + name + "' must be quantized!")


def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """Means of windows of images."""
    _check_quantized(input, "avg_pool2d")
    return F.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                        divisor_override)  # fmt: skip


def avg_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """Means of windows of volumes."""
    _check_quantized(input, "avg_pool3d")
    return F.avg_pool3d(input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                        divisor_override)  # fmt: skip


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of as many windows of images as wanted."""
    _check_quantized(input, "functional.adaptive_avg_pool2d")
    return F.adaptive_avg_pool2d(input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of as many windows of volumes as wanted."""
    _check_quantized(input, "functional.adaptive_avg_pool3d")
    return F.adaptive_avg_pool3d(input, output_size)


def _check_conv(input: Tensor, weight: Tensor, padding_mode: str, dims: str) -> None:
    if padding_mode != "zeros":
        raise NotImplementedError("Only zero-padding is supported!")
    if input.dtype != torch.quint8:
        raise NotImplementedError("Only torch.quint8 is supported for activation tensor!")
    if weight.dtype != torch.qint8:
        raise NotImplementedError("Only torch.qint8 is supported for weight tensor!")
    if input.ndim != len(dims.split(", ")):
        raise ValueError(f"Input shape must be `({dims})`!")


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0,
    zero_point: int = 0, dtype: Any = torch.quint8,
) -> Tensor:  # fmt: skip
    """A convolution of sequences; the bias is of floats."""
    _check_conv(input, weight, padding_mode, "N, C, L")
    stride, padding, dilation = map(_pair_from_first, (stride, padding, dilation))
    packed = torch.ops.quantized.conv1d_prepack(weight, bias, stride, padding, dilation, groups)
    return torch.ops.quantized.conv1d(input, packed, scale, zero_point)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0,
    zero_point: int = 0, dtype: Any = torch.quint8,
) -> Tensor:  # fmt: skip
    """A convolution of images; the bias is of floats."""
    _check_conv(input, weight, padding_mode, "N, C, H, W")
    stride, padding, dilation = map(_pair, (stride, padding, dilation))
    packed = torch.ops.quantized.conv2d_prepack(weight, bias, stride, padding, dilation, groups)
    return torch.ops.quantized.conv2d(input, packed, scale, zero_point)


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0,
    zero_point: int = 0, dtype: Any = torch.quint8,
) -> Tensor:  # fmt: skip
    """A convolution of volumes; the bias is of floats."""
    _check_conv(input, weight, padding_mode, "N, C, D, H, W")
    stride, padding, dilation = map(_triple, (stride, padding, dilation))
    packed = torch.ops.quantized.conv3d_prepack(weight, bias, stride, padding, dilation, groups)
    return torch.ops.quantized.conv3d(input, packed, scale, zero_point)


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """The input in another size."""
    _check_quantized(input, "interpolate")
    return F.interpolate(input, size, scale_factor, mode, align_corners)


def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, scale: float | None = None,
    zero_point: int | None = None,
) -> Tensor:  # fmt: skip
    """A linear map, to a tensor with this scale and zero point or the input's; it packs the weight
    at every call."""
    if scale is None:
        scale = input.q_scale()
    if zero_point is None:
        zero_point = input.q_zero_point()
    packed = torch.ops.quantized.linear_prepack(weight, bias)
    return torch.ops.quantized.linear(input, packed, scale, zero_point)


def max_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    """Maxima of windows of sequences."""
    if return_indices:
        raise NotImplementedError("return_indices is not yet implemented!")
    return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode,
                        return_indices=False)  # fmt: skip


def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    """Maxima of windows of images."""
    if return_indices:
        raise NotImplementedError("return_indices is not yet implemented!")
    return F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode,
                        return_indices=False)  # fmt: skip


def celu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Tensor:
    """celu, to a tensor with this scale and zero point."""
    _check_quantized(input, "celu")
    return torch.ops.quantized.celu(input, scale, zero_point, alpha)


def leaky_relu(
    input: Tensor, negative_slope: float = 0.01, inplace: bool = False, scale: float | None = None,
    zero_point: int | None = None,
) -> Tensor:  # fmt: skip
    """Leaky relu, to a tensor with this scale and zero point or the input's."""
    if scale is not None and zero_point is not None:
        if inplace:
            raise AssertionError("Cannot rescale with `inplace`")
        return torch.ops.quantized.leaky_relu(input, negative_slope, False, scale, zero_point)
    return F.leaky_relu(input, negative_slope, inplace)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """The input between two bounds."""
    _check_quantized(input, "hardtanh")
    return F.hardtanh(input, min_val, max_val, inplace)


def hardswish(input: Tensor, scale: float, zero_point: int) -> Tensor:
    """hardswish, to a tensor with this scale and zero point."""
    _check_quantized(input, "hardswish")
    return torch.ops.quantized.hardswish(input, scale, zero_point)


def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """The input, or the value where that is not above the threshold."""
    _check_quantized(input, "threshold")
    if threshold is None:
        raise ValueError("Input to 'threshold' must be specified!")
    if value is None:
        raise ValueError("Input to 'value' must be specified!")
    return torch.ops.quantized.threshold(input, threshold, value)


def elu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Tensor:
    """elu, to a tensor with this scale and zero point."""
    _check_quantized(input, "elu")
    return torch.ops.quantized.elu(input, scale, zero_point, alpha)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """hardsigmoid, to a tensor with a scale and zero point for results from 0 to 1."""
    _check_quantized(input, "hardsigmoid")
    return F.hardsigmoid(input, inplace)


def clamp(input: Tensor, min_: float, max_: float) -> Tensor:
    """The input between two bounds."""
    _check_quantized(input, "clamp")
    return torch.clamp(input, min_, max_)


def _warn_of(name: str) -> None:
    warnings.warn(
        f"nn.quantized.functional.{name} is deprecated. Use nn.quantized.functional.interpolate "
        "instead.",
        stacklevel=3,
    )


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """Deprecated: interpolate."""
    _warn_of("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated: interpolate."""
    _warn_of("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated: interpolate."""
    _warn_of("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")
