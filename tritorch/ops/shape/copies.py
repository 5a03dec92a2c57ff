"""Views as copies (`expand_copy`), and their opposites: copies with a part replaced
(`*_scatter`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.arrays.symbolic import SymInt
from tritorch.core import published
from tritorch.core.arguments import type_name
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import bool_
from tritorch.core.layout import contiguous_format, strided
from tritorch.core.promotion import not_implemented
from tritorch.core.published import PUBLIC, autocast
from tritorch.core.size import Size
from tritorch.core.tensor import Tensor
from tritorch.ops.record import checks
from tritorch.ops.record.checks import require_tensor
from tritorch.ops.record.ends import ends_as, ends_with
from tritorch.ops.record.operator import ndarray
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public, with_out
from tritorch.ops.shape import memory, parts, shape
from tritorch.ops.shape.joining import cat, stack
from tritorch.ops.shape.parts import meshgrid


def _row_major_copy(x: Tensor) -> Tensor:
    return x.clone() if x.layout is not strided else x.clone(memory_format=contiguous_format)


# Which overload a function of its name is, where it is not the one without a name.
_OVERLOADS = {
    "unbind_copy": ".int",
    "transpose_copy": ".int",
    "select_copy": ".int",
    "split_copy": ".Tensor",
}


def _copying(name: str, view: Any, exact: bool) -> None:
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = view(input, *args, **kwargs)
        if isinstance(result, tuple):
            return ends_as(overload, tuple(map(_row_major_copy, result)))
        copied = _row_major_copy(result)
        if name == "squeeze_copy" and args:
            return ends_as(f"{name}.dim{'s' * isinstance(args[0], (tuple, list))}", copied)
        return ends_as(overload, copied)

    overload = name + _OVERLOADS.get(name, "")
    function.__name__ = name
    function.__doc__ = f"{name[:-5]}, as a copy."
    PUBLIC[name] = with_out(function)
    if exact:
        exact_out("structured")(function)


def _viewed(input: Tensor, *size: Any) -> Tensor:
    """A view where the strides allow, else a copy."""
    try:
        return shape.view(input, *size)
    except RuntimeError:
        return shape.reshape(input, *size)


for _name, _view in (
    ("view", _viewed), ("expand", shape.expand), ("diagonal", parts.diagonal),
    ("as_strided", memory.as_strided), ("permute", shape.permute), ("squeeze", shape.squeeze),
    ("unsqueeze", shape.unsqueeze), ("t", shape.t), ("transpose", shape.transpose),
    ("unbind", parts.unbind), ("split_with_sizes", parts.split_with_sizes),
    ("unfold", parts.unfold), ("alias", memory.alias),
):  # fmt: skip
    _copying(f"{_name}_copy", _view, exact=True)
for _name, _view in (
    ("select", parts.select), ("split", parts.split), ("detach", memory.detach),
    ("view_as_real", memory.view_as_real), ("view_as_complex", memory.view_as_complex),
):  # fmt: skip
    _copying(f"{_name}_copy", _view, exact=False)


@public(out=True)
@ends_with("narrow_copy")
def narrow_copy(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """narrow, as a copy."""
    if 0 < input.ndim <= dim:
        raise RuntimeError(
            "Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false.  "
            "(Could this error message be improved?  If so, please report an enhancement request "
            "to PyTorch.)"
        )
    return _row_major_copy(parts.narrow(input, dim, start, length))


def _clone_with_strides(input: Tensor) -> Tensor:
    """A copy of the storage with the same view of it; a dense copy where elements overlap."""
    array = input._array
    overlaps = any(n > 1 and step == 0 for n, step in zip(input.shape, input.stride()))
    if type(array) is not ndarray or overlaps:
        return input.clone()
    storage = input.untyped_storage()
    if array.flags.c_contiguous and storage.nbytes() == array.nbytes:
        return input.clone()
    copy = storage.clone()
    out = copy._view(input.dtype, input.shape, input.stride(), input.storage_offset())
    return out.copy_(input)


def _replace(input: Tensor, src: Tensor, view: Any) -> Tensor:
    out = _clone_with_strides(input)
    part = view(out)
    if part.shape != src.shape:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(part.shape)}"
        )
    part.copy_(src)
    return out


@public()
@ends_with("diagonal_scatter")
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy with a diagonal replaced."""
    return _replace(input, src, lambda x: x.diagonal(offset, dim1, dim2))


