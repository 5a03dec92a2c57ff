"""Operators on arrays without memory: their record's `infer`, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.arrays.meta import (
    DynamicOutputShapeException,
    MetaArray,
    UnknownSize,
    is_fake,
    meta_of,
    real_among_fake,
)


def call(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Operator.call, without data."""
    op._same_device(tensors)
    arrays = [None if tensor is None else tensor._array for tensor in tensors]
    fake = next((array for array in arrays if is_fake(array)), None)
    if fake is not None:
        refuse_real(op.name, arrays, fake.device.mode)
    try:
        found = op.infer([None if array is None else meta_of(array) for array in arrays], params)
    except UnknownSize:
        if fake is None:
            raise
        raise DynamicOutputShapeException(f"aten.{op.name}.default") from None
    if isinstance(found, tuple):
        return op.finish_many(found, op.outputs, params, *tensors)
    if op.is_view:
        return op.finish_view(found, params, tensors[0])
    return op.finish_with(found, params, *tensors)


def refuse_real(name: str, arrays: Sequence[Any], mode: Any) -> None:
    """Refuses real tensors among fake ones, unless the mode takes them for fake ones."""
    if mode is not None and mode.allow_non_fake_inputs:
        return
    if any(array is not None and type(array) is not MetaArray for array in arrays):
        raise real_among_fake(name)
