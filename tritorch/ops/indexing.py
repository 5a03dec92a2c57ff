"""Indexing: `x[...]`, `x[...] = v`, and the gather, scatter, index and masked families."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core import arrays
from tritorch.core.batched import BatchedArray
from tritorch.core.dtype import bool_, int64, uint8
from tritorch.core.promotion import category, result_type, scalar_name
from tritorch.core.tensor import Tensor
from tritorch.ops.backends import backend
from tritorch.ops.checks import broadcast_shapes, convert_number, require_tensor, wrap_dim
from tritorch.ops.declare import PUBLIC, Operator, in_place, ndarray, public
from tritorch.ops.shape import alias, basic_index, expand, reshape

# ---- x[...] --------------------------------------------------------------------------------------

_SLICE_ALL = builtins.slice(None)


def getitem(self: Tensor, key: Any) -> Tensor:
    """`self[key]`: a view for ints, slices, None and ...; a copy for tensors and lists."""
    kind = type(key)
    if kind is int:
        try:
            array = self._a
            if type(array) is ndarray:
                n = array.shape[0]
                if -n <= key < n:
                    full = (key, Ellipsis)
                    return _select.finish_view(array[full], (full, array.shape), self)
        except (AttributeError, IndexError):
            pass
    elif kind is builtins.slice and key.step is None:
        try:
            array = self._a
            if type(array) is ndarray and array.ndim:
                full = (key, Ellipsis)
                return _slice.finish_view(array[full], (full, array.shape), self)
        except (AttributeError, TypeError):
            pass
    plain, advanced = _parse(self, key)
    view = basic_index(self, plain) if plain != (Ellipsis,) or not advanced else self
    if not advanced:
        return alias(self) if view is self else view
    return _index_with(view, advanced)


def _bound(value: Any) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return value.__index__()


def _slices(self: Tensor, key: tuple[Any, ...]) -> tuple[Any, ...]:
    for item in key:
        if type(item) is builtins.slice and item.step is not None and int(item.step) <= 0:
            raise ValueError("step must be greater than zero")
    return (
        *(
            builtins.slice(*(None if v is None else _bound(v) for v in (k.start, k.stop, k.step)))
            for k in key
        ),
        Ellipsis,
    )


from tritorch.ops.shape import _PARTS  # noqa: E402

_select, _slice = _PARTS["select"], _PARTS["slice"]


def _is_sequence(item: Any) -> bool:
    return isinstance(item, (list, tuple, np.ndarray, builtins.range))


def _index_tensor(item: Any, device: Any) -> Tensor:
    if isinstance(item, Tensor):
        return item
    if isinstance(item, np.ndarray):
        found = PUBLIC["from_numpy"](np.ascontiguousarray(item).reshape(item.shape))
    else:
        found = PUBLIC["tensor"](list(item))
        if found.numel() == 0:
            found = found.to(int64)
    return found.to(device)


def _treat_as_tuple(key: Any) -> tuple[Any, ...]:
    if isinstance(key, tuple):
        return key
    if (
        isinstance(key, list)
        and len(key) < 32
        and any(
            isinstance(item, (builtins.slice, Tensor))
            or _is_sequence(item)
            or item is None
            or item is Ellipsis
            for item in key
        )
    ):
        warnings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated; use "
            "x[tuple(seq)] instead of x[seq], or x[tritorch.tensor(seq)] for a tensor index.",
            stacklevel=4,
        )
        return tuple(key)
    return (key,)


def _parse(self: Tensor, key: Any) -> tuple[tuple[Any, ...], list[tuple[int, Tensor]]]:
    """A key as a basic one, and the index tensors with the dims of the resulting view."""
    items = list(_treat_as_tuple(key))
    shape = self._array.shape
    device = self.device
    # How many dims each item takes; bool masks as many as they have.
    prepared: list[Any] = []
    used = 0
    ellipses = 0
    for item in items:
        if item is Ellipsis:
            ellipses += 1
        elif item is None or item is True or item is False:
            pass
        elif isinstance(item, builtins.slice):
            used += 1
        elif (
            isinstance(item, Tensor)
            and item.ndim == 0
            and item.dtype is not uint8  # a mask, as bools are
            and category(item.dtype) == 1
        ):
            item = item if item._requires_grad else int(item.item())
            used += 1
        elif isinstance(item, Tensor) or _is_sequence(item):
            item = _index_tensor(item, device)
            used += item.ndim if item.dtype in (bool_, uint8) else 1
        elif hasattr(item, "__index__"):
            item = item.__index__()
            used += 1
        else:
            raise IndexError(
                f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables "
                f"are valid indices (got {type(item).__name__})"
            )
        if item is Ellipsis and ellipses > 1:
            continue  # the first one stands for all that is left
        prepared.append(item)
    if used and not shape:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a "
            "number"
        )
    if used > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    fill = len(shape) - used
    basic: list[Any] = []
    advanced: list[tuple[int, Tensor]] = []
    dim = 0  # of self
    out = 0  # of the view
    for item in prepared:
        if item is Ellipsis:
            basic.extend([_SLICE_ALL] * fill)
            dim += fill
            out += fill
        elif item is None:
            basic.append(None)
            out += 1
        elif item is True or item is False:
            basic.append(None)
            advanced.append(
                (out, PUBLIC["tensor"]([0] if item else [], dtype=int64, device=device))
            )
            out += 1
        elif isinstance(item, builtins.slice):
            basic.append(_slices(self, (item,))[0])
            dim += 1
            out += 1
        elif isinstance(item, int):
            size = shape[dim]
            if not -size <= item < size:
                raise IndexError(
                    f"index {item} is out of bounds for dimension {dim} with size {size}"
                )
            basic.append(item % size)
            dim += 1
        elif item.dtype in (bool_, uint8):
            for i, n in enumerate(item._array.shape):
                if n != shape[dim + i]:
                    raise IndexError(
                        f"The shape of the mask {list(item.shape)} at index {i} does not match the "
                        f"shape of the indexed tensor {list(shape)} at index {dim + i}"
                    )
            if item.ndim == 0:
                basic.append(None)
                advanced.append((out, nonzero(item.reshape(1) != 0).reshape(-1)))
                out += 1
                continue
            for i, indices in enumerate(nonzero(item != 0, as_tuple=True)):
                basic.append(_SLICE_ALL)
                advanced.append((out + i, indices))
            dim += item.ndim
            out += item.ndim
        else:
            if category(item.dtype) != 1:
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            basic.append(_SLICE_ALL)
            advanced.append((out, item if item.dtype is int64 else item.to(int64)))
            dim += 1
            out += 1
    while basic and basic[-1] == _SLICE_ALL and isinstance(basic[-1], builtins.slice):
        basic.pop()
    return (*basic, Ellipsis), advanced


def _complete(x: Tensor, advanced: list[tuple[int, Tensor]]) -> tuple[Tensor | None, ...]:
    indices: list[Tensor | None] = [None] * (max(dim for dim, _ in advanced) + 1)
    for dim, index in advanced:
        indices[dim] = index
    try:
        broadcast_shapes(*(index.shape for _, index in advanced))
    except RuntimeError:
        shapes = ", ".join(str(list(index.shape)) for _, index in advanced)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    return tuple(indices)


# x and its index tensors are inputs; None stands for a whole dim.
_index = Operator(
    "index", "x indices", "shape", variadic=True,
    cpu=lambda values, shape: backend("cpu", "indexing").index(values[0], tuple(values[1:])),
    gpu=lambda values, shape: backend("gpu", "indexing").index(values[0], tuple(values[1:])),
    joint=lambda g, x, shape: _index_grad(g, x, shape), node="Index",
)  # fmt: skip
_index.inputs = ("x",)


def _index_grad(g: Tensor, saved: Sequence[Any], shape: tuple[int, ...]) -> tuple[Any, ...]:
    indices = tuple(saved[1:])
    grad = index_put_(g.new_zeros(shape), indices, g, accumulate=True)
    return (grad, *(None,) * len(indices))


def _index_with(x: Tensor, advanced: list[tuple[int, Tensor]]) -> Tensor:
    indices = _complete(x, advanced)
    return _index.call((x, *indices), (tuple(x.shape),))


_index_put = Operator("index_put", "self values indices", "accumulate", variadic=True,
                      joint=lambda g, self, accumulate: _index_put_grad(g, self, accumulate),
                      kind="in_place", node="IndexPut")  # fmt: skip
_index_put.inputs = ("self",)


def _index_put_grad(g: Tensor, saved: Sequence[Any], accumulate: bool) -> tuple[Any, ...]:
    indices = tuple(saved[2:])
    advanced = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    for_values = _index_with(g, advanced)
    for_self = g
    if not accumulate:
        for_self = index_put_(g.clone(), indices, g.new_zeros(()), accumulate=False)
    return (for_self, for_values, *(None,) * len(indices))


def _indices_to_integers(self: Tensor, indices: Sequence[Any]) -> tuple[Tensor | None, ...]:
    out: list[Tensor | None] = []
    for index in indices:
        if index is None:
            out.append(None)
            continue
        index = _index_tensor(index, self.device)
        if index.dtype in (bool_, uint8):
            out.extend(nonzero(index != 0, as_tuple=True))
        elif category(index.dtype) != 1:
            raise IndexError("tensors used as indices must be long, byte or bool tensors")
        else:
            out.append(index if index.dtype is int64 else index.to(int64))
    if len(out) > self.ndim:
        raise IndexError(f"too many indices for tensor of dimension {self.ndim} (got {len(out)})")
    return tuple(out)


def index_put_(
    self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False
) -> Tensor:
    """self[indices] = values (or += values)."""
    integers = _indices_to_integers(self, indices)
    if values.dtype is not self.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{scalar_name(self.dtype)} for the destination and {scalar_name(values.dtype)} for "
            "the source."
        )
    if values.device != self.device:
        values = values.to(self.device)
    advanced = [(dim, index) for dim, index in enumerate(integers) if index is not None]
    if not advanced:
        target = expand(values, self.shape)
        return self.add_(target) if accumulate else self.copy_(target)
    shape = _indexed_shape(self, advanced)
    try:
        spread = expand(values, shape)
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
            f"indexing result of shape {list(shape)}"
        ) from None

    def write() -> None:
        if type(self._array) is BatchedArray:
            from tritorch.ops import careful

            careful.index_put(self, integers, spread, accumulate)
            return
        functions = backend("cpu" if type(self._array) is ndarray else "gpu", "indexing")
        arrays_ = tuple(None if index is None else index._array for index in integers)
        functions.index_put_(self._array, arrays_, spread._array, accumulate)

    return in_place(_index_put, self, (accumulate,), (self, spread, *integers), write)


def _indexed_shape(x: Tensor, advanced: list[tuple[int, Tensor]]) -> tuple[int, ...]:
    """The shape of x[indices], by NumPy's rule for where the indexed dims go."""
    index_shape = broadcast_shapes(*(index.shape for _, index in advanced))
    dims = [dim for dim, _ in advanced]
    shape = tuple(x.shape)
    rest = [n for i, n in enumerate(shape) if i not in dims]
    adjacent = dims == list(builtins.range(dims[0], dims[-1] + 1))
    at = dims[0] if adjacent else 0
    return (*rest[:at], *index_shape, *rest[at:])


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """`self[key] = value`."""
    plain, advanced = _parse(self, key)
    target = self if plain == (Ellipsis,) else basic_index(self, plain)
    if not isinstance(value, Tensor):
        if isinstance(value, (np.ndarray, list, tuple)):
            value = PUBLIC["tensor"](value)
        elif not advanced:
            target.fill_(value)
            return
        else:
            value = target.new_full((), convert_number(value, self.dtype))
    # Leading dims of size 1 may be too many.
    while value.ndim > target.ndim and value.shape[0] == 1 and not advanced:
        value = value.squeeze(0)
    if not advanced:
        if value.ndim and value._array.shape != target._array.shape:
            value = expand(value, target.shape)
        target.copy_(value)
        return
    if value.dtype is not self.dtype or value.device != self.device:
        value = value.to(device=self.device, dtype=self.dtype)
    indices = _complete(target, advanced)
    shape = _indexed_shape(target, advanced)
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value.squeeze(0)
    index_put_(target, indices, value)


