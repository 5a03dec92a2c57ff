"""Views of a part: slices, splits, diagonals, windows; and what is composed of views."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.sym_functions import sym_min
from tritorch.arrays.symbolic import as_size
from tritorch.autograd.graph import forbid_writes
from tritorch.core import defaults, published
from tritorch.core.dims import wrap_dim
from tritorch.core.dispatching import asked, watching
from tritorch.core.layout import contiguous_format
from tritorch.core.promotion import scalar_name
from tritorch.core.published import PUBLIC, computes
from tritorch.core.tensor import Tensor, attach
from tritorch.ops.record.checks import one_of, sizes
from tritorch.ops.record.ends import Shaped, ends_as, ends_with
from tritorch.ops.record.operator import Operator, ndarray
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public
from tritorch.ops.shape.ranges import arange
from tritorch.ops.shape.shape import expand, reshape, unsqueeze, view
from tritorch.ops.shape.views import part_operator, view_operator

# ---- parts ---------------------------------------------------------------------------------------


_WHOLE = builtins.slice(None)


def _select_array(array: Any, dim: int, index: int) -> Any:
    return array[(*(_WHOLE,) * dim, index, Ellipsis)] if dim else array[index, Ellipsis]


def _slice_array(array: Any, dim: int, start: Any, end: Any, step: int) -> Any:
    part = builtins.slice(start, end, step)
    return array[(*(_WHOLE,) * dim, part, Ellipsis)] if dim else array[part, Ellipsis]


def _basic_array(array: Any, key: tuple[Any, ...]) -> Any:
    return array[(*(builtins.slice(*k) if type(k) is tuple else k for k in key), Ellipsis)]


select_op = part_operator("select", "dim index", _select_array, layout="part")
slice_op = part_operator(
    "slice", "dim start end step", _slice_array, layout="part",
    fuses="embed", back="slice_backward(y, shape, dim, 0 if start is None else start, "
         "shape[dim] if end is None else end, step)",
)  # fmt: skip


# A key's ints, (start, stop, step) and None, in one view.
def _one_by_one(x: Tensor, key: tuple[Any, ...]) -> Tensor:
    dim = 0
    for item in key:
        if item is None:
            x = unsqueeze(x, dim)
            dim += 1
        elif type(item) is tuple:
            if item != (None, None, None):
                start, stop, step = item
                x = slice_op.call((x,), (dim, start, stop, 1 if step is None else step))
            dim += 1
        else:
            x = select_op.call((x,), (dim, item))
    return x


basic_op = part_operator(
    "basic_index",
    "key",
    _basic_array,
    composed=_one_by_one,
    schema="(Tensor(a) x, Any[] key) -> Tensor(a)",
    back="(Tensor y, SymInt[] shape, Any[] key) -> Tensor",
    node="{next(('unsqueeze' if k is None else 'slice.Tensor' if isinstance(k, tuple) else "
    "'select.int' for k in reversed(key) if k != (None, None, None)), 'alias')}",
    layout="part",
)


def _part(op: Operator, input: Tensor, *params: Any) -> Tensor:
    try:
        array = input._a
    except AttributeError:
        array = None
    if type(array) is ndarray:  # op.cpu is a plain function
        return op.finish_view(op.cpu(array, *params), params, input)
    return op.call((input,), params)


def _plain_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A basic key as plain data: its slices as (start, stop, step), without the Ellipsis at its
    end."""
    return tuple(
        [
            (k.start, k.stop, k.step) if type(k) is builtins.slice else k
            for k in key
            if k is not Ellipsis
        ]
    )


def basic_index(input: Tensor, key: tuple[Any, ...]) -> Tensor:
    """A view by ints, slices, None; the key covers every dim or ends in an Ellipsis."""
    return _part(basic_op, input, _plain_key(key))


@public()
def select(input: Tensor, dim: int, index: Any) -> Tensor:
    """The slice at one index of a dim."""
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim, index = wrap_dim(dim, input.ndim), int(index)
    size = input._array.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at "
            f"dimension {dim}"
        )
    return _part(select_op, input, dim, index % size)


