"""The gather, scatter, index and masked families."""

from __future__ import annotations

import builtins
from typing import Any

from tritorch.arrays import arrays
from tritorch.core import defaults, published
from tritorch.core.arguments import Number
from tritorch.core.dims import wrap_dim
from tritorch.core.dispatching import entered, watching
from tritorch.core.dtype import bool_, int32, int64
from tritorch.core.layout import contiguous_format
from tritorch.core.promotion import not_implemented, scalar_name
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.sparse.record import coo
from tritorch.ops.record import checks
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import any_true, broadcast_shapes, convert_number, require_tensor
from tritorch.ops.record.ends import ends_as
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import same, unknown_size
from tritorch.ops.record.operator import Operator, ndarray
from tritorch.ops.record.outputs import apart_from_out, exact_out
from tritorch.ops.record.publishing import accepts_expanded, public
from tritorch.ops.record.sizes import from_places, into_places
from tritorch.ops.shape.joining import cat, stack
from tritorch.ops.shape.parts import basic_index, meshgrid
from tritorch.ops.shape.ranges import arange
from tritorch.ops.shape.shape import expand, reshape

INT64 = int64.numpy

# ---- gather and scatter --------------------------------------------------------------------------


def _check_index(name: str, index: Tensor, *, kinds: tuple[Any, ...] = (int64,)) -> Tensor:
    require_tensor(index, name, "index", 3)
    if index.dtype is int64:
        return index
    if index.dtype is int32 or not index.numel():  # of no places the type says nothing
        return index.to(int64)
    raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")


def _wrong_type(name: str, index: Tensor) -> Exception:
    """The error for an index of a type that a function does not take, in PyTorch's words."""
    got = scalar_name(index.dtype)
    if name == "index_fill":
        return IndexError("index_fill_(): Expected dtype int64 for index.")
    words = {
        "index_add": f"index_add_(): Expected dtype int32/int64 for index but got: {got}",
        "index_copy": f"index_copy_(): Expected a long tensor for index, but got {got}",
    }
    return RuntimeError(words.get(name, f"{name}(): Expected dtype int32 or int64 for index"))


def _at_least_1d(x: Tensor) -> Tensor:
    return x if x.ndim else reshape(x, 1)


def _shaped(result: Tensor, shape: Any) -> Tensor:
    """The result for inputs that were made 1-d; a view only where 0 dims are wanted."""
    return result if result._array.shape == tuple(shape) else reshape(result, shape)


def _check_sizes(name: str, x: Tensor, index: Tensor, dim: int, src: Tensor | None = None) -> None:
    if max(x.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as "
            f"{'self' if src is not None or name != 'gather' else 'input'} tensor"
        )
    beyond = [i for i, n in enumerate(index.shape) if i != dim and x.ndim and n > x.shape[i]]
    if src is None:
        if beyond:
            raise RuntimeError(
                f"Size does not match at dimension {beyond[0]} expected index {list(index.shape)} "
                f"to be no larger than self {list(x.shape)} apart from dimension {dim}"
            )
        return
    larger = bool(beyond) or any(src.ndim and n > src.size(i) for i, n in enumerate(index.shape))
    if max(src.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if larger:
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(x.shape)} "
            f"apart from dimension {dim} and to be no larger size than src {list(src.shape)}"
        )


_gather = Operator(
    "gather",
    "x index",
    "dim",
    schema="gather(x, dim, index)",
    cpu=lambda x, i, dim: backend("cpu", "indexing").gather(x, dim, i),
    gpu=lambda x, i, dim: backend("gpu", "indexing").gather(x, dim, i),
    fuses="pick",
    grad=Gradient(
        (lambda g, x_shape, index, dim: g.new_zeros(x_shape).scatter_add(dim, index, g), None),
        keeps="x",
    ),
    rules=Rules(
        infer=lambda x, i, dim: x.new(i.shape),
        axes=lambda x, i, dim: from_places(len(x.shape), dim),
        batch="dims",
        picks=True,
    ),
)


