"""Operators `torch.ops.quantized_decomposed`: quantization of plain tensors of integers.

Scales and zero points are arguments, so that graphs show them. `_decomposed_schemas.py` has their
schemas; `..._meta` computes what results look like.
"""

from __future__ import annotations

import math
from typing import Any

import tritorch
from tritorch import Tensor
from tritorch.ao.quantization.fx._decomposed_schemas import KEYS, SCHEMAS
from tritorch.ao.quantization.utils import determine_qparams, validate_qmin_qmax
from tritorch.autograd import Function
from tritorch.core.dtype import dtype as DType
from tritorch.library import Library

quantized_decomposed_lib = Library("quantized_decomposed", "DEF")

_INTEGER_DTYPES = [tritorch.uint8, tritorch.int8, tritorch.uint16, tritorch.int16, tritorch.int32]
_FLOAT_DTYPES = [tritorch.float8_e5m2, tritorch.float8_e4m3fn]

_DTYPE_TO_QVALUE_BOUNDS = {
    **{k: (tritorch.iinfo(k).min, tritorch.iinfo(k).max) for k in _INTEGER_DTYPES},
    **{k: (int(tritorch.finfo(k).min), int(tritorch.finfo(k).max)) for k in _FLOAT_DTYPES},
}


def _quant_min_max_bounds_check(quant_min: int, quant_max: int, dtype: DType) -> None:
    """Raises if a range is not that of the type, or smaller."""
    if dtype not in _DTYPE_TO_QVALUE_BOUNDS:
        raise ValueError(f"Unsupported dtype: {dtype}")
    lower, upper = _DTYPE_TO_QVALUE_BOUNDS[dtype]
    if quant_min < lower:
        raise AssertionError(
            "quant_min out of bounds for dtype, "
            f"quant_min_lower_bound: {lower} quant_min: {quant_min}"
        )
    if quant_max > upper:
        raise AssertionError(
            "quant_max out of bounds for dtype, "
            f"quant_max_upper_bound: {upper} quant_max: {quant_max}"
        )


def _as_float(input: Tensor) -> Tensor:
    """The input in float32; types other than floats of 16 and 32 bits raise."""
    if input.dtype in (tritorch.float16, tritorch.bfloat16):
        input = input.to(tritorch.float32)
    if input.dtype != tritorch.float32:
        raise AssertionError(
            f"Expecting input to have dtype torch.float32, but got dtype: {input.dtype}"
        )
    return input


def _check_one(scale: Tensor, zero_point: Tensor) -> None:
    for name, tensor in (("zero_point", zero_point), ("scale", scale)):
        if tensor.numel() != 1:
            raise AssertionError(
                f"Expecting {name} tensor to be one element, but received : {tensor.numel()}"
            )


def _check_stored(input: Tensor, dtype: DType) -> None:
    if input.dtype != dtype:
        raise AssertionError(f"Expecting input to have dtype: {dtype}, but got {input.dtype}")


def _check_axis(input: Tensor, axis: int) -> None:
    if axis >= input.dim():
        raise AssertionError(f"Expecting axis to be < {input.dim()}")


def _along(values: Tensor, input: Tensor, axis: int) -> Tensor:
    """One value a channel, shaped to broadcast with the input."""
    shape = [1] * input.dim()
    shape[axis] = values.shape[0]
    return values.view(shape)


def quantize_per_tensor(
    input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: DType
) -> Tensor:
    """round(input / scale) + zero_point, within the range, as integers."""
    input = _as_float(input)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    steps = tritorch.round(input * (1.0 / scale)) + zero_point
    return tritorch.clamp(steps, quant_min, quant_max).to(dtype)


def quantize_per_tensor_meta(
    input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: DType
) -> Tensor:
    return tritorch.empty_like(_as_float(input), dtype=dtype)


def quantize_per_tensor_tensor(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, dtype: DType
) -> Tensor:
    """`quantize_per_tensor` with tensors of one element."""
    _check_one(scale, zero_point)
    return quantize_per_tensor(input, scale.item(), zero_point.item(), quant_min, quant_max, dtype)  # type: ignore[arg-type]


def quantize_per_tensor_tensor_meta(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: Any, quant_max: Any, dtype: DType
) -> Tensor:
    _check_one(scale, zero_point)
    return tritorch.empty_like(_as_float(input), dtype=dtype)


def quantize_per_tensor_tensor2(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: Tensor,
    quant_max: Tensor,
    dtype: DType,
) -> Tensor:
    """`quantize_per_tensor` with tensors of one element, for the range too."""
    low, high = int(quant_min.item()), int(quant_max.item())
    return quantize_per_tensor_tensor(input, scale, zero_point, low, high, dtype)


