"""Sums, products and concatenations of quantized tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tritorch.core.dtype import int32, int64
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.quantized import of_integers
from tritorch.ops.quantized.common import (
    KINDS,
    QuantizedTensor,
    affine,
    dequantize,
    integers_of,
    operator,
    require_same_kind,
    uniform,
    uniform_or_none,
    write,
)
from tritorch.ops.shape.joining import cat as join

Function = Callable[..., Any]


def _binary(name: str, compute: Function, relu: bool) -> None:
    full = f"{name}_relu" if relu else name

    def function(qa: Tensor, qb: Tensor, scale: float, zero_point: int) -> Any:
        return affine(qa.dtype, scale, zero_point).quantize(_floats(qa, qb))

    def into(qa: Tensor, qb: Tensor, out: Tensor) -> Any:
        given = uniform(out, full)
        return write(affine(qa.dtype, given.scale, given.zero_point).quantize(_floats(qa, qb)), out)

    def _floats(qa: Tensor, qb: Tensor) -> Tensor:
        uniform(qa, full)
        uniform(qb, full)
        require_same_kind(qa, qb, f"quantized::{full}")
        result = compute(dequantize(qa), dequantize(qb))
        return result.relu() if relu else result

    function.__name__, function.__doc__ = full, f"{full} of two tensors, with a quantizer given."
    into.__name__, into.__doc__ = f"{full}_out", f"{full} into a tensor, by its quantizer."
    operator(full)(function)
    operator(f"{full}.out", f"{full}_out")(into)


for _relu in (False, True):
    _binary("add", lambda a, b: a + b, _relu)
    _binary("mul", lambda a, b: a * b, _relu)


@operator()
def matmul(qa: Tensor, qb: Tensor, scale: float, zero_point: int) -> Any:
    """The product of two matrices, with a quantizer given."""
    for x in (qa, qb):
        uniform(x, "matmul")
    require_same_kind(qa, qb, "quantized::matmul")
    if qa.ndim < 2:
        raise RuntimeError("tensor must have at least two dimensions")
    if qa.ndim != qb.ndim:
        raise RuntimeError(
            "MatMul operands should have the same dimensionality. "
            f"({qa.ndim} and {qb.ndim} provided)"
        )
    return affine(qa.dtype, scale, zero_point).quantize(dequantize(qa) @ dequantize(qb))


# ---- with a number: the quantizer changes, where it can, and not the integers --------------------


def _shifted(qa: Tensor, number: float, relu: bool) -> Any:
    """A tensor plus a number: the zero point moves; past the integers' ends the scale grows."""
    old = uniform(qa, "add_scalar")
    _, low, high = KINDS[old.kind]
    q = integers_of(qa)
    steps = round(number / old.scale)
    zero = old.zero_point - steps
    if low <= zero <= high:
        new = affine(old.kind, old.scale, zero)
        return of_integers(q.clamp(min=zero) if relu else q.clone(), new)
    if zero < low:
        new = affine(old.kind, (high - zero) / (high - low) * old.scale, low)
    else:
        new = affine(old.kind, (zero - low) / (high - low) * old.scale, high)
    wide = (q.to(int32) - old.zero_point + steps).float() * (old.scale / new.scale)
    wide = (wide.round() + new.zero_point).clamp(new.zero_point if relu else low, high)
    return of_integers(wide.to(q.dtype), new)


def _scaled(qa: Tensor, number: float, relu: bool) -> Any:
    """A tensor times a number: the scale is multiplied; a negative number mirrors the integers."""
    old = uniform(qa, "mul_scalar")
    _, low, high = KINDS[old.kind]
    q = integers_of(qa)
    if number == 0:
        return of_integers(q.new_zeros(q.shape), affine(old.kind, 1.0, 0))
    if number > 0:
        q, zero = q.clone(), old.zero_point
    else:
        wide = low + high - q.to(int64 if old.kind.name == "qint32" else int32)
        q, zero = wide.to(q.dtype), low + high - old.zero_point
    if relu:
        q = q.clamp(min=zero)
    return of_integers(q, affine(old.kind, old.scale * abs(number), zero))


def _with_number(name: str, change: Function, relu: bool) -> None:
    suffix = "_relu" if relu else ""

    def function(qa: Any, b: Any) -> Any:
        if not isinstance(qa, QuantizedTensor):  # number first
            qa, b = b, qa
        return change(qa, float(b), relu)

    def into(qa: Tensor, b: Any, out: Tensor) -> Any:
        return write(change(qa, float(b), relu), out)

    function.__name__ = f"{name}_scalar{suffix}"
    function.__doc__ = f"{name} of a tensor and a number; its quantizer follows from the tensor's."
    into.__name__, into.__doc__ = f"{function.__name__}_out", f"{function.__name__} into a tensor."
    full, old = name + suffix, f"{name}_scalar{suffix}"
    operator(f"{full}.Scalar", f"{full}.Scalar2", old, f"{old}.Tensor")(function)
    operator(f"{full}.Scalar_out", f"{old}_out", f"{old}_out.Tensor")(into)


for _relu in (False, True):
    _with_number("add", _shifted, _relu)
    _with_number("mul", _scaled, _relu)

# ---- concatenation -------------------------------------------------------------------------------


def _joined(qx: Any, dim: int, scale: Any, zero_point: Any, relu: bool) -> Any:
    first: Any = uniform_or_none(qx[0])
    for x in qx:
        require_same_kind(qx[0], x, "quantized::cat")
        if uniform_or_none(x) is None:
            raise RuntimeError("Only per-tensor quantization is supported in 'cat'!")
    floats = join([dequantize(x) for x in qx], dim)
    return affine(
        first.kind,
        first.scale if scale is None else scale,
        first.zero_point if zero_point is None else zero_point,
    ).quantize(floats.relu() if relu else floats)


def _joined_into(qx: Any, dim: int, out: Tensor, relu: bool) -> Any:
    given = uniform(out, "cat_out")
    return write(_joined(qx, dim, given.scale, given.zero_point, relu), out)


def _named(function: Function, name: str, doc: str, relu: bool) -> None:
    declared: Any = functools.partial(function, relu=relu)
    declared.__name__, declared.__doc__ = name, doc
    operator(name)(declared)


for _relu, _suffix in ((False, ""), (True, "_relu")):
    _named(_joined, f"cat{_suffix}", "Tensors joined along a dim, requantized.", _relu)
    _named(_joined_into, f"cat{_suffix}_out", "Tensors joined into a tensor.", _relu)
