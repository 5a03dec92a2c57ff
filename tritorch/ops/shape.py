"""Views: other shapes, strides and parts of the same memory.

A view's record works on arrays of both kinds; its gradient either views back, or embeds the
gradient in zeros (`embed`), which is the one operator that undoes any view that drops elements.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core import arrays
from tritorch.core.dtype import complex64, complex128, dtype, float32, float64
from tritorch.core.promotion import scalar_name
from tritorch.core.tensor import Tensor
from tritorch.ops.checks import sizes, wrap_dim, wrap_dims
from tritorch.ops.declare import PUBLIC, Array, Operator, ndarray, public


def view_operator(
    name: str, params: str, function: Any, grad: Any, *, node: str | None = None
) -> Operator:
    """Declares a view: `function(array, *params)` gives the view of an array of either kind."""
    op = Operator(
        name, "x", params, cpu=function, gpu=function, grad=grad, view=True, node=node, kind="view"
    )
    op.cpu = op.gpu = function  # type: ignore[method-assign]
    return op


# ---- undoing a view ------------------------------------------------------------------------------


def _embed(g: Any, shape: tuple[int, ...], op: Operator, params: tuple[Any, ...]) -> Any:
    out = arrays.zeros(shape, arrays.dtype_of(g), arrays.device_of(g))
    part = op.cpu(out, *params)
    if type(part) is ndarray:
        part[...] = g
    else:
        part.copy_(g)
    return out


embed_op = Operator("embed", "g", "shape op params", cpu=_embed, gpu=_embed, kind="internal",
                    grad=lambda g, op, params: op.call((g,), params))  # fmt: skip


def embed(g: Tensor, shape: Sequence[int], op: Operator, params: tuple[Any, ...]) -> Tensor:
    """Zeros of a shape, with g where the view `op(params)` looks."""
    return embed_op.call((g,), (tuple(shape), op, params))


# ---- reshaping -----------------------------------------------------------------------------------


def _view_array(array: Any, shape: tuple[int, ...], old: tuple[int, ...]) -> Any:
    if type(array) is ndarray:
        if array.flags.c_contiguous:
            return array.reshape(shape)
        try:
            out = array.view()
            out.shape = shape
            return out
        except AttributeError:
            pass
    else:
        out = array.reshape_view(shape)
        if out is not None:
            return out
    raise RuntimeError(
        "view size is not compatible with input tensor's size and stride (at least one dimension "
        "spans across two contiguous subspaces). Use .reshape(...) instead."
    )


_view = view_operator("view", "shape old", _view_array, lambda g, old: g.reshape(old))
_finish_view = _view.finish_view


def _infer(shape: tuple[int, ...], numel: int) -> tuple[int, ...]:
    if -1 in shape:
        if shape.count(-1) > 1:
            raise RuntimeError("only one dimension can be inferred")
        rest = -math.prod(shape)
        if rest == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)} because the "
                f"unspecified dimension size -1 can be any value and is ambiguous"
            )
        if rest > 0 and numel % rest == 0:
            return tuple(numel // rest if size == -1 else size for size in shape)
    elif math.prod(shape) == numel and all(size >= 0 for size in shape):
        return shape
    for i, size in enumerate(shape):
        if size < -1:
            raise RuntimeError(
                f"invalid shape dimension {size} at index {i} of shape {list(shape)}"
            )
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")


def view(self: Tensor, *size: Any, **named: Any) -> Tensor:
    """The same memory in another shape, or (given a dtype) as another dtype."""
    try:
        array = self._a
        if type(array) is ndarray and array.flags.c_contiguous and not named:
            # Dense: NumPy's reshape is a view, and checks the sizes (but takes -2 for -1).
            out = array.reshape(size)
            if out.shape == size or -1 in size:
                return _finish_view(out, (out.shape, array.shape), self)
    except (AttributeError, TypeError, ValueError):
        pass  # sizes in a tuple, a dtype, an error to word
    if "dtype" in named or (size and isinstance(size[0], dtype)):
        return view_dtype(self, named["dtype"] if named else size[0])
    if named:
        size = (named["size"],)
    shape = size if len(size) > 1 and type(size[0]) is int else sizes(size)
    try:
        array = self._a
        old = array.shape
        shape = _infer(shape, array.size if type(array) is ndarray else array.numel())
        return _view.finish_view(_view_array(array, shape, old), (shape, old), self)
    except AttributeError:
        old = tuple(self.shape)
        return _view.call((self,), (_infer(shape, self.numel()), old))


Tensor.view = view  # type: ignore[attr-defined]
Tensor._unsafe_view = view  # type: ignore[attr-defined]


def reshape(input: Tensor, *shape: Any, **named: Any) -> Tensor:
    """Another shape: a view where the strides allow, else a copy."""
    if named:
        shape = (named["shape"],)
    wanted = _infer(sizes(shape), input.numel())
    try:
        return view(input, *wanted) if len(wanted) > 1 else view(input, wanted)
    except RuntimeError:
        return view(PUBLIC["clone"](input, memory_format=_contiguous()), wanted)


def _contiguous() -> Any:
    from tritorch.core.layout import contiguous_format

    return contiguous_format


PUBLIC["reshape"] = reshape
Tensor.reshape = reshape  # type: ignore[attr-defined]
Tensor.view_as = lambda self, other: view(self, other.shape)  # type: ignore[attr-defined]
Tensor.reshape_as = lambda self, other: reshape(self, other.shape)  # type: ignore[attr-defined]


@public()
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dims from start_dim to end_dim as one."""
    start, end = wrap_dim(start_dim, input.ndim), wrap_dim(end_dim, input.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if input.ndim == 0:
        return reshape(input, 1)
    if start == end:
        return input
    shape = tuple(input.shape)
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@public()
def ravel(input: Tensor) -> Tensor:
    """All elements as one dim."""
    return reshape(input.contiguous(), -1)


@public()
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dim as several."""
    dim = wrap_dim(dim, input.ndim, allow_scalar=False)
    wanted = tuple(int(size) for size in sizes)
    if not wanted:
        raise RuntimeError("unflatten: sizes must be non-empty")
    shape = tuple(input.shape)
    if -1 not in wanted and math.prod(wanted) != shape[dim]:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(wanted)} don't multiply up to the size of dim {dim} "
            f"({shape[dim]}) in the input tensor"
        )
    return view(input, (*shape[:dim], *_infer(wanted, shape[dim]), *shape[dim + 1 :]))


# ---- expanding -----------------------------------------------------------------------------------


def _expand_array(array: Any, shape: tuple[int, ...]) -> Any:
    if type(array) is ndarray:
        out = np.broadcast_to(array, shape)
        out.flags.writeable = array.flags.writeable
        return out
    return array.expand(shape)


# The engine sums a gradient to the shape of the input.
_expand = view_operator("expand", "shape", _expand_array, lambda g: g)


def expand(self: Tensor, *size: Any, implicit: bool = False) -> Tensor:
    """Dims of size 1 repeated without copying; -1 keeps a size."""
    wanted = sizes(size)
    shape = tuple(self.shape)
    extra = len(wanted) - len(shape)
    if extra < 0:
        raise RuntimeError(
            f"expand({self.type()}{{{list(shape)}}}, size={list(wanted)}): the number of sizes "
            f"provided ({len(wanted)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({len(shape)})"
        )
    full = []
    for i, size_ in enumerate(wanted):
        have = shape[i - extra] if i >= extra else None
        if size_ == -1:
            if have is None:
                raise RuntimeError(
                    f"The expanded size of the tensor (-1) isn't allowed in a leading, "
                    f"non-existing dimension {i}"
                )
            size_ = have
        elif have is not None and have not in (1, size_):
            raise RuntimeError(
                f"The expanded size of the tensor ({size_}) must match the existing size ({have}) "
                f"at non-singleton dimension {i}.  Target sizes: {list(wanted)}.  Tensor sizes: "
                f"{list(shape)}"
            )
        elif size_ < 0:
            raise RuntimeError(f"expand: invalid size {size_}")
        full.append(size_)
    return _expand.call((self,), (tuple(full),))


Tensor.expand = expand  # type: ignore[attr-defined]
Tensor.expand_as = lambda self, other: expand(self, other.shape)  # type: ignore[attr-defined]


@public()
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """input expanded to a shape."""
    return expand(input, size)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Tensors expanded to the shape that all broadcast to."""
    from tritorch.ops.checks import broadcast_shapes

    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    return tuple(expand(tensor, shape) for tensor in tensors)


PUBLIC["broadcast_tensors"] = broadcast_tensors


@public(method="sum_to_size", torch=False)
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Summed so that it has a shape that broadcasts to its own."""
    wanted = sizes(size)
    shape = tuple(self.shape)
    if shape == wanted and shape:
        return self
    extra = len(shape) - len(wanted)
    if extra < 0 or any(b not in (1, a) for a, b in zip(shape[extra:], wanted)):
        raise RuntimeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(shape)}}}.")
    dims = [*range(extra), *(i + extra for i, n in enumerate(wanted) if n == 1 != shape[i + extra])]
    return reshape(self.sum(dims, keepdim=True), wanted)


# ---- the order of dims ---------------------------------------------------------------------------


def _permute_array(array: Any, dims: tuple[int, ...]) -> Any:
    return array.transpose(dims) if type(array) is ndarray else array.permute(dims)


def _inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


_permute = view_operator("permute", "dims", _permute_array,
                         lambda g, dims: g.permute(_inverse(dims)))  # fmt: skip
_transpose = view_operator(
    "transpose", "dim0 dim1",
    lambda a, i, j: a.swapaxes(i, j) if type(a) is ndarray else a.transpose(i, j),
    lambda g, dim0, dim1: g.transpose(dim0, dim1),
)  # fmt: skip


def permute(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """The dims in another order."""
    if named:
        dims = (named["dims"],)
    order = tuple(wrap_dim(dim, input.ndim) for dim in sizes(dims))
    if len(order) != input.ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {input.ndim} is not "
            f"equal to len(dims) = {len(order)}".replace("sparse_coo", "dims")
        )
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return _permute.call((input,), (order,))


PUBLIC["permute"] = permute
Tensor.permute = permute  # type: ignore[attr-defined]


@public(aliases=("swapdims", "swapaxes"))
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dims exchanged."""
    ndim = input.ndim
    dim0, dim1 = wrap_dim(dim0, ndim), wrap_dim(dim1, ndim)
    if ndim == 0:
        return alias(input)
    try:
        a = input._a
        if type(a) is ndarray:
            return _transpose.finish_view(a.swapaxes(dim0, dim1), (dim0, dim1), input)
    except AttributeError:
        pass
    return _transpose.call((input,), (dim0, dim1))


def rebinding(view: Any) -> Any:
    """A view in place: the tensor itself becomes its view."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        other = view(self, *args, **kwargs)
        self._a = other._array
        self._raw_node, self.output_nr = other._raw_node, other.output_nr
        return self

    return method


Tensor.transpose_ = rebinding(transpose)  # type: ignore[attr-defined]
Tensor.swapaxes_ = Tensor.swapdims_ = Tensor.transpose_  # type: ignore[attr-defined]


@public()
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; vectors stay."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose(input, 0, 1) if input.ndim == 2 else alias(input)


Tensor.t_ = rebinding(t)  # type: ignore[attr-defined]


@public()
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of the last two dims."""
    return _last_two(input, "adjoint").conj()


def _last_two(input: Tensor, name: str) -> Tensor:
    if input.ndim < 2:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got "
            f"{input.ndim}-D tensor."
        )
    return transpose(input, -2, -1)


