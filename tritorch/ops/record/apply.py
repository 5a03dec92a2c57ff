"""Calls of pointwise records on any inputs: promotion, broadcasting, `out=`, in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.meta import MetaArray, real_among_fake
from tritorch.autograd.graph import check_inplace
from tritorch.core.dtype import dtype, float32
from tritorch.core.promotion import result_type
from tritorch.core.tensor import Tensor
from tritorch.host import threads
from tritorch.host.chains.rowwise import write
from tritorch.ops.record import interpreters
from tritorch.ops.record.checks import (
    broadcast_shapes,
    require_castable,
    require_distinct_elements,
    shape_error,
)
from tritorch.ops.record.operator import Array, ndarray
from tritorch.ops.record.outputs import require_device, require_dtype, require_separate
from tritorch.ops.record.pointwise import BIG, COMPLEX_TO_REAL, Pointwise, gpu_pointwise
from tritorch.ops.record.publishing import refuse_grad_with_out, resize_output
from tritorch.ops.record.writing import in_place


@arrays.seen
def _write(array: Any, value: Any) -> None:
    """array[...] = value, with whatever cast that takes."""
    if type(array) is ndarray:
        if array.dtype.kind in "iu" and value.dtype.kind == "f":
            value = value.astype(np.int64)
        elif array.dtype.kind != "c" and value.dtype.kind == "c":
            value = value.real
        if array.dtype.names and not value.dtype.names:  # complex32 is a pair of numbers
            array["real"], array["imag"] = value.real, value.imag
            return
        np.copyto(array, value, casting="unsafe")
    else:
        array.copy_(value)


def _require_integers(inputs: Sequence[Any]) -> None:
    """Refuses Python integers that no integer type holds."""
    for value in inputs:
        if type(value) is int and not -(2**63) <= value < 2**64:
            raise OverflowError("int too big to convert")


def is_half(x: Tensor) -> bool:
    """True for float16 and bfloat16."""
    return x.dtype.itemsize == 2 and x.dtype.is_floating_point


def widened(definition: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A definition that computes float16 and bfloat16 in float32, and rounds its result once."""

    def run(x: Tensor, *params: Any) -> Tensor:
        if is_half(x):
            return definition(x.to(float32), *params).to(x.dtype)
        return definition(x, *params)

    return run


def apply(op: Pointwise, inputs: Sequence[Any], out: Any = None) -> Any:
    """The result for tensors and numbers of any dtypes, in shapes that broadcast."""
    if out is None:
        found = op.elements(*inputs)
        return general(op, inputs) if found is None else found
    if isinstance(out, Tensor) and op.elements.write(out, *inputs):
        return out
    return general(op, inputs, out)


def general(op: Pointwise, inputs: Sequence[Any], out: Any = None) -> Any:
    """The same where there is no plan."""
    if isinstance(out, Tensor):
        require_device(inputs, out)
    _require_integers(inputs)
    common = result_type(*inputs[op.masks : len(inputs) - op.beside])
    if not op.implements(common):
        op.refuse(inputs, common, out, None)
    compute = op.compute_dtype(common)
    result = op.result_dtype(compute)
    operands, shape, _ = _operands(op, inputs)
    if operands is None:
        return interpreters.door_pointwise(op, inputs, out)
    if out is None:
        return op.finish_cast(op.compute(operands, compute, result), compute.numpy, *inputs)
    refuse_grad_with_out(op.name, *inputs, out)
    if not isinstance(out, Tensor):
        raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if op.rule == COMPLEX_TO_REAL and compute.is_complex:
        if out.dtype is not compute:
            require_castable(result, out.dtype)
    else:
        require_dtype(op.name, result, out.dtype)
    require_distinct_elements(out)
    require_separate(out, inputs)
    if tuple(out.shape) != tuple(shape) and any(x is out for x in inputs):
        raise shape_error(out.shape, shape)
    if tuple(out.shape) == tuple(shape):
        check_inplace(out)
        _compute_into(out._array, op, operands, compute, result)
    else:
        value = op.compute(operands, compute, result)
        resize_output(out, shape, lambda: op.finish_cast(value, compute.numpy, *inputs).stride())
        check_inplace(out)
        _write(out._array, value)
    _C.bump_version(out)
    return out


