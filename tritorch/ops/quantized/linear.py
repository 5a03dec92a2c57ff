"""Linear layers of quantized tensors: products of integers, requantized; or by ranges met."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.core import defaults
from tritorch.core.dtype import float16, int8, int32, uint8
from tritorch.core.promotion import scalar_name
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.quantized import (
    KINDS,
    Engine,
    QuantizedTensor,
    Quantizer,
    integers_of,
    of_integers,
)
from tritorch.ops.linalg.byte_products import _int_mm
from tritorch.ops.nn.fake_quantize import choose_parameters
from tritorch.ops.quantized.common import QINT8, QUINT8, affine, operator, uniform
from tritorch.ops.quantized.packed import LinearParams, ScriptObject, Weight, packed_of


@operator()
def linear_prepack(W: Any, B: Tensor | None = None) -> ScriptObject:
    """The parameters of a layer with an int8 weight."""
    expect_quantized(W, "quantized::linear_prepack")
    if W.ndim != 2:
        raise RuntimeError(
            "The weight tensor for quantized::linear_prepack (fbgemm) should be 2-dimensional."
        )
    if W.dtype is not QINT8:
        raise RuntimeError(f"expected scalar type QInt8 but found {scalar_name(W.dtype)}")
    if B is not None:
        _check_bias(B, W.shape[0])
    return ScriptObject(LinearParams(W, B))


def expect_quantized(x: Any, name: str) -> None:
    if not isinstance(x, QuantizedTensor):
        raise NotImplementedError(
            f"Could not run '{name}' with arguments from the 'CPU' backend: the tensor is not "
            "quantized."
        )


def _check_bias(bias: Tensor, size: int) -> None:
    if bias.ndim != 1:
        raise RuntimeError("bias should be a vector (1D Tensor)")
    if bias.shape[0] != size:
        raise RuntimeError(f"bias should have {size} elements: {bias.shape[0]}")


@operator()
def linear_prepack_fp16(W: Tensor, B: Tensor | None = None) -> ScriptObject:
    """The parameters of a layer whose weight is rounded to float16."""
    rounded = W.detach().to(float16).float()
    return ScriptObject(LinearParams(rounded, B))


@operator("linear_unpack", "linear_unpack_fp16")
def linear_unpack(W_prepack: ScriptObject) -> tuple[Any, Tensor | None]:
    """The weight and the bias."""
    return packed_of(W_prepack, LinearParams, "quantized::linear_unpack").unpack()


# ---- products ------------------------------------------------------------------------------------


def integer_product(q: Tensor, zero: int, weight: Weight) -> Tensor:
    """Sums of (q - zero) (w - its zero) over the last dim, in int32: exact."""
    rows = weight.integers
    if q.is_cuda and q.dtype is uint8:  # tensor cores multiply bytes of one type
        q, zero = (q ^ 128).view(int8), zero - 128
    sums = _int_mm(q, rows.t())
    if zero:
        sums = sums - zero * rows.sum(1, dtype=int32)
    if weight.has_zero:
        zeros = weight.zero if isinstance(weight.zero, int) else weight.zero.reshape(-1)
        sums = sums - (q.sum(1, keepdim=True, dtype=int32) - zero * q.shape[1]) * zeros
    return sums


def requantize(
    sums: Tensor, step: Any, bias: Tensor | None, out: Quantizer, lowest: int | None, axis: int
) -> Any:
    """Sums of integers as a quantized tensor.  step: a sum's unit; lowest: of the integers."""
    kind, low, high = KINDS[out.kind]
    x = sums.float()
    if bias is not None:
        shape = [-1 if dim == axis else 1 for dim in range(sums.ndim)]
        x = x + bias.reshape(shape) / step
    x = (x * (step / float(np.float32(out.scale)))).round() + out.zero_point
    return of_integers(x.clamp(low if lowest is None else lowest, high).to(kind), out)


def product(X: Any, packed: LinearParams) -> tuple[Tensor, Any]:
    """The sums of a batch of rows, and a sum's unit for each column."""
    quantizer = uniform(X, "linear")
    if quantizer.kind is not QUINT8:
        raise RuntimeError(
            f"Expected input data type {scalar_name(QUINT8)} but got {scalar_name(quantizer.kind)}"
        )
    weight = rows_for(packed, X)
    q = integers_of(X)
    sums = integer_product(q.reshape(-1, q.shape[-1]), quantizer.zero_point, weight)
    step = float(np.float32(quantizer.scale)) * weight.scales(2, 1)
    return sums.reshape(*q.shape[:-1], sums.shape[1]), step


def rows_for(packed: LinearParams, x: Tensor) -> Weight:
    if packed.rows is None:
        raise RuntimeError("the weight was packed as float16: use linear_dynamic_fp16")
    if x.ndim == 0:
        raise RuntimeError("The dimension of input tensor should be larger than 0")
    if x.shape[-1] != packed.rows.integers.shape[1]:
        raise RuntimeError(f"The number of rows in the packB should be equal to K: {x.shape[-1]}")
    return packed.rows


