"""Joining tensors, and reordering elements: cat, stack, flip, roll, triangles."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.arrays import by_steps, seen, strided, strides_of
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.strides import looks_channels_last
from tritorch.arrays.symbolic import SymInt, expect, known
from tritorch.core import published
from tritorch.core.dims import several, wrap_dim, wrap_dims
from tritorch.core.layout import contiguous_format
from tritorch.core.promotion import category, not_implemented, result_type
from tritorch.core.published import PUBLIC, autocast
from tritorch.core.tensor import Tensor, attach
from tritorch.host.shape import shaping
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import host_values, looks_at_values, one_of, values
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import laid_out, same
from tritorch.ops.record.operator import Operator, ndarray
from tritorch.ops.record.outputs import exact_out, joins
from tritorch.ops.record.publishing import accepts_expanded, public
from tritorch.ops.shape.factory import tensor
from tritorch.ops.shape.parts import narrow
from tritorch.ops.shape.ranges import arange
from tritorch.ops.shape.shape import expand, new_dim, reshape, unsqueeze


def _cat_result(values: Sequence[MetaArray], dim: int) -> MetaArray:
    shape = list(next((v for v in values if v.shape != (0,)), values[0]).shape)
    if shape:
        shape[dim] = sum(v.shape[dim] for v in values if v.shape != (0,) or len(shape) == 1)
    return values[0].new(shape)


def _stack_result(values: Sequence[MetaArray], dim: int) -> MetaArray:
    shape = list(values[0].shape)
    shape.insert(dim, len(values))
    if dim < len(values[0].shape) and _format_order(values) is not None:
        return _split(laid_out("format", _cat_result(values, dim), values), dim, len(values))
    return values[0].new(shape)


def _format_order(values: Sequence[Any]) -> tuple[int, ...] | None:
    """The order of dims in memory of arrays that are all channels_last, dims of several elements
    telling so; None: of others."""
    first = values[0]
    if len(first.shape) not in _LAST_ORDER:
        return None
    for value in values:
        shape, strides = value.shape, value.strides
        if len(shape) != len(first.shape) or not looks_channels_last(shape, strides):
            return None
    return _LAST_ORDER[len(first.shape)]


_LAST_ORDER = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def _permuted(array: Any, order: Sequence[int]) -> Any:
    return array.transpose(order) if type(array) is ndarray else array.permute(*order)


def _cat_on(device: str) -> Any:
    """cat whose result is in the memory format of its inputs."""

    def cat(values: Sequence[Any], dim: int) -> Any:
        join, order = backend(device, "shaping").cat, _format_order(values)
        if order is None:
            return join(values, dim)
        joined = join([_permuted(value, order) for value in values], order.index(dim))
        return _permuted(joined, sorted(range(len(order)), key=order.__getitem__))

    return by_steps(cat)


def _split(array: Any, dim: int, count: int) -> Any:
    """A view with a dim taken apart, the first of its parts of `count`."""
    shape, strides = list(array.shape), list(strides_of(array))
    shape[dim : dim + 1] = [count, shape[dim] // count]
    strides[dim : dim + 1] = [strides[dim] * shape[dim + 1], strides[dim]]
    return strided(array, shape, strides, 0)


_cat = Operator(
    "cat", "*tensors", "dim",
    cpu=_cat_on("cpu"), gpu=_cat_on("gpu"), fuses="cat",
    grad=Gradient(
        joint=lambda g, tensors_shape, dim, needs: _cat_grad(g, tensors_shape, dim, needs),
    ),
    layout="format", rules=Rules(infer=_cat_result, batch="dims"),
)  # fmt: skip


def _stack_on(device: str) -> Any:
    cat = _cat_on(device)

    def stack(values: Sequence[Any], dim: int) -> Any:
        if dim < len(values[0].shape) and _format_order(values) is not None:
            return _split(cat(values, dim), dim, len(values))
        out = cat([new_dim(value, dim) for value in values], dim)
        return np.ascontiguousarray(out) if type(out) is ndarray else out

    return by_steps(stack)


_stack = Operator(
    "stack",
    "*tensors",
    "dim",
    cpu=_stack_on("cpu"),
    gpu=_stack_on("gpu"),
    grad=Gradient(joint=lambda g, dim: g.unbind(dim)),
    rules=Rules(infer=_stack_result, batch="dims"),
)


def _cat_grad(g: Tensor, shapes: Any, dim: int, needs: Sequence[bool]) -> tuple[Any, ...]:
    # Vectors without elements may stand among tensors of any shape.
    sizes = [0 if shape is None or shape == (0,) else shape[dim] for shape in shapes]
    starts = itertools.accumulate(sizes, initial=0)
    return tuple(
        narrow(g, dim, start, size) if needed else None
        for start, size, needed in zip(starts, sizes, needs)
    )


def _check_list(name: str, tensors: Any) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"
        )
    items = list(tensors)
    if not items:
        if name == "cat":
            raise ValueError("torch.cat(): expected a non-empty list of Tensors")
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            raise TypeError(
                f"expected Tensor as element {i} in argument 0, but got {type(item).__name__}"
            )
    return items


_put_together = seen(shaping.cat)


def _plain(items: Sequence[Tensor]) -> list[Any] | None:
    """The arrays, if NumPy has all of them in one dtype."""
    found: list[Any] = []
    kind = None
    for item in items:
        array = getattr(item, "_a", None)
        if type(array) is not ndarray or not (kind is None or array.dtype is kind):
            return None
        kind = array.dtype
        found.append(array)
    return found


def _joined(items: Sequence[Tensor], dim: Any) -> Tensor | None:
    """The usual case, which needs no looking into; None: whatever else it is."""
    arrays = _plain(items)
    if arrays is None or len(arrays) < 2 or type(dim) is not int:
        return None
    try:
        out = _put_together(arrays, dim)
    except ValueError:
        return None
    if not out.flags.c_contiguous:
        return None
    dim %= out.ndim
    return _cat.finish_with(out, (dim,), *items)


def _stacked(items: Sequence[Tensor], dim: Any) -> Tensor | None:
    arrays = _plain(items)
    if arrays is None or type(dim) is not int:
        return None
    shape = arrays[0].shape
    if [1 for array in arrays if array.shape != shape] or not -len(shape) <= dim + 1 <= len(
        shape
    ) + 1:
        return None
    dim %= len(shape) + 1
    if len(shape) in _LAST_ORDER and not arrays[0].flags.c_contiguous:
        return None  # a memory format may be kept
    row = (*shape[:dim], 1, *shape[dim:])
    rows = [array.reshape(row) for array in arrays]
    out = _put_together(rows, dim)
    if not out.flags.c_contiguous:
        out = np.ascontiguousarray(out)
    return _stack.finish_with(out, (dim,), *items)


def _is_nothing(shape: Any) -> bool:
    """Whether a shape is that of an empty vector, which may stand among any others."""
    return len(shape) == 1 and known(shape[0] == 0)


def _with_empty(items: Sequence[Tensor], shape: tuple[Any, ...]) -> list[Tensor]:
    """Tensors without empty vectors, but for those that get gradients: they take a shape."""
    found = []
    for item in items:
        if not _is_nothing(item._array.shape):
            found.append(item)
        elif item._requires_grad and _C.is_grad_enabled():
            found.append(reshape(item, shape))
    return found


@public(method=False, out=True, aliases=("concat", "concatenate"))
@autocast("cpu:widest")
@joins
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along a dim."""
    quick = _joined(tensors, dim) if type(tensors) in (list, tuple) else None
    if quick is not None:
        return quick
    items = _check_list("cat", tensors)
    for i, item in enumerate(items):
        if item.ndim == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    # Empty vectors join anything.
    full = [item for item in items if not _is_nothing(item._array.shape)]
    kind = result_type(*items)
    first = (full or items)[0]
    if not full:
        dim = 0  # nothing is joined: PyTorch looks at no dim
    dim = wrap_dim(dim, first.ndim)
    shape = tuple(first.shape)
    kept = _with_empty(items, (*shape[:dim], 0, *shape[dim + 1 :])) if full else items
    for i, item in enumerate(kept):
        if item.ndim != first.ndim:
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.ndim} and {item.ndim}"
            )
        for d, (a, b) in enumerate(zip(shape, item.shape)):
            if d != dim and a != b:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {a} but "
                    f"got size {b} for tensor number {i} in the list."
                )
    kept = [item if item.dtype is kind else item.to(kind) for item in kept]
    if len(kept) == 1 and len(items) == 1:
        return kept[0].clone()
    return _cat.call(tuple(kept), (dim,))


