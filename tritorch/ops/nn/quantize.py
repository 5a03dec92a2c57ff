"""Making quantised tensors, and asking them (`interpret/quantized.py` says what they are)."""

from __future__ import annotations

from typing import Any

from tritorch.core import defaults
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import STORED, dtype as Dtype, float16, float64, int64
from tritorch.core.promotion import scalar_name
from tritorch.core.published import FUNCTIONAL, PUBLIC
from tritorch.core.tensor import Tensor, attach
from tritorch.ops.interpret import quantized as q
from tritorch.ops.nn.fake_quantize import choose_parameters
from tritorch.ops.nn.norm import batch_norm
from tritorch.ops.record.publishing import public
from tritorch.ops.shape import factory


def _check(x: Tensor, kind: Any) -> None:
    if kind not in q.KINDS:
        raise RuntimeError(f"ScalarType {scalar_name(kind)} is not supported in new_qtensor.")
    if x.dtype.name != "float32":
        raise RuntimeError(f"Quantize only works on Float Tensor, got {scalar_name(x.dtype)}")


def _check_zero(name: str, low_zero: float, high_zero: float, kind: Dtype) -> None:
    _, low, high = q.KINDS[kind]
    if high_zero > high:
        raise RuntimeError(f"{name} zero_point {int(high_zero)} is above upper bound.")
    if low_zero < low:
        raise RuntimeError(f"{name} zero_point {int(low_zero)} is below lower bound.")


def _advise() -> None:
    defaults.warn_once(
        "torch.quantize_per_tensor, torch.quantize_per_channel and other quantized tensor creation "
        "functions that produce tensors with dtype torch.quint8, torch.qint8, and torch.qint32 are "
        "deprecated and will be removed in a future PyTorch release.",
        stacklevel=4,
    )


@public(method=False)
def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: Dtype) -> Any:
    """A tensor with one scale and zero point; of a list, one each."""
    if isinstance(input, (list, tuple)):
        return tuple(
            quantize_per_tensor(x, float(scale[i]), int(zero_point[i]), dtype)
            for i, x in enumerate(input)
        )
    _check(input, dtype)
    _advise()
    step, zero = float(scale), int(zero_point)
    _check_zero("quantize_tensor_per_tensor_affine", zero, zero, dtype)
    return q.Quantizer(dtype, q.per_tensor_affine, step, zero).quantize(input)


@public(method=False)
def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: Dtype
) -> Any:
    """A tensor with a scale and zero point for each index of a dim."""
    _check(input, dtype)
    _advise()
    axis = wrap_dim(axis, input.ndim)
    for values, name in ((scales, "scales"), (zero_points, "zero_points")):
        if values.ndim != 1:
            raise RuntimeError(f"{name} tensor must have dimension 1")
        if values.numel() != input.shape[axis]:
            raise RuntimeError(
                f"length of {name} must equal to channel, expected {input.shape[axis]} got, "
                f"{values.numel()}"
            )
    if zero_points.is_floating_point():
        scheme, scales, zeros = (
            q.per_channel_affine_float_qparams,
            scales.float(),
            (zero_points.float()),
        )
    else:
        scheme, scales, zeros = q.per_channel_affine, scales.to(float64), zero_points.to(int64)
        if zeros.numel():
            _check_zero("quantize_tensor_per_channel_affine", int(zeros.min()), int(zeros.max()),
                        dtype)  # fmt: skip
    return q.Quantizer(dtype, scheme, scales.clone(), zeros.clone(), axis).quantize(input)


@public(method=False)
def quantize_per_tensor_dynamic(input: Tensor, dtype: Dtype, reduce_range: bool) -> Any:
    """quantize_per_tensor, by the input's own range; reduce_range: with a bit less. As float16 the
    input is converted alone."""
    if dtype is float16:
        return input.to(float16)
    if dtype not in (STORED["qint8"], STORED["quint8"]):
        raise RuntimeError(f"dtype {scalar_name(dtype)}not supported")
    _check(input, dtype)
    _, low, high = q.KINDS[dtype]
    if reduce_range:
        low, high = int(low / 2), high // 2
    ends = [float(end) for end in input.detach().aminmax()] if input.numel() else [0.0, 0.0]
    return quantize_per_tensor(input, *choose_parameters(ends[0], ends[1], low, high), dtype)


def dequantize(input: Any) -> Any:
    """The floats that a quantised tensor stands for; of a list, each."""
    if isinstance(input, (list, tuple)):
        return tuple(q.dequantize(x) for x in input)
    return q.dequantize(input).float() if isinstance(input, Tensor) else q.dequantize(input)