def _sparse_gather_grad(g: Tensor, index: Tensor, dim: int, shape: Any) -> Tensor:
    """One entry for each index."""
    ranges = [arange(n, device=g.device) for n in index.shape]
    places = list(meshgrid(*ranges, indexing="ij"))
    places[dim] = index
    flat = stack([place.reshape(-1) for place in places])
    return coo(flat, g.reshape(-1), shape)


_gather_sparse = Operator(
    "gather_sparse", "x index", "dim",
    schema="gather(x, dim, index, sparse_grad=True)", kind="sparse", cpu=_gather._cpu,
    gpu=_gather._gpu,
    grad=Gradient(
        (lambda g, x_shape, index, dim: _sparse_gather_grad(g, index, dim, x_shape), None),
        node="Gather",
    ),
    rules=Rules(picks=True),
)  # fmt: skip


def _plain(dim: Any, index: Tensor, *tensors: Tensor) -> bool:
    """Whether all are plain arrays of index's shape, so that there is nothing to check."""
    try:
        array = index._a
        shape = array.shape
        if type(array) is not ndarray or array.dtype is not INT64 or not array.size:
            return False
        for tensor in tensors:
            array = tensor._a
            if type(array) is not ndarray or array.shape != shape:
                return False
    except AttributeError:
        return False
    return type(dim) is int and -len(shape) <= dim < len(shape)


@public(out=True)
@exact_out("structured")
@apart_from_out
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """out[i, j] = input[index[i, j], j] (for dim 0)."""
    if not sparse_grad and _plain(dim, index, input):
        x = input._a
        dim %= x.ndim
        found = backend("cpu", "indexing").gather(x, dim, index._a)
        return _gather.finish_with(found, (dim,), input, index)
    dim = wrap_dim(dim, input.ndim)
    require_tensor(index, "gather", "index", 3)
    if index.numel() == 0:
        return reshape(basic_index(reshape(input, -1), (builtins.slice(0, 0),)), index.shape)
    if index.dtype.name not in ("int64", "int32"):
        raise RuntimeError("gather(): Expected dtype int32/int64 for index")
    _check_sizes("gather", input, index, dim)
    x, i = _at_least_1d(input), _at_least_1d(index)
    op = _gather_sparse if sparse_grad and input.ndim else _gather
    out = op.call((x, i), (dim,))
    return out if index.ndim else reshape(out, ())


def _slice_to(src: Tensor, index: Tensor) -> Tensor:
    if src.shape == index.shape:
        return src
    return basic_index(src, (*(builtins.slice(0, n) for n in index.shape), Ellipsis))