@public(method=False, out=True)
@autocast("cpu:widest")
@joins
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape joined along a new dim."""
    quick = _stacked(tensors, dim) if type(tensors) in (list, tuple) and tensors else None
    if quick is not None:
        return quick
    items = _check_list("stack", tensors)
    dim = wrap_dim(dim, items[0].ndim + 1)
    for i, item in enumerate(items):
        if item.shape != items[0].shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(items[0].shape)} at "
                f"entry 0 and {list(item.shape)} at entry {i}"
            )
    kind = result_type(*items)
    items = [item if item.dtype is kind else item.to(kind) for item in items]
    return _stack.call(items, (dim,))


@public(method=False, out=True)
@autocast("cpu:widest")
@joins
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along dim 1 (0 for vectors)."""
    items = published.public.atleast_1d(_check_list("hstack", tensors))
    return cat(items, 0 if items[0].ndim == 1 else 1)


@public(method=False, out=True, aliases=("row_stack",))
@autocast("cpu:widest")
@joins
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along dim 0, vectors as rows."""
    return cat(published.public.atleast_2d(_check_list("vstack", tensors)), 0)


@public(method=False, out=True)
@autocast("cpu:widest")
@joins
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along dim 2."""
    return cat(published.public.atleast_3d(_check_list("dstack", tensors)), 2)


