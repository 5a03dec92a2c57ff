"""The door: where operators come whose tensors have arrays that are no plain ones.

Fast paths and `Operator.call` come here when a tensor carries a tangent, or when its array is
neither an ndarray nor a GPU array; `interpreters.py` says which module runs the operator then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.batched import BatchedArray
from tritorch.core.dispatching import entered, noted
from tritorch.core.tensor import Tensor
from tritorch.ops.record import apply, interpreters
from tritorch.ops.record.interpreters import interpreter, interpreter_of
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.writing import noted_write


def call(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Operator.call on what is no plain array."""
    if _C.force(*tensors):
        return op.call(tensors, params)
    if entered.note is not None:
        return noted("call", op, tensors, params, lambda: op.call(tensors, params))
    if op.is_view:
        x = tensors[0]
        if type(x) is Tensor and type(x._array) is BatchedArray and x._tangent is None:
            return interpreter(BatchedArray).call_view(op, x, params)
    return interpreter_of(tensors).call(op, tensors, params)


def pointwise(op: Any, inputs: Sequence[Any], out: Any) -> Any:
    """A pointwise record's call on what is no plain array."""
    if _C.force(*inputs, out):
        return apply.apply(op, inputs, out)
    if entered.note is not None:
        return noted("pointwise", op, inputs, (out,), lambda: apply.apply(op, inputs, out))
    return interpreter_of(inputs).pointwise(op, inputs, out)


def in_place(op: Any, inputs: Sequence[Any]) -> Tensor:
    """A pointwise record in place on what is no plain array."""
    if _C.force(*inputs):
        return apply.apply_in_place(op, inputs)
    if entered.note is not None:
        run = lambda kept: apply.apply_in_place(op, inputs, kept)
        return noted_write(op, inputs, (), run)
    return interpreter_of(inputs).in_place(op, inputs)


Operator._careful = call
interpreters.door_pointwise, interpreters.door_in_place = pointwise, in_place
