"""Operators on arrays without memory: their record's `infer`, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.core.meta import meta_of


def call(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Operator.call, without data."""
    op._same_device(tensors)
    found = op.infer(
        [None if tensor is None else meta_of(tensor._array) for tensor in tensors], params
    )
    if isinstance(found, tuple):
        return op.finish_many(found, op.outputs, params, *tensors)
    if op.is_view:
        return op.finish_view(found, params, tensors[0])
    return op.finish_with(found, params, *tensors)