Tensor.T = property(lambda self: permute(self, tuple(range(self.ndim))[::-1]))  # type: ignore[attr-defined]
Tensor.mT = property(lambda self: _last_two(self, "mT"))  # type: ignore[attr-defined]
Tensor.mH = property(lambda self: adjoint(self))  # type: ignore[attr-defined]
Tensor.H = property(lambda self: adjoint(self) if self.ndim else self.conj())  # type: ignore[attr-defined]


@public(aliases=("moveaxis",))
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Some dims moved to other places, the rest in order."""
    as_tuple = lambda dims: (dims,) if isinstance(dims, int) else tuple(dims)
    from_ = [wrap_dim(dim, input.ndim) for dim in as_tuple(source)]
    to = [wrap_dim(dim, input.ndim) for dim in as_tuple(destination)]
    if len(from_) != len(to):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({from_} dims) should contain "
            f"the same number of dims as destination ({to} dims)"
        )
    for what, dims in (("source", from_), ("destination", to)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{what}` ({dims})")
    order = [dim for dim in range(input.ndim) if dim not in from_]
    for target, dim in sorted(zip(to, from_)):
        order.insert(target, dim)
    return permute(input, order) if input.ndim else alias(input)


# ---- dims of size one ----------------------------------------------------------------------------


def _squeeze_array(array: Any, dims: tuple[int, ...], old: tuple[int, ...]) -> Any:
    if type(array) is ndarray:
        return array.squeeze(dims)
    shape, strides = array.shape, array.strides
    keep = [i for i in range(len(shape)) if i not in dims]
    return array.as_strided([shape[i] for i in keep], [strides[i] for i in keep])


_squeeze = view_operator("squeeze", "dims old", _squeeze_array, lambda g, old: g.reshape(old))


@public()
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without dims of size 1 (all, or those among dim)."""
    shape = tuple(input.shape)
    if isinstance(dim, (tuple, list)) and not dim:
        dims: tuple[int, ...] = ()
    else:
        dims = wrap_dims(dim, len(shape))
    if not shape:
        return alias(input)
    dims = tuple(i for i in dims if shape[i] == 1)
    return _squeeze.call((input,), (dims, shape))


