"""How nested tensors are made, of lists, buffers and padded tensors, and what is in them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tritorch.arrays.nested import Jagged, NestedArray, Ragged
from tritorch.arrays.strides import contiguous_strides
from tritorch.core import defaults, published
from tritorch.core.dtype import bool_, int64
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.nested.padding import from_padded, jagged_rows, padded_rows
from tritorch.ops.interpret.nested.record import (
    is_nested,
    made,
    nested_view,
    of_parts,
    sizes_of,
    structure_of,
    values_of,
)

# ---- strided -------------------------------------------------------------------------------------


def _say_prototype() -> None:
    defaults.warn_once(
        "The PyTorch API of nested tensors is in prototype stage and will change in the near "
        "future. We recommend specifying layout=torch.jagged when constructing a nested tensor, as "
        "this layout receives active development, has better operator coverage, and works with "
        "torch.compile.",
        stacklevel=4,
    )


def _require_one_dim(tensors: Sequence[Tensor]) -> None:
    for i, (before, each) in enumerate(itertools.pairwise(tensors), start=1):
        if each.ndim != before.ndim:
            raise RuntimeError(
                f"All Tensors given to nested_tensor must have the same dimension. Found dimension "
                f"{each.ndim} for Tensor at index {i} and dimension {before.ndim} for Tensor at "
                f"index {i - 1}."
            )


def _nested_tensor_from_tensor_list(
    list: Sequence[Tensor], dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    """A strided nested tensor of copies, with their history."""
    _say_prototype()
    _require_one_dim(list)
    if not list:
        kind = defaults.dtype() if dtype is None else dtype
        out = made(published.public.empty(0, dtype=kind, device=device), Ragged(()))
    else:
        kind = list[0].dtype if dtype is None else dtype
        where = list[0].device if device is None else device
        out = of_parts([each.to(device=where, dtype=kind) for each in list])
    return out.pin_memory() if pin_memory else out


def nested_tensor(
    tensor_list: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A strided nested tensor of copies, a leaf."""
    if not isinstance(tensor_list, (list, tuple)):
        raise TypeError(
            "Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor"
        )
    tensors = [
        each.detach() if isinstance(each, Tensor) else published.public.as_tensor(each, dtype=dtype)
        for each in tensor_list
    ]
    out = _nested_tensor_from_tensor_list(tensors, dtype, None, device, pin_memory)
    return out.requires_grad_(True) if requires_grad else out


def _rows(table: Tensor) -> list[tuple[int, ...]]:
    return [tuple(int(n) for n in row) for row in table.tolist()]


def _nested_view_from_buffer(
    self: Tensor, nested_size: Tensor, nested_strides: Tensor, offsets: Tensor
) -> Tensor:
    """A strided nested tensor on the memory of a flat one."""
    if self.ndim != 1:
        raise RuntimeError("NestedTensor buffer must be 1D")
    _say_prototype()
    sizes, steps = _rows(nested_size), _rows(nested_strides)
    return nested_view(self, Ragged(sizes, steps, [int(n) for n in offsets.tolist()]))


def _nested_view_from_buffer_copy(
    self: Tensor, nested_size: Tensor, nested_strides: Tensor, offsets: Tensor
) -> Tensor:
    """The same of a copy."""
    return _nested_view_from_buffer(self.clone(), nested_size, nested_strides, offsets)


def _nested_compute_contiguous_strides_offsets(nested_size: Tensor) -> tuple[Tensor, Tensor]:
    """The strides and starts of dense components of given sizes."""
    dense = Ragged(_rows(nested_size))
    table = published.public.tensor(dense.steps, dtype=int64).reshape(nested_size.shape)
    return table, published.public.tensor(dense.starts, dtype=int64)


def _table(x: Tensor, rows: Sequence[Any]) -> Tensor:
    if not is_nested(x):
        raise NotImplementedError(
            f"Could not run 'aten::_nested_tensor_size' with arguments from the "
            f"'{x.device.type.upper()}' backend."
        )
    if not rows:
        return published.public.empty(0, dtype=int64)
    return published.public.tensor(rows, dtype=int64)


def _nested_tensor_size(self: Tensor) -> Tensor:
    """The components' sizes, a row each."""
    return _table(self, sizes_of(self) if is_nested(self) else ())


def _nested_tensor_strides(self: Tensor) -> Tensor:
    """The components' strides, a row each."""
    structure = structure_of(self) if is_nested(self) else None
    if type(structure) is Jagged:
        return _table(self, [contiguous_strides(size) for size in sizes_of(self)])
    return _table(self, structure.steps if structure is not None else ())


def _nested_tensor_storage_offsets(self: Tensor) -> Tensor:
    """Where the components start."""
    structure = structure_of(self) if is_nested(self) else None
    if type(structure) is Jagged:
        return structure.offsets[:-1]
    return _table(self, structure.starts if structure is not None else ())


def _left_aligned(mask: Tensor) -> bool:
    """Whether each row of a mask is true up to some place, and false from there on."""
    there = mask.to(bool_)
    return not bool((there[:, 1:] & ~there[:, :-1]).any())


def _nested_tensor_from_mask_left_aligned(t: Tensor, mask: Tensor) -> bool:
    """Whether a mask says how long the components of a padded tensor are."""
    if mask.dtype is not bool_ or mask.ndim != 2 or t.ndim != 3:
        raise RuntimeError("Expected mask to be of ScalarType Bool and of 2 dims, and 3 dims of t")
    if tuple(t.shape[:2]) != tuple(mask.shape):
        raise RuntimeError("Mask size should match input")
    return _left_aligned(mask)


