"""Which dtype comes out: PyTorch's promotion rules.

Three ranks of operands, each counting only if no higher one has a wider category (bool < integer <
floating point < complex): tensors with dims, 0-dim tensors, Python numbers.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.symbolic import SymFloat, SymInt
from tritorch.core import defaults, dtype as d
from tritorch.core.dtype import dtype, scalar_name as scalar_name

_BAREBONES = (d.uint16, d.uint32, d.uint64)
_FLOAT8 = frozenset(
    kind for kind in (*d.all_dtypes, *d.STORED.values()) if kind.name.startswith("float8")
)
_ORDER = {kind: i for i, kind in enumerate((d.float16, d.bfloat16, d.float32, d.float64))}


def category(kind: dtype) -> int:
    """0 bool, 1 integer, 2 floating point, 3 complex."""
    if kind.is_complex:
        return 3
    if kind.is_floating_point:
        return 2
    return 0 if kind is d.bool_ else 1


@functools.cache
def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest type that holds what both hold, by PyTorch's table."""
    a, b = d.as_dtype(type1), d.as_dtype(type2)
    if a is b:
        return a
    if a in _FLOAT8 or b in _FLOAT8:
        raise RuntimeError(
            f"Promotion for Float8 Types is not supported, attempted to promote "
            f"{scalar_name(a)} and {scalar_name(b)}"
        )
    if d.complex32 in (a, b):
        other = b if a is d.complex32 else a
        if other is d.float16 or (category(other) < 2 and not other.opaque):
            return d.complex32
        if not other.opaque:
            return promote_types(other.to_complex(), d.complex64)
    if a.opaque or b.opaque:
        raise RuntimeError(
            f"promote_types: no type holds both {scalar_name(a)} and {scalar_name(b)}"
        )
    if a in _BAREBONES or b in _BAREBONES:  # among these types only with floating-point ones
        if a.is_floating_point:
            return a
        if b.is_floating_point:
            return b
        raise RuntimeError(
            f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{scalar_name(a)} and {scalar_name(b)}"
        )
    if a is d.bool_:
        return b
    if b is d.bool_:
        return a
    if a.is_complex or b.is_complex:
        wide = d.complex128 in (a, b) or d.float64 in (a, b)
        return d.complex128 if wide else d.complex64
    if a.is_floating_point and b.is_floating_point:
        if {a, b} == {d.float16, d.bfloat16}:
            return d.float32
        return a if _ORDER[a] > _ORDER[b] else b
    if a.is_floating_point:
        return a
    if b.is_floating_point:
        return b
    if d.uint8 in (a, b):
        other = b if a is d.uint8 else a
        return d.int16 if other is d.int8 else other
    return a if a.itemsize > b.itemsize else b


def not_implemented(name: str, kind: dtype) -> NotImplementedError:
    """PyTorch's complaint about a dtype that an operator does not take."""
    return NotImplementedError(f"\"{name}\" not implemented for '{scalar_name(kind)}'")


def number_dtype(value: Any) -> dtype:
    """The dtype that a Python number has among tensors."""
    if isinstance(value, (bool, np.bool_)):
        return d.bool_
    if isinstance(value, (int, np.integer, SymInt)):
        return d.int64
    if isinstance(value, (float, np.floating, SymFloat)):
        return defaults.dtype()
    if isinstance(value, (complex, np.complexfloating)):
        return defaults.dtype().to_complex()
    raise TypeError(f"expected a number, got {type(value).__name__}")


def _combine(higher: dtype | None, lower: dtype | None) -> dtype | None:
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        if higher is d.float16 and lower.is_complex:
            return d.complex32
        return higher.to_complex() if lower.is_complex else higher
    if higher in _BAREBONES and lower.is_complex:
        return lower
    if higher is d.bool_ or category(lower) > 1:
        return promote_types(higher, lower)
    return higher


def result_type(*operands: Any) -> dtype:
    """The dtype of an arithmetic operation on tensors and numbers."""
    if any(isinstance(operand, dtype) for operand in operands):
        raise TypeError("result_type() received an invalid combination of arguments")
    with_dims: dtype | None = None
    zero_dim: dtype | None = None
    number: dtype | None = None
    for operand in operands:
        if isinstance(operand, _C.TensorBase):
            kind = operand.dtype
            if operand.ndim:
                with_dims = kind if with_dims is None else promote_types(with_dims, kind)
            else:
                zero_dim = kind if zero_dim is None else promote_types(zero_dim, kind)
        else:
            kind = number_dtype(operand)
            number = kind if number is None else promote_types(number, kind)
    result = _combine(with_dims, _combine(zero_dim, number))
    assert result is not None
    return result


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether the cast loses no category (float to int, complex to float, number to bool)."""
    from_, to = d.as_dtype(from_), d.as_dtype(to)
    if from_.is_complex and not to.is_complex:
        return False
    if from_.is_floating_point and not (to.is_floating_point or to.is_complex):
        return False
    return not (category(from_) == 1 and to is d.bool_)
