"""Views of all elements in another shape, order of dims, or expanded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.batched import BatchedArray
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.sparse import SparseArray
from tritorch.autograd.graph import check_inplace
from tritorch.core import defaults, published
from tritorch.core.dims import wrap_dim, wrap_dims
from tritorch.core.dtype import dtype
from tritorch.core.gates import Computed
from tritorch.core.layout import contiguous_format
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor, attach
from tritorch.ops.record.checks import broadcast_shapes, one_of, sizes
from tritorch.ops.record.ends import ends_as, ends_with
from tritorch.ops.record.operator import Array, ndarray
from tritorch.ops.record.publishing import public
from tritorch.ops.shape.memory import alias, view_dtype
from tritorch.ops.shape.views import view_operator

# ---- reshaping -----------------------------------------------------------------------------------


def _view_array(array: Any, shape: tuple[int, ...]) -> Any:
    if type(array) is ndarray:
        if array.flags.c_contiguous:
            return array.reshape(shape)
        try:
            return array.reshape(shape, copy=False)
        except ValueError:
            pass
    else:
        out = array.reshape_view(shape)
        if out is not None:
            return out
    raise RuntimeError(
        "view size is not compatible with input tensor's size and stride (at least one dimension "
        "spans across two contiguous subspaces). Use .reshape(...) instead."
    )


_view = view_operator("view", "shape", _view_array, lambda g, x_shape: g.reshape(x_shape),
                      layout="reshaped")  # fmt: skip
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


_LISTS = (tuple, list)


def view(self: Tensor, *size: Any, **named: Any) -> Tensor:
    """The same memory in another shape, or (given a dtype) as another dtype."""
    try:
        array = self._a
    except AttributeError:
        array = None
    if type(array) is ndarray and array.flags.c_contiguous and not named:
        # Dense: NumPy's reshape is a view, and checks the sizes (but takes -2 for -1).
        wanted = tuple(size[0]) if len(size) == 1 and isinstance(size[0], _LISTS) else size
        try:
            out = array.reshape(wanted)
        except (TypeError, ValueError):  # a dtype, an error to word
            pass
        else:
            if out.shape == wanted or -1 in wanted:
                return _finish_view(out, (out.shape,), self)
    if "dtype" in named or (size and isinstance(size[0], dtype)):
        return view_dtype(self, *one_of("view", size, named, "dtype"))
    size = one_of("view", size, named, "size")
    shape = size if len(size) > 1 and type(size[0]) is int else sizes(size)
    return _viewed(self, _infer(shape, self.numel()))


def _viewed(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    if type(x._array) is not BatchedArray:
        try:
            array = x._a
        except AttributeError:
            array = None
        if type(array) in (ndarray, Array, MetaArray):
            return _finish_view(_view_array(array, shape), (shape,), x)
    return _view.call((x,), (shape,))


attach(view=view)
attach(_unsafe_view=view)


def reshape(input: Tensor, *shape: Any, **named: Any) -> Tensor:
    """Another shape: a view where the strides allow, else a copy."""
    if named or not shape:
        shape = one_of("reshape", shape, named, "shape")
    try:
        array = input._a
    except AttributeError:
        array = None
    if type(array) is ndarray and array.flags.c_contiguous:
        sides = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], _LISTS) else shape
        try:
            out = array.reshape(sides)
        except (TypeError, ValueError):  # a dtype, an error to word
            pass
        else:
            if out.shape == sides or -1 in sides:
                return _finish_view(out, (out.shape,), input)
    wanted = _infer(sizes(shape), input.numel())
    try:
        return _viewed(input, wanted)
    except RuntimeError:
        if type(input._array) is SparseArray:
            raise RuntimeError("reshape is not implemented for sparse tensors") from None
        return view(published.public.clone(input, memory_format=contiguous_format), wanted)


PUBLIC["reshape"] = reshape
attach(reshape=reshape)
attach(view_as=lambda self, other: view(self, other.shape))
attach(reshape_as=lambda self, other: reshape(self, other.shape))


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
    wrap_dim(dim, input.ndim)
    if not input.ndim:
        raise RuntimeError(
            f"unflatten got an unexpected error:\n"
            f"Dimension specified as {dim} but tensor has no dimensions"
        )
    dim = wrap_dim(dim, input.ndim)
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
    if type(array) is ndarray:  # NumPy's own takes twice as long, and makes strides 0 of sizes 1
        return _C.strided_view(array, shape, _expanded_strides(array, shape), 0)
    return array.expand(shape)


def _expanded_strides(array: Any, shape: tuple[int, ...]) -> list[int]:
    own, size = array.strides, array.itemsize
    lead = len(shape) - len(own)
    strides = [s // size if n == m else 0 for n, m, s in zip(array.shape, shape[lead:], own)]
    for dim in reversed(range(lead)):
        inner = shape[dim + 1] * strides[0] if own else 0
        strides.insert(0, inner if shape[dim] == 1 else 0)
    return strides


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


attach(expand=expand)
attach(expand_as=lambda self, other: expand(self, other.shape))


@public(method=False)
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """input expanded to a shape."""
    return expand(input, size)


def _broadcast_to(self: Tensor, *size: Any, **named: Any) -> Tensor:
    """self expanded to a shape, given as one argument or as several."""
    if named and not size and named.keys() == {"size"}:
        size = (named["size"],)
    elif named or not size:
        name = next(iter(named.keys() - {"size"}), None)
        raise TypeError(
            'broadcast_to() missing 1 required positional arguments: "size"'
            if name is None
            else f"broadcast_to() got an unexpected keyword argument '{name}'"
        )
    return expand(self, *size)


_broadcast_to.__name__ = _broadcast_to.__qualname__ = "broadcast_to"
attach(broadcast_to=_broadcast_to)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Tensors expanded to the shape that all broadcast to."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    return tuple(expand(tensor, shape) for tensor in tensors)


PUBLIC["broadcast_tensors"] = broadcast_tensors


@public(method="sum_to_size", torch=False)
@ends_with("sum.dim_IntList")
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
    given = sizes(one_of("permute", dims, named, "dims") if named or not dims else dims)
    ndim = input.ndim
    if len(given) != ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {input.ndim} is not "
            f"equal to len(dims) = {len(given)}"
        )
    order = tuple([wrap_dim(dim, ndim) for dim in given])
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return _reordered(input, order)


def _reordered(input: Tensor, order: tuple[int, ...]) -> Tensor:
    try:
        a = input._a
    except AttributeError:
        a = None
    if type(a) is ndarray:
        return _permute.finish_view(a.transpose(order), (order,), input)
    return _permute.call((input,), (order,))


PUBLIC["permute"] = permute
attach(permute=permute)


@public(aliases=("swapdims", "swapaxes"))
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dims exchanged."""
    ndim = input.ndim
    dim0, dim1 = wrap_dim(dim0, ndim), wrap_dim(dim1, ndim)
    if ndim == 0:
        return alias(input)
    try:
        a = input._a
    except AttributeError:
        a = None
    if type(a) is ndarray:
        return _transpose.finish_view(a.swapaxes(dim0, dim1), (dim0, dim1), input)
    return _transpose.call((input,), (dim0, dim1))