def _static(name: str, finish: Any = None, relu: bool = False) -> None:
    """Declares linear with a quantizer given; finish: a function of the floats before."""

    def function(
        X: Any, W_prepack: ScriptObject, Y_scale_i: float, Y_zero_point_i: int, *more: Any
    ) -> Any:
        packed = packed_of(W_prepack, LinearParams, f"quantized::{name}")
        sums, step = product(X, packed)
        out = affine(QUINT8, Y_scale_i, Y_zero_point_i)
        bias = packed.bias_tensor
        if finish is None:
            lowest = out.zero_point if relu else None
            return requantize(sums, _last(step), bias, out, lowest, sums.ndim - 1)
        x = sums.float() * _last(step)
        return out.quantize(finish(x if bias is None else x + bias, *more))

    function.__name__, function.__doc__ = name, f"{name} of a quantized tensor."
    operator(name)(function)


def _last(step: Any) -> Any:
    return step.reshape(-1) if isinstance(step, Tensor) else step


_static("linear")
_static("linear_relu", relu=True)
_static("linear_tanh", lambda x: x.tanh())
_static("linear_leaky_relu", lambda x, slope: x.where(x > 0, x * slope))

# ---- by the range of the input -------------------------------------------------------------------


def range_parameters(x: Tensor, reduce_range: bool) -> tuple[float, int]:
    """Scale and zero point of a tensor's own range, for quint8."""
    if reduce_range and Engine.name == "qnnpack":
        defaults.warn_once(
            "Currently, qnnpack incorrectly ignores reduce_range when it is set to true; this may "
            "change in a future release."
        )
        reduce_range = False
    ends = [float(end) for end in x.aminmax()] if x.numel() else [0.0, 0.0]
    scale, zero = choose_parameters(ends[0], ends[1], 0, 127 if reduce_range else 255)
    return float(np.float32(scale)), zero


def dynamic_product(x: Tensor, weight: Weight, bias: Tensor | None, reduce_range: bool) -> Tensor:
    """x W + b, with x quantized by its own range."""
    rows = x.detach().reshape(-1, x.shape[-1]).float()
    scale, zero = range_parameters(rows, reduce_range)
    q = integers_of(affine(QUINT8, scale, zero).quantize(rows))
    out = integer_product(q, zero, weight).float() * (scale * _last(weight.scales(2, 1)))
    out = out if bias is None else out + bias
    return out.reshape(*x.shape[:-1], out.shape[1])


def half_product(x: Tensor, packed: LinearParams) -> Tensor:
    """x W + b, with a weight that was rounded to float16."""
    out = x.detach().float() @ packed.weight.t()
    return out if packed.bias_tensor is None else out + packed.bias_tensor


def _dynamic(name: str, relu: bool) -> None:
    def function(X: Tensor, W_prepack: ScriptObject, reduce_range: bool = False) -> Tensor:
        packed = packed_of(W_prepack, LinearParams, f"quantized::{name}")
        out = dynamic_product(X, rows_for(packed, X), packed.bias_tensor, reduce_range)
        return out.relu() if relu else out

    def halves(X: Tensor, W_prepack: ScriptObject) -> Tensor:
        out = half_product(X, packed_of(W_prepack, LinearParams, f"quantized::{name}_fp16"))
        return out.relu() if relu else out

    function.__name__, function.__doc__ = name, "A linear layer that quantizes its input."
    halves.__name__, halves.__doc__ = f"{name}_fp16", "A linear layer with a float16 weight."
    operator(name)(function)
    operator(f"{name}_fp16")(halves)


_dynamic("linear_dynamic", False)
_dynamic("linear_relu_dynamic", True)


@operator()
def linear_dynamic_fp16_unpacked_weight(
    X: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """A linear layer whose weight is rounded to float16 on the way."""
    packed = linear_prepack_fp16(weight, bias)._packed
    assert isinstance(packed, LinearParams)
    return half_product(X, packed)


def _floats_between(name: str, relu: bool) -> None:
    def function(X: Tensor, X_scale: float, X_zero_point: int, W_prepack: ScriptObject) -> Tensor:
        packed = packed_of(W_prepack, LinearParams, f"quantized::{name}")
        quantized = affine(QUINT8, X_scale, X_zero_point).quantize(X)
        sums, step = product(quantized, packed)
        out = sums.float() * _last(step)
        out = out if packed.bias_tensor is None else out + packed.bias_tensor
        return out.relu() if relu else out

    function.__name__, function.__doc__ = name, "A linear layer on floats, by quantized ones."
    operator(name)(function)


for _relu, _word in ((False, ""), (True, "relu_")):
    _floats_between(f"linear_with_input_q_dq_qweight_dq_{_word}output_fp32", _relu)