quantize_per_tensor_tensor2_meta = quantize_per_tensor_tensor_meta


def dequantize_per_tensor(
    input: Tensor,
    scale: float,
    zero_point: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    *,
    out_dtype: DType | None = None,
) -> Tensor:
    """(input - zero_point) * scale; the range says in graphs how the input was made."""
    _check_stored(input, dtype)
    _check_dequantizable(dtype)
    return (input.to(out_dtype or tritorch.float32) - zero_point) * scale


def _check_dequantizable(dtype: DType) -> None:
    if dtype not in _DTYPE_TO_QVALUE_BOUNDS:
        raise ValueError(f"Unsupported dtype in dequantize_per_tensor: {dtype}")


def dequantize_per_tensor_meta(
    input: Tensor,
    scale: float,
    zero_point: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    *,
    out_dtype: DType | None = None,
) -> Tensor:
    return tritorch.empty_like(input, dtype=out_dtype or tritorch.float32)


def dequantize_per_tensor_tensor(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    *,
    out_dtype: DType | None = None,
) -> Tensor:
    """`dequantize_per_tensor` with tensors of one element."""
    _check_one(scale, zero_point)
    one, zero = float(scale.item()), int(zero_point.item())
    return dequantize_per_tensor(input, one, zero, quant_min, quant_max, dtype, out_dtype=out_dtype)


def dequantize_per_tensor_tensor_meta(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: Any,
    quant_max: Any,
    dtype: DType,
    *,
    out_dtype: DType | None = None,
) -> Tensor:
    _check_one(scale, zero_point)
    _check_stored(input, dtype)
    _check_dequantizable(dtype)
    return tritorch.empty_like(input, dtype=out_dtype or tritorch.float32)


def dequantize_per_tensor_tensor2(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: Tensor,
    quant_max: Tensor,
    dtype: DType,
    *,
    out_dtype: DType | None = None,
) -> Tensor:
    """`dequantize_per_tensor` with tensors of one element, for the range too."""
    low, high = int(quant_min.item()), int(quant_max.item())
    return dequantize_per_tensor_tensor(
        input, scale, zero_point, low, high, dtype, out_dtype=out_dtype
    )


dequantize_per_tensor_tensor2_meta = dequantize_per_tensor_tensor_meta


def _check_observable(input: Tensor) -> None:
    if input.dtype not in (tritorch.float32, tritorch.float16, tritorch.bfloat16):
        raise AssertionError(
            f"Expecting input to have dtype torch.float32/16/b16, but got dtype: {input.dtype}"
        )


def _chosen(
    input: Tensor, qmin: int, qmax: int, eps: float, dtype: DType, **scheme: Any
) -> tuple[Tensor, Tensor]:
    """Scale and zero point for the smallest and largest element of the input."""
    _check_observable(input)
    if dtype not in _DTYPE_TO_QVALUE_BOUNDS:
        raise AssertionError(
            f"Expecting target dtype to be one of {_DTYPE_TO_QVALUE_BOUNDS.keys()}, "
            f"but got: {dtype}"
        )
    validate_qmin_qmax(qmin, qmax)
    smallest, largest = tritorch.aminmax(input)
    least = tritorch.tensor([eps], dtype=tritorch.float32)
    return determine_qparams(
        smallest, largest, qmin, qmax, dtype, least, has_customized_qrange=False, **scheme
    )


def choose_qparams_tensor(
    input: Tensor, qmin: int, qmax: int, eps: float, dtype: DType
) -> tuple[Tensor, Tensor]:
    """Scale and zero point that fit the input, the scale no smaller than `eps`."""
    return _chosen(input, qmin, qmax, eps, dtype)


def choose_qparams_symmetric_tensor(
    input: Tensor, qmin: int, qmax: int, eps: float, dtype: DType
) -> tuple[Tensor, Tensor]:
    """Scale that fits the input, as far below zero as above; no smaller than `eps`."""
    return _chosen(input, qmin, qmax, eps, dtype, qscheme=tritorch.per_tensor_symmetric)


def _empty_qparams(input: Tensor, *shape: int) -> tuple[Tensor, Tensor]:
    device = input.device
    return (
        tritorch.empty(shape, dtype=tritorch.double, device=device),
        tritorch.empty(shape, dtype=tritorch.int64, device=device),
    )


def choose_qparams_tensor_meta(
    input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: DType
) -> tuple[Tensor, Tensor]:
    _check_observable(input)
    if quant_min >= quant_max:
        raise AssertionError(
            "Expecting quant_min to be smaller than quant_max "
            f"but received min: {quant_min} max: {quant_max}"
        )
    return _empty_qparams(input, 1)