def rebinding(view: Any, overload: str) -> Any:
    """A view in place, of an overload: the tensor itself becomes its view."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_inplace(self)
        other = view(self, *args, **kwargs)
        if overload == "squeeze_" and (args or kwargs):
            ends_as("squeeze_.dim", other)
        else:
            ends_as(overload, other)
        self._a = other._array
        _C.bump_version(self)
        if self._base is not None:
            self._view = other._view
        # A gradient that it retains stays the one of before.
        self._raw_node, self.output_nr = other._raw_node, other.output_nr
        return self

    return method


attach(transpose_=rebinding(transpose, "transpose_"))
attach(swapaxes_=Tensor.transpose_, swapdims_=Tensor.transpose_)


_t = _transpose.like("t", "T", schema="t(x)")


@public()
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; vectors stay."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return _t.call((input,), (0, 1)) if input.ndim == 2 else alias(input)


attach(t_=rebinding(t, "t_"))


@public()
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of the last two dims."""
    if input.ndim == 0:
        defaults.warn_once("adjoint() is deprecated on 0-D tensors. Consider using x.conj().")
        return input.conj()
    return _last_two(input, "adjoint").conj()


def _last_two(input: Tensor, name: str) -> Tensor:
    if input.ndim < 2:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got "
            f"{input.ndim}-D tensor."
        )
    return transpose(input, -2, -1)