def int_repr(input: Tensor) -> Tensor:
    """The integers, as a copy."""
    quantizer = q.quantizer_of(input, "int_repr")
    integers = q.integers_of(input).clone()
    each = {15: 2, 3: 4}.get(q.KINDS[quantizer.kind][2], 1)
    return integers if each == 1 else _packed_bits(integers.reshape(-1), each)


def _packed_bits(flat: Tensor, each: int) -> Tensor:
    """Integers below 8 bits, several a byte, the first in the lowest bits."""
    whole = -(-flat.numel() // each) * each
    padded = flat.new_zeros(whole)
    padded[: flat.numel()] = flat
    parts = padded.reshape(-1, each)
    packed = parts[:, 0]
    for place in range(1, each):
        packed = packed | (parts[:, place] << (8 // each * place))
    return packed


def _by(input: Tensor, name: str, per_channel: bool) -> q.Quantizer:
    quantizer = q.quantizer_of(input, name)
    if (quantizer.axis is not None) is not per_channel:
        what = "one scale a channel" if per_channel else "one scale"
        raise RuntimeError(f"{name}: expected a tensor quantised with {what}")
    return quantizer


def q_scale(input: Tensor) -> float:
    """The scale."""
    return _by(input, "q_scale", False).scale


def q_zero_point(input: Tensor) -> int:
    """The integer that stands for 0."""
    return _by(input, "q_zero_point", False).zero_point


def q_per_channel_scales(input: Tensor) -> Tensor:
    """The scale of each channel."""
    return _by(input, "q_per_channel_scales", True).scale


def q_per_channel_zero_points(input: Tensor) -> Tensor:
    """The zero point of each channel."""
    return _by(input, "q_per_channel_zero_points", True).zero_point


def q_per_channel_axis(input: Tensor) -> int:
    """The dim of the channels."""
    axis = _by(input, "q_per_channel_axis", True).axis
    assert axis is not None
    return axis


def qscheme(self: Tensor) -> q.qscheme:
    """How the tensor is quantised."""
    return q.quantizer_of(self, "qscheme").scheme


@public(method=False)
def empty_quantized(size: Any, qtensor: Tensor, *, dtype: Any = None, device: Any = None) -> Any:
    """An uninitialised tensor, quantised like another with one scale."""
    old = _by(qtensor, "empty_quantized", False)
    kind = old.kind if dtype is None else dtype
    where = qtensor.device if device is None else device
    empty = factory.empty(tuple(size), dtype=q.KINDS[kind][0], device=where)
    return q.of_integers(empty, q.Quantizer(kind, old.scheme, old.scale, old.zero_point))


def _max_pool(n: int) -> None:
    def function(
        input: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:  # fmt: skip
        quantizer = _by(input, f"quantized_max_pool{n}d", False)
        floats = FUNCTIONAL[f"max_pool{n}d"](
            q.dequantize(input), kernel_size, stride or None, padding, dilation, ceil_mode
        )
        return quantizer.quantize(floats)

    function.__name__ = function.__qualname__ = f"quantized_max_pool{n}d"
    function.__doc__ = f"max_pool{n}d of a quantised tensor."
    PUBLIC[function.__name__] = function


for _n in (1, 2, 3):
    _max_pool(_n)


@public(method=False)
def quantized_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor,
    eps: float, output_scale: float, output_zero_point: int,
) -> Any:  # fmt: skip
    """batch_norm of a quantised tensor by given statistics."""
    kind = _by(input, "quantized_batch_norm", False).kind
    out = batch_norm(q.dequantize(input), mean, var, weight, bias, False, 0.0, eps)
    return q.Quantizer(
        kind, q.per_tensor_affine, float(output_scale), int(output_zero_point)
    ).quantize(out)


for _function in (
    dequantize, int_repr, q_scale, q_zero_point, q_per_channel_scales, q_per_channel_zero_points,
    q_per_channel_axis,
):  # fmt: skip
    PUBLIC[_function.__name__] = _function
    setattr(Tensor, _function.__name__, _function)
attach(qscheme=qscheme)
for _name in (*(_function.__name__ for _function in (
    dequantize, int_repr, q_scale, q_zero_point, q_per_channel_scales, q_per_channel_zero_points,
    q_per_channel_axis, qscheme, empty_quantized, quantized_batch_norm,
)), *(f"quantized_max_pool{n}d" for n in (1, 2, 3))):  # fmt: skip
    q.answers(_name)
