"""Indexing: `x[...]`, `x[...] = v`, nonzero."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from tritorch.arrays.batched import BatchedArray
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.symbolic import as_size
from tritorch.autograd.graph import check_inplace
from tritorch.core import defaults, published
from tritorch.core.dtype import bool_, int64, uint8
from tritorch.core.promotion import category, scalar_name
from tritorch.core.published import PUBLIC, autocast
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor, attach
from tritorch.ops.interpret import vmap
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import broadcast_shapes, convert_number, require_distinct_elements
from tritorch.ops.record.ends import ends_as
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import open_size
from tritorch.ops.record.operator import Operator, ndarray
from tritorch.ops.record.outputs import exact_out, require_separate
from tritorch.ops.record.publishing import public, write_out
from tritorch.ops.record.writing import differentiated, in_place
from tritorch.ops.shape.copying import put
from tritorch.ops.shape.factory import tensor, zeros
from tritorch.ops.shape.memory import alias
from tritorch.ops.shape.parts import basic_index, basic_op, select_op, slice_op
from tritorch.ops.shape.shape import expand

# ---- x[...] --------------------------------------------------------------------------------------

_SLICE_ALL = builtins.slice(None)
_finish_select, _finish_slice = select_op.finish_view, slice_op.finish_view
_finish_basic = basic_op.finish_view


class _Scalars(threading.local):
    """Whether an index that is a 0-d tensor stays one, whose value is not read."""

    stay = False

    def kept(self) -> Scope:
        """Within it, they stay: for functions of numbers that run on many at once."""
        return Scope((self, "stay", True))


scalars = _Scalars()


def getitem(self: Tensor, key: Any) -> Tensor:
    """`self[key]`: a view for ints, slices, None and ...; a copy for tensors and lists."""
    kind = type(key)
    try:
        array = self._a
    except AttributeError:  # a tensor without a plain array
        array = None
    if kind is int:
        shape = () if array is None else array.shape
        if shape:
            n = shape[0]
            if -n <= key < n:
                if type(array) is ndarray:
                    return _finish_select(array[key, Ellipsis], (0, key), self)
                return select_op.call((self,), (0, key % n))
    elif kind is builtins.slice and key.step is None:
        if array is not None and array.ndim:
            params = (0, key.start, key.stop, 1)
            if type(array) is ndarray:
                return _finish_slice(array[key, Ellipsis], params, self)
            if _is_bound(key.start) and _is_bound(key.stop):
                return slice_op.call((self,), params)
    elif key is Ellipsis:
        return alias(self)
    elif kind is tuple:
        plain = _plain_key(key)
        if plain is not None:
            if type(array) is ndarray:
                try:
                    part = array[key if key[-1] is Ellipsis else (*key, Ellipsis)]
                except IndexError:  # worded below
                    pass
                else:
                    return _finish_basic(part, (plain,), self)
            elif type(array) is BatchedArray:
                return basic_op.call((self,), (plain,))
    elif isinstance(key, Tensor) and _masks(self, key):
        mask = getattr(key, "_a", None)
        if type(array) is ndarray is type(mask) and array.shape == mask.shape:
            if not _index.wants(self):
                chosen = backend("cpu", "indexing").masked_select(array, mask)
                return _index.finish(chosen, self)
        return _index_with(*_flattened(self, key))
    elif isinstance(key, Tensor) and key.dtype is int64 and key.ndim and array is not None:
        if array.ndim:
            return _index.call((self, *_beside(self, (key,))))
    plain, advanced = _parse(self, key)
    view = basic_index(self, plain) if plain != (Ellipsis,) or not advanced else self
    if not advanced:
        return alias(self) if view is self else view
    return _index_with(view, advanced)


def _is_bound(value: Any) -> bool:
    return value is None or type(value) is int


def _plain_key(key: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A key of ints, slices forward and None, and maybe an Ellipsis at its end, as plain data; None
    for all others."""
    plain: list[Any] = []
    for item in key:
        kind = type(item)
        if kind is builtins.slice:
            step = item.step
            if step is not None and not (type(step) is int and step > 0):
                return None
            plain.append((item.start, item.stop, step))
        elif kind is int or item is None:
            plain.append(item)
        elif item is not Ellipsis or item is not key[-1]:
            return None
    return tuple(plain) if plain else None


