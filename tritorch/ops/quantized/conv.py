"""Convolutions of quantized tensors: of integers less their zero points, which floats hold exactly.

Sums of float32 are exact below 2^24: channels are added in groups that stay below it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.core.dtype import int32
from tritorch.core.promotion import scalar_name
from tritorch.core.published import FUNCTIONAL
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.quantized import KINDS, Quantizer, integers_of, of_integers
from tritorch.ops.quantized.common import QINT8, QUINT8, affine, dequantize, operator, uniform
from tritorch.ops.quantized.linear import expect_quantized, range_parameters, requantize
from tritorch.ops.quantized.packed import CONV, ConvParams, ScriptObject, packed_of

_EXACT = 2**24


def _check_weight(weight: Any, bias: Tensor | None, dims: int, name: str, axis: int) -> None:
    expect_quantized(weight, f"quantized::{name}")
    if weight.ndim != dims + 2:
        raise RuntimeError(
            f"Weights are expected to have {dims + 2} dimensions for {dims}-dimensional kernels, "
            f"got {weight.ndim}"
        )
    if weight.dtype is not QINT8:
        raise RuntimeError(f"expected scalar type QInt8 but found {scalar_name(weight.dtype)}")
    if bias is not None and bias.ndim != 1:
        raise RuntimeError("bias should be a vector (1D Tensor)")


def _lists(dims: int, **values: Any) -> list[list[int]]:
    lists = []
    for name, given in values.items():
        numbers = [int(v) for v in given]
        if dims == 1:  # the second of two is not used
            numbers = numbers[:1]
        if len(numbers) != dims:
            raise RuntimeError(
                f"{name} should contain {dims} elements for {dims}D convolution, got {len(numbers)}"
            )
        lists.append(numbers)
    return lists


def _params(
    dims: int, weight: Any, bias: Tensor | None, lists: list[list[int]], groups: int,
    transposed: bool,
) -> ScriptObject:  # fmt: skip
    """Parameters; of one spatial dim they are those of two, the first of size 1."""
    if dims == 1:
        weight = of_integers(integers_of(weight).unsqueeze(2), weight._quantizer)
        lists = [[first, *each] for first, each in zip((1, 0, 0, 1), lists)]
    stride, padding, output_padding, dilation = lists
    kind = CONV[max(dims, 2)]
    return ScriptObject(
        kind(weight, bias, stride, padding, output_padding, dilation, groups, transposed)
    )


def _prepacking(dims: int) -> None:
    def plain(
        weight: Any, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> ScriptObject:
        _check_weight(weight, bias, dims, f"conv{dims}d_prepack", 0)
        stride, padding, dilation = _lists(dims, stride=stride, padding=padding, dilation=dilation)
        _check_groups(weight.shape[0], groups)
        return _params(dims, weight, bias, [stride, padding, [0] * dims, dilation], groups, False)

    def transposed(
        weight: Any, bias: Tensor | None, stride: Any, padding: Any, output_padding: Any,
        dilation: Any, groups: int,
    ) -> ScriptObject:  # fmt: skip
        _check_weight(weight, bias, dims, f"conv_transpose{dims}d_prepack", 1)
        lists = _lists(
            dims, stride=stride, padding=padding, output_padding=output_padding, dilation=dilation
        )
        return _params(dims, weight, bias, lists, groups, True)

    plain.__name__, plain.__doc__ = f"conv{dims}d_prepack", f"The parameters of a conv{dims}d."
    transposed.__name__ = f"conv_transpose{dims}d_prepack"
    transposed.__doc__ = f"The parameters of a conv_transpose{dims}d."
    old = ("conv_prepack",) if dims == 2 else ()
    operator(plain.__name__, *old)(plain)
    operator(transposed.__name__)(transposed)


def _check_groups(outputs: int, groups: int) -> None:
    if groups <= 0 or outputs % groups:
        raise RuntimeError(
            f"number of output channels {outputs} should be a multiple of groups {groups}"
        )


# ---- sums ----------------------------------------------------------------------------------------


def _sums(q: Tensor, zero: int, packed: ConvParams) -> Tensor:
    """Sums of products of centred integers, exact."""
    _, low, high = KINDS[QUINT8]
    weight = packed.kernel.centred
    furthest = max(abs(low - zero), abs(high - zero))
    terms = int(np.prod(weight.shape[2:])) * furthest * max(packed.kernel.largest, 1)
    channels = weight.shape[0 if packed.transposed else 1] // (
        packed.group_count if packed.transposed else 1
    )
    x = q.float() - zero if zero else q.float()
    at_once = max(_EXACT // terms, 1)
    if channels <= at_once:
        return _conv(x, weight, packed)
    if packed.group_count > 1 or terms > _EXACT:
        return _conv(x.double(), weight.double(), packed)
    total: Any = None
    for start in range(0, channels, at_once):
        part = x.narrow(1, start, min(at_once, channels - start))
        kernel = weight.narrow(0 if packed.transposed else 1, start, part.shape[1])
        sums = _conv(part, kernel, packed).to(int32)
        total = sums if total is None else total + sums
    return total


def _conv(x: Tensor, weight: Tensor, packed: ConvParams) -> Tensor:
    stride, padding, output_padding, dilation = packed.geometry
    if packed.transposed:
        return FUNCTIONAL[f"conv_transpose{packed.n}d"](
            x, weight, None, tuple(stride), tuple(padding), tuple(output_padding),
            packed.group_count, tuple(dilation),
        )  # fmt: skip
    return FUNCTIONAL[f"conv{packed.n}d"](
        x, weight, None, tuple(stride), tuple(padding), tuple(dilation), packed.group_count
    )


def _checked(x: Tensor, packed: ConvParams, dims: int, name: str) -> None:
    if x.ndim != dims + 2:
        raise RuntimeError(f"Expected {dims + 2}D activation for {name}, got {x.ndim}D")
    weight = packed.q
    channels = weight.shape[0] if packed.transposed else weight.shape[1] * packed.group_count
    if x.shape[1] != channels:
        raise RuntimeError(
            f"[QConv{dims}D] Given groups={packed.group_count}, weight of size "
            f"{list(weight.shape)}, expected input (NCHW) {x.shape[1]} to have {channels} channels"
        )


def _scaled_sums(qx: Any, packed: ConvParams, dims: int, name: str) -> tuple[Tensor, Any]:
    quantizer = uniform(qx, name)
    _checked(qx, packed, dims, name)
    if quantizer.kind is not QUINT8:
        raise RuntimeError(
            f"{name}(fbgemm): Expected activation data type {scalar_name(QUINT8)} but got "
            f"{scalar_name(quantizer.kind)}"
        )
    q = integers_of(qx)
    sums = _sums(q.unsqueeze(2) if dims == 1 else q, quantizer.zero_point, packed)
    step = float(np.float32(quantizer.scale)) * packed.kernel.scales(sums.ndim, 1)
    return sums, step


def _narrowed(out: Any, dims: int, by: Quantizer | None = None) -> Any:
    if dims > 1:
        return out
    if by is None:
        return out.squeeze(2)
    return of_integers(integers_of(out).squeeze(2), by)


# ---- operators -----------------------------------------------------------------------------------


def _static(name: str, dims: int, relu: bool) -> Any:
    def function(qx: Any, packed_weight: ScriptObject, *given: Any) -> Any:
        packed = packed_of(packed_weight, CONV[max(dims, 2)], f"quantized::{name}")
        output_scale, output_zero_point = given[-2:]  # the first versions gave the geometry too
        sums, step = _scaled_sums(qx, packed, dims, name)
        out = affine(QUINT8, output_scale, output_zero_point)
        lowest = out.zero_point if relu else None
        result = requantize(sums, step, packed.bias_tensor, out, lowest, 1)
        return _narrowed(result, dims, out)

    function.__name__, function.__doc__ = name, f"{name} of a quantized tensor."
    return function


def _take_names(function: Any) -> Any:
    """The same function, its scale and zero point by name or place."""

    def named(
        qx: Any, packed_weight: Any = None, *args: Any, output_scale: Any = None,
        output_zero_point: Any = None, weight: Any = None, **geometry: Any,
    ) -> Any:  # fmt: skip
        rest = list(args)
        if output_scale is not None:
            rest.append(output_scale)
        if output_zero_point is not None:
            rest.append(output_zero_point)
        return function(qx, weight if packed_weight is None else packed_weight, *rest)

    named.__name__, named.__doc__ = function.__name__, function.__doc__
    return named


def _dynamic(name: str, dims: int) -> None:
    def function(qx: Tensor, packed_weight: ScriptObject, reduce_range: bool = False) -> Tensor:
        packed = packed_of(packed_weight, CONV[max(dims, 2)], f"quantized::{name}")
        _checked(qx, packed, dims, name)
        x = qx.detach().float()
        scale, zero = range_parameters(x, reduce_range)
        q = integers_of(affine(QUINT8, scale, zero).quantize(x))
        sums = _sums(q.unsqueeze(2) if dims == 1 else q, zero, packed)
        step = scale * packed.kernel.scales(sums.ndim, 1)
        by_input = affine(QUINT8, scale, zero)  # the output too, as in PyTorch
        out = dequantize(requantize(sums, step, packed.bias_tensor, by_input, None, 1))
        return _narrowed(out, dims)

    function.__name__, function.__doc__ = name, f"{name}: it quantizes its input."
    operator(name)(function)


def _added(name: str, relu: bool) -> None:
    def function(
        qx: Any, qaccum: Any, packed_weight: ScriptObject, output_scale: float,
        output_zero_point: int,
    ) -> Any:  # fmt: skip
        packed = packed_of(packed_weight, CONV[2], f"quantized::{name}")
        sums, step = _scaled_sums(qx, packed, 2, name)
        x = sums.float() * step
        if packed.bias_tensor is not None:
            x = x + packed.bias_tensor.reshape(-1, 1, 1)
        x = x + dequantize(qaccum)
        return affine(QUINT8, output_scale, output_zero_point).quantize(x.relu() if relu else x)

    function.__name__, function.__doc__ = name, "conv2d plus another quantized tensor."
    operator(name)(function)


def _asked(kind: str, dims: int) -> None:
    """Declares what is asked of parameters: conv2d_stride and the like."""
    for what in ("unpack", "stride", "padding", "output_padding", "dilation", "groups",
                 "transpose"):  # fmt: skip

        def function(packed_weights: ScriptObject, what: str = what) -> Any:
            packed = packed_of(packed_weights, CONV[max(dims, 2)], f"quantized::{kind}_{what}")
            value = getattr(packed, what)()
            if what != "unpack":
                return int(value) if what == "transpose" else value
            weight, bias = value
            return (_narrowed(weight, dims, weight._quantizer), bias)

        function.__name__, function.__doc__ = f"{kind}_{what}", f"{what} of a {kind}."
        old = (f"conv_{what}",) if kind == "conv2d" else ()
        operator(function.__name__, *old)(function)


for _dims in (1, 2, 3):
    _prepacking(_dims)
    for _kind in (f"conv{_dims}d", f"conv_transpose{_dims}d"):
        _names = [_kind, f"{_kind}.new"] if _kind in ("conv2d", "conv3d") else [_kind]
        operator(*_names)(_take_names(_static(_kind, _dims, False)))
        _dynamic(f"{_kind}_dynamic", _dims)
        _asked(_kind, _dims)
    _relu = f"conv{_dims}d_relu"
    operator(_relu, f"{_relu}.new")(_take_names(_static(_relu, _dims, True)))
_added("conv2d_add", False)
_added("conv2d_add_relu", True)