_scatter = Operator(
    "scatter",
    "x index src",
    "dim",
    schema="scatter.src(x, dim, index, src)",
    cpu=lambda x, i, s, dim: backend("cpu", "indexing").scatter(x, dim, i, s),
    gpu=lambda x, i, s, dim: backend("gpu", "indexing").scatter(x, dim, i, s),
    grad=(
        lambda g, index, dim: g.scatter(dim, index, 0),
        None,
        lambda g, index, dim: g.gather(dim, index),
    ),
    layout="row-major",
    rules=Rules(infer=same, axes=lambda x, i, s, dim: into_places(len(x.shape), dim), batch="dims"),
)
_scatter_value = Operator(
    "scatter_value",
    "x index",
    "dim value",
    schema="scatter.value(x, dim, index, value)",
    cpu=lambda x, i, dim, v: backend("cpu", "indexing").scatter_value(x, dim, i, v),
    gpu=lambda x, i, dim, v: backend("gpu", "indexing").scatter_value(x, dim, i, v),
    grad=(lambda g, index, dim: g.scatter(dim, index, 0), None),
    layout="row-major",
    rules=Rules(
        infer=same, axes=lambda x, i, dim, value: into_places(len(x.shape), dim), batch="dims"
    ),
)
_scatter_add = Operator(
    "scatter_add",
    "x index src",
    "dim",
    schema="scatter_add(x, dim, index, src)",
    cpu=lambda x, i, s, dim: backend("cpu", "indexing").scatter_add(x, dim, i, s),
    gpu=lambda x, i, s, dim: backend("gpu", "indexing").scatter_add(x, dim, i, s),
    grad=(lambda g: g, None, lambda g, index, dim: g.gather(dim, index)),
    layout="row-major",
    rules=Rules(infer=same, axes=lambda x, i, s, dim: into_places(len(x.shape), dim), batch="dims"),
)
_scatter_reduce = Operator(
    "scatter_reduce",
    "x index src",
    "dim reduce include_self",
    schema="scatter_reduce.two(x, dim, index, src, reduce, include_self=include_self)",
    cpu=lambda x, i, s, dim, r, inc: backend("cpu", "indexing").scatter_reduce(
        x, dim, i, s, r, inc
    ),
    gpu=lambda x, i, s, dim, r, inc: backend("gpu", "indexing").scatter_reduce(
        x, dim, i, s, r, inc
    ),
    grad=Gradient(
        joint=lambda g, x, index, src, out, dim, reduce, include_self: scatter_reduce_grad(
            g, x, index, src, out, dim, reduce, include_self
        ),
    ),
    layout="row-major",
    rules=Rules(
        infer=same, axes=lambda x, i, s, dim, *rest: into_places(len(x.shape), dim), batch="dims"
    ),
)


def scatter_reduce_grad(
    g: Tensor, x: Tensor, index: Tensor, src: Tensor, out: Tensor, dim: int, reduce: str, inc: bool
) -> tuple[Any, ...]:
    at = lambda t: t.gather(dim, index)
    drop = lambda t: t if inc else t.scatter(dim, index, 0)
    if reduce == "sum":
        return drop(g), None, at(g)
    if reduce == "mean":
        ones = x.new_ones(x.shape) if inc else x.new_zeros(x.shape)
        count = ones.scatter_add(dim, index, src.new_ones(src.shape))
        count = count.masked_fill(count == 0, 1)
        return drop(g / count), None, at(g / count)
    if reduce in ("amax", "amin"):
        mine, theirs = x == out, src == at(out)
        count = mine.to(g.dtype) if inc else g.new_zeros(g.shape)
        count = count.scatter_add(dim, index, theirs.to(g.dtype))
        share = g / count.masked_fill(count == 0, 1)
        return drop(mine * share) if inc else drop(share), None, theirs * at(share)
    # prod
    mask_x = x == 0
    masked_x = x.masked_fill(mask_x, 1)
    grad_x = g * _reduce(masked_x, dim, index, src, "prod", inc) / masked_x
    src_zero = src == 0
    zeros_at = (
        src.new_zeros(x.shape).scatter_add(dim, index, src_zero.to(src.dtype)).gather(dim, index)
    )
    single = src_zero & (zeros_at == 1)
    masked_src = src.masked_fill(single, 1)
    exclusive = _reduce(x, dim, index, masked_src, "prod", inc).gather(dim, index)
    grad_src = published.public.where(
        single,
        (g.gather(dim, index) * exclusive),
        (g * out).gather(dim, index) / src.masked_fill(src_zero, 1),
    )
    if any_true(src_zero & (zeros_at > 1)):
        grad_src = grad_src.masked_fill(src_zero & (zeros_at > 1), 0)
    return drop(grad_x), None, grad_src


def _reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool
) -> Tensor:
    return _scatter_reduce.call((x, index, src), (dim, reduce, include_self))