def slice_dim(input: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
    """input[start:stop:step] along a dim."""
    return _part(slice_op, input, dim, start, stop, step)


@public()
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` entries of a dim, from start."""
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    dim = wrap_dim(dim, input.ndim)
    if isinstance(start, Tensor):
        if start.ndim or start.is_floating_point() or start.dtype.name == "bool":
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = start.item()
    size = input._array.shape[dim]
    if not -size <= start <= size:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-size}, {size}], but got "
            f"{start})"
        )
    if start < 0:
        start += size
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return slice_dim(input, dim, start, start + length)


def _named(
    parts: tuple[Tensor, ...], overload: str, of: Tensor, dim: int, **said: Any
) -> tuple[Tensor, ...]:
    """Parts whose nodes are those of an operator that gives them all."""
    if parts and parts[0]._raw_node is not None:
        ends_as(overload, parts, self=Shaped(of), dim=dim, **said)
    return parts


@public()
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along a dim."""
    if input.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dim = wrap_dim(dim, input.ndim)
    parts = tuple([_part(select_op, input, dim, i) for i in range(input._array.shape[dim])])
    return _named(forbid_writes(parts, "Unbind"), "unbind.int", input, dim)


@public(torch=False)
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Consecutive parts of given sizes."""
    if input.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, input.ndim)
    size = input._array.shape[dim]
    if any(part < 0 for part in split_sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={list(split_sizes)}"
        )
    if sum(split_sizes) != size:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size "
            f"at dimension {dim}), but got split_sizes={list(split_sizes)}"
        )
    parts, start = [], 0
    for part in split_sizes:
        parts.append(slice_dim(input, dim, start, start + part))
        start += part
    views = forbid_writes(tuple(parts), "SplitWithSizes")
    return _named(views, "split_with_sizes", input, dim, split_sizes=tuple(split_sizes))


PUBLIC["split_with_sizes"] = split_with_sizes


def _answers_whole(tensor: Tensor) -> bool:
    """Whether modes and classes see parts as one operator: where no gradient is recorded."""
    return asked(tensor) and not (tensor._requires_grad and _C.is_grad_enabled())


def split(
    tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Consecutive parts of one size (the last may be smaller), or of given sizes."""
    if (watching or type(tensor) is not Tensor) and _answers_whole(tensor):
        from tritorch.ops.interpret import dispatch

        form = "split.Tensor" if hasattr(split_size_or_sections, "__index__") else "split.sizes"
        given = (tensor, split_size_or_sections, *((dim,) if dim else ()))
        return tuple(dispatch.plainly(form, *given))
    if not hasattr(split_size_or_sections, "__index__"):
        if isinstance(split_size_or_sections, (str, bytes)):
            raise TypeError(
                "split_with_sizes(): argument 'split_sizes' (position 2) must be tuple of ints, "
                f"not {type(split_size_or_sections).__name__}"
            )
        return split_with_sizes(tensor, split_size_or_sections, dim)
    if tensor.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    part, dim = as_size(split_size_or_sections), wrap_dim(dim, tensor.ndim)
    size = tensor._array.shape[dim]
    if part < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={part}")
    if part == 0:
        if size:
            raise RuntimeError(
                f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
            )
        views = forbid_writes((slice_dim(tensor, dim, 0, 0),), "Split")
        return _named(views, "split.Tensor", tensor, dim, split_size=0)
    starts = [i * part for i in range(-(-size // part) if size else 1)]
    end = min if type(size) is int is type(part) else sym_min
    parts = tuple([_part(slice_op, tensor, dim, i, end(i + part, size), 1) for i in starts])
    views = forbid_writes(parts, "Split")
    if views[0]._raw_node is None:
        return views
    return _named(views, "split.Tensor", tensor, dim, split_size=part)


def writable(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Parts as tensors of their own for autograd, on the same memory."""
    own = []
    for part in parts:
        alone = _C.wrap(part._array)
        alone._raw_node, alone.output_nr, alone._inference = part._node, 0, part._inference
        own.append(alone)
    return tuple(own)


PUBLIC["split"] = split


@computes("split_with_sizes")
def _split(self: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """split, by the name that the method's argument has."""
    return split(self, split_size, dim)


attach(split=_split)


@public()
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """split, for who writes the parts and then no longer uses input."""
    views = writable(split(input, split_size, dim))
    return _named(views, "unsafe_split.Tensor", input, dim, split_size=split_size)


@public()
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` consecutive parts of equal size (the last may be smaller)."""
    if input.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = input._array.shape[wrap_dim(dim, input.ndim)]
    part = -(-size // chunks)
    if part == 0:
        return split_with_sizes(input, [0] * chunks, dim)
    return split(input, part, dim)


@public()
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """chunk, for who writes the parts and then no longer uses input."""
    return ends_as("unsafe_split.Tensor", writable(chunk(input, chunks, dim)))


@public()
def tensor_split(
    input: Tensor, indices_or_sections: Tensor | int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """`sections` parts of nearly equal sizes, or the parts between indices."""
    if input.ndim == 0:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    dim = wrap_dim(dim, input.ndim)
    size = input._array.shape[dim]
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.is_cuda:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on "
                f"{indices_or_sections.device}"
            )
        if indices_or_sections.dtype.name != "int64":
            raise RuntimeError(
                f"tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{scalar_name(indices_or_sections.dtype)}"
            )
        if indices_or_sections.ndim > 1:
            raise RuntimeError(
                f"tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                f"one-dimensional tensor, but got a tensor with {indices_or_sections.ndim} dims"
            )
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        sections = indices_or_sections
        if sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
        if sections >= 1 << 32:  # more tensors than fit any memory
            raise RuntimeError("std::bad_alloc")
        small, extra = divmod(size, sections)
        bounds = [i * small + min(i, extra) for i in range(sections + 1)]
        return tuple(slice_dim(input, dim, a, b) for a, b in zip(bounds, bounds[1:]))
    cuts = [0, *indices_or_sections, size]
    return tuple(slice_dim(input, dim, a, b) for a, b in zip(cuts, cuts[1:]))


def _axis_split(name: str, dim: int, least: int) -> Any:
    def function(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
        if input.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension"
                f"{'s' if least > 1 else ''}, but got a tensor with {input.ndim} dimensions!"
            )
        axis = 0 if name == "hsplit" and input.ndim == 1 else dim
        if isinstance(indices_or_sections, int) and (
            indices_or_sections <= 0 or input.shape[axis] % indices_or_sections
        ):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {axis}, but the size of the "
                f"dimension {input.shape[axis]} is not divisible by the split_size "
                f"{indices_or_sections}!"
            )
        return tensor_split(input, indices_or_sections, axis)

    function.__name__ = name
    function.__doc__ = f"tensor_split along dim {dim}."
    return public()(function)


hsplit, vsplit, dsplit = (
    _axis_split(*spec) for spec in (("hsplit", 1, 1), ("vsplit", 0, 2), ("dsplit", 2, 3))
)

# ---- diagonals and windows -----------------------------------------------------------------------


def _diagonal_array(array: Any, offset: int, dim1: int, dim2: int) -> Any:
    shape, strides = array.shape, arrays.strides_of(array)
    n, m = shape[dim1], shape[dim2]
    length = max(min(n, m - offset) if offset >= 0 else min(n + offset, m), 0)
    skip = (offset * strides[dim2] if offset >= 0 else -offset * strides[dim1]) if length else 0
    keep = [i for i in range(len(shape)) if i not in (dim1, dim2)]
    return arrays.strided(
        array,
        (*(shape[i] for i in keep), length),
        (*(strides[i] for i in keep), strides[dim1] + strides[dim2]),
        skip,
    )


_diagonal = part_operator("diagonal", "offset dim1 dim2", _diagonal_array)


@public()
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A diagonal of two dims, as the last dim."""
    first, second = wrap_dim(dim1, input.ndim), wrap_dim(dim2, input.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return _diagonal.call((input,), (int(offset), first, second))


@public()
@ends_with("diag_embed")
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A tensor of zeros with input on a diagonal of two new dims."""
    ndim = input.ndim + 1
    dim1, dim2 = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    n = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for dim in sorted((dim1, dim2)):
        shape.insert(dim, n)
    return _diagonal.back.call((input,), (tuple(shape), offset, dim1, dim2))


@public(out=True)
@exact_out("structured")
@ends_with("{'diag_embed' if input.ndim == 1 else 'diagonal_copy'}")
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal."""
    if input.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    return published.public.diagonal(input, diagonal).clone(memory_format=contiguous_format)


@public()
@ends_with("diag_embed")
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements on its diagonal."""
    return diag_embed(reshape(input, -1), offset)


def _unfold_array(array: Any, dim: int, size: int, step: int) -> Any:
    shape, strides = array.shape, arrays.strides_of(array)
    count = (shape[dim] - size) // step + 1
    return arrays.strided(
        array,
        (*shape[:dim], count, *shape[dim + 1 :], size),
        (*strides[:dim], strides[dim] * step, *strides[dim + 1 :], strides[dim]),
        0,
    )


def _unfold_grad(g: Tensor, x_shape: Any, dim: int, size: int, step: int) -> Tensor:
    shape = x_shape
    count = (shape[dim] - size) // step + 1
    steps = arange(count, device=g.device) * step
    where = (steps.unsqueeze(1) + arange(size, device=g.device)).reshape(-1)
    flat = g.movedim(-1, dim + 1).reshape((*shape[:dim], count * size, *shape[dim + 1 :]))
    return g.new_zeros(shape).index_add(dim, where, flat)


_unfold = view_operator("unfold", "dim size step", _unfold_array, _unfold_grad)


def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of a dim, as a new last dim."""
    dim = wrap_dim(dimension, self.ndim)
    shape = tuple(self.shape)
    have = shape[dim] if shape else 1
    if size > have:
        raise RuntimeError(
            f"maximum size for tensor at dimension {dim} is {have} but size is {size}"
        )
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not shape:
        return slice_dim(reshape(self, 1), 0, 0, size)
    return _unfold.call((self,), (dim, size, step))


attach(unfold=unfold)


# ---- compositions --------------------------------------------------------------------------------


def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """Copies side by side: `repeats` times along each dim."""
    times = sizes(repeats)
    if len(times) < self.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    lead = len(times) - self.ndim
    wanted = [*times[:lead], *(n * k for n, k in zip(self.shape, times[lead:]))]
    if any(n < 0 for n in wanted):
        first = next(n for n in wanted if n < 0)
        raise RuntimeError(f"Trying to create tensor with negative dimension {first}: {wanted}")
    times = tuple(max(n, 0) for n in times)  # of what has no elements, any number
    return _repeat.call((self,), (times,))


def _repeated(x: Tensor, times: tuple[int, ...]) -> Tensor:
    shape = (1,) * (len(times) - x.ndim) + tuple(x.shape)
    paired = [n for pair in zip((1,) * len(shape), shape) for n in pair]
    wide = [n for pair in zip(times, shape) for n in pair]
    out = expand(reshape(x, paired), wide).clone(memory_format=contiguous_format)
    return view(out, tuple(a * b for a, b in zip(times, shape)))


def _repeat_grad(g: Tensor, x_shape: Any, times: tuple[int, ...]) -> Tensor:
    if 0 in times:
        return g.new_zeros(x_shape)
    shape = (1,) * (len(times) - len(x_shape)) + tuple(x_shape)
    wide = [n for pair in zip(times, shape) for n in pair]
    return reshape(reshape(g, wide).sum(tuple(builtins.range(0, len(wide), 2))), x_shape)


_repeat = Operator("repeat", "x", "times", composed=_repeated, grad=_repeat_grad)

attach(repeat=repeat)


def tile(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """repeat, with missing leading repeats taken as 1."""
    times = sizes(one_of("tile", dims, named, "dims"))
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


PUBLIC["tile"] = tile
attach(tile=tile)


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids of vectors."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if indexing is None:
        defaults.warn_once(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
            "argument."
        )
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for tensor in tensors:
        if tensor.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: "
                f"{tensor.ndim}"
            )
        if tensor.dtype is not tensors[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
        if tensor.device != tensors[0].device:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same device")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    vectors = [reshape(tensor, -1) for tensor in tensors]
    swap = indexing == "xy" and len(vectors) >= 2
    if swap:
        vectors[0], vectors[1] = vectors[1], vectors[0]
    shape = [vector.shape[0] for vector in vectors]
    grids = [
        expand(reshape(v, [n if i == k else 1 for k, n in enumerate(shape)]), shape)
        for i, v in enumerate(vectors)
    ]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


PUBLIC["meshgrid"] = meshgrid
