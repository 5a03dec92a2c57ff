"""Interpreters: the modules that run an operator on tensors whose arrays are no plain ones.

INTERPRETERS says which module it is, by the array's type; `ops/interpret` fills it.  Each such
module has three functions:

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
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.arrays.batched import BatchedArray
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.nested import NestedArray
from tritorch.arrays.sparse import SparseArray
from tritorch.arrays.written import WrittenArray
from tritorch.core.dispatching import dispatches, entered, off
from tritorch.core.tensor import Tensor


class Tangent:
    """Stands in the table for tensors that carry a tangent, whatever their array is."""


class Dispatched:
    """Stands in the table for tensors whose class has `__torch_dispatch__`, and inside of a
    dispatch mode for all."""


# The door for pointwise calls, and for those in place: door.py puts its functions here.
door_pointwise: Callable[..., Any]
door_in_place: Callable[..., Any]

ORDER = (
    Tangent, SparseArray, NestedArray, BatchedArray, WrittenArray, Dispatched, MetaArray
)  # fmt: skip
_RANK = {kind: rank for rank, kind in enumerate(ORDER)}
_NONE = len(ORDER)
INTERPRETERS: dict[type, str] = {}  # the module's full name; it is imported at the first call


@functools.cache
def interpreter(kind: type) -> Any:
    """The module that runs operators on a type of array."""
    return importlib.import_module(INTERPRETERS[kind])


def interpreter_of(tensors: Sequence[Any]) -> Any:
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
    return interpreter(ORDER[first])