def _nested_tensor_from_mask(t: Tensor, mask: Tensor, mask_check: bool = True) -> Tensor:
    """The rows of a padded tensor where a mask is true, whose true places come first."""
    if mask.dtype is not bool_:
        raise RuntimeError(f"Expected mask to be of ScalarType Bool, but got {mask.dtype} instead.")
    if mask.ndim != 2:
        raise RuntimeError("Padding mask should be 2D")
    if t.ndim != 3:
        raise RuntimeError("Input should be a 3D tensor, N * L * D")
    if tuple(t.shape[:2]) != tuple(mask.shape):
        raise RuntimeError("Mask size should match input")
    if mask_check and not _left_aligned(mask):
        raise RuntimeError("Mask must be left-aligned without gaps")
    lengths = [int(n) for n in mask.sum(1).tolist()]
    return of_parts([row[:n] for row, n in zip(t.unbind(0), lengths)])


def _nested_from_padded(
    padded: Tensor, cpu_nested_shape_example: Tensor, fuse_transform_0213: bool = False
) -> Tensor:
    """The components of given sizes in a padded tensor."""
    if fuse_transform_0213:
        padded = padded.transpose(1, 2).reshape(padded.shape[0], padded.shape[2], -1)
    parts = []
    for row, size in zip(padded.unbind(0), _rows(cpu_nested_shape_example)):
        parts.append(row[tuple(slice(n) for n in size)])
    return of_parts(parts)


def _nested_from_padded_and_nested_example(padded: Tensor, nt_example: Tensor) -> Tensor:
    """The components of a padded tensor that are as large as those of a nested one."""
    return _nested_from_padded(padded, _nested_tensor_size(nt_example))


# ---- jagged --------------------------------------------------------------------------------------


def _cache(min_seqlen: Any, max_seqlen: Any) -> dict[str, Any]:
    given = {"min_seqlen": min_seqlen, "max_seqlen": max_seqlen}
    return {name: value for name, value in given.items() if value is not None}


def _nested_view_from_jagged(
    self: Tensor, offsets: Tensor, dummy: Any = None, lengths: Tensor | None = None,
    ragged_idx: int = 1, min_seqlen: Tensor | None = None, max_seqlen: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A jagged tensor on the memory of its values."""
    NestedArray.jagged_class._check(self, offsets, lengths)  # type: ignore[attr-defined]
    structure = Jagged(offsets, lengths, ragged_idx, _cache(min_seqlen, max_seqlen))
    return nested_view(self, structure)


def _nested_view_from_jagged_copy(
    self: Tensor, offsets: Tensor, dummy: Any = None, lengths: Tensor | None = None,
    ragged_idx: int = 1, min_seqlen: Tensor | None = None, max_seqlen: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The same of a copy."""
    return _nested_view_from_jagged(
        self.clone(), offsets, dummy, lengths, ragged_idx, min_seqlen, max_seqlen
    )


def _nested_from_padded_tensor(
    padded: Tensor, offsets: Tensor, dummy: Any = None, ragged_idx: int = 1,
    min_seqlen: Tensor | None = None, max_seqlen: Tensor | None = None, sum_S: int | None = None,
) -> Tensor:  # fmt: skip
    """A jagged tensor of padded components."""
    values = from_padded(padded, offsets, ragged_idx, sum_S)
    return made(values, Jagged(offsets, None, ragged_idx, _cache(min_seqlen, max_seqlen)))


def _one(offsets: Any) -> Tensor:
    if len(offsets) != 1:
        raise NotImplementedError("jagged tensors of several ragged dims are not supported")
    return offsets[0]


def _jagged_to_padded_dense_forward(
    values: Tensor, offsets: Sequence[Tensor], max_lengths: Sequence[int],
    padding_value: float = 0.0,
) -> Tensor:  # fmt: skip
    """Rows of components, filled up to a length."""
    return padded_rows(values, _one(offsets), int(max_lengths[0]), padding_value)


def _padded_dense_to_jagged_forward(
    dense: Tensor, offsets: Sequence[Tensor], total_L: int | None = None
) -> Tensor:
    """The rows of padded components without the padding."""
    ends = _one(offsets)
    return jagged_rows(dense, ends, int(ends[-1]) if total_L is None else int(total_L))


def _nested_get_values(self: Tensor) -> Tensor:
    """The values of a jagged tensor."""
    return values_of(self)


def _nested_get_values_copy(self: Tensor) -> Tensor:
    """A copy of the values of a jagged tensor."""
    return values_of(self).clone()


def _nested_get_offsets(self: Tensor) -> Tensor:
    """Where the components of a jagged tensor start."""
    return structure_of(self).offsets


def _nested_get_lengths(self: Tensor) -> Tensor | None:
    """How long the components of a jagged tensor with holes are."""
    return structure_of(self).lengths


def _nested_get_ragged_idx(self: Tensor) -> int:
    """Which dim of a jagged tensor is ragged."""
    return structure_of(self).ragged


def _nested_get_min_seqlen(self: Tensor) -> Tensor | None:
    """The least length, as the size of a tensor, if it is known."""
    return structure_of(self).cache.get("min_seqlen")


def _nested_get_max_seqlen(self: Tensor) -> Tensor | None:
    """The greatest length, as the size of a tensor, if it is known."""
    return structure_of(self).cache.get("max_seqlen")


def _nested_get_jagged_dummy(any: Tensor) -> Tensor:
    """Some jagged tensor: PyTorch's operators are found by one."""
    zeros = published.public.zeros
    return NestedArray.jagged_class(zeros(3, 3), zeros(3, dtype=int64))
