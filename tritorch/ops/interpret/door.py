"""The slow path: tensors that carry a tangent (forward mode), a hidden batch dim (vmap), or are
sparse.

Operators come here when a tensor's fast field is unset or holds a BatchedArray.  Tangents are taken
off first, then batches: so both nest in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.core.sparse import SparseArray
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.forward_mode import has_tangent, replace, with_tangents
from tritorch.ops.interpret.vmap import _batched_pointwise, batched


def call(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Operator.call, with care."""
    run = lambda *inputs: op.call(inputs, params)
    if has_tangent(tensors):
        return with_tangents(run, tensors, op)
    if _has_sparse(tensors):
        from tritorch.ops.interpret.sparse import record

        return record.dispatch(op, tensors, params)
    return batched(op, tensors, params)


def pointwise(op: Any, inputs: Sequence[Any], out: Any) -> Any:
    """kinds.apply, with care."""
    from tritorch.ops.record.apply import apply

    if _has_sparse(inputs) and not has_tangent(inputs):
        from tritorch.ops.interpret.sparse import pointwise as sparse

        return sparse.call(op, inputs, out)
    if out is not None:
        raise RuntimeError(f"{op.name}(): out= is not supported inside vmap or forward mode")
    if has_tangent(inputs):
        return with_tangents(lambda *xs: apply(op, xs), inputs, op)
    return _batched_pointwise(op, inputs)


def in_place(op: Any, inputs: Sequence[Any]) -> Tensor:
    """kinds.apply_in_place, with care: the result replaces the first input's array."""
    from tritorch.ops.record.apply import apply

    if _has_sparse(inputs) and not has_tangent(inputs):
        from tritorch.ops.interpret.sparse import pointwise as sparse

        return sparse.call_in_place(op, inputs)
    return replace(inputs[0], apply(op, inputs))


# ---- forward mode --------------------------------------------------------------------------------


def _has_sparse(tensors: Sequence[Any]) -> bool:
    return any(isinstance(t, Tensor) and type(t._array) is SparseArray for t in tensors)


# ---- vmap ----------------------------------------------------------------------------------------