def _prepare(name: str, x: Tensor, dim: int, index: Tensor, src: Tensor | None) -> Any:
    dim = wrap_dim(dim, x.ndim)
    index = _check_index(name, index)
    if index.numel() == 0:
        return None
    _check_sizes(name, x, index, dim, src)
    if src is not None and src.dtype is not x.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    out_src = None if src is None else _slice_to(_at_least_1d(src), _at_least_1d(index))
    return _at_least_1d(x), dim, _at_least_1d(index), out_src


@public(out=True, inplace=True, alone=True)
@exact_out("structured")
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Tensor:
    """A copy of input with src written at index along dim."""
    if src is None:
        src = value
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError("reduce argument must be either add or multiply.")
        if isinstance(src, Tensor):
            defaults.warn_once(
                "The reduce argument of torch.scatter with Tensor src is deprecated and will be "
                "removed in a future PyTorch release. Use torch.scatter_reduce instead for more "
                "reduction options."
            )
        else:
            src = input.new_full(index.shape, src)
        how = {"add": "sum", "multiply": "prod"}[reduce]
        prepared = _prepare("scatter", input, dim, index, src)
        if prepared is None:
            return input.clone(memory_format=contiguous_format)
        x, dim, i, s = prepared
        return _shaped(_reduce(x, dim, i, s, how, True), input.shape)
    if isinstance(src, Tensor):
        prepared = _prepare("scatter", input, dim, index, src)
        if prepared is None:
            return input.clone(memory_format=contiguous_format)
        x, dim, i, s = prepared
        return _shaped(_scatter.call((x, i, s), (dim,)), input.shape)
    prepared = _prepare("scatter", input, dim, index, None)
    if prepared is None:
        return input.clone(memory_format=contiguous_format)
    x, dim, i, _ = prepared
    number = convert_number(src, input.dtype)
    return _shaped(_scatter_value.call((x, i), (dim, number)), input.shape)


@public(out=True, inplace=True, alone=True)
@autocast("cuda:widest")
@exact_out("structured")
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy of input with src added at index along dim."""
    if _plain(dim, index, input, src):
        x, added = input._a, src._a
        if x.dtype is added.dtype:
            dim %= x.ndim
            summed = backend("cpu", "indexing").scatter_add(x, dim, index._a, added)
            return _scatter_add.finish_with(summed, (dim,), input, index, src)
    prepared = _prepare("scatter_add", input, dim, index, src)
    if prepared is None:
        return input.clone(memory_format=contiguous_format)
    x, dim, i, s = prepared
    return _shaped(_scatter_add.call((x, i, s), (dim,)), input.shape)


@public(out=True, inplace=True, alone=True)
@exact_out("structured")
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy of input with src reduced into it at index along dim."""
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    prepared = _prepare("scatter", input, dim, index, src)
    if (input.is_complex() and reduce in ("amax", "amin")) or (
        input.dtype is bool_ and reduce == "mean"
    ):
        raise not_implemented(f"scatter_gather_tensor_cpu_reduce_{reduce}", input.dtype)
    if prepared is None:
        return input.clone(memory_format=contiguous_format)
    x, dim, i, s = prepared
    return _shaped(_reduce(x, dim, i, s, reduce, include_self), input.shape)


# ---- index_* -------------------------------------------------------------------------------------


def _vector_index(name: str, input: Tensor, dim: int, index: Tensor) -> tuple[int, Tensor]:
    """The dim and the vector of indices into it, both checked."""
    require_tensor(index, name, "index", 3)
    dim = wrap_dim(dim, input.ndim)
    array, x = getattr(index, "_a", None), getattr(input, "_a", None)
    if type(array) is ndarray is type(x) and array.ndim == 1 and array.dtype is INT64:
        if x.ndim and backend("cpu", "indexing").outside(array, x.shape[dim]) is None:
            return dim, index
    return dim, _checked_vector(name, input, dim, index)


