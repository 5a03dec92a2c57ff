"""Kernels of built-in operators that a program replaces by its own.

# Note [Replaced kernels]
A record's function of a backend takes arrays; what a program gives takes tensors, as its schema
says, and is called through a wrapper that stands in the record's place until it is taken back.
Pointwise records keep plans (`elements.py`), and foreach's launches know their kernels by name:
there are no plans, and those take no dtypes, while the record is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.core import defaults, scopes
from tritorch.core.dtype import dtype
from tritorch.core.tensor import Tensor
from tritorch.ops.record.operator import Array, Operator, ndarray
from tritorch.ops.record.pointwise import Pointwise

_KINDS = {"cpu": ndarray, "gpu": Array}


def is_replaced(op: Operator, backend: str) -> bool:
    """Whether a program's function computes a record on a backend."""
    if isinstance(op, Pointwise):
        return "compute" in vars(op)
    return getattr(vars(op).get(backend), "__name__", "") == "of_arrays"


def replace(op: Operator, backend: str, function: Callable[..., Any]) -> Callable[[], None]:
    """Makes a function of tensors what computes a record on "cpu" or "gpu".

    Gives what undoes it."""

    def computed(tensors: Sequence[Any], params: Sequence[Any]) -> Any:
        _C.unrecordable("a program's function computes it")
        with scopes.unrecorded:
            _, args, kwargs = op.as_call(tensors, params)
            result = function(*args, **kwargs)
        if isinstance(result, (tuple, list)):
            return tuple(x._array if isinstance(x, Tensor) else x for x in result)
        return result._array

    def of_arrays(*values: Any) -> Any:
        if op.variadic:
            arrays, params = values[0], values[1:]
        else:
            arrays, params = values[: len(op.inputs)], values[len(op.inputs) :]
        tensors = [None if a is None else _C.wrap(a) for a in arrays]
        return computed(tensors, params)

    if isinstance(op, Pointwise):
        return _replace_pointwise(op, backend, computed)
    before = vars(op).get(backend)
    defaults.kernels_change()
    setattr(op, backend, of_arrays)

    def undo() -> None:
        defaults.kernels_change()
        if before is None:
            delattr(op, backend)
        else:
            setattr(op, backend, before)

    return undo


def _replace_pointwise(
    op: Pointwise, backend: str, computed: Callable[..., Any]
) -> Callable[[], None]:
    kind, plain = _KINDS[backend], op.compute
    fast: Any = op.direct if backend == "cpu" else op.plans
    kept = fast.copy()
    defaults.kernels_change()
    fast.clear()

    def compute(operands: Sequence[Any], common: dtype, result: dtype) -> Any:
        arrays = [x for x in operands if isinstance(x, (ndarray, Array))]
        if not arrays or not all(type(x) is kind for x in arrays):
            return plain(operands, common, result)
        found = computed([_C.wrap(x) if type(x) is kind else x for x in operands], ())
        tensor = _C.wrap(found)
        return found if tensor.dtype is result else tensor.to(result)._array

    op.compute = compute  # type: ignore[method-assign, assignment]
    op.elements.clear()

    def undo() -> None:
        defaults.kernels_change()
        fast.update(kept)
        del op.compute
        op.elements.clear()

    return undo