def _of_nothing(name: str, advice: str) -> None:
    defaults.warn_once(f"Tensor.{name} is deprecated on 0-D tensors. {advice}", stacklevel=4)


_IDENTITY = "This function is the identity in these cases."
_CONJUGATE = "Consider using x.conj()."


def _reversed_dims(self: Tensor) -> Tensor:
    ndim = self.ndim
    if ndim == 2:
        return _reordered(self, (1, 0))
    if ndim == 0:
        _of_nothing("T", _IDENTITY)
    else:
        defaults.warn_once(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
            "deprecated and it will throw an error in a future release. Consider `x.mT` to "
            "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to "
            "reverse the dimensions of a tensor."
        )
    return _reordered(self, tuple(range(ndim))[::-1])


def _matrix_transpose(self: Tensor) -> Tensor:
    if self.ndim == 0:
        _of_nothing("mT", _IDENTITY)
        return self
    return _last_two(self, "mT")


def _matrix_adjoint(self: Tensor) -> Tensor:
    if self.ndim == 0:
        _of_nothing("mH", _CONJUGATE)
        return self.conj()
    return adjoint(self)


attach(T=Computed(_reversed_dims))
attach(mT=Computed(_matrix_transpose))
attach(mH=Computed(_matrix_adjoint))


def _hermitian(self: Tensor) -> Tensor:
    if self.ndim == 0:
        _of_nothing("H", _CONJUGATE)
        return self.conj()
    if self.ndim == 2:
        return adjoint(self)
    more = " For batches of matrices, consider using tensor.mH" if self.ndim > 2 else ""
    raise RuntimeError(
        f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.{more}"
    )


attach(H=Computed(_hermitian))


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


def _squeeze_array(array: Any, dims: tuple[int, ...]) -> Any:
    if type(array) is ndarray:
        return array.squeeze(dims)
    shape, strides = array.shape, array.strides
    keep = [i for i in range(len(shape)) if i not in dims]
    return array.as_strided([shape[i] for i in keep], [strides[i] for i in keep])


_squeeze = view_operator(
    "squeeze",
    "dims",
    _squeeze_array,
    lambda g, x_shape: g.reshape(x_shape),
    schema="squeeze.dims(x, dims)",
)


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
    dims = tuple([i for i in dims if shape[i] == 1])
    out = _squeeze.call((input,), (dims,))
    if out._raw_node is None or isinstance(dim, (tuple, list)):
        return out
    if dim is None:
        return ends_as("squeeze", out)
    return ends_as("squeeze.dim", out, dim=dim)


def new_dim(array: Any, dim: int) -> Any:
    if type(array) is ndarray:
        return array[(slice(None),) * dim + (None,)]
    return array.unsqueeze(dim)


_unsqueeze = view_operator("unsqueeze", "dim", new_dim, lambda g, dim: g.squeeze(dim),
                           layout="unsqueezed")  # fmt: skip


@public()
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a dim of size 1 inserted before dim."""
    return _unsqueeze.call((input,), (wrap_dim(dim, input.ndim + 1),))


attach(squeeze_=rebinding(squeeze, "squeeze_"))
attach(unsqueeze_=rebinding(unsqueeze, "unsqueeze_"))


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
    if not shape:
        return reshape(x, (1,) * n)
    wide = unsqueeze(x, 0) if len(shape) == 1 else x
    return unsqueeze(wide, -1) if n == 3 else wide


for _n in (1, 2, 3):
    PUBLIC[f"atleast_{_n}d"] = atleast(_n)
