"""`NestedTensor`, and how one is made of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.arrays.nested import NestedInt, nested_int_of
from tritorch.autograd.function import Function
from tritorch.core.dtype import int64
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.nested import build as _build
from tritorch.ops.interpret.nested.tensor import NestedTensor, stored_number
from tritorch.ops.shape.factory import tensor as _tensor, zeros as _zeros
from tritorch.ops.shape.joining import cat as _cat
from tritorch.ops.shape.ranges import arange as _arange
from tritorch.serialization.rebuild import _rebuild_njt as _rebuild_njt

_store_val_in_tensor = stored_number


def _load_val_from_tensor(t: Tensor) -> int:
    return t.shape[0]


def get_tensor_symint(tensor: Tensor, *, coeff: int = 1) -> NestedInt:
    """The nested int of offsets or lengths."""
    found = nested_int_of(tensor)
    return found if coeff == 1 else found * coeff


def _nt_view_dummy() -> Tensor:
    return _build._nested_get_jagged_dummy(_zeros(0))


class ViewBufferFromNested(Function):
    """The values of a jagged tensor, whose gradient is one with the same components."""

    @staticmethod
    def forward(ctx: Any, x: NestedTensor) -> Tensor:
        """The values."""
        ctx.save_for_backward(x.offsets())
        ctx.options = {"_metadata_cache": x._metadata_cache, "_ragged_idx": x._ragged_idx}
        return x._values

    @staticmethod
    def backward(ctx: Any, gO: Tensor) -> NestedTensor:
        """A jagged tensor of the gradient."""
        (offsets,) = ctx.saved_tensors
        return NestedTensor(gO, offsets=offsets, **ctx.options)


class ViewNestedFromBuffer(Function):
    """A jagged tensor of values, whose gradient is that of the values."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, offsets: Tensor, metadata_cache: dict[str, Any] | None = None
    ) -> NestedTensor:
        """The tensor; extreme lengths may be numbers."""
        kept = {
            name: stored_number(each) if isinstance(each, int) else each
            for name, each in (metadata_cache or {}).items()
        }
        return NestedTensor(values.detach(), offsets=offsets, _metadata_cache=kept)

    @staticmethod
    def backward(ctx: Any, gO: NestedTensor) -> tuple[Tensor, None, None]:
        """The values of the gradient."""
        return gO._values, None, None


def buffer_from_jagged(jagged: NestedTensor) -> Tensor:
    """The values of a jagged tensor."""
    return ViewBufferFromNested.apply(jagged)


def jagged_from_list(
    tensors: Sequence[Tensor], offsets: Tensor | None, dtype: Any = None, device: Any = None
) -> tuple[NestedTensor, Tensor]:
    """A jagged tensor of tensors, which are copied, and its offsets."""
    if not tensors:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    start = "When constructing a nested tensor, all tensors in list must "
    if len({t.dtype for t in tensors}) != 1:
        raise RuntimeError(f"{start}have the same dtype")
    if len({t.device for t in tensors}) != 1:
        raise RuntimeError(f"{start}be on the same device")
    if len({t.dim() for t in tensors}) != 1:
        raise RuntimeError(f"{start}have the same dim")
    if not tensors[0].dim():
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    columns = zip(*(t.shape for t in tensors))
    differing = [dim for dim, column in enumerate(columns) if len(set(column)) > 1]
    if len(differing) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note "
            "that the jagged layout only allows for a single ragged dimension. For example: (B, *, "
            "D_0, D_1, ..., D_N), with ragged * dim."
        )
    at = differing[0] if differing else 0
    values = _cat(list(tensors), at).to(device=device, dtype=dtype)
    lengths = [t.shape[at] for t in tensors]
    if offsets is None:
        ends = [sum(lengths[:k]) for k in range(len(lengths) + 1)]
        offsets = _tensor(ends, dtype=int64, device=values.device)
    made = nested_view_from_values_offsets(values, offsets, at + 1, min(lengths), max(lengths))
    return made, offsets


def jagged_from_tensor_and_lengths(
    tensor: Tensor, starts: Tensor, lengths: Tensor
) -> tuple[NestedTensor, Tensor, Tensor | None]:
    """A jagged view of a dense tensor: some rows of each slice; its offsets, and its lengths where
    there are holes."""
    count = tensor.shape[0]
    if starts.numel() not in (1, count) or lengths.numel() not in (1, count):
        raise RuntimeError(
            "When constructing a jagged nested tensor using narrow(), your start and length must "
            "be Tensors that broadcast to input.shape[0]"
        )
    if tensor.dim() < 2:
        raise AssertionError("tensor must at least be 2D for the nested narrow op to work")
    first, each = starts.expand(count), lengths.expand(count)
    rows = tensor.shape[1]
    begins = rows * _arange(count, dtype=int64, device=tensor.device)
    offsets = _cat([first + begins, (first[-1] + begins[-1] + each[-1]).reshape(1)])
    values = tensor.view(-1, *tensor.shape[2:])
    # Dense if only the first starts, and only the last ends, inside of a slice.
    holes = bool(each[1:-1].ne(rows).any()) or bool(offsets[1:-2].diff().ne(rows).any())
    holes = holes or bool(offsets[0] + each[0] != rows)
    extremes = {"min_seqlen": int(lengths.min()), "max_seqlen": int(lengths.max())}
    if holes:
        made = nested_view_from_values_offsets_lengths(values, offsets, each, **extremes)
        return made, offsets, each
    made = nested_view_from_values_offsets(
        values[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0], **extremes
    )
    return made, offsets, None


def _stored(number: Any) -> Tensor | None:
    return None if number is None else stored_number(int(number))


def nested_view_from_values_offsets(
    values: Tensor, offsets: Tensor, ragged_idx: int = 1, min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:  # fmt: skip
    """A jagged tensor on the memory of its values."""
    return nested_view_from_values_offsets_lengths(
        values, offsets, None, ragged_idx, min_seqlen, max_seqlen
    )


def nested_view_from_values_offsets_lengths(
    values: Tensor, offsets: Tensor, lengths: Tensor | None, ragged_idx: int = 1,
    min_seqlen: int | None = None, max_seqlen: int | None = None,
) -> NestedTensor:  # fmt: skip
    """A jagged tensor on the memory of its values, with holes between components."""
    low, high = _stored(min_seqlen), _stored(max_seqlen)
    found: Any = _build._nested_view_from_jagged(
        values, offsets, None, lengths, ragged_idx, low, high
    )
    return found


def nested_from_padded(
    padded: Tensor, offsets: Tensor, ragged_idx: int = 1, min_seqlen: int | None = None,
    max_seqlen: int | None = None, sum_S: int | None = None,
) -> NestedTensor:  # fmt: skip
    """A jagged tensor of padded components."""
    low, high = _stored(min_seqlen), _stored(max_seqlen)
    found: Any = _build._nested_from_padded_tensor(
        padded, offsets, None, ragged_idx, low, high, sum_S
    )
    return found


__all__ = [
    "NestedTensor", "ViewBufferFromNested", "ViewNestedFromBuffer", "buffer_from_jagged",
    "get_tensor_symint", "jagged_from_list", "jagged_from_tensor_and_lengths",
    "nested_from_padded", "nested_view_from_values_offsets",
    "nested_view_from_values_offsets_lengths",
]  # fmt: skip