def choose_qparams_symmetric_tensor_meta(
    input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: DType
) -> tuple[Tensor, Tensor]:
    return _empty_qparams(input, 1)


# One scale a channel


def quantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
) -> Tensor:
    """`quantize_per_tensor` with a scale and a zero point for each index of an axis."""
    input = _as_float(input)
    _check_axis(input, axis)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    scales, zero_points = _along(scales, input, axis), _along(zero_points, input, axis)
    steps = tritorch.round(input * (1.0 / scales)) + zero_points
    return tritorch.clamp(steps, quant_min, quant_max).to(dtype)


def quantize_per_channel_meta(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
) -> Tensor:
    input = _as_float(input)
    _check_axis(input, axis)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    return tritorch.empty_like(input, dtype=dtype)


def dequantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    *,
    out_dtype: DType | None = None,
) -> Tensor:
    """(input - zero_points) * scales along an axis."""
    empty = dequantize_per_channel_meta(
        input, scales, zero_points, axis, quant_min, quant_max, dtype, out_dtype=out_dtype
    )
    if zero_points is not None:
        input = input - _along(zero_points, input, axis)
    return (input * _along(scales, input, axis)).to(empty.dtype)


def dequantize_per_channel_meta(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    *,
    out_dtype: DType | None = None,
) -> Tensor:
    if input.dtype != dtype:
        raise AssertionError(
            f"Expecting input to have dtype: {dtype}, but got dtype: {input.dtype}"
        )
    _check_axis(input, axis)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    return tritorch.empty_like(input, dtype=out_dtype or tritorch.float32)


