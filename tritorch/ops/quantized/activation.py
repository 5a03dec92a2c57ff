"""Activations of quantized tensors: computed in floats, quantized by the parameters given."""

from __future__ import annotations

from typing import Any

from tritorch.core.published import FUNCTIONAL
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.quantized import of_integers
from tritorch.ops.nn.dropout import dropout as float_dropout
from tritorch.ops.pointwise import activation as floats
from tritorch.ops.quantized.common import affine, dequantize, integers_of, operator, uniform


def _same(qx: Tensor, result: Tensor, name: str) -> Any:
    return uniform(qx, name).quantize(result)


@operator()
def sigmoid(qx: Tensor, output_scale: float, output_zero_point: int) -> Any:
    """sigmoid, with a quantizer given."""
    return affine(qx.dtype, output_scale, output_zero_point).quantize(dequantize(qx).sigmoid())


@operator()
def hardswish(input: Tensor, output_scale: float, output_zero_point: int) -> Any:
    """hardswish, with a quantizer given."""
    x = floats.hardswish(dequantize(input))
    return affine(input.dtype, output_scale, output_zero_point).quantize(x)


@operator()
def elu(
    self: Tensor, output_scale: float, output_zero_point: int, alpha: Any = 1, scale: Any = 1,
    input_scale: Any = 1,
) -> Any:  # fmt: skip
    """elu, with a quantizer given."""
    x = dequantize(self)
    grown = alpha * ((x.clamp(max=0) * input_scale).expm1())
    result = scale * (x.clamp(min=0) + grown)
    return affine(self.dtype, output_scale, output_zero_point).quantize(result)


@operator()
def celu(self: Tensor, output_scale: float, output_zero_point: int, alpha: Any = 1) -> Any:
    """celu, with a quantizer given."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return elu(self, output_scale, output_zero_point, alpha, 1.0, 1.0 / alpha)


@operator()
def leaky_relu(
    qx: Tensor, negative_slope: Any, inplace: bool, output_scale: float, output_zero_point: int
) -> Any:
    """leaky_relu, with a quantizer given; in place the tensor keeps its own."""
    x = floats.leaky_relu(dequantize(qx), float(negative_slope))
    if inplace:
        integers_of(qx).copy_(integers_of(_same(qx, x, "leaky_relu")))
        return qx
    return affine(qx.dtype, output_scale, output_zero_point).quantize(x)


@operator()
def prelu(qx: Tensor, weight: Tensor, output_scale: float, output_zero_point: int) -> Any:
    """prelu, with a quantizer given."""
    x = floats.prelu(dequantize(qx), dequantize(weight))
    return affine(qx.dtype, output_scale, output_zero_point).quantize(x)


@operator()
def softmax(qx: Tensor, dim: int, output_scale: float, output_zero_point: int) -> Any:
    """softmax, with a quantizer given."""
    return affine(qx.dtype, output_scale, output_zero_point).quantize(dequantize(qx).softmax(dim))


@operator()
def dropout(
    self: Tensor, output_scale: float, output_zero_point: int, p: Any = 0.5, training: bool = False
) -> Any:
    """dropout, with a quantizer given."""
    x = float_dropout(dequantize(self), float(p), training)
    return affine(self.dtype, output_scale, output_zero_point).quantize(x)


@operator()
def threshold(qx: Tensor, threshold: Any, value: Any) -> Any:
    """threshold; the quantizer stays."""
    return _same(qx, floats.threshold(dequantize(qx), threshold, value), "threshold")


@operator()
def clamp(qx: Tensor, min: Any = None, max: Any = None) -> Any:
    """clamp; the quantizer stays."""
    return _same(qx, dequantize(qx).clamp(min, max), "clamp")


@operator()
def relu6(qx: Tensor, inplace: bool = False) -> Any:
    """Clamps to [0, 6]; the quantizer stays."""
    quantizer = uniform(qx, "relu6")
    clamped = integers_of(quantizer.quantize(dequantize(qx).clamp(0, 6)))
    if inplace:
        integers_of(qx).copy_(clamped)
        return qx
    return of_integers(clamped, quantizer)


def _max_pool(n: int) -> None:
    def function(
        qx: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> Any:
        x = FUNCTIONAL[f"max_pool{n}d"](
            dequantize(qx), tuple(kernel_size), tuple(stride) or None, tuple(padding),
            tuple(dilation), ceil_mode,
        )  # fmt: skip
        return _same(qx, x, f"max_pool{n}d")

    function.__name__, function.__doc__ = f"max_pool{n}d", f"max_pool{n}d; the quantizer stays."
    operator(function.__name__)(function)


for _n in (1, 2):
    _max_pool(_n)