def _unsqueeze_array(array: Any, dim: int) -> Any:
    if type(array) is ndarray:
        shape = array.shape
        if array.flags.c_contiguous:
            return array.reshape((*shape[:dim], 1, *shape[dim:]))
        return array[(slice(None),) * dim + (None,)]
    return array.unsqueeze(dim)


_unsqueeze = view_operator("unsqueeze", "dim", _unsqueeze_array, lambda g, dim: g.squeeze(dim))


@public()
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a dim of size 1 inserted before dim."""
    return _unsqueeze.call((input,), (wrap_dim(dim, input.ndim + 1),))


Tensor.squeeze_ = rebinding(squeeze)  # type: ignore[attr-defined]
Tensor.unsqueeze_ = rebinding(unsqueeze)  # type: ignore[attr-defined]


def atleast(n: int) -> Any:
    """atleast_1d, _2d, _3d."""

    def function(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return _at_least(tensors[0], n)
        items = tensors[0] if len(tensors) == 1 else tensors
        return tuple(_at_least(tensor, n) for tensor in items)

    function.__name__ = f"atleast_{n}d"
    function.__doc__ = f"Tensors with at least {n} dims."
    return function


def _at_least(x: Tensor, n: int) -> Tensor:
    shape = tuple(x.shape)
    if len(shape) >= n:
        return x
    if n == 3 and len(shape) == 2:
        return reshape(x, (*shape, 1))
    return reshape(x, {1: (1,), 2: (1, *(shape or (1,))), 3: (1, *(shape or (1,)), 1)}[n])


for _n in (1, 2, 3):
    PUBLIC[f"atleast_{_n}d"] = atleast(_n)

# ---- parts ---------------------------------------------------------------------------------------


def _part(array: Any, key: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    return array[key]


def _part_grad(op_name: str) -> Any:
    return lambda g, key, shape: embed(g, shape, _PARTS[op_name], (key, shape))


_PARTS = {
    name: view_operator(name, "key shape", _part, _part_grad(name)) for name in ("select", "slice")
}


def basic_index(input: Tensor, key: tuple[Any, ...], name: str = "slice") -> Tensor:
    """A view by ints, slices, None; the key covers every dim or ends in an Ellipsis."""
    op = _PARTS[name]
    try:
        array = input._a
        if type(array) is ndarray:
            return op.finish_view(array[key], (key, array.shape), input)
    except AttributeError:
        pass
    return op.call((input,), (key, tuple(input.shape)))


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
    return basic_index(input, (*(slice(None),) * dim, index % size, Ellipsis), "select")


def slice_dim(input: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
    """input[start:stop:step] along a dim."""
    return basic_index(input, (*(builtins.slice(None),) * dim, slice(start, stop, step), Ellipsis))


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


@public()
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along a dim."""
    if input.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dim = wrap_dim(dim, input.ndim)
    lead = (slice(None),) * dim
    return tuple(
        basic_index(input, (*lead, i, Ellipsis), "select") for i in range(input._array.shape[dim])
    )


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
    return tuple(parts)


