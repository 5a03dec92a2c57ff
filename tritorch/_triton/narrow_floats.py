"""bfloat16 and float8 arithmetic for Triton's interpreter.

The interpreter keeps these types as unsigned integers of the same size and computes on those: a sum
of two bfloat16 blocks adds their bit patterns.  Here their operations compute in float32 and round
to nearest, as the hardware does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle, _get_np_dtype

from tritorch import _C

_NARROW = {
    tl.bfloat16: ml_dtypes.bfloat16,
    tl.float8e5: ml_dtypes.float8_e5m2,
    tl.float8e4nv: ml_dtypes.float8_e4m3fn,
}


def _values(handle: TensorHandle) -> Any:
    narrow = _NARROW.get(handle.dtype.scalar)
    if narrow is None:
        return handle.data
    return np.ascontiguousarray(handle.data).view(narrow).astype(np.float32)


def _handle(values: Any, dtype: Any) -> TensorHandle:
    narrow = _NARROW.get(dtype.scalar)
    if narrow is None:
        return TensorHandle(values.astype(_get_np_dtype(dtype.scalar)), dtype.scalar)
    if narrow is ml_dtypes.float8_e4m3fn:  # as the hardware does
        values = np.clip(values.astype(np.float32), -448, 448)
    return TensorHandle(values.astype(narrow).view(_get_np_dtype(dtype.scalar)), dtype.scalar)


def _is_narrow(*handles: TensorHandle) -> bool:
    return any(handle.dtype.scalar in _NARROW for handle in handles)


def methods(builder: type) -> dict[str, Callable[..., Any]]:
    """The builder's methods that touch such types, by name; others keep Triton's own."""
    names = "binary_op unary_op ternary_op create_fma create_dot cast_impl create_fp_to_fp"
    names += " get_all_ones_value"
    original = {name: getattr(builder, name) for name in names.split()}

    def binary_op(self: Any, lhs: TensorHandle, rhs: TensorHandle, op: Any) -> TensorHandle:
        if not _is_narrow(lhs, rhs):
            return original["binary_op"](self, lhs, rhs, op)
        values = op(_values(lhs), _values(rhs))
        if values.dtype == np.bool_:  # a comparison; the caller names the type
            return TensorHandle(values, lhs.dtype.scalar)
        return _handle(values, lhs.dtype)

    def unary_op(self: Any, arg: TensorHandle, op: Any) -> TensorHandle:
        if not _is_narrow(arg):
            return original["unary_op"](self, arg, op)
        return _handle(op(_values(arg)), arg.dtype)

    def ternary_op(
        self: Any, a: TensorHandle, b: TensorHandle, c: TensorHandle, op: Any
    ) -> TensorHandle:
        if op is np.where or not _is_narrow(a, b, c):
            return original["ternary_op"](self, a, b, c, op)
        return _handle(op(_values(a), _values(b), _values(c)), c.dtype)

    def create_fma(self: Any, x: TensorHandle, y: TensorHandle, z: TensorHandle) -> TensorHandle:
        if not _is_narrow(x, y, z):
            if z.data.dtype.itemsize < 4:
                return original["create_fma"](self, x, y, z)
            # Rounds once; Triton 3.6's rounds twice.
            kind, wide = z.data.dtype, np.float64
            operands = np.broadcast_arrays(x.data, y.data, z.data)
            a, b, c = (np.array(part, wide, order="C", copy=True) for part in operands)
            _C.simulator.fma(a.reshape(-1), b.reshape(-1), c.reshape(-1), kind.itemsize == 4)
            return TensorHandle(c.astype(kind), z.dtype.scalar)
        return _handle(_values(x) * _values(y) + _values(z), z.dtype)

    def create_dot(
        self: Any, a: TensorHandle, b: TensorHandle, d: TensorHandle, *rest: Any
    ) -> TensorHandle:
        if not _is_narrow(a, b):
            return original["create_dot"](self, a, b, d, *rest)
        return TensorHandle(
            np.matmul(_values(a), _values(b), dtype=d.data.dtype) + d.data, d.dtype.scalar
        )

    def cast_impl(self: Any, src: TensorHandle, dst_type: Any) -> TensorHandle:
        if not _is_narrow(src) and dst_type.scalar not in _NARROW:
            return original["cast_impl"](self, src, dst_type)
        return _handle(_values(src), dst_type)

    def create_fp_to_fp(
        self: Any, src: TensorHandle, dst_type: Any, rounding_mode: Any
    ) -> TensorHandle:
        rounds_to_nearest = (
            rounding_mode is None or getattr(rounding_mode, "name", "RTNE") == "RTNE"
        )
        known = (_NARROW.keys() | {tl.float16, tl.float32, tl.float64}) >= {
            src.dtype.scalar,
            dst_type.scalar,
        }
        if not known or not rounds_to_nearest:
            return original["create_fp_to_fp"](self, src, dst_type, rounding_mode)
        return _handle(_values(src), dst_type)

    def get_all_ones_value(self: Any, kind: Any) -> TensorHandle:
        # NumPy refuses -1 of an unsigned type, which Triton 3.6 asks for.
        return TensorHandle(np.array([-1]).astype(_get_np_dtype(kind)), kind.scalar)

    replacements = (
        get_all_ones_value,
        binary_op,
        unary_op,
        ternary_op,
        create_fma,
        create_dot,
        cast_impl,
        create_fp_to_fp,
    )
    return {function.__name__: function for function in replacements}
