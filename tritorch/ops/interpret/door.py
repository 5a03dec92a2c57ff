"""The door: who runs an operator on tensors whose arrays are no plain ones.

Fast paths and `Operator.call` come here when a tensor carries a tangent, or when its array is
neither an ndarray nor a GPU array.  INTERPRETERS says which module runs the operator then, by the
array's type; each such module has three functions:

    call(op, tensors, params)        Operator.call
    pointwise(op, inputs, out)       a pointwise record's call
    in_place(op, inputs)             the same, written into the first input

# Note [Nesting]
Where several apply, the one that stands first in the table goes first, and what it runs comes back
here without what it took off.  Tangents go first: a derivative is made of operators, on whatever
arrays there are.  Sparse and nested arrays go before batches, because their rules are made of
dense operators on values, which may be batched.  Dispatch modes and classes see what is left when
all of these have taken theirs off: operators as they would reach a backend.  Meta arrays go last: a
batch of them is a batch, and a tensor of a class that dispatches may have no memory.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.batched import BatchedArray
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.nested import NestedArray
from tritorch.arrays.sparse import SparseArray
from tritorch.arrays.written import WrittenArray
from tritorch.core.dispatching import dispatches, entered, noted, off
from tritorch.core.tensor import Tensor
from tritorch.ops.record import apply
from tritorch.ops.record.writing import noted_write


class Tangent:
    """Stands in the table for tensors that carry a tangent, whatever their array is."""


class Dispatched:
    """Stands in the table for tensors whose class has `__torch_dispatch__`, and inside of a
    dispatch mode for all."""


INTERPRETERS: dict[type, str] = {
    Tangent: "forward_mode",
    SparseArray: "sparse.run",
    NestedArray: "nested.run",
    BatchedArray: "vmap",
    WrittenArray: "written",
    Dispatched: "dispatch",
    MetaArray: "meta",
}
_ORDER = tuple(INTERPRETERS)
_RANK = {kind: rank for rank, kind in enumerate(_ORDER)}
_NONE = len(_ORDER)


@functools.cache
def _module(kind: type) -> Any:
    return importlib.import_module(f"tritorch.ops.interpret.{INTERPRETERS[kind]}")


def _interpreter(tensors: Sequence[Any]) -> Any:
    """The module that runs an operator on these."""
    first = _RANK[Dispatched] if entered.modes else _NONE
    for tensor in tensors:
        if isinstance(tensor, Tensor):
            kind = type(tensor._array) if tensor._tangent is None else Tangent
            first = min(first, _RANK.get(kind, _NONE))
            if type(tensor) is not Tensor and not off.classes and dispatches(type(tensor)):
                first = min(first, _RANK[Dispatched])
    if first == _NONE:  # the gate says which argument is none
        raise TypeError("an operator was called without a tensor")
    return _module(_ORDER[first])


def call(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Operator.call on what is no plain array."""
    if _C.force(*tensors):
        return op.call(tensors, params)
    if entered.note is not None:
        return noted("call", op, tensors, params, lambda: op.call(tensors, params))
    if op.is_view:
        x = tensors[0]
        if type(x) is Tensor and type(x._array) is BatchedArray and x._tangent is None:
            return _module(BatchedArray).call_view(op, x, params)
    return _interpreter(tensors).call(op, tensors, params)


def pointwise(op: Any, inputs: Sequence[Any], out: Any) -> Any:
    """A pointwise record's call on what is no plain array."""
    if _C.force(*inputs, out):
        return apply.apply(op, inputs, out)
    if entered.note is not None:
        return noted("pointwise", op, inputs, (out,), lambda: apply.apply(op, inputs, out))
    return _interpreter(inputs).pointwise(op, inputs, out)


def in_place(op: Any, inputs: Sequence[Any]) -> Tensor:
    """A pointwise record in place on what is no plain array."""
    if _C.force(*inputs):
        return apply.apply_in_place(op, inputs)
    if entered.note is not None:
        run = lambda kept: apply.apply_in_place(op, inputs, kept)
        return noted_write(op, inputs, (), run)
    return _interpreter(inputs).in_place(op, inputs)