def _checked_vector(name: str, input: Tensor, dim: int, index: Tensor) -> Tensor:
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    if index.dtype not in (int32, int64):
        raise _wrong_type(name, index)
    vector = _at_least_1d(index if index.dtype is int64 else index.to(int64))
    size, count = (input.shape[dim] if input.ndim else 1), vector.numel()
    if not size and count and input.ndim > 1 and name != "index_fill":
        raise RuntimeError(f"{name}(): self indexing axis dim should be positive")
    if name != "index_select" and not vector.is_cuda:
        sizes = [count if i == dim else n for i, n in enumerate(input.shape)]
        if 0 in sizes:  # PyTorch looks at no index into a tensor of nothing
            return vector * 0
        if not size and name != "index_add":
            raise _no_storage(input, dim, sizes)
    checks.values(_require_inside, (vector,), name, dim, size, input.ndim, bool(input.numel()))
    return vector


def _no_storage(input: Tensor, dim: int, sizes: list[int]) -> RuntimeError:
    """PyTorch's error for slices at indices of an empty dim."""
    strides = [0 if i == dim else step for i, step in enumerate(input.stride())]
    last = sum((n - 1) * step for n, step in zip(sizes, strides)) + 1
    return RuntimeError(
        f"setStorage: sizes {sizes}, strides {strides}, storage offset 0, and itemsize "
        f"{input.dtype.itemsize} requiring a storage size of {last * input.dtype.itemsize} are "
        f"out of bounds for storage of size 0"
    )


@checks.looks_at_values(cpu_only=True)
def _require_inside(
    indices: Any, name: str, dim: int, size: int, ndim: int, has_elements: bool
) -> None:
    bad = backend("cpu", "indexing").outside(indices, size)
    if bad is None:
        return
    if name == "index_select" and size and not has_elements:
        raise RuntimeError(f"INDICES element is out of DATA bounds, id={bad} axis_dim={size}")
    if name == "index_select" or (name == "index_add" and ndim <= 1):
        raise IndexError("index out of range in self")
    if name == "index_add":
        raise RuntimeError(f"index {bad} is out of bounds for dimension 0 with size {size}")
    who = "" if name == "index_fill" else f"{name}_(): "
    raise IndexError(f"{who}index {bad} is out of bounds for dimension {dim} with size {size}")


_index_select = Operator(
    "index_select",
    "x index",
    "dim",
    schema="index_select(x, dim, index)",
    cpu=lambda x, i, dim: backend("cpu", "indexing").index_select(x, dim, i),
    gpu=lambda x, i, dim: backend("gpu", "indexing").index_select(x, dim, i),
    grad=(lambda g, x_shape, index, dim: g.new_zeros(x_shape).index_add(dim, index, g), None),
    rules=Rules(
        infer=lambda x, i, dim: x.new(
            (*x.shape[:dim], i.numel(), *x.shape[dim + 1 :]) if x.shape else ()
        ),
        axes=lambda x, i, dim: from_places(len(x.shape), dim, vector=True),
        batch="index_select",
        picks=True,
    ),
)


