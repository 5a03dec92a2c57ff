"""Operators on numbers that a kernel is going to compute (`arrays/written.py`): each is one
step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritorch.arrays.meta import MetaArray
from tritorch.arrays.written import NotWritable, Program, Step, Value, WrittenArray
from tritorch.core.dtype import dtype
from tritorch.core.promotion import category, result_type
from tritorch.core.tensor import Tensor
from tritorch.ops.record.checks import broadcast_shapes


def _program(tensors: Sequence[Any]) -> Program:
    for x in tensors:
        if isinstance(x, Tensor) and type(x._array) is WrittenArray:
            return x._array.program
    raise AssertionError("nothing is written")


def operand(program: Program, x: Any) -> Any:
    """A value of the program, or a number."""
    if not isinstance(x, Tensor):
        if isinstance(x, (bool, int, float)):
            return x
        raise NotWritable(f"a {type(x).__name__} as a number")
    array = x._array
    if type(array) is WrittenArray:
        if array.value is None:
            raise NotWritable(f"a tensor of {array.ndim} dims")
        return array.value
    if type(array) is np.ndarray and array.size == 1 and not x._requires_grad:
        return _constant(program, x)
    if array.ndim == 0:
        return _load(program, program.tensor(x), (), x.dtype)
    raise NotWritable(f"a tensor of {array.ndim} dims")


def _constant(program: Program, x: Tensor) -> Value:
    if x.dtype.is_complex or x.dtype.itemsize > 8:
        raise NotWritable(f"a constant of {x.dtype}")
    return program.add(Step("constant", (x.item(),), x.dtype))


def _load(program: Program, tensor: int, places: tuple[Any, ...], kind: dtype) -> Value:
    if kind.is_complex or kind.itemsize > 8:
        raise NotWritable(f"elements of {kind}")
    return program.add(Step("load", places, kind, place=tensor))


def pointwise(op: Any, inputs: Sequence[Any], out: Any) -> Tensor:
    """A pointwise record: one step."""
    if out is not None:
        raise NotWritable("out=")
    if op.simpler is not None:
        found = op.simpler(*inputs)
        if found is not None:
            return found
    program = _program(inputs)
    common = result_type(*inputs[op.masks : len(inputs) - op.beside])
    if not op.implements(common):
        op.refuse(inputs, common, None, None)
    compute = op.compute_dtype(common)
    if compute.is_complex or op.narrow.get(compute.name) is not None:
        raise NotWritable(f"{op.name} of {compute}")
    shape = broadcast_shapes(*(x.shape for x in inputs if isinstance(x, Tensor)))
    if any(n != 1 for n in shape):
        raise NotWritable(f"{op.name} of a tensor of {len(shape)} dims")
    operands = tuple(operand(program, x) for x in inputs)
    kind = op.result_dtype(compute)
    value = program.add(Step(op, operands, kind, compute))
    return op.finish(WrittenArray(program, value, kind, shape), *inputs)


def in_place(op: Any, inputs: Sequence[Any]) -> Tensor:
    """Refused: a number of a program does not change."""
    raise NotWritable(f"{op.name} in place")


def call(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Other records: those that load or convert, views, and what is composed of such."""
    program = _program(tensors)
    rule = RULES.get(op.name)
    if rule is not None:
        found = rule(program, tensors, params)
    elif op.is_view:
        found = _view(op, tensors[0], params)
    elif op.composed is not None and op.outputs == 1:
        return op.composed(*tensors, *params)
    else:
        raise NotWritable(op.name)
    if op.is_view:
        return op.finish_view(found, params, tensors[0])
    return op.finish_with(found, params, *tensors)


def _view(op: Any, x: Tensor, params: tuple[Any, ...]) -> WrittenArray:
    """A number seen with other dims of one, or what is left of a tensor."""
    array = x._array
    described = op.infer([MetaArray(array.shape, array.dtype)], params)
    if array.value is not None and described.numel() == 1 and described.dtype is array.dtype:
        return WrittenArray(array.program, array.value, array.dtype, described.shape)
    if array.value is None and tuple(described.shape) == array.shape:
        return array
    raise NotWritable(f"{op.name} of what is loaded")