@public(method=False, out=True)
@autocast("cpu:widest")
@joins
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along dim 1, vectors as columns."""
    items = _check_list("column_stack", tensors)
    return hstack([reshape(item, (item.numel(), 1)) if item.ndim <= 1 else item for item in items])


# ---- order ---------------------------------------------------------------------------------------

_flip = Operator(
    "flip",
    "x",
    "dims",
    cpu="shaping.flip",
    grad=lambda g, dims: g.flip(dims),
    layout="copy",
    rules=Rules(infer=same, axes="along", batch="dims"),
)
_roll = Operator(
    "roll",
    "x",
    "shifts dims",
    cpu="shaping.roll",
    grad=lambda g, shifts, dims: g.roll([-s for s in shifts], dims),
    layout="format",
    rules=Rules(infer=same, axes="along", batch="dims"),
)


def flip(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """Some dims reversed."""
    dims = one_of("flip", dims, named, "dims")
    if len(dims) == 1 and type(dims[0]) is int and input.ndim:
        return _flip.call((input,), ((wrap_dim(dims[0], input.ndim),),))
    wanted = dims[0] if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else dims
    wrapped = wrap_dims(list(wanted), input.ndim, empty_is_all=False)
    if not wrapped or input.ndim == 0:
        return input.clone()
    return _flip.call((input,), (wrapped,))


PUBLIC["flip"] = flip
attach(flip=flip)


@public()
def fliplr(input: Tensor) -> Tensor:
    """Dim 1 reversed."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


@public()
def flipud(input: Tensor) -> Tensor:
    """Dim 0 reversed."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


def _rolled_flat(x: Tensor, shifts: Any) -> Tensor:
    return reshape(roll(reshape(x, -1), shifts, 0), x.shape)


def _roll_gradient(g: Tensor, shifts: Any) -> Tensor:
    return roll(g, -shifts[0])


_roll_flat = Operator(
    "roll_flat", "x", "shifts",
    schema="roll(x, shifts)", composed=_rolled_flat, grad=Gradient(_roll_gradient, node="Roll"),
)  # fmt: skip


@public()
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements shifted along dims, around the end."""
    shifts = several(shifts, 1) or tuple(shifts)
    dims = () if dims is None else several(dims, 1) or tuple(dims)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if not dims:
        if len(shifts) != 1:
            raise RuntimeError(
                f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
            )
        if input.ndim == 0:
            return input.clone()
        return _roll_flat.call((input,), (shifts,))
    if len(shifts) != len(dims):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    for dim in dims if input.ndim == 0 else ():
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    wrapped = tuple([wrap_dim(dim, input.ndim) for dim in dims])
    shape = input._array.shape
    if input.numel() == 0:
        return input.clone()
    if 0 in [shift % shape[dim] for shift, dim in zip(shifts, wrapped)]:
        input = input.contiguous()  # PyTorch joins it with nothing, which has no memory format
    return _roll.call((input,), (shifts, wrapped))


