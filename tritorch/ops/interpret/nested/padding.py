"""Nested tensors as dense ones that are padded, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritorch.arrays.arrays import cast_number
from tritorch.arrays.nested import Jagged, Ragged
from tritorch.core import published
from tritorch.core.dtype import dtype
from tritorch.core.info import iinfo
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.nested.record import (
    lengths_of,
    parts_of,
    structure_of,
    values_of,
)
from tritorch.ops.record.groups import Rules
from tritorch.ops.record.operator import Operator

_to_padded = Operator(
    "jagged_to_padded",
    "x offsets",
    "length padding",
    schema="_jagged_to_padded_dense_forward(x, [offsets], [length], padding)",
    cpu="nested.to_padded",
    gpu="nested.to_padded",
    grad=lambda g, x_shape, offsets: _from_padded.call((g, offsets), (x_shape[0],)),
    rules=Rules(
        infer=lambda x, offsets, length, padding: x.new((offsets.shape[0] - 1, length, x.shape[1])),
        axes="l@d,o@->bsd",
    ),
)
_from_padded: Operator = Operator(
    "padded_to_jagged",
    "x offsets",
    "total",
    schema="_padded_dense_to_jagged_forward(x, [offsets], total)",
    cpu="nested.from_padded",
    gpu="nested.from_padded",
    grad=lambda g, x_shape, offsets: _to_padded.call((g, offsets), (x_shape[1], 0)),
    rules=Rules(infer=lambda x, offsets, total: x.new((total, x.shape[2])), axes="b@s@d,o@->ld"),
)


def _number(padding: Any, kind: dtype) -> Any:
    """What is written for a padding; of integers, infinities are the extremes."""
    if kind.is_floating_point or kind.is_complex or kind.name == "bool":
        return cast_number(padding, kind)
    if isinstance(padding, float) and math.isinf(padding):
        return iinfo(kind).max if padding > 0 else iinfo(kind).min
    return cast_number(padding, kind)


def padded_rows(values: Tensor, offsets: Tensor, length: int, padding: Any) -> Tensor:
    """Values whose first dim is ragged, padded: (B, length, ..)."""
    flat = values.reshape(values.shape[0], math.prod(values.shape[1:]))
    out = _to_padded.call((flat, offsets), (length, _number(padding, values.dtype)))
    return out.reshape(*out.shape[:2], *values.shape[1:])


def jagged_rows(padded: Tensor, offsets: Tensor, total: int) -> Tensor:
    """Rows (B, S, ..) without their padding: values whose first dim is ragged."""
    rest = padded.shape[2:]
    flat = padded.reshape(*padded.shape[:2], math.prod(rest))
    return _from_padded.call((flat, offsets), (total,)).reshape(total, *rest)


def jagged_values(padded: Tensor, offsets: Tensor, ragged: int, total: int) -> Tensor:
    """The values of a jagged tensor of padded components."""
    rows = jagged_rows(padded.transpose(1, ragged), offsets, total)
    return rows.transpose(0, ragged - 1)


def to_padded_tensor(input: Tensor, padding: float, output_size: Any = None) -> Tensor:
    """The components in one dense tensor, each filled up to the largest, or to a given, size."""
    if not isinstance(input, Tensor) or not input.is_nested:
        raise NotImplementedError("to_padded_tensor: expected a nested tensor, got a dense one")
    structure = structure_of(input)
    size = None if output_size is None else tuple(output_size)
    if type(structure) is Jagged:
        return _jagged_to_padded(input, structure, padding, size)
    return _strided_to_padded(input, structure, padding, size)


def padded_length(x: Tensor, structure: Jagged) -> int:
    """The length that a program sees a jagged tensor padded to: all of it, while it has not asked
    for the longest."""
    kept = structure.cache.get("max_seqlen")
    return x._array.values.shape[structure.ragged - 1] if kept is None else kept.shape[0]


def longest(structure: Jagged) -> int:
    """The greatest length; on the GPU, the first to ask waits for it."""
    kept = structure.cache.get("max_seqlen")
    return max(lengths_of(structure), default=0) if kept is None else kept.shape[0]


def _jagged_to_padded(
    x: Tensor, structure: Jagged, padding: float, size: Sequence[int] | None
) -> Tensor:
    if structure.lengths is not None:
        raise RuntimeError("to_padded_tensor(): not supported for nested tensors with holes")
    ragged = structure.ragged
    length = padded_length(x, structure) if size is None else size[ragged]
    values = values_of(x).transpose(0, ragged - 1)
    out = padded_rows(values, structure.offsets, length, padding)
    return out.transpose(1, ragged)


def _strided_to_padded(
    x: Tensor, structure: Ragged, padding: float, size: Sequence[int] | None
) -> Tensor:
    if not structure.count:
        return values_of(x).new_empty(x.shape if size is None else size)
    if not structure.numel():
        raise RuntimeError("at least one constituent tensor should have non-zero numel")
    wanted = tuple(max(column) for column in zip(*structure.sizes))
    if size is not None:
        if len(size) != len(wanted) + 1:
            raise RuntimeError(
                "Length of output_size does not match NestedTensor dims. Broadcasting is not "
                "supported."
            )
        if any(n < m for n, m in zip(size[1:], wanted)) or size[0] < structure.count:
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not "
                "supported."
            )
        wanted = tuple(size[1:])
    filled = []
    for part in parts_of(x):
        sides = [side for n, m in zip(part.shape[::-1], wanted[::-1]) for side in (0, m - n)]
        number = _number(padding, x.dtype)
        filled.append(published.public.constant_pad_nd(part, sides, number) if any(sides) else part)
    out = published.public.stack(filled)
    if size is not None and size[0] > structure.count:
        rest = out.new_full((size[0] - structure.count, *wanted), padding)
        out = published.public.cat([out, rest])
    return out


def from_padded(padded: Tensor, offsets: Tensor, ragged: int, total: int | None) -> Tensor:
    """The values of a jagged tensor, without padding."""
    total = int(offsets[-1]) if total is None else total
    return jagged_values(padded, offsets, ragged, total)


__all__ = ["from_padded", "to_padded_tensor"]
