"""ATen's internal operators of quantization: tensors made of integers, and learnable rounding."""

from __future__ import annotations

from typing import Any

from tritorch.autograd import no_grad
from tritorch.autograd.function import Function
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import STORED, bool_, float64, int64
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret import quantized as q
from tritorch.ops.nn.fake_quantize import (
    choose_parameters,
    fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine,
    fused_moving_avg_obs_fake_quant,
)
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.quantized.common import aten
from tritorch.ops.shape import factory

_KIND_OF_INTEGERS = {"int8": "qint8", "uint8": "quint8", "int32": "qint32"}


@aten
def _empty_affine_quantized(
    size: Any, *more: int, scale: float = 1.0, zero_point: int = 0, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = None, memory_format: Any = None,
) -> Any:  # fmt: skip
    """An uninitialised tensor, quantized with one scale."""
    shape = (size, *more) if isinstance(size, int) else tuple(size)
    kind = STORED["quint8"] if dtype is None else dtype
    _require_quantized(kind)
    empty = factory.empty(shape, dtype=q.KINDS[kind][0], device=device)
    return q.of_integers(
        empty, q.Quantizer(kind, q.per_tensor_affine, float(scale), int(zero_point))
    )


def _require_quantized(kind: Any) -> None:
    if kind not in q.KINDS:
        raise RuntimeError(
            "Creation of quantized tensor requires quantized dtype like torch.quint8"
        )


@aten
def _empty_per_channel_affine_quantized(
    size: Any, *, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = None, memory_format: Any = None,
) -> Any:  # fmt: skip
    """An uninitialised tensor, quantized with a scale for each index of a dim."""
    _require_quantized(dtype)
    empty = factory.empty(tuple(size), dtype=q.KINDS[dtype][0], device=device)
    return q.of_integers(empty, _by_channel(dtype, scales, zero_points, axis))


def _by_channel(kind: Any, scales: Tensor, zero_points: Tensor, axis: int) -> q.Quantizer:
    if zero_points.is_floating_point():
        scheme, scales, zeros = (
            q.per_channel_affine_float_qparams, scales.float(), zero_points.float(),
        )  # fmt: skip
    else:
        scheme, scales, zeros = q.per_channel_affine, scales.to(float64), zero_points.to(int64)
    return q.Quantizer(kind, scheme, scales.clone(), zeros.clone(), axis)


@aten
def _make_per_tensor_quantized_tensor(input: Tensor, scale: float, zero_point: int) -> Any:
    """Integers as a quantized tensor with one scale."""
    kind = STORED[_KIND_OF_INTEGERS[input.dtype.name]]
    quantizer = q.Quantizer(kind, q.per_tensor_affine, float(scale), int(zero_point))
    return q.of_integers(input.detach().clone(), quantizer)


@aten
def _make_per_channel_quantized_tensor(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int
) -> Any:
    """Integers as a quantized tensor with a scale for each index of a dim."""
    kind = STORED[_KIND_OF_INTEGERS[input.dtype.name]]
    axis = wrap_dim(axis, input.ndim)
    return q.of_integers(input.detach().clone(), _by_channel(kind, scale, zero_point, axis))


@aten
def _choose_qparams_per_tensor(input: Tensor, reduce_range: bool = False) -> tuple[float, int]:
    """Scale and zero point of a tensor's own range, for quint8."""
    low, high = (float(end) for end in input.detach().aminmax())
    return choose_parameters(low, high, 0, 127 if reduce_range else 255)


@aten
def _saturate_weight_to_fp16(weight: Tensor) -> Tensor:
    """The values, those past float16's range at its ends."""
    return weight.clamp(-65504.0, 65504.0)


# ---- rounding whose scale and zero point learn ---------------------------------------------------