PUBLIC["split_with_sizes"] = split_with_sizes


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Consecutive parts of one size (the last may be smaller), or of given sizes."""
    if not hasattr(split_size_or_sections, "__index__"):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    if tensor.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    part, dim = int(split_size_or_sections), wrap_dim(dim, tensor.ndim)
    size = tensor._array.shape[dim]
    if part < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={part}")
    if part == 0:
        if size:
            raise RuntimeError(
                f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
            )
        return (slice_dim(tensor, dim, 0, 0),)
    starts = range(0, size, part) if size else range(1)
    return tuple(slice_dim(tensor, dim, i, min(i + part, size)) for i in starts)


PUBLIC["split"] = split
Tensor.split = lambda self, split_size, dim=0: split(self, split_size, dim)  # type: ignore[attr-defined]


@public()
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """split, by another name."""
    return split(input, split_size, dim)


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


PUBLIC["unsafe_chunk"] = chunk
Tensor.unsafe_chunk = chunk  # type: ignore[attr-defined]


@public()
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`sections` parts of nearly equal sizes, or the parts between indices."""
    if input.ndim == 0:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    dim = wrap_dim(dim, input.ndim)
    size = input._array.shape[dim]
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.is_cuda:
            raise RuntimeError("tensor_split expected tensor_indices_or_sections to be on cpu")
        if indices_or_sections.dtype.name != "int64":
            raise RuntimeError(
                f"tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{indices_or_sections.dtype}"
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


def _diagonal_array(array: Any, offset: int, dim1: int, dim2: int, shape: tuple[int, ...]) -> Any:
    strides = arrays.strides_of(array)
    n, m = shape[dim1], shape[dim2]
    length = max(min(n, m - offset) if offset >= 0 else min(n + offset, m), 0)
    skip = (offset * strides[dim2] if offset >= 0 else -offset * strides[dim1]) if length else 0
    keep = [i for i in range(len(shape)) if i not in (dim1, dim2)]
    return strided(
        array,
        (*(shape[i] for i in keep), length),
        (*(strides[i] for i in keep), strides[dim1] + strides[dim2]),
        skip,
    )


def strided(array: Any, shape: Sequence[int], strides: Sequence[int], skip: int) -> Any:
    """A view by strides, `skip` elements after an array's first."""
    if type(array) is not ndarray:
        return array.as_strided(shape, strides, array.storage_offset() + skip)
    if array.size == 0 or math.prod(shape) == 0:
        return np.empty(shape, array.dtype)
    out = arrays.np_strided(array, shape, strides, skip)
    return out


_diagonal: Any = view_operator(
    "diagonal", "offset dim1 dim2 shape", _diagonal_array,
    lambda g, offset, dim1, dim2, shape: embed(g, shape, _diagonal, (offset, dim1, dim2, shape)),
)  # fmt: skip


@public()
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A diagonal of two dims, as the last dim."""
    dim1, dim2 = (wrap_dim(dim, input.ndim, allow_scalar=False) for dim in (dim1, dim2))
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return _diagonal.call((input,), (int(offset), dim1, dim2, tuple(input.shape)))


@public()
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
    return embed(input, shape, _diagonal, (offset, dim1, dim2, tuple(shape)))


@public(out=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal."""
    if input.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    return PUBLIC["diagonal"](input, diagonal).clone()


@public()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements on its diagonal."""
    return diag_embed(reshape(input, -1), offset)


def _unfold_array(array: Any, dim: int, size: int, step: int, shape: tuple[int, ...]) -> Any:
    strides = arrays.strides_of(array)
    count = (shape[dim] - size) // step + 1
    return strided(
        array,
        (*shape[:dim], count, *shape[dim + 1 :], size),
        (*strides[:dim], strides[dim] * step, *strides[dim + 1 :], strides[dim]),
        0,
    )


def _unfold_grad(g: Tensor, dim: int, size: int, step: int, shape: tuple[int, ...]) -> Tensor:
    count = (shape[dim] - size) // step + 1
    steps = PUBLIC["arange"](count, device=g.device) * step
    where = (steps.unsqueeze(1) + PUBLIC["arange"](size, device=g.device)).reshape(-1)
    flat = g.movedim(-1, dim + 1).reshape((*shape[:dim], count * size, *shape[dim + 1 :]))
    return g.new_zeros(shape).index_add(dim, where, flat)


_unfold = view_operator("unfold", "dim size step shape", _unfold_array, _unfold_grad)


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
        return basic_index(reshape(self, 1), (slice(0, size), Ellipsis))
    return _unfold.call((self,), (dim, size, step, shape))


Tensor.unfold = unfold  # type: ignore[attr-defined]

# ---- strides -------------------------------------------------------------------------------------


def _as_strided_array(array: Any, size: Any, stride: Any, offset: int, geometry: Any) -> Any:
    return strided(array, size, stride, offset)


def _as_strided_grad(g: Tensor, size: Any, stride: Any, offset: int, geometry: Any) -> Tensor:
    # Through the flat memory that both views lie in.
    shape, strides = geometry
    reach = lambda n, s: sum((a - 1) * b for a, b in zip(n, s)) + 1
    length = max(offset + reach(size, stride), reach(shape, strides), 1)
    indices = _flat_offsets(size, stride, offset)
    flat = g.new_zeros((length,)).index_add(
        0, PUBLIC["from_numpy"](indices).to(g.device), g.reshape(-1)
    )
    back = PUBLIC["from_numpy"](_flat_offsets(shape, strides, 0)).to(g.device)
    return flat.index_select(0, back).reshape(shape)


def _flat_offsets(shape: Sequence[int], strides: Sequence[int], offset: int) -> Any:
    out = np.full(shape, offset, np.int64)
    for dim, (n, s) in enumerate(zip(shape, strides)):
        out += (np.arange(n) * s).reshape((n, *(1,) * (len(shape) - dim - 1)))
    return out.reshape(-1)


_as_strided = view_operator(
    "as_strided", "size stride offset geometry", _as_strided_array, _as_strided_grad
)


@public()
def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A view of the storage by sizes, strides and offset."""
    size, stride = tuple(map(int, size)), tuple(map(int, stride))
    if len(size) != len(stride):
        raise RuntimeError(
            f"mismatch in length of strides and shape ({len(stride)} vs {len(size)})"
        )
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(stride)}"
        )
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(size)}")
    own = input.storage_offset()
    offset = own if storage_offset is None else int(storage_offset)
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    _check_bounds(input, size, stride, offset)
    geometry = (tuple(input.shape), input.stride())
    if offset < own:
        base = input._base if input._base is not None else input
        geometry = (tuple(base.shape), base.stride())
        return _as_strided.call((base,), (size, stride, offset - base.storage_offset(), geometry))
    return _as_strided.call((input,), (size, stride, offset - own, geometry))