def _advise_bool() -> None:
    defaults.warn(
        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
        stacklevel=4,
    )


def _masks(self: Tensor, mask: Tensor) -> bool:
    """Whether a key masks several dims, or one, of a tensor."""
    if mask.dtype is not bool_ or not mask.ndim or type(mask._array) is BatchedArray:
        return False
    return tuple(mask.shape) == tuple(self.shape)[: mask.ndim]


def _flattened(self: Tensor, mask: Tensor) -> tuple[Tensor, list[tuple[int, Tensor]]]:
    """A mask of several dims as one index of one dim: no index for each of them."""
    rest = tuple(self.shape)[mask.ndim :]
    flat = self.reshape(mask.numel(), *rest) if mask.ndim > 1 else self
    return flat, [(0, nonzero(mask.reshape(-1)).reshape(-1))]


def _bound(value: Any) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return as_size(value)


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


def _is_sequence(item: Any) -> bool:
    return isinstance(item, (list, tuple, np.ndarray, builtins.range))


def _index_tensor(item: Any, device: Any) -> Tensor:
    if isinstance(item, Tensor):
        return item
    if isinstance(item, np.ndarray):
        found = published.public.from_numpy(np.ascontiguousarray(item).reshape(item.shape))
    else:
        found = tensor(list(item))
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
        defaults.warn(
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
            if not (item._requires_grad or scalars.stay or type(item._array) is BatchedArray):
                item = int(item.item())
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
            advanced.append((out, tensor([0] if item else [], dtype=int64, device=device)))
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
            if item.dtype is uint8:
                _advise_bool()
            if type(item._array) is BatchedArray:
                raise RuntimeError(
                    "vmap: We do not support batching operators that can support dynamic shape. "
                    "Attempting to batch over indexing with a boolean mask."
                )
            _check_mask(item, shape, dim)
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
def _index_result(values: Sequence[Any]) -> MetaArray:
    x, indices = values[0], values[1:]
    given = [i for i, index in enumerate(indices) if index is not None]
    common = broadcast_shapes(*(indices[i].shape for i in given))
    rest = [n for i, n in enumerate(x.shape) if i >= len(indices) or indices[i] is None]
    at = given[0] if given[-1] - given[0] + 1 == len(given) else 0
    return x.new((*rest[:at], *common, *rest[at:]))


_index = Operator(
    "index", "x *indices",
    schema="index.Tensor(x, indices)",
    cpu=lambda values: backend("cpu", "indexing").index(values[0], tuple(values[1:])),
    gpu=lambda values: backend("gpu", "indexing").index(values[0], tuple(values[1:])),
    grad=Gradient(joint=lambda g, x_shape, indices: _index_grad(g, indices, x_shape), node="Index"),
    layout="indexed", rules=Rules(infer=_index_result, batch="index", picks=True),
)  # fmt: skip


def _index_grad(g: Tensor, indices: Sequence[Any], shape: tuple[int, ...]) -> tuple[Any, ...]:
    grad = index_put_(g.new_zeros(shape), indices, g, accumulate=True)
    return (grad, *(None,) * len(indices))


def _index_with(x: Tensor, advanced: list[tuple[int, Tensor]]) -> Tensor:
    indices = _complete(x, advanced)
    return _index.call((x, *_beside(x, indices)))


def _beside(x: Tensor, indices: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """Indices on the device of what they index; those of the CPU may index any device's tensors."""
    where = x.device
    if not [1 for index in indices if index is not None and index.device != where]:
        return indices
    for index in indices:
        if index is not None and index.device != where and index.device.type != "cpu":
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor "
                f"({where})"
            )
    return tuple(None if index is None else index.to(where) for index in indices)


_index_put = Operator(
    "index_put",
    "self values *indices",
    "accumulate",
    schema="index_put_(self, indices, values, accumulate)",
    kind="in_place",
    grad=Gradient(
        joint=lambda g, indices, accumulate: _index_put_grad(g, indices, accumulate),
        node="IndexPut",
    ),
)


def _index_put_grad(g: Tensor, indices: Sequence[Any], accumulate: bool) -> tuple[Any, ...]:
    advanced = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    for_values = _index_with(g, advanced)
    for_self = g
    if not accumulate:
        for_self = index_put_(g.clone(), indices, g.new_zeros(()), accumulate=False)
    return (for_self, for_values, *(None,) * len(indices))


def _check_mask(mask: Tensor, shape: Sequence[int], dim: int) -> None:
    """Whether a mask has the sizes of the dims that it stands for, which begin at `dim`."""
    for i, n in enumerate(mask._array.shape):
        if n != shape[dim + i]:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {i} does not match the "
                f"shape of the indexed tensor {list(shape)} at index {dim + i}"
            )