@public(out=True)
@exact_out("index_select(): self and result must have the same scalar type")
@apart_from_out
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The entries of a dim at indices."""
    dim, vector = _vector_index("index_select", input, dim, index)
    x = input if input.ndim else reshape(input, 1)
    out = _index_select.call((x, vector), (dim,))
    return out if x is input else reshape(out, ())


_index_add = Operator(
    "index_add",
    "x index source",
    "dim alpha",
    schema="index_add(x, dim, index, source, alpha=alpha)",
    cpu=lambda x, i, s, dim, a: backend("cpu", "indexing").index_add(x, dim, i, s, a),
    gpu=lambda x, i, s, dim, a: backend("gpu", "indexing").index_add(x, dim, i, s, a),
    grad=Gradient(
        (lambda g: g, None, lambda g, index, dim, alpha: g.index_select(dim, index) * alpha),
        keeps="source",
    ),
    rules=Rules(
        infer=same,
        axes=lambda x, i, s, dim, alpha: into_places(len(x.shape), dim, vector=True),
        batch="along_index",
    ),
)


def _check_source(name: str, input: Tensor, dim: int, vector: Tensor, source: Tensor) -> None:
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}(): self and source expected to have the same dtype, but got (self) "
            f"{scalar_name(input.dtype)} and (source) {scalar_name(source.dtype)}"
        )
    if name == "index_copy" and not input.ndim and source.ndim > 1:
        raise RuntimeError(
            f"index_copy_(): Source/destination tensor must have same slice shapes. Destination "
            f"slice shape:  at dimension {dim} and source slice shape: "
            f"{' '.join(map(str, source.shape[1:]))} at dimension 0."
        )
    if name == "index_copy" and source.ndim != input.ndim and source.ndim and input.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must "
            f"match. Source dimensionality ({source.ndim}), destination dimensionality "
            f"({input.ndim})"
        )
    count = source.shape[dim] if source.ndim else 1
    if vector.numel() != count:
        raise (RuntimeError if name == "index_add" else IndexError)(
            f"{name}_(): Number of indices ({vector.numel()}) should be equal to source.size(dim): "
            f"({count}), for dim: {dim}"
        )
    if (source.ndim > 0 and input.ndim > 0) or source.ndim > 1:
        mine = [n for i, n in enumerate(input.shape) if i != dim]
        theirs = [n for i, n in enumerate(source.shape) if i != dim]
        if mine != theirs and name == "index_copy":
            raise RuntimeError(
                "index_copy_(): Source/destination tensor must have same slice shapes. Destination "
                f"slice shape: {' '.join(map(str, mine))} at dimension {dim} and source slice "
                f"shape: {' '.join(map(str, theirs))} at dimension 0."
            )
        if mine != theirs:
            raise RuntimeError(
                f"source tensor shape must match self tensor shape, excluding the specified "
                f"dimension. Got self.shape = {list(input.shape)} source.shape = "
                f"{list(source.shape)}"
            )


@public(out=True, inplace=True, alone=True)
@exact_out("structured")
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """A copy of input with alpha * source added at indices of a dim."""
    dim, vector = _vector_index("index_add", input, dim, index)
    _check_source("index_add", input, dim, vector, source)
    x, s = _at_least_1d(input), _at_least_1d(source)
    alpha = arrays.cast_number(convert_number(alpha, input.dtype), input.dtype)
    return _shaped(_index_add.call((x, vector, s), (dim, alpha)), input.shape)


_index_copy = Operator(
    "index_copy",
    "x index source",
    "dim",
    schema="index_copy(x, dim, index, source)",
    cpu=lambda x, i, s, dim: backend("cpu", "indexing").index_copy(x, dim, i, s),
    gpu=lambda x, i, s, dim: backend("gpu", "indexing").index_copy(x, dim, i, s),
    grad=Gradient(
        (
            lambda g, index, dim: g.index_fill(dim, index, 0),
            None,
            lambda g, index, dim: g.index_select(dim, index),
        ),
        keeps="source",
    ),
    rules=Rules(
        infer=same,
        axes=lambda x, i, s, dim: into_places(len(x.shape), dim, vector=True),
        batch="along_index",
    ),
)


@public(out=True, inplace=True, alone=True)
@autocast("cpu:widest")
@exact_out("structured")
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy of input with source written at indices of a dim."""
    dim, vector = _vector_index("index_copy", input, dim, index)
    if index.ndim == 1 and source.ndim == 0 and index.numel() != 1:
        raise IndexError(
            f"index_copy_(): When source is scalar, index should have one element (got "
            f"{index.numel()})"
        )
    _check_source("index_copy", input, dim, vector, source)
    x, s = _at_least_1d(input), _at_least_1d(source)
    return _shaped(_index_copy.call((x, vector, s), (dim,)), input.shape)


