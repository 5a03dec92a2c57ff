"""Quantisation: its parameters, and floats rounded to what integers would hold.

    y = (clamp(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) * scale

Gradients pass where nothing was clamped.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch.autograd import no_grad
from tritorch.core import dtype as dtypes
from tritorch.core.dims import wrap_dim
from tritorch.core.promotion import not_implemented, scalar_name
from tritorch.core.tensor import Tensor
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.record.apply import apply
from tritorch.ops.record.groups import Gradient
from tritorch.ops.record.kinds import ternary
from tritorch.ops.record.publishing import public
from tritorch.ops.shape import factory


def _rounded(x: Any, scale: Any) -> Any:
    kind = x.dtype.type
    scale = scale.astype(kind) if hasattr(scale, "astype") else kind(scale)
    return np.rint(x * (kind(1) / scale))


def _fake_quantize(x: Any, scale: Any, low: Any, high: Any) -> Any:
    out = np.fmin(np.fmax(_rounded(x, scale), low), high)
    return out * scale + x.dtype.type(0)  # no -0


# low, high: the bounds less the zero point, so that four operands are enough.
_fake, _fake_channel = (
    ternary(
        name, "x scale low high", _fake_quantize,
        schema="(Tensor x, Tensor scale, Tensor low, Tensor high) -> Tensor", gpu="fake_quantize",
        grad=Gradient(
            lambda g, x, scale, low, high: g * _inside(x, scale, low, high),
            node=f"FakeQuantizePer{of}AffineCachemask",
        ),
        without="bool int complex",
    )
    for name, of in (("fake_quantize", "Tensor"), ("fake_quantize_channels", "Channel"))
)  # fmt: skip


def _inside(x: Tensor, scale: Any, low: Any, high: Any) -> Tensor:
    """Where nothing is clamped."""
    inverse = 1 / scale.to(x.dtype) if isinstance(scale, Tensor) else 1 / scale
    q = (x.detach() * inverse).round()
    return (q >= low) & (q <= high)


_HALVES = (dtypes.float16, dtypes.bfloat16)  # computed in float32, as scales are


def _check_bounds(quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")


def _check_floats(x: Tensor) -> None:
    if not x.is_floating_point():
        raise not_implemented("fake_quantize_tensor_cachemask_kernel_type_handling", x.dtype)


def _one(value: Tensor) -> Tensor:
    return value.detach().reshape(())


@public(method=False)
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """What quantising with one scale leaves of floats; scale and zero_point may be tensors."""
    _check_bounds(quant_min, quant_max)
    _check_floats(input)
    if input.dtype in _HALVES:
        out = fake_quantize_per_tensor_affine(
            input.float(), scale, zero_point, quant_min, quant_max
        )
        return out.to(input.dtype)
    if isinstance(zero_point, Tensor):
        zero: Any = _one(zero_point).trunc().to(input.dtype)
    else:
        zero = zero_point
        if not quant_min <= zero <= quant_max:
            raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    # A copy: gradients are those of this scale, whatever observers write into it later.
    step = _one(scale).to(input.dtype, copy=True) if isinstance(scale, Tensor) else float(scale)
    return apply(_fake, (input, step, quant_min - zero, quant_max - zero))


@public(method=False)
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """The same, with a scale and a zero point for each index of a dim."""
    if scale.dtype.name not in ("float32", "bfloat16"):
        raise RuntimeError(f"Scale must be Float or BFloat16, found {scalar_name(scale.dtype)}")
    if zero_point.dtype.name not in ("int32", "float32", "float16"):
        raise RuntimeError(
            f"Zero-point must be Int32, Float or Half, found {scalar_name(zero_point.dtype)}"
        )
    for tensor, name in ((scale, "scale"), (zero_point, "zero point")):
        if tensor.ndim != 1:
            raise RuntimeError(f"{name} should be a 1-D tensor")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    axis = wrap_dim(axis, input.ndim)
    if scale.numel() != input.shape[axis]:
        raise RuntimeError(
            "dimensions of scale and zero-point are not consistent with input tensor"
        )
    _check_bounds(quant_min, quant_max)
    _check_floats(input)
    if input.dtype in _HALVES:
        out = fake_quantize_per_channel_affine(
            input.float(), scale, zero_point, axis, quant_min, quant_max
        )
        return out.to(input.dtype)
    whole = not zero_point.is_floating_point()
    if whole and input.is_cpu and zero_point.numel():
        low, high = zero_point.aminmax()
        if int(low) < quant_min or int(high) > quant_max:
            raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    shape = [-1 if dim == axis else 1 for dim in range(input.ndim)]
    step = scale.detach().reshape(shape).to(input.dtype, copy=True)
    zero = zero_point.detach().reshape(shape).to(input.dtype)
    if whole:
        return apply(_fake_channel, (input, step, quant_min - zero, quant_max - zero))
    q = (zero + input.detach() * step.reciprocal()).round()
    out = (q.clamp(quant_min, quant_max) - zero) * step
    kept = (q >= quant_min) & (q <= quant_max)
    return where(kept, input + (out - input).detach(), out)


# ---- parameters ----------------------------------------------------------------------------------

_LEAST_SCALE = float(np.float32(6.1e-5))


def choose_parameters(
    low: float, high: float, quant_min: int, quant_max: int, symmetric: bool = False
) -> tuple[float, int]:
    """Scale and zero point for values from low to high; 0 stays exact."""
    if low < 0 < high and symmetric:
        bottom, top = -((quant_max - quant_min) // 2 + 1), (quant_max - quant_min) // 2
        widest = max(abs(low / bottom), abs(high / top))
        low, high = float(np.float32(widest * bottom)), float(np.float32(widest * top))
    low, high = min(low, 0.0), max(high, 0.0)
    steps = quant_max - quant_min
    scale = (high - low) / steps
    if np.float32(scale) == 0 or math.isinf(float(np.float32(1) / np.float32(scale))):
        scale = 0.1
    if scale < _LEAST_SCALE:
        grown = _LEAST_SCALE / scale
        low, high = (
            (low, _LEAST_SCALE * steps) if low == 0
            else (-_LEAST_SCALE * steps, high) if high == 0
            else (low * grown, high * grown)
        )  # fmt: skip
        scale = _LEAST_SCALE
    from_low, from_high = quant_min - low / scale, quant_max - high / scale
    low_error = abs(quant_min) - abs(low / scale)
    high_error = abs(quant_max) - abs(high / scale)
    zero = from_low if low_error < high_error else from_high
    if low < 0 < high and symmetric:
        zero = (quant_min + quant_max) / 2
    return scale, int(min(max(round(zero), quant_min), quant_max))


@public(method=False)
def choose_qparams_optimized(
    input: Tensor, numel: int, n_bins: int, ratio: float, bit_width: int
) -> tuple[Tensor, Tensor]:
    """The range (max, min) that loses least when quantised: bins are cut off at either end."""
    if numel < 0 or numel > input.numel():
        raise RuntimeError("numel is out of the bound of input tensor")
    x = input.detach().cpu().float().reshape(-1).numpy()[:numel]
    f = np.float32
    low, high = f(x.min()), f(x.max())
    step = f((high - low) / f(n_bins)) if n_bins else f(0)
    least = f(f(n_bins) * f(1 - ratio) * step)
    best = current = _quantisation_loss(x, low, high, bit_width)
    left, right = low, high
    while n_bins and f(left + least) < right:
        without_left = _quantisation_loss(x, f(left + step), right, bit_width)
        without_right = _quantisation_loss(x, left, f(right - step), bit_width)
        if current < without_left and current < without_right and current < best:
            best, low, high = current, left, right
        if without_left < without_right:
            left, current = f(left + step), without_left
        else:
            right, current = f(right - step), without_right
        if step == 0:
            break
    new = lambda end: factory.tensor([float(end)], device=input.device)
    return new(high), new(low)


def _quantisation_loss(x: Any, low: Any, high: Any, bits: int) -> Any:
    low, high = (np.float32(np.float16(end)) for end in (low, high))
    top = (1 << bits) - 1
    scale = np.float32(np.float16((high - low) / np.float32(top))) if high != low else np.float32(1)
    inverse = np.float32(1) / scale if scale else np.float32(1)
    q = np.clip(np.rint((x - low) * inverse), 0, top)
    return np.sqrt(np.square(x - (q * scale + low)).sum(dtype=np.float32))


# ---- observed ranges -----------------------------------------------------------------------------


@public(method=False)
def fused_moving_avg_obs_fake_quant(
    input: Tensor, observer_on: Tensor, fake_quant_on: Tensor, running_min: Tensor,
    running_max: Tensor, scale: Tensor, zero_point: Tensor, averaging_const: float,
    quant_min: int, quant_max: int, ch_axis: int, per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> Tensor:  # fmt: skip
    """Moves the range towards the input's if observer_on, and fake-quantises if fake_quant_on.

    running_min, running_max, scale and zero_point are changed in place."""
    if not input.numel():
        return input.clone()
    axis = wrap_dim(ch_axis, input.ndim)
    if per_row_fake_quant and axis != 0:
        raise RuntimeError(
            "Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on "
            "axis == 0"
        )
    if observer_on.item():
        _observe(input.detach(), running_min, running_max, averaging_const, per_row_fake_quant)
    if not fake_quant_on.item():
        return input.clone()
    _choose(running_min, running_max, scale, zero_point, quant_min, quant_max, symmetric_quant)
    if per_row_fake_quant:
        return fake_quantize_per_channel_affine(
            input, scale, zero_point, axis, quant_min, quant_max
        )
    return fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max)


def _observe(
    x: Tensor, running_min: Tensor, running_max: Tensor, share: float, by_row: bool
) -> None:
    with no_grad():
        if by_row:
            if not running_min.numel():
                running_min.resize_(x.shape[0]).fill_(math.inf)
                running_max.resize_(x.shape[0]).fill_(-math.inf)
            x = x.reshape(x.shape[0], -1)
        ends = x.aminmax(dim=1) if by_row else x.aminmax()
        for running, end in ((running_min, ends[0]), (running_max, ends[1])):
            end = end.to(running.dtype).reshape(running.shape)
            moved = running + share * (end - running)
            running.copy_(where(running.isinf(), end, moved))


def _choose(
    running_min: Tensor, running_max: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int,
    quant_max: int, symmetric: bool,
) -> None:  # fmt: skip
    lows, highs = (v.reshape(-1).tolist() for v in (running_min, running_max))
    found = [
        choose_parameters(low, high, quant_min, quant_max, symmetric)
        for low, high in zip(lows, highs)
    ]
    with no_grad():
        for target, i in ((scale, 0), (zero_point, 1)):
            if target.numel() != len(found):
                target.resize_(len(found))
            values = [pair[i] for pair in found]
            new = factory.tensor(values, dtype=target.dtype, device=target.device)
            target.copy_(new.reshape(target.shape))