def _compute_into(
    array: Any, op: Pointwise, operands: Sequence[Any], compute: dtype, result: dtype
) -> None:
    """The result goes into an array of its shape: at once where nothing that is still to be read
    lies there, else from memory of its own."""
    if (
        op.is_ufunc
        and type(array) is ndarray
        and result.numpy is array.dtype
        and array.dtype in op.direct
        and all(type(o) is not ndarray or o.dtype is array.dtype for o in operands)
        and op.computable(*operands)
    ):
        if write(op.function, array, *operands):
            return
        if array.size >= BIG and _in_blocks(array, operands):
            threads.elementwise(op.cpu, array, *operands)
        else:
            op.cpu(*operands, out=array)  # type: ignore[call-arg]
        return
    if (
        type(array) is Array
        and not compute.is_complex
        and "compute" not in vars(op)  # Note [Replaced kernels]
        and gpu_pointwise().may_write(array, operands)
    ):
        name = op.narrow.get(compute.name, op.gpu_name)
        gpu_pointwise().call(name, tuple(operands), compute, result, array)
    else:
        _write(array, op.compute(operands, compute, result))


def _operands(op: Pointwise, inputs: Sequence[Any]) -> tuple[Any, tuple[int, ...], Any]:
    """Arrays (or numbers), the broadcast shape, the device.  No operands: take care."""
    operands: list[Any] = []
    shapes: list[tuple[int, ...]] = []
    on_gpu = None
    for value in inputs:
        if isinstance(value, Tensor):
            try:
                array = value._a
            except AttributeError:
                return None, (), None
            kind = type(array)
            if kind is MetaArray or kind is Array:
                if on_gpu is not None and array.device != on_gpu.device:
                    _refuse_devices(op, inputs)
                on_gpu = array
            elif kind is not ndarray:
                return None, (), None
            operands.append(array)
            shapes.append(array.shape)
        else:
            operands.append(value)
    if on_gpu is not None:
        # A 0-d tensor on the CPU may meet tensors on a GPU, as a number.
        for i, operand in enumerate(operands):
            if type(operand) is ndarray:
                if operand.ndim:
                    _refuse_devices(op, inputs)
                operands[i] = operand.item()
    return operands, broadcast_shapes(*shapes) if shapes else (), on_gpu


def _refuse_devices(op: Pointwise, inputs: Sequence[Any]) -> None:
    devices = list(dict.fromkeys(str(t.device) for t in inputs if isinstance(t, Tensor)))
    if len(devices) == 1:
        raise real_among_fake(op.name)
    if "meta" in devices:
        other = next(device for device in devices if device != "meta")
        raise RuntimeError(f"Tensor on device {other} is not on the expected device meta!")
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, "
        f"{devices[0]} and {devices[1]}!"
    )


def apply_in_place(op: Pointwise, inputs: Sequence[Any], kept: Tensor | None = None) -> Tensor:
    """The in-place form: the result goes into the first input; kept: that as it was, if somebody
    has it."""
    self = inputs[0]
    if kept is None and op.elements.write(self, *inputs):
        return self
    check_inplace(self, *inputs[1:])
    _require_integers(inputs)
    common = result_type(*inputs[op.masks : len(inputs) - op.beside])
    if not op.implements(common):
        op.refuse(inputs, common, self, self.shape)
    compute = op.compute_dtype(common)
    result = op.result_dtype(compute)
    if op.rule == COMPLEX_TO_REAL and compute.is_complex:
        raise RuntimeError(f"In-place {op.name} is not supported for complex tensors.")
    require_castable(result, self.dtype)
    operands, shape, _ = _operands(op, inputs)
    if operands is None:
        return interpreters.door_in_place(op, inputs)
    array = self._a
    if shape != tuple(array.shape):
        raise shape_error(array.shape, shape)
    require_distinct_elements(self)
    require_separate(self, inputs)

    def write() -> None:
        _compute_into(array, op, operands, compute, result)

    return in_place(op, self, (), inputs, write, kept)


def _in_blocks(array: Any, operands: Sequence[Any]) -> bool:
    """Whether blocks of an array may be written while others are read: all dense, none shifted."""
    return array.flags.c_contiguous and all(
        o is array or (o.flags.c_contiguous and not np.may_share_memory(o, array))
        for o in operands
        if type(o) is ndarray
    )