def _check_bounds(input: Tensor, size: Any, stride: Any, offset: int) -> None:
    if math.prod(size) == 0:
        return
    needed = (offset + sum((n - 1) * s for n, s in zip(size, stride)) + 1) * input.itemsize
    have = input.untyped_storage().nbytes()
    if needed > have:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and "
            f"itemsize {input.itemsize} requiring a storage size of {needed} are out of bounds for "
            f"storage of size {have}"
        )


# ---- the same memory, otherwise ------------------------------------------------------------------

_alias = view_operator("alias", "", lambda a: a[...], lambda g: g)


def alias(input: Tensor) -> Tensor:
    """A view of the whole."""
    return _alias.call((input,), ())


PUBLIC["view_copy"] = lambda input, size: view(input, size).clone()


@public()
def detach(input: Tensor) -> Tensor:
    """The same memory, without history."""
    return _C.alias(input)


def detach_(self: Tensor) -> Tensor:
    """Forgets the history."""
    if self._base is not None and self._node is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using "
            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
            "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
            "these gradients."
        )
    self._raw_node, self.output_nr, self._leaf = None, 0, False
    return self


Tensor.detach_ = detach_  # type: ignore[attr-defined]
PUBLIC["detach_"] = detach_

_identity = Operator("identity", "values source", cpu=lambda v, s: v, gpu=lambda v, s: v,
                     grad=(None, lambda g: g), kind="internal")  # fmt: skip