class FakeQuantizeLearnable(Function):
    """Fake quantization with gradients for scale and zero point, weighed by a factor."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor, zero: Tensor, shape: Any, low: int, high: int,
        factor: float,
    ) -> Tensor:  # fmt: skip
        """The values that integers would hold."""
        ctx.save_for_backward(x, scale, zero)
        ctx.rest = shape, low, high, factor
        levels, step, nearest = _levels(x, scale, zero, shape, low, high)
        return (levels.clamp(low, high) - nearest) * step

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        """For values inside of the range, and for scale and zero point."""
        x, scale, zero = ctx.saved_tensors
        shape, low, high, factor = ctx.rest
        levels, step, nearest = _levels(x, scale, zero, shape, low, high)
        inside = (levels >= low) & (levels <= high)
        ends = levels.clamp(low, high) - nearest
        of_scale = g * where(inside, ends - x / step, ends) * factor
        of_zero = g * where(inside, g.new_zeros(()), -step) * factor
        dims = [dim for dim in range(x.ndim) if shape[dim] == 1] if shape else None
        sums = [
            (each.sum() if dims is None else each.sum(dims)).reshape(scale.shape).to(scale.dtype)
            for each in (of_scale, of_zero)
        ]
        return g * inside, sums[0], sums[1].to(zero.dtype), None, None, None, None


def _levels(x: Tensor, scale: Tensor, zero: Tensor, shape: Any, low: int, high: int) -> Any:
    """(levels before they are clamped, scale, zero point) in the shape of x."""
    with no_grad():
        step, nearest = scale.reshape(shape or ()), zero.reshape(shape or ())
        nearest = (nearest.clamp(low, high) + 0.5).floor()
        return (x * (1 / step) + nearest).round(), step, nearest


@aten
def _fake_quantize_learnable_per_tensor_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> Tensor:  # fmt: skip
    """Fake quantization by one scale that learns."""
    rest = (), quant_min, quant_max, grad_factor
    return FakeQuantizeLearnable.apply(input, scale, zero_point, *rest)


@aten
def _fake_quantize_learnable_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> Tensor:  # fmt: skip
    """Fake quantization by scales that learn, one for each index of a dim."""
    if scale.ndim != 1:
        raise RuntimeError("scale should be a 1-D tensor")
    if zero_point.ndim != 1:
        raise RuntimeError("zero point should be a 1-D tensor")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    axis = wrap_dim(axis, input.ndim)
    if scale.numel() != input.shape[axis]:
        raise RuntimeError(
            "dimensions of scale and zero-point are not consistent with input tensor"
        )
    shape = tuple(scale.numel() if dim == axis else 1 for dim in range(input.ndim))
    rest = shape, quant_min, quant_max, grad_factor
    return FakeQuantizeLearnable.apply(input, scale, zero_point, *rest)


# ---- rounding, and where nothing is clamped ------------------------------------------------------


def _mask(x: Tensor, scale: Any, zero: Any, low: int, high: int) -> Tensor:
    levels = (x.detach() * (1 / scale)).round() + zero
    return (levels >= low) & (levels <= high)


@aten
def fake_quantize_per_tensor_affine_cachemask(
    input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """(fake_quantize_per_tensor_affine, where nothing is clamped)."""
    args = scale, zero_point, quant_min, quant_max
    return fake_quantize_per_tensor_affine(input, *args), _mask(input, *args)


@aten
def _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    input: Tensor, scale: Tensor, zero_point: Tensor, fake_quant_enabled: Tensor, quant_min: int,
    quant_max: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The same with parameters in tensors; the input as it is where it is not enabled."""
    if not fake_quant_enabled.item():
        return input.clone(), input.new_ones(input.shape, dtype=bool_)
    args = scale, zero_point, quant_min, quant_max
    return fake_quantize_per_tensor_affine(input, *args), _mask(input, *args)


@aten
def fake_quantize_per_channel_affine_cachemask(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """(fake_quantize_per_channel_affine, where nothing is clamped)."""
    out = fake_quantize_per_channel_affine(input, scale, zero_point, axis, quant_min, quant_max)
    shape = [-1 if dim == wrap_dim(axis, input.ndim) else 1 for dim in range(input.ndim)]
    shaped = scale.detach().reshape(shape), zero_point.detach().reshape(shape)
    return out, _mask(input, *shaped, quant_min, quant_max)


@aten
def _fused_moving_avg_obs_fq_helper(
    input: Tensor, observer_on: Tensor, fake_quant_on: Tensor, running_min: Tensor,
    running_max: Tensor, scale: Tensor, zero_point: Tensor, averaging_const: float,
    quant_min: int, quant_max: int, ch_axis: int, per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(fused_moving_avg_obs_fake_quant, where nothing is clamped)."""
    out = fused_moving_avg_obs_fake_quant(
        input, observer_on, fake_quant_on, running_min, running_max, scale, zero_point,
        averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant, symmetric_quant,
    )  # fmt: skip
    if not fake_quant_on.item():
        return out, input.new_ones(input.shape, dtype=bool_)
    shape = [-1, *[1] * (input.ndim - 1)] if per_row_fake_quant else []
    shaped = scale.detach().reshape(shape), zero_point.detach().reshape(shape)
    return out, _mask(input, *shaped, quant_min, quant_max)


# ---- rows that are pruned ------------------------------------------------------------------------


@aten
def _rowwise_prune(
    weight: Tensor, mask: Tensor, compressed_indices_dtype: Any
) -> tuple[Tensor, Tensor]:
    """(the rows that a mask keeps, each row's new index or -1)."""
    kept = mask.to(int64)
    places = where(mask, kept.cumsum(0) - 1, kept.new_full((), -1))
    return weight.detach()[mask], places.to(compressed_indices_dtype)