tensor_type: Any = Tensor
tensor_type.__getitem__ = getitem
tensor_type.__setitem__ = setitem
Tensor.index_put_ = index_put_  # type: ignore[attr-defined]
PUBLIC["index_put_"] = index_put_


@public()
def index_put(
    input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False
) -> Tensor:
    """A copy of input with values at indices."""
    return index_put_(input.clone(), indices, values, accumulate)


# ---- where ---------------------------------------------------------------------------------------

_nonzero = Operator("nonzero", "x", cpu="indexing.nonzero")


def nonzero(input: Tensor, *, as_tuple: bool = False, out: Any = None) -> Any:
    """The indices of elements that are not 0: a matrix, or a vector for each dim."""
    if input.ndim == 0:
        count = int(input.item() != 0)
        found = PUBLIC["zeros"]((count, 0), dtype=int64, device=input.device)
        if as_tuple:
            return (PUBLIC["zeros"]((count,), dtype=int64, device=input.device),)
    else:
        found = _nonzero.call((input,), ())
    if as_tuple:
        return found.unbind(1)
    if out is not None:
        from tritorch.ops.declare import write_out

        return write_out(found, out)
    return found


PUBLIC["nonzero"] = nonzero
Tensor.nonzero = nonzero  # type: ignore[attr-defined]