def identity_of(values: Tensor, source: Tensor) -> Tensor:
    """`values`, with gradients going to `source`."""
    return _identity.call((values, source), ())


def pairs(array: Any) -> Any:
    """A complex array as real pairs, in a new last dim."""
    if type(array) is ndarray:
        real = array.real
        if array.size == 0:
            return np.empty((*array.shape, 2), real.dtype)
        return np.lib.stride_tricks.as_strided(
            real, (*real.shape, 2), (*real.strides, real.itemsize)
        )
    kind = float32 if array.dtype is complex64 else float64
    flat = array.as_strided((array.storage_nbytes // array.itemsize,), (1,), 0).view_dtype(kind)
    strides = [*(2 * s for s in array.strides), 1]
    return flat.as_strided((*array.shape, 2), strides, 2 * array.storage_offset())


def _unpaired(array: Any) -> Any:
    kind = complex64 if arrays.dtype_of(array) is float32 else complex128
    strides = arrays.strides_of(array)
    if array.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(stride % 2 for n, stride in zip(array.shape, strides[:-1]) if n > 1):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if type(array) is ndarray:
        if array.flags.c_contiguous:
            return array.view(kind.numpy).reshape(array.shape[:-1])
        return np.lib.stride_tricks.as_strided(
            array[..., :1].view(kind.numpy) if array.size else array,
            (*array.shape[:-1], 1),
            (*array.strides[:-1], kind.itemsize),
        )[..., 0]
    flat = array.as_strided((array.storage_nbytes // kind.itemsize * 2,), (1,), 0).view_dtype(kind)
    return flat.as_strided(
        array.shape[:-1], [s // 2 for s in strides[:-1]], array.storage_offset() // 2
    )


_view_as_real = view_operator("view_as_real", "", pairs, lambda g: view_as_complex(g.contiguous()))
_view_as_complex = view_operator("view_as_complex", "", _unpaired, lambda g: view_as_real(g))
_real = view_operator("real", "", lambda a: a.real if type(a) is ndarray else pairs(a)[..., 0],
                      lambda g: PUBLIC["complex"](g, g.new_zeros(g.shape)))  # fmt: skip
_imag = view_operator("imag", "", lambda a: a.imag if type(a) is ndarray else pairs(a)[..., 1],
                      lambda g: PUBLIC["complex"](g.new_zeros(g.shape), g))  # fmt: skip


@public(method=False)
def view_as_real(input: Tensor) -> Tensor:
    """A complex tensor as real pairs, in a new last dim."""
    if not input.is_complex():
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return _view_as_real.call((input,), ())


@public(method=False)
def view_as_complex(input: Tensor) -> Tensor:
    """Real pairs in the last dim as a complex tensor."""
    if input.dtype.name not in ("float32", "float64", "float16"):
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of scalar type: {input.dtype}"
        )
    if not input.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    return _view_as_complex.call((input,), ())


@public(method=False)
def real(input: Tensor) -> Tensor:
    """The real parts, as a view."""
    return _real.call((input,), ()) if input.is_complex() else input


@public(method=False)
def imag(input: Tensor) -> Tensor:
    """The imaginary parts, as a view."""
    if not input.is_complex():
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return _imag.call((input,), ())


def _set_part(part: Any) -> Any:
    return lambda self, value: part(self).copy_(
        value if isinstance(value, Tensor) else self.new_tensor(value)
    )


Tensor.real = property(real, _set_part(real))  # type: ignore[attr-defined]
Tensor.imag = property(imag, _set_part(imag))  # type: ignore[attr-defined]


def _view_dtype_array(array: Any, kind: dtype, old: dtype) -> Any:
    return array.view(kind.numpy) if type(array) is ndarray else array.view_dtype(kind)


def _check_view_dtype(self: Tensor, kind: dtype, old: dtype) -> None:
    """The conditions under which elements of another size can be viewed."""
    what = f"to view {scalar_name(old)} as {scalar_name(kind)} (different element sizes)"
    if self.ndim == 0:
        raise RuntimeError(f"self.dim() cannot be 0 {what}")
    shape, strides = self.shape, self.stride()
    if shape[-1] > 1 and strides[-1] != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 {what}, but got {strides[-1]}")
    ratio = kind.itemsize // old.itemsize
    if ratio > 1:
        needed = [("self.size(-1)", shape[-1]), ("self.storage_offset()", self.storage_offset())]
        needed += [
            (f"self.stride({i})", stride)
            for i, stride in enumerate(strides[:-1])
            if shape[i] > 1 and self.numel()
        ]
        for name, value in needed:
            if value % ratio:
                raise RuntimeError(f"{name} must be divisible by {ratio} {what}, but got {value}")


_view_dtype = view_operator("view_dtype", "kind old", _view_dtype_array,
                            lambda g, old: view_dtype(g, old))  # fmt: skip


def view_dtype(self: Tensor, kind: dtype) -> Tensor:
    """The same memory as another dtype."""
    old = self.dtype
    if kind.itemsize != old.itemsize and type(self._array) in (ndarray, _C.Array):
        _check_view_dtype(self, kind, old)
    out = _view_dtype.call((self,), (kind, old))
    if out._raw_node is not None and not (kind.is_floating_point or kind.is_complex):
        out._raw_node = None
    return out


# ---- compositions --------------------------------------------------------------------------------


def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """Copies side by side: `repeats` times along each dim."""
    times = sizes(repeats)
    if len(times) < self.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    if any(n < 0 for n in times):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(times)}: {list(times)}"
        )
    shape = (1,) * (len(times) - self.ndim) + tuple(self.shape)
    paired = [n for pair in zip((1,) * len(shape), shape) for n in pair]
    wide = [n for pair in zip(times, shape) for n in pair]
    spread = expand(reshape(self, paired), wide)
    out = spread.clone(memory_format=_contiguous())
    return view(out, tuple(a * b for a, b in zip(times, shape)))


Tensor.repeat = repeat  # type: ignore[attr-defined]


def tile(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """repeat, with missing leading repeats taken as 1."""
    times = sizes((named["dims"],) if named else dims)
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


PUBLIC["tile"] = tile
Tensor.tile = tile  # type: ignore[attr-defined]


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids of vectors."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for tensor in tensors:
        if tensor.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: "
                f"{tensor.ndim}"
            )
        if tensor.dtype is not tensors[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
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
_ = Array