@public()
@ends_with("select_scatter")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy with one slice replaced."""
    require_tensor(src, "select_scatter", "src", 2)
    return _replace(input, src, lambda x: x.select(dim, index))


@public(out=True)
@exact_out("structured")
@ends_with("slice_scatter")
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """A copy with a range of slices replaced."""
    key = (*(slice(None),) * wrap_dim(dim, input.ndim), slice(start, end, step), Ellipsis)
    return _replace(input, src, lambda x: parts.basic_index(x, key))


@public()
@ends_with("as_strided_scatter")
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """A copy with a strided part replaced."""
    return _replace(input, src, lambda x: x.as_strided(size, stride, storage_offset))


@public(out=True)
@autocast("cpu:float32")
@ends_with("trace")
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal."""
    if input.dtype is bool_:
        raise not_implemented("trace", bool_)
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return input.diagonal().sum()


@public(method=False)
def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that all shapes broadcast to."""
    each = [(s,) if isinstance(s, (int, SymInt)) else () if s is None else tuple(s) for s in shapes]
    for position, one in enumerate(each):
        if any(size < 0 for size in one):
            raise ValueError("Attempting to broadcast a dimension with negative length!")
        try:
            checks.broadcast_shapes(*each[: position + 1])
        except RuntimeError:
            before = checks.broadcast_shapes(*each[:position])
            far = next(
                k for k in range(1, len(one) + 1)
                if one[-k] != 1 and len(before) >= k and before[-k] not in (1, one[-k])
            )  # fmt: skip
            raise RuntimeError(
                f"Attempting to broadcast a dimension of length {one[-far]} at -{far}! Mismatching "
                f"argument at index {position} had {one}; but expected shape should be "
                f"broadcastable to {list(before)}"
            ) from None
    return Size(checks.broadcast_shapes(*each))


@public(method=False)
@ends_with("block_diag")
def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix of blocks on the diagonal."""
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"expected Tensor as element {i} in argument 0, but got {type_name(tensor)}"
            )
    if not tensors:
        return published.public.empty((1, 0))
    blocks = [published.public.atleast_2d(tensor) for tensor in tensors]
    for i, block in enumerate(blocks):
        if block.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has "
                f"{block.ndim} dimensions"
            )
    width = sum(block.shape[1] for block in blocks)
    rows, start = [], 0
    for block in blocks:
        n, m = block.shape
        rows.append(cat([
            block.new_zeros((n, start)), block, block.new_zeros((n, width - start - m)),
        ], 1))  # fmt: skip
        start += m
    return cat(rows, 0)


@public(method=False)
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of elements of vectors."""
    for tensor in tensors:
        if tensor.ndim != 1:
            raise RuntimeError("Expect a 1D vector, but got shape " + str(list(tensor.shape)))
    if len(tensors) == 1:
        return tensors[0]
    grids = meshgrid(*tensors, indexing="ij")
    return stack([grid.reshape(-1) for grid in grids], 1)


@public()
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Flat indices as indices of each dim."""
    if indices.is_complex() or indices.is_floating_point() or indices.dtype is bool_:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, SymInt, Sequence)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    shape = (shape,) if isinstance(shape, (int, SymInt)) else tuple(shape)
    for each in shape:
        if not isinstance(each, (int, SymInt)):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(each)}")
    if any(n < 0 for n in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    out = []
    for n in reversed(shape):
        out.append(indices % n)
        indices = published.public.div(indices, n, rounding_mode="floor")
    return tuple(reversed(out))