_index_fill = Operator(
    "index_fill",
    "x index value",
    "dim",
    schema="index_fill.int_Tensor(x, dim, index, value)",
    cpu=lambda x, i, v, dim: backend("cpu", "indexing").index_fill(x, dim, i, v.item()),
    gpu=lambda x, i, v, dim: backend("gpu", "indexing").index_fill(x, dim, i, v.numpy().item()),
    grad=(
        lambda g, index, dim: g.index_fill(dim, index, 0),
        None,
        lambda g, index, dim: g.index_select(dim, index.unique()).sum(),
    ),
    layout="copy",
    rules=Rules(
        infer=same,
        axes=lambda x, i, v, dim: into_places(len(x.shape), dim, vector=True, source=False),
        batch="along_index",
    ),
)


def _may_be_negative(index: Tensor) -> bool:
    """Whether indices may count from the end, as far as can be seen without a wait."""
    array = index._array
    if index.dtype not in (int32, int64) or not index.numel():
        return False
    if watching and entered.note is not None:  # what is noted is computed with other values, too
        return True
    return type(array) is not ndarray or int(array.min()) < 0


@public(inplace=True, alone=True)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of input with a number at indices of a dim."""
    if input.ndim and isinstance(index, Tensor) and _may_be_negative(index):
        size = input.shape[wrap_dim(dim, input.ndim)]
        index = published.public.where((index < 0) & (index >= -size), index + size, index)
    given = value
    dim, vector = _vector_index("index_fill", input, dim, index)
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
    else:
        if isinstance(value, complex) and not input.is_complex():
            raise RuntimeError(
                "index_fill_(): Converting complex Scalar to non-complex type is not supported"
            )
        value = input.new_full((), convert_number(value, input.dtype))
    x = _at_least_1d(input)
    number = value is not given
    out = _shaped(_index_fill.call((x, vector, value.to(input.dtype)), (dim,)), input.shape)
    return ends_as("index_fill.int_Scalar", out) if number else out


def _fill_places(array: Any, dim: int, index: Any, value: Any) -> None:
    array[(*(builtins.slice(None),) * wrap_dim(dim, array.ndim), index)] = value


accepts_expanded("index_fill_", _fill_places)

# ---- take and masks ------------------------------------------------------------------------------

_take = Operator(
    "take",
    "x index",
    cpu="indexing.take",
    grad=Gradient(
        (lambda g, x_shape, index: g.new_zeros(x_shape).put(index, g, True), None), keeps="x"
    ),
    layout="row-major",
    rules=Rules(infer=lambda x, i: x.new(i.shape), batch="take", picks=True),
)


@checks.looks_at_values
def _require_taken(array: Any, n: int) -> None:
    if type(array) is ndarray and array.size and (array.min() < -n or array.max() >= n):
        raise IndexError(
            f"out of range: tried to access index {int(array.max())} on a tensor of {n} elements."
        )


@public(out=True)
@exact_out(
    "take(): self and out expected to have the same dtype, but got self.dtype = "
    "{Result} and out.dtype = {Out}"
)
@apart_from_out
def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements at indices of the flattened input."""
    if index.dtype is not int64:
        raise RuntimeError(
            f"take(): Expected a long tensor for index, but got {scalar_name(index.dtype)}"
        )
    if input.numel() == 0 and index.numel():
        raise IndexError("take(): tried to take from an empty tensor")
    checks.values(_require_taken, (index,), input.numel())
    return _take.call((input, index))