def _indices_to_integers(self: Tensor, indices: Sequence[Any]) -> tuple[Tensor | None, ...]:
    out: list[Tensor | None] = []
    for index in indices:
        if index is None:
            out.append(None)
            continue
        index = _index_tensor(index, self.device)
        if index.dtype in (bool_, uint8):
            if index.dtype is uint8:
                _advise_bool()
            if len(out) + index.ndim <= self.ndim:
                _check_mask(index, self.shape, len(out))
            out.extend(nonzero(index != 0, as_tuple=True))
        elif category(index.dtype) != 1:
            raise IndexError("tensors used as indices must be long, byte or bool tensors")
        else:
            out.append(index if index.dtype is int64 else index.to(int64))
    if len(out) > self.ndim:
        raise IndexError(f"too many indices for tensor of dimension {self.ndim} (got {len(out)})")
    return _beside(self, tuple(out))


def index_put_(
    self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False
) -> Tensor:
    """self[indices] = values (or += values)."""
    if self._is_described and any(index is not None and index.dtype is bool_ for index in indices):
        indices = _beside(self, tuple(indices))
        return in_place(_index_put, self, (accumulate,), (self, values, *indices), lambda: None)
    integers = _indices_to_integers(self, indices)
    advanced = [(dim, index) for dim, index in enumerate(integers) if index is not None]
    if all(index.numel() for _, index in advanced) and any(not self.shape[d] for d, _ in advanced):
        raise IndexError("index is out of bounds for dimension with size 0")
    if values.dtype is not self.dtype and values.numel() == 1 and not accumulate:
        if _is_one_mask(tuple(each for each in indices if each is not None)):
            values = values.to(self.dtype)
    if values.dtype is not self.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{scalar_name(self.dtype)} for the destination and {scalar_name(values.dtype)} for "
            "the source."
        )
    if values.device != self.device:
        values = values.to(self.device)
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

    if any(n > 1 and step == 0 for n, step in zip(self.shape, self.stride())):
        defaults.warn(
            "Use of index_put_ on expanded tensors is deprecated. Please clone() the tensor before "
            "performing this operation. This also applies to advanced indexing e.g. "
            "tensor[indices] = tensor",
            stacklevel=2,
        )
    require_separate(self, (values, *indices), wholly=True)

    def write() -> None:
        if type(self._array) is BatchedArray:
            vmap.index_put(self, integers, spread, accumulate)
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


def _written_plainly(target: Tensor, value: Any) -> bool:
    """Writes a number or a tensor of the same shape; False, and nothing is done, for others."""
    if isinstance(value, Tensor):
        return value._array.shape == target._array.shape and put(target, value)
    return type(value) in (int, float) and put(target, value)