class FakeQuantPerChannel(Function):
    """Quantizes and dequantizes along an axis; gradients pass where nothing was clamped."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        scales: Tensor,
        zero_points: Tensor,
        axis: int,
        quant_min: int,
        quant_max: int,
    ) -> Tensor:
        if input.dtype != tritorch.float32:
            raise AssertionError(
                f"Expecting input to have dtype torch.float32, but got dtype: {input.dtype}"
            )
        _check_axis(input, axis)
        scales = _along(scales.to(tritorch.float32), input, axis)
        zero_points = _along(zero_points.to(tritorch.int32), input, axis)
        steps = tritorch.round(input * (1.0 / scales)) + zero_points
        clamped = tritorch.clamp(steps, quant_min, quant_max)
        ctx.save_for_backward(clamped == steps)
        return (clamped - zero_points) * scales

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> Any:
        (inside,) = ctx.saved_tensors
        return gy * inside, None, None, None, None, None


def fake_quant_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> Tensor:
    """The input as its quantized form has it, with gradients."""
    return FakeQuantPerChannel.apply(input, scales, zero_points, axis, quant_min, quant_max)


def fake_quant_per_channel_meta(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> Tensor:
    return tritorch.empty_like(input)


# One scale a token, which is a row along the last dim


def choose_qparams_per_token(input: Tensor, dtype: DType) -> tuple[Tensor, Tensor]:
    """Scales that fit each token, as far below zero as above; zero points are zeros."""
    scales = input.abs().amax(dim=-1, keepdim=True)
    if scales.dtype == tritorch.float16:  # its range is too small for what follows
        scales = scales.float()
    if dtype != tritorch.int8:
        raise Exception(f"unsupported dtype in choose_qparams_per_token: {dtype}")
    scales = scales.clamp(min=1e-5).div(tritorch.iinfo(dtype).max)
    return scales, tritorch.zeros_like(scales)


def choose_qparams_per_token_meta(input: Tensor, dtype: DType) -> tuple[Tensor, Tensor]:
    return _empty_qparams(input, *input.shape[:-1], 1)


def _choose_qparams_per_token_asymmetric_impl(input: Tensor, dtype: DType) -> tuple[Tensor, Tensor]:
    """Scales and zero points that fit each token in int8, as XNNPACK rounds them."""
    qmin, qmax = -128, 127
    lowest = input.amin(dim=-1, keepdim=True).clamp(max=0)
    highest = input.amax(dim=-1, keepdim=True).clamp(min=0)
    scale = (highest - lowest) / float(qmax - qmin)
    scale = scale.clamp(min=tritorch.finfo(tritorch.float32).eps)
    low, high = lowest / scale, highest / scale
    zero_point = tritorch.where((qmin + low) + (qmax + high) > 0, qmin - low, qmax - high)
    zero_point = zero_point.clamp(qmin, qmax).round()
    return scale.to(tritorch.float64), zero_point.to(tritorch.int64)


def choose_qparams_per_token_asymmetric(input: Tensor, dtype: DType) -> tuple[Tensor, Tensor]:
    """Scales and zero points that fit each token in int8."""
    return _choose_qparams_per_token_asymmetric_impl(input, dtype)


choose_qparams_per_token_asymmetric_meta = choose_qparams_per_token_meta


def _per_token_quant_qparam_dim_check(input: Tensor, scales: Tensor, zero_points: Tensor) -> None:
    """Raises unless there is a scale and a zero point for each token."""
    tokens = math.prod(input.shape[:-1])
    for name, tensor in (("scales", scales), ("zero_points", zero_points)):
        if tokens != tensor.numel():
            raise AssertionError(f"num_tokens: {tokens} {name}: {tensor.size()}")


def quantize_per_token(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: DType,
) -> Tensor:
    """round(input / scales + zero_points) for each token, within the range, as integers."""
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    _per_token_quant_qparam_dim_check(input, scales, zero_points)
    return _rounded(input, scales, zero_points, quant_min, quant_max).to(dtype)


def _rounded(
    input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int
) -> Tensor:
    return input.mul(1.0 / scales).add(zero_points).round().clamp(quant_min, quant_max)


def quantize_per_token_meta(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: DType,
) -> Tensor:
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    return tritorch.empty_like(input, dtype=dtype)


def dequantize_per_token(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    output_dtype: DType = tritorch.float32,
) -> Tensor:
    """(input - zero_points) * scales for each token."""
    return ((input - zero_points) * scales).to(output_dtype)


def dequantize_per_token_meta(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    output_dtype: DType = tritorch.float32,
) -> Tensor:
    return quantize_per_token_meta(input, scales, zero_points, quant_min, quant_max, dtype).to(
        output_dtype
    )


# One scale for each group of elements of a row


def _group_size(name: str, weight: Tensor, scales: Tensor, group_size: int) -> int:
    """The size of groups that divide the rows of a matrix; GPTQ has one column of scales."""
    if group_size <= 1:
        raise AssertionError("group_size must be > 1")
    if group_size > weight.shape[-1] and scales.shape[-1] == 1:
        group_size = weight.shape[-1]
    if weight.shape[-1] % group_size != 0:
        raise AssertionError(f"{name}.shape[-1] must be divisible by group_size")
    if weight.dim() != 2:
        raise AssertionError(f"{name} must be 2-dimensional")
    return group_size


def quantize_per_channel_group(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    group_size: int = 128,
) -> Tensor:
    """round(input / scales + zero_points) for each group of a row, within the range."""
    groups = input.reshape(-1, _group_size("input", input, scales, group_size))
    if tritorch.isnan(groups).any():
        raise AssertionError("to_quant must not contain NaNs")
    scales, zero_points = scales.reshape(-1, 1), zero_points.reshape(-1, 1)
    steps = _rounded(groups, scales, zero_points, quant_min, quant_max)
    return steps.to(dtype).reshape_as(input)


def quantize_per_channel_group_meta(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    group_size: int = 128,
) -> Tensor:
    _group_size("input", input, scales, group_size)
    return tritorch.empty_like(input, dtype=dtype)


def dequantize_per_channel_group(
    w_int8: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    group_size: int = 128,
    output_dtype: DType = tritorch.float32,
) -> Tensor:
    """(w_int8 - zero_points) * scales for each group of a row."""
    groups = w_int8.reshape(-1, _group_size("w_int8", w_int8, scales, group_size))
    if zero_points is None:
        groups = groups.to(tritorch.int32)
    else:
        groups = groups.sub(zero_points.reshape(-1, 1))
    return groups.mul(scales.reshape(-1, 1)).reshape_as(w_int8).to(output_dtype)


def convert_element_type(input: Tensor, dtype: DType) -> Tensor:
    """The input in another type; compilers leave it where it is."""
    return input.to(dtype, copy=True)


def convert_element_type_meta(input: Tensor, dtype: DType) -> Tensor:
    return tritorch.empty_like(input, dtype=dtype)


for _kernel_name, _schema in SCHEMAS.items():
    _operator = _schema.partition("(")[0]
    _key = KEYS.get(_kernel_name, "CompositeExplicitAutograd")
    quantized_decomposed_lib.define(_schema)
    quantized_decomposed_lib.impl(_operator, globals()[_kernel_name], _key)
    if f"{_kernel_name}_meta" in globals():
        quantized_decomposed_lib.impl(_operator, globals()[f"{_kernel_name}_meta"], "Meta")
