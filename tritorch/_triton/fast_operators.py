"""Python's operators on the interpreter's tensors, without the layers that only pass them on.

Triton takes `x + y` through a builtin, its semantics (promotion, casts, broadcasting, each making
new values) and the builder: forty calls for a sum.  NumPy computes the same for operands of one
kind of numbers, wider and narrower ones too; all else keeps Triton's way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime.interpreter import TensorHandle

Slow = Callable[..., Any]

_INTEGERS: dict[str, Any] = {
    name: np.dtype(f"{'u' * (name[0] == 'u')}int{name.lstrip('uint')}")
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
_FLOATS: dict[str, Any] = {"fp16": np.dtype("f2"), "fp32": np.dtype("f4"), "fp64": np.dtype("f8")}
_NUMBERS = _INTEGERS | _FLOATS
_LOGICAL = _INTEGERS | {"int1": np.dtype(bool)}
# What two different kinds are computed in, where NumPy and Triton agree.
_WIDER = {
    (a, b): a if np.promote_types(x, y) == x else b
    for kinds in (
        {name: kind for name, kind in _INTEGERS.items() if kind.kind == "i"},
        _FLOATS,
    )
    for a, x in kinds.items()
    for b, y in kinds.items()
}
_LIMITS = {name: (np.iinfo(kind).min, np.iinfo(kind).max) for name, kind in _INTEGERS.items()}

_types: dict[tuple[str, tuple[int, ...]], Any] = {}


def block_of(kind: Any, shape: tuple[int, ...]) -> Any:
    """The type of a block; one object for each."""
    key = kind.name, shape
    known = _types.get(key)
    if known is None:
        known = _types[key] = tl.block_type(kind, list(shape))
    return known


def _type_of_result(a: Any, b: Any, kind: Any, shape: tuple[int, ...]) -> Any:
    """Of an operation of two tensors: a scalar's type is its own scalar type."""
    if a.type is a.dtype and b.type is b.dtype:
        return kind
    return block_of(kind, shape)


def _plain(value: Any) -> Any:
    return value.value if type(value) is tl.constexpr else value


def _number(value: Any, name: str) -> Any:
    """A Python number as an element, or None where Triton has more to say of it."""
    kind = type(value)
    if kind is int and name in _LIMITS:
        low, high = _LIMITS[name]
        return _INTEGERS[name].type(value) if low <= value <= high else None
    if (kind is float or kind is int) and name in _FLOATS:
        return _FLOATS[name].type(value)
    return None


def _operator(ufunc: Any, slow: Slow, kinds: dict[str, Any], result: Any, swap: bool) -> Slow:
    """a + b and its like.  result: the type of its elements; None: that of the operands."""

    def operator(self: Any, other: Any) -> Any:
        kind = self.dtype
        name = kind.name
        other = _plain(other)
        if name in kinds:
            data = self.handle.data
            if type(other) is tl.tensor:
                theirs = other.dtype.name
                if theirs != name:
                    wider = _WIDER.get((name, theirs))
                    if wider is None or theirs not in kinds:
                        return slow(self, other)
                    kind = kind if wider == name else other.dtype
                made = ufunc(other.handle.data, data) if swap else ufunc(data, other.handle.data)
                kind = result or kind
                return tl.tensor(
                    TensorHandle(made, kind), _type_of_result(self, other, kind, made.shape)
                )
            number = _number(other, name)
            if number is not None:
                made = ufunc(number, data) if swap else ufunc(data, number)
                kind = result or kind
                type_ = kind if self.type is self.dtype else block_of(kind, made.shape)
                return tl.tensor(TensorHandle(made, kind), type_)
        return slow(self, other)

    return operator


def _pointer_sum(slow: Slow, add: Slow) -> Slow:
    """p + offset: addresses are unsigned, offsets are not."""

    def operator(self: Any, other: Any) -> Any:
        kind = self.dtype
        if not isinstance(kind, tl.pointer_type):
            return add(self, other)
        offset = _plain(other)
        size = max(1, kind.element_ty.primitive_bitwidth // 8)
        if type(offset) is int:
            data = self.handle.data + np.int64(offset * size).view(np.uint64)
            type_ = self.type
        elif type(offset) is tl.tensor and offset.dtype.name in ("int32", "int64"):
            steps = offset.handle.data.astype(np.int64)
            steps *= size
            data = self.handle.data + steps.view(np.uint64)
            type_ = _type_of_result(self, offset, kind, data.shape)
        else:
            return slow(self, other)
        return tl.tensor(TensorHandle(data, kind), type_)

    return operator


def _broadcast(self: Any, lhs: Any, rhs: Any) -> tuple[Any, Any]:
    """Both in one shape; the error for two that have none is Triton's."""
    if lhs.type is lhs.dtype and rhs.type is rhs.dtype:
        return lhs, rhs
    a, b = lhs.handle.data, rhs.handle.data
    if a.shape == b.shape and lhs.type is not lhs.dtype and rhs.type is not rhs.dtype:
        return lhs, rhs
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return _slow_broadcast(self, lhs, rhs)
    return _spread(lhs, shape), _spread(rhs, shape)


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    data = x.handle.data
    if data.shape == shape and x.type is not x.dtype:
        return x
    handle = TensorHandle(np.broadcast_to(data, shape), x.handle.dtype)
    return tl.tensor(handle, block_of(x.dtype, shape))


_slow_broadcast: Slow = TritonSemantic.broadcast_impl_value

_ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
_COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def patches(language: dict[str, Slow]) -> list[tuple[Any, str, Any]]:
    """(owner, name, value); language: the interpreter's own operators of tensors, by name."""
    out: dict[str, Slow] = {}
    for table, kinds, result in (
        (_ARITHMETIC, _NUMBERS, None),
        (_COMPARISONS, _NUMBERS, tl.int1),
        (_BITS, _LOGICAL, None),
        ({"truediv": np.divide}, {name: _FLOATS[name] for name in ("fp32", "fp64")}, None),
    ):
        for name, ufunc in table.items():
            for swap, method in ((False, f"__{name}__"), (True, f"__r{name}__")):
                if method in language:
                    out[method] = _operator(ufunc, language[method], kinds, result, swap)
    out["__add__"] = _pointer_sum(language["__add__"], out["__add__"])
    patches = [(tl.tensor, name, value) for name, value in out.items()]
    return [
        *patches,
        (TritonSemantic, "broadcast_impl_value", _broadcast),
        (TensorHandle, "__post_init__", lambda self: None),  # asks whether the dtypes agree
    ]