@public(out=True)
@exact_out("structured")
@apart_from_out
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """gather, broadcasting indices and input against each other."""
    if indices.dtype is not int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got "
            f"{scalar_name(indices.dtype)}"
        )
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1))
    if input.ndim != indices.ndim:
        raise RuntimeError(
            f"torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    dim = wrap_dim(dim, input.ndim)
    shape = list(input.shape)
    shape[dim] = indices.shape[dim]
    wide = broadcast_shapes(shape, indices.shape)
    source = list(wide)
    source[dim] = input.shape[dim]
    size = input.shape[dim]
    positive = published.public.where(indices < 0, indices + size, indices)
    return gather(expand(input, source), dim, expand(positive, wide))


_put = Operator(
    "put",
    "x index source",
    "accumulate",
    cpu="indexing.put",
    grad=Gradient(
        joint=lambda g, index, accumulate: (
            g if accumulate else g.put(index, g.new_zeros(index.shape), False),
            None,
            g.take(index),
        ),
        keeps="source",
    ),
    layout="copy",
    rules=Rules(infer=same, batch="put"),
)


@public(inplace=True, alone=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of input with source at indices of the flattened input."""
    if not accumulate:
        defaults.alert_not_deterministic("put_")
    if index.dtype is not int64:
        raise RuntimeError(
            f"put_(): Expected a long tensor for index, but got {scalar_name(index.dtype)}"
        )
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{scalar_name(input.dtype)} and source.dtype = {scalar_name(source.dtype)}"
        )
    if index.numel() != source.numel():
        raise IndexError(
            f"put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel()}, index.numel() = {index.numel()}"
        )
    checks.values(_require_put, (index,), input.numel())
    return _put.call((input, index, source.reshape(index.shape)), (accumulate,))


@checks.looks_at_values
def _require_put(array: Any, n: int) -> None:
    if type(array) is ndarray and array.size and (array.min() < -n or array.max() >= n):
        raise IndexError(f"put_(): index out of range for a tensor of {n} elements")


_masked_select = Operator(
    "masked_select",
    "x mask",
    cpu="indexing.masked_select",
    grad=Gradient(
        (lambda g, x_shape, mask: g.new_zeros(x_shape).masked_scatter(mask, g), None), keeps="x"
    ),
    rules=Rules(infer=unknown_size, picks=True),
)


@public(out=True)
@exact_out("masked_select(): self and result must have the same scalar type")
@apart_from_out
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, as a vector."""
    if mask.dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shapes(input.shape, mask.shape)
    return _masked_select.call(
        (_at_least_1d(expand(input, shape)), _at_least_1d(expand(mask, shape))), ()
    )


_masked_scatter = Operator(
    "masked_scatter",
    "x mask source",
    cpu="indexing.masked_scatter",
    grad=(
        lambda g, mask: published.public.where(mask, 0, g),
        None,
        lambda g, mask, source_shape: _masked_scatter_grad(g, mask, source_shape),
    ),
    rules=Rules(infer=same, batch="masked_scatter"),
)


def _masked_scatter_grad(g: Tensor, mask: Tensor, shape: tuple[int, ...]) -> Tensor:
    if mask._is_described:
        return g.new_zeros(shape)
    used = masked_select(g, mask)
    total = 1
    for n in shape:
        total *= n
    padding = g.new_zeros((total - used.numel(),))
    return cat([used, padding]).reshape(shape)


@public(inplace=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of input with source's elements, in order, where the mask holds."""
    if mask.dtype.name == "uint8":
        defaults.warn(
            "masked_scatter_ received a mask with dtype torch.uint8, this behavior is now "
            "deprecated,please use a mask with dtype torch.bool instead.",
            stacklevel=3,
        )
    if mask.dtype is not bool_:
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype}"
        )
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got "
            f"{scalar_name(input.dtype)} and {scalar_name(source.dtype)}"
        )
    shape = broadcast_shapes(input.shape, mask.shape)
    x, m = _at_least_1d(expand(input, shape)), _at_least_1d(expand(mask, shape))
    checks.values(_require_enough, (m,), source.numel())
    return _shaped(_masked_scatter.call((x, m, source)), shape)


@checks.looks_at_values(cpu_only=True)
def _require_enough(mask: Any, count: int) -> None:
    if int(mask.sum()) > count:
        raise RuntimeError(
            "masked_scatter: expected self and source to have the same number of elements as the "
            "mask has ones"
        )