def _is_one_mask(key: Any) -> bool:
    """True if one mask is all that indexes with values."""
    advanced = [each for each in (key if type(key) is tuple else (key,))
                if isinstance(each, (Tensor, list, np.ndarray))]  # fmt: skip
    if len(advanced) != 1:
        return False
    (mask,) = advanced
    return (
        type(mask[0]) is bool
        if isinstance(mask, list) and mask
        else (getattr(mask, "dtype", None) in (bool_, uint8, np.bool_))
    )


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """`self[key] = value`."""
    if type(value) in (float, int) and isinstance(key, Tensor) and _masks(self, key):
        if key.ndim == self.ndim and category(self.dtype) >= 2 and key.device == self.device:
            self.masked_fill_(key, value)
            if self._base is None:
                ends_as("index_put", self)  # as PyTorch writes it
            return
    kind = type(key)
    if kind is int or (kind is builtins.slice and not (key.start is key.stop is None)):
        array = getattr(self, "_a", None)
        if type(array) is ndarray and array.ndim and not differentiated(self, value):
            if _written_plainly(getitem(self, key), value):
                return
    frozen = self._frozen  # an inference tensor is refused after the key, as in PyTorch
    if not frozen:
        check_inplace(self)
    plain, advanced = _parse(self, key)
    if frozen:
        check_inplace(self)
    target = self if plain == (Ellipsis,) else basic_index(self, plain)
    if not isinstance(value, Tensor):
        if isinstance(value, (np.ndarray, list, tuple)):
            value = tensor(value).to(self.dtype)
        elif not advanced:
            require_distinct_elements(target)
            target.fill_(value)
            return
        else:
            value = target.new_full((), convert_number(value, self.dtype))
    # Leading dims of size 1 may be too many.
    while value.ndim > target.ndim and value.shape[0] == 1 and not advanced:
        value = value.squeeze(0)
    if not advanced:
        if value._array.shape != target._array.shape:
            value = expand(value, target.shape)
        target.copy_(value)
        return
    if value.dtype is not self.dtype and value.numel() == 1 and _is_one_mask(key):
        value = value.to(self.dtype)  # as a masked fill
    if value.device != self.device:
        value = value.to(self.device)
    indices = _complete(target, advanced)
    shape = _indexed_shape(target, advanced)
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value.squeeze(0)
    index_put_(target, indices, value)


tensor_type: Any = Tensor
tensor_type.__getitem__ = getitem
tensor_type.__setitem__ = setitem
attach(index_put_=index_put_)
PUBLIC["index_put_"] = index_put_


@public()
@autocast("cuda:widest")
def index_put(
    input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False
) -> Tensor:
    """A copy of input with values at indices."""
    return index_put_(input.clone(), indices, values, accumulate)


# ---- where ---------------------------------------------------------------------------------------


def _places(x: MetaArray) -> MetaArray:
    return x.new((open_size(x), x.ndim), int64)


_nonzero = Operator("nonzero", "x", cpu="indexing.nonzero", rules=Rules(infer=_places))


@overload
def nonzero(
    input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
@exact_out("nonzero: Expected out tensor to have scalar type {Result} but got scalar type{Out}")
def nonzero(input: Tensor, *, as_tuple: bool = False, out: Any = None) -> Any:
    """The indices of elements that are not 0: a matrix, or a vector for each dim."""
    if not isinstance(as_tuple, bool):
        raise TypeError(
            f"nonzero(): argument 'as_tuple' must be bool, not {type(as_tuple).__name__}"
        )
    if as_tuple and out is not None:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    if as_tuple:
        return _nonzero.call((input if input.ndim else input.reshape(1),), ()).unbind(1)
    if input.ndim == 0 and input.is_cuda:
        found = zeros((int(input.item() != 0), 0), dtype=int64, device=input.device)
    else:
        found = _nonzero.call((input,), ())
    if out is not None:
        return write_out(found, out, "nonzero")
    return found


PUBLIC["nonzero"] = nonzero
attach(nonzero=nonzero)


@public(out=True)
def argwhere(input: Tensor) -> Tensor:
    """The indices of elements that are not 0, as a matrix."""
    return nonzero(input)