@public(out=True)
def argwhere(input: Tensor) -> Tensor:
    """The indices of elements that are not 0, as a matrix."""
    return nonzero(input)


# ---- gather and scatter --------------------------------------------------------------------------


def _check_index(name: str, index: Tensor, *, kinds: tuple[Any, ...] = (int64,)) -> Tensor:
    require_tensor(index, name, "index", 3)
    if index.dtype is int64:
        return index
    from tritorch.core.dtype import int32

    if index.dtype is int32:
        return index.to(int64)
    raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")


def _check_bounds_on_cpu(name: str, index: Tensor, size: int, dim: int) -> None:
    """On the CPU a bad index raises here; on the GPU at the next synchronisation."""
    array = index._array
    if type(array) is ndarray and array.size:
        low, high = array.min(), array.max()
        if low < 0 or high >= size:
            bad = int(low if low < 0 else high)
            raise RuntimeError(f"index {bad} is out of bounds for dimension {dim} with size {size}")


def _at_least_1d(x: Tensor) -> Tensor:
    return x if x.ndim else reshape(x, 1)


def _check_sizes(name: str, x: Tensor, index: Tensor, dim: int, src: Tensor | None = None) -> None:
    if max(x.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as "
            f"{'self' if src is not None or name != 'gather' else 'input'} tensor"
        )
    if src is not None and max(src.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    for i, n in enumerate(index.shape):
        if i != dim and x.ndim and n > x.shape[i]:
            raise RuntimeError(
                f"Size does not match at dimension {i} expected index {list(index.shape)} to be no "
                f"larger than self {list(x.shape)} apart from dimension {dim}"
            )
        if src is not None and src.ndim and n > src.shape[i]:
            raise RuntimeError(
                f"Expected index {list(index.shape)} to be no larger than self {list(x.shape)} "
                f"apart from dimension {dim} and to be no larger size than src {list(src.shape)}"
            )


_gather = Operator(
    "gather",
    "x index",
    "dim shape",
    cpu=lambda x, i, dim, shape: backend("cpu", "indexing").gather(x, dim, i),
    gpu=lambda x, i, dim, shape: backend("gpu", "indexing").gather(x, dim, i),
    grad=(lambda g, index, dim, shape: g.new_zeros(shape).scatter_add(dim, index, g), None),
)


@public(out=True)
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """out[i, j] = input[index[i, j], j] (for dim 0)."""
    dim = wrap_dim(dim, input.ndim)
    require_tensor(index, "gather", "index", 3)
    if index.numel() == 0:
        return reshape(basic_index(reshape(input, -1), (builtins.slice(0, 0),)), index.shape)
    _check_sizes("gather", input, index, dim)
    _check_bounds_on_cpu("gather", index, input.shape[dim] if input.ndim else 1, dim)
    x, i = _at_least_1d(input), _at_least_1d(index)
    return reshape(_gather.call((x, i), (dim, tuple(x.shape))), index.shape)


def _slice_to(src: Tensor, index: Tensor) -> Tensor:
    if src.shape == index.shape:
        return src
    return basic_index(src, (*(builtins.slice(0, n) for n in index.shape), Ellipsis))


_scatter = Operator(
    "scatter",
    "x index src",
    "dim",
    cpu=lambda x, i, s, dim: backend("cpu", "indexing").scatter(x, dim, i, s),
    gpu=lambda x, i, s, dim: backend("gpu", "indexing").scatter(x, dim, i, s),
    grad=(
        lambda g, index, dim: g.scatter(dim, index, 0),
        None,
        lambda g, index, dim: g.gather(dim, index),
    ),
)
_scatter_value = Operator(
    "scatter_value",
    "x index",
    "dim value",
    node="Scatter",
    cpu=lambda x, i, dim, v: backend("cpu", "indexing").scatter_value(x, dim, i, v),
    gpu=lambda x, i, dim, v: backend("gpu", "indexing").scatter_value(x, dim, i, v),
    grad=(lambda g, index, dim: g.scatter(dim, index, 0), None),
)
_scatter_add = Operator(
    "scatter_add",
    "x index src",
    "dim",
    cpu=lambda x, i, s, dim: backend("cpu", "indexing").scatter_add(x, dim, i, s),
    gpu=lambda x, i, s, dim: backend("gpu", "indexing").scatter_add(x, dim, i, s),
    grad=(lambda g: g, None, lambda g, index, dim: g.gather(dim, index)),
)
_scatter_reduce = Operator(
    "scatter_reduce",
    "x index src",
    "dim reduce include_self",
    cpu=lambda x, i, s, dim, r, inc: backend("cpu", "indexing").scatter_reduce(
        x, dim, i, s, r, inc
    ),
    gpu=lambda x, i, s, dim, r, inc: backend("gpu", "indexing").scatter_reduce(
        x, dim, i, s, r, inc
    ),
    joint=lambda g, x, index, src, out, dim, reduce, include_self: _scatter_reduce_grad(
        g, x, index, src, out, dim, reduce, include_self
    ),
)


def _scatter_reduce_grad(
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
    grad_src = PUBLIC["where"](
        single,
        (g.gather(dim, index) * exclusive),
        (g * out).gather(dim, index) / src.masked_fill(src_zero, 1),
    )
    if bool((src_zero & (zeros_at > 1)).any()):
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
    _check_bounds_on_cpu(name, index, x.shape[dim] if x.ndim else 1, dim)
    if src is not None and src.dtype is not x.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    out_src = None if src is None else _slice_to(_at_least_1d(src), _at_least_1d(index))
    return _at_least_1d(x), dim, _at_least_1d(index), out_src


@public(out=True, inplace=True)
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    """A copy of input with src written at index along dim."""
    if src is None:
        src = value
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError("reduce argument must be either add or multiply.")
        if not isinstance(src, Tensor):
            src = input.new_full(index.shape, src)
        how = {"add": "sum", "multiply": "prod"}[reduce]
        prepared = _prepare("scatter", input, dim, index, src)
        if prepared is None:
            return input.clone()
        x, dim, i, s = prepared
        return reshape(_reduce(x, dim, i, s, how, True), input.shape)
    if isinstance(src, Tensor):
        prepared = _prepare("scatter", input, dim, index, src)
        if prepared is None:
            return input.clone()
        x, dim, i, s = prepared
        return reshape(_scatter.call((x, i, s), (dim,)), input.shape)
    prepared = _prepare("scatter", input, dim, index, None)
    if prepared is None:
        return input.clone()
    x, dim, i, _ = prepared
    number = convert_number(src, input.dtype)
    return reshape(_scatter_value.call((x, i), (dim, number)), input.shape)


@public(out=True, inplace=True)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy of input with src added at index along dim."""
    prepared = _prepare("scatter_add", input, dim, index, src)
    if prepared is None:
        return input.clone()
    x, dim, i, s = prepared
    return reshape(_scatter_add.call((x, i, s), (dim,)), input.shape)


@public(out=True, inplace=True)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy of input with src reduced into it at index along dim."""
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    prepared = _prepare("scatter_reduce", input, dim, index, src)
    if prepared is None:
        return input.clone()
    x, dim, i, s = prepared
    return reshape(_reduce(x, dim, i, s, reduce, include_self), input.shape)


# ---- index_* -------------------------------------------------------------------------------------


def _vector_index(name: str, input: Tensor, dim: int, index: Tensor) -> tuple[int, Tensor]:
    require_tensor(index, name, "index", 3)
    dim = wrap_dim(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    from tritorch.core.dtype import int32

    if index.dtype not in (int32, int64):
        raise RuntimeError(f"{name}(): Expected dtype int32 or int64 for index")
    vector = _at_least_1d(index).to(int64)
    array = vector._array
    size = input.shape[dim] if input.ndim else 1
    if type(array) is ndarray and array.size and (array.min() < 0 or array.max() >= size):
        raise IndexError("index out of range in self")
    return dim, vector


_index_select = Operator(
    "index_select",
    "x index",
    "dim shape",
    cpu=lambda x, i, dim, shape: backend("cpu", "indexing").index_select(x, dim, i),
    gpu=lambda x, i, dim, shape: backend("gpu", "indexing").index_select(x, dim, i),
    grad=(lambda g, index, dim, shape: g.new_zeros(shape).index_add(dim, index, g), None),
)


@public(out=True)
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The entries of a dim at indices."""
    dim, vector = _vector_index("index_select", input, dim, index)
    x = _at_least_1d(input)
    out = _index_select.call((x, vector), (dim, tuple(x.shape)))
    return out if input.ndim else reshape(out, ())


_index_add = Operator(
    "index_add",
    "x index source",
    "dim alpha",
    cpu=lambda x, i, s, dim, a: backend("cpu", "indexing").index_add(x, dim, i, s, a),
    gpu=lambda x, i, s, dim, a: backend("gpu", "indexing").index_add(x, dim, i, s, a),
    grad=(lambda g: g, None, lambda g, index, dim, alpha: g.index_select(dim, index) * alpha),
)


def _check_source(name: str, input: Tensor, dim: int, vector: Tensor, source: Tensor) -> None:
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}(): self and source expected to have the same dtype, but got (self) "
            f"{scalar_name(input.dtype)} and (source) {scalar_name(source.dtype)}"
        )
    count = source.shape[dim] if source.ndim else 1
    if vector.numel() != count:
        raise IndexError(
            f"{name}(): Number of indices ({vector.numel()}) should be equal to source.size(dim): "
            f"({count}), for dim: {dim}"
        )
    if source.ndim > 0 and input.ndim > 0:
        mine = [n for i, n in enumerate(input.shape) if i != dim]
        theirs = [n for i, n in enumerate(source.shape) if i != dim]
        if mine != theirs:
            raise RuntimeError(
                f"source tensor shape must match self tensor shape, excluding the specified "
                f"dimension. Got self.shape = {list(input.shape)} source.shape = "
                f"{list(source.shape)}"
            )


@public(out=True, inplace=True)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """A copy of input with alpha * source added at indices of a dim."""
    dim, vector = _vector_index("index_add", input, dim, index)
    _check_source("index_add", input, dim, vector, source)
    x, s = _at_least_1d(input), _at_least_1d(source)
    return reshape(_index_add.call((x, vector, s), (dim, alpha)), input.shape)


_index_copy = Operator(
    "index_copy",
    "x index source",
    "dim",
    cpu=lambda x, i, s, dim: backend("cpu", "indexing").index_copy(x, dim, i, s),
    gpu=lambda x, i, s, dim: backend("gpu", "indexing").index_copy(x, dim, i, s),
    grad=(
        lambda g, index, dim: g.index_fill(dim, index, 0),
        None,
        lambda g, index, dim: g.index_select(dim, index),
    ),
)


@public(out=True, inplace=True)
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
    return reshape(_index_copy.call((x, vector, s), (dim,)), input.shape)


_index_fill = Operator(
    "index_fill",
    "x index value",
    "dim",
    cpu=lambda x, i, v, dim: backend("cpu", "indexing").index_fill(x, dim, i, v.item()),
    gpu=lambda x, i, v, dim: backend("gpu", "indexing").index_fill(x, dim, i, v.numpy().item()),
    grad=(
        lambda g, index, dim: g.index_fill(dim, index, 0),
        None,
        lambda g, index, dim: g.index_select(dim, index.unique()).sum(),
    ),
)


@public(inplace=True)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of input with a number at indices of a dim."""
    dim, vector = _vector_index("index_fill", input, dim, index)
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
    else:
        value = input.new_full((), convert_number(value, input.dtype))
    x = _at_least_1d(input)
    return reshape(_index_fill.call((x, vector, value.to(input.dtype)), (dim,)), input.shape)


# ---- take and masks ------------------------------------------------------------------------------

_take = Operator(
    "take",
    "x index",
    "shape",
    cpu=lambda x, i, shape: backend("cpu", "indexing").take(x, i),
    gpu=lambda x, i, shape: backend("gpu", "indexing").take(x, i),
    grad=(lambda g, index, shape: g.new_zeros(shape).put(index, g, True), None),
)


@public(out=True)
def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements at indices of the flattened input."""
    if index.dtype is not int64:
        raise RuntimeError(
            f"take(): Expected a long tensor for index, but got {scalar_name(index.dtype)}"
        )
    if input.numel() == 0 and index.numel():
        raise IndexError("take(): tried to take from an empty tensor")
    array = index._array
    n = input.numel()
    if type(array) is ndarray and array.size and (array.min() < -n or array.max() >= n):
        raise IndexError(
            f"out of range: tried to access index {int(array.max())} on a tensor of {n} elements."
        )
    return _take.call((input, index), (tuple(input.shape),))


@public(out=True)
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
    positive = PUBLIC["where"](indices < 0, indices + size, indices)
    return gather(expand(input, source), dim, expand(positive, wide))


_put = Operator(
    "put",
    "x index source",
    "accumulate",
    cpu="indexing.put",
    joint=lambda g, index, accumulate: (
        g if accumulate else g.put(index, g.new_zeros(index.shape), False),
        None,
        g.take(index),
    ),
)


@public(inplace=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of input with source at indices of the flattened input."""
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
        raise RuntimeError(
            f"put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel()}, index.numel() = {index.numel()}"
        )
    n = input.numel()
    array = index._array
    if type(array) is ndarray and array.size and (array.min() < -n or array.max() >= n):
        raise IndexError(f"put_(): index out of range for a tensor of {n} elements")
    return _put.call((input, index, source.reshape(index.shape)), (accumulate,))


_masked_select = Operator(
    "masked_select",
    "x mask",
    cpu="indexing.masked_select",
    grad=(lambda g, x, mask: g.new_zeros(x.shape).masked_scatter(mask, g), None),
)


@public(out=True)
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
    "shape",
    cpu=lambda x, m, s, shape: backend("cpu", "indexing").masked_scatter(x, m, s),
    gpu=lambda x, m, s, shape: backend("gpu", "indexing").masked_scatter(x, m, s),
    grad=(
        lambda g, mask: g.masked_fill(mask, 0),
        None,
        lambda g, mask, shape: _masked_scatter_grad(g, mask, shape),
    ),
)


def _masked_scatter_grad(g: Tensor, mask: Tensor, shape: tuple[int, ...]) -> Tensor:
    used = masked_select(g, mask)
    total = 1
    for n in shape:
        total *= n
    padding = g.new_zeros((total - used.numel(),))
    return PUBLIC["cat"]([used, padding]).reshape(shape)


@public(inplace=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of input with source's elements, in order, where the mask holds."""
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
    if type(m._array) is ndarray and int(m._array.sum()) > source.numel():
        raise RuntimeError(
            "masked_scatter: expected self and source to have the same number of elements as the "
            "mask has ones"
        )
    return reshape(_masked_scatter.call((x, m, source), (tuple(source.shape),)), shape)


_ = (_C, arrays, result_type)