def _chosen(x: Tensor, program: Program) -> tuple[int, list[Any], list[int], dtype]:
    """A tensor that is loaded from, the places chosen so far, and its dims that are left."""
    array = x._array
    if type(array) is WrittenArray:
        if array.chosen is None:
            raise NotWritable("an index of a number")
        tensor, places = array.chosen
    else:
        tensor, places = program.tensor(x), (None,) * array.ndim
    left = [i for i, place in enumerate(places) if place is None]
    return tensor, list(places), left, x.dtype


def _finished(
    program: Program, tensor: int, places: list[Any], kind: dtype, lead: Sequence[int] = ()
) -> WrittenArray:
    shape = program.tensors[tensor]._array.shape
    left = [n for n, place in zip(shape, places) if place is None]
    if not left:
        value = _load(program, tensor, tuple(places), kind)
        return WrittenArray(program, value, kind, lead)
    if lead:
        raise NotWritable("an index with dims")
    return WrittenArray(program, None, kind, left, (tensor, tuple(places)))


def _narrow(program: Program, value: Value) -> Value:
    """A place before it was made an int64: it is within a dim's size anyway."""
    step = program.steps[value.step]
    while step.made_by == "convert" and type(step.operands[0]) is Value:
        inner = program.steps[step.operands[0].step]
        if category(inner.dtype) != 1 or inner.dtype.itemsize > step.dtype.itemsize:
            break
        value, step = step.operands[0], inner
    return value


def _index(program: Program, tensors: Sequence[Any], params: tuple[Any, ...]) -> WrittenArray:
    x, *indices = tensors
    tensor, places, left, kind = _chosen(x, program)
    shapes = [i.shape for i in indices if i is not None]
    for dim, index in zip(left, indices):
        if index is not None:
            if category(index.dtype) != 1:
                raise NotWritable("an index that is a mask")
            places[dim] = _narrow(program, operand(program, index))
    return _finished(program, tensor, places, kind, broadcast_shapes(*shapes))


def _select(program: Program, tensors: Sequence[Any], params: tuple[Any, ...]) -> WrittenArray:
    tensor, places, left, kind = _chosen(tensors[0], program)
    dim, index = params
    places[left[dim]] = index
    return _finished(program, tensor, places, kind)


def _basic(program: Program, tensors: Sequence[Any], params: tuple[Any, ...]) -> WrittenArray:
    if tensors[0]._array.value is not None:
        raise NotWritable("a part of a number")
    tensor, places, left, kind = _chosen(tensors[0], program)
    for dim, item in zip(left, params[0]):
        if type(item) is int:
            places[dim] = item
        elif item != (None, None, None):
            raise NotWritable("a slice of what is loaded")
    if None in params[0]:
        raise NotWritable("a new dim of what is loaded")
    return _finished(program, tensor, places, kind)


def _converted(program: Program, tensors: Sequence[Any], params: tuple[Any, ...]) -> WrittenArray:
    x, kind = tensors[0], params[0]
    if kind.is_complex:
        raise NotWritable(f"a number of {kind}")
    step = Step("convert", (operand(program, x),), kind)
    return WrittenArray(program, program.add(step), kind, x.shape)


def _copied(program: Program, tensors: Sequence[Any], params: tuple[Any, ...]) -> WrittenArray:
    array = tensors[0]._array
    return WrittenArray(program, operand(program, tensors[0]), array.dtype, array.shape)


RULES: dict[str, Callable[[Program, Sequence[Any], tuple[Any, ...]], WrittenArray]] = {
    "index": _index, "select": _select, "basic_index": _basic, "to_copy": _converted,
    "clone": _copied,
}  # fmt: skip