@public()
@ends_with("rot90")
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotated by 90 degrees in the plane of two dims."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == input.ndim:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    for dim in dims:
        if not -input.ndim <= dim < input.ndim:
            raise RuntimeError(f"Rotation dim0 out of range, dim0 = {dim}")
    k %= 4
    if k == 1:
        return flip(input, dims[1]).transpose_(*dims)
    if k == 2:
        return flip(input, list(dims))
    if k == 3:
        return flip(input, dims[0]).transpose_(*dims)
    return input.clone(memory_format=contiguous_format)


# ---- triangles -----------------------------------------------------------------------------------

_tril = Operator(
    "tril",
    "x",
    "diagonal",
    cpu="shaping.tril",
    grad=lambda g, diagonal: g.tril(diagonal),
    rules=Rules(infer=same, axes="...->...", batch="rows"),
)
_triu = Operator(
    "triu",
    "x",
    "diagonal",
    cpu="shaping.triu",
    grad=lambda g, diagonal: g.triu(diagonal),
    rules=Rules(infer=same, axes="...->...", batch="rows"),
)


def _triangle(name: str, op: Operator) -> Any:
    def function(input: Tensor, diagonal: int = 0) -> Tensor:
        if input.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return op.call((input,), (int(diagonal),))

    function.__name__ = name
    function.__doc__ = f"The {'lower' if name == 'tril' else 'upper'} triangle, the rest 0."
    exposed = public(out=True, inplace=True)(exact_out("structured")(function))
    accepts_expanded(f"{name}_", lambda array, diagonal=0: _keep(name, array, diagonal))
    return exposed


def _keep(name: str, array: Any, diagonal: int) -> None:
    """Clears what lies outside of a triangle."""
    kept = getattr(np, name)(np.ones(array.shape[-2:], np.bool_), diagonal)
    np.copyto(array, array.dtype.type(0), where=~kept)


tril, triu = _triangle("tril", _tril), _triangle("triu", _triu)

# ---- repeating -----------------------------------------------------------------------------------


def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each entry of a dim repeated."""
    if repeats is None:  # of a vector of counts: the positions
        counts = input
        if counts.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        if category(counts.dtype) != 1:
            raise not_implemented("repeat_interleave_cpu", counts.dtype)
        return _repeated(counts, output_size)
    if dim is None:
        input, dim = reshape(input, -1), 0
    dim = wrap_dim(dim, input.ndim, allow_scalar=False)
    if isinstance(repeats, Tensor) and repeats.numel() == 1:
        repeats = repeats.item()
    if isinstance(repeats, (int, SymInt)):
        if not expect(repeats >= 0):
            raise RuntimeError("Repeats must be non-negative")
        shape = tuple(input.shape) or (1,)
        wide = expand(unsqueeze(reshape(input, shape), dim + 1),
                      (*shape[: dim + 1], repeats, *shape[dim + 1 :]))  # fmt: skip
        return reshape(wide.contiguous(), (*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :]))
    counts = repeats if isinstance(repeats, Tensor) else tensor(list(repeats))
    if counts.dtype.name not in ("int32", "int64"):
        raise RuntimeError("repeats has to be Long or Int tensor")
    if counts.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if counts.numel() != (input.shape[dim] if input.ndim else 1):
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{counts.numel()} and input.size({dim}) = {input.shape[dim]}"
        )
    return input.index_select(dim, _repeated(counts, output_size).to(input.device))


def _repeated(counts: Tensor, total: int | None) -> Tensor:
    """0 counts[0] times, 1 counts[1] times, ..."""
    values(_require_counts, (counts,))
    if type(counts._array) is np.ndarray:
        array = host_values(counts)
        return _C.wrap(np.repeat(np.arange(array.size), array))
    ends = counts.cumsum(0)
    if total is None:
        total = int(ends[-1].item()) if ends.numel() else 0
    positions = arange(total, device=counts.device)
    return published.public.searchsorted(ends, positions, right=True)


@looks_at_values(cpu_only=True)
def _require_counts(counts: Any) -> None:
    if counts.size and counts.min() < 0:
        raise RuntimeError("repeats can not be negative")


PUBLIC["repeat_interleave"] = repeat_interleave
attach(repeat_interleave=repeat_interleave)
