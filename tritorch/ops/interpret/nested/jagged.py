"""Shapes of jagged tensors: views, parts, joining."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritorch.arrays.nested import Jagged
from tritorch.core import published
from tritorch.core.dims import wrap_dim
from tritorch.core.layout import contiguous_format, preserve_format
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.nested.functions import jagged
from tritorch.ops.interpret.nested.record import (
    cannot_run,
    is_jagged,
    is_nested,
    lengths_of,
    like_parts,
    made,
    nested_view,
    part_of,
    parts_of,
    rule,
    structure_of,
    values_of,
)
from tritorch.ops.record.checks import sizes

Plain = Any


def require_dense(name: str, schema: str, x: Tensor) -> Jagged:
    """The structure of a tensor without holes whose ragged dim comes first."""
    structure = structure_of(x)
    argument = schema.partition(":")[0]
    if structure.lengths is not None or structure.ragged != 1:
        raise ValueError(
            f"NestedTensor {name}({schema}): expected {argument} to be a contiguous jagged layout "
            f"NestedTensor"
        )
    return structure


def inner(x: Tensor, dim: int, name: str) -> int:
    """A dim of the values, where neither the batch nor the ragged dim may be meant."""
    wrapped = wrap_dim(dim, x.ndim)
    if wrapped == structure_of(x).ragged:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    if wrapped == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    return wrapped - 1


def raggedness_matches(x: Tensor, size: Sequence[Any]) -> bool:
    """Whether sizes agree up to the ragged dim."""
    upto = structure_of(x).ragged + 1
    own, theirs = tuple(x._array.shape)[:upto], tuple(size)[:upto]
    return len(own) == len(theirs) and all(n == m or m == -1 for n, m in zip(own, theirs))


# ---- shapes --------------------------------------------------------------------------------------


def _inner_shape(x: Tensor, size: Sequence[Any]) -> list[Any]:
    structure, own = structure_of(x), x._array.values.shape
    at = structure.ragged - 1
    return [own[k] if k == at else n for k, n in enumerate(size[1:])]


def _view(x: Tensor, size: Sequence[Any], reshape: bool) -> Tensor:
    structure, own = structure_of(x), tuple(x._array.shape)
    if structure.ragged != 1 and own != tuple(size):
        raise RuntimeError(
            f"view(): does not support ragged_idx != 1 except when inp._size == size. inp._size is "
            f"({own}) and size is ({list(size)})."
        )
    if len(size) < 3 or not raggedness_matches(x, size):
        raise RuntimeError(f"view(): cannot view shape {own} as {list(size)}")
    values, shape = values_of(x), _inner_shape(x, size)
    if reshape and not _viewable(values, shape):
        return made(values.reshape(shape), structure)
    return nested_view(values.view(shape), structure)


def _viewable(values: Tensor, shape: Sequence[int]) -> bool:
    try:
        values.detach().view(shape)
    except RuntimeError:
        return False
    return True


@jagged("view")
def view(plain: Plain, self: Tensor, *size: Any, **named: Any) -> Tensor:
    """The same memory with other dims after the ragged one."""
    if "dtype" in named or (size and type(size[0]).__name__ == "dtype"):
        return made(plain(values_of(self), *size, **named), structure_of(self))
    return _view(self, sizes(size or (named["size"],)), False)


@jagged("reshape")
def reshape(plain: Plain, input: Tensor, *shape: Any, **named: Any) -> Tensor:
    """Other dims after the ragged one."""
    return _view(input, sizes(shape or (named["shape"],)), True)


@jagged("view_as", "reshape_as")
def view_as(plain: Plain, self: Tensor, other: Tensor) -> Tensor:
    """In another tensor's shape."""
    return _view(self, tuple(other._array.shape), plain.__name__ == "reshape_as")


@jagged("flatten")
def flatten(plain: Plain, input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dims beside the ragged one as one."""
    start = inner(input, start_dim, "flatten") + 1
    end = inner(input, end_dim, "flatten") + 1
    if start == end:
        return input
    shape = tuple(input._array.shape)
    size = (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])
    return _view(input, size, True)


@jagged("unflatten")
def unflatten(plain: Plain, input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dim, which is not ragged, as several."""
    at = inner(input, dim, "unflatten")
    structure = structure_of(input)
    ragged = structure.ragged + (len(sizes) - 1) * (at + 1 < structure.ragged)
    return nested_view(values_of(input).unflatten(at, sizes), structure.with_ragged(ragged))


@jagged("expand")
def expand(plain: Plain, self: Tensor, *size: Any, implicit: bool = False) -> Tensor:
    """Dims of one, beside the ragged one, repeated."""
    wanted = sizes(size)
    if not raggedness_matches(self, wanted):
        raise RuntimeError(
            f"expand(): cannot expand shape {tuple(self._array.shape)} -> {list(wanted)}"
        )
    ragged = structure_of(self).ragged
    shape = [-1 if k == ragged else n for k, n in enumerate(wanted)][1:]
    return nested_view(values_of(self).expand(shape), structure_of(self))


@rule("expand")
def expanded(op: Any, x: Tensor, shape: Sequence[Any]) -> Tensor:
    """What functions expand that have looked at shapes themselves."""
    if tuple(x._array.shape) == tuple(shape):
        return x
    if type(structure_of(x)) is not Jagged:
        raise cannot_run("expand", x)
    return expand(None, x, *shape)


@jagged("expand_as")
def expand_as(plain: Plain, self: Tensor, other: Tensor) -> Tensor:
    """In another tensor's shape."""
    if is_nested(self):
        return self.expand(tuple(other._array.shape))
    return made(self.expand_as(values_of(other)), structure_of(other))


@jagged("broadcast_to")
def broadcast_to(plain: Plain, input: Tensor, *size: Any) -> Tensor:
    """input expanded to a shape of as many dims."""
    wanted = sizes(size)
    if len(wanted) > input.ndim:
        raise ValueError(
            "broadcast_to(): broadcasting to a higher-dim shape is currently not supported for "
            "nested tensors with the jagged layout"
        )
    return input.expand(*(1,) * (input.ndim - len(wanted)), *wanted)


@jagged("broadcast_tensors")
def broadcast_tensors(plain: Plain, *tensors: Any) -> tuple[Tensor, ...]:
    """Tensors expanded to one shape, which is nested."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    first = next(t for t in tensors if is_nested(t))
    outs = []
    for t in tensors:
        if not is_nested(t) and t.ndim >= first.ndim:
            raise ValueError(
                "broadcast_tensors(): broadcasting nested tensors with dense tensors of equal or "
                "higher dim is not currently supported"
            )
        wide = published.public.broadcast_shapes(
            *(tuple(values_of(u).shape) if is_nested(u) else tuple(u.shape) for u in tensors)
        )
        own = values_of(t) if is_nested(t) else t
        outs.append(nested_view(own.expand(wide), structure_of(first)))
    return tuple(outs)


@jagged("transpose", "swapaxes", "swapdims")
def transpose(plain: Plain, input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dims swapped, of which one may be the ragged one."""
    structure = structure_of(input)
    a, b = wrap_dim(dim0, input.ndim), wrap_dim(dim1, input.ndim)
    ragged = structure.ragged
    if ragged in (a, b):
        if 0 in (a, b):
            raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
        ragged = b if a == ragged else a
    else:
        inner(input, a, "transpose")
        inner(input, b, "transpose")
    values = values_of(input).transpose(a - 1, b - 1)
    return nested_view(values, structure.with_ragged(ragged))


@jagged("permute")
def permute(plain: Plain, input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """Dims, but for the batch, in another order."""
    given = sizes(dims or (named["dims"],))
    structure = structure_of(input)
    if len(given) != input.ndim:
        raise ValueError(
            f"permute(): number of dimensions in the tensor input ({input.ndim}) does not match "
            f"the length of the desired ordering of dimensions ({len(given)})."
        )
    order = [wrap_dim(dim, input.ndim) for dim in given]
    if len(set(order)) != len(order):
        raise ValueError("permute(): duplicate dims are not allowed.")
    if structure.lengths is not None:
        raise ValueError("permute(): not supported on jagged layout nested tensor with holes")
    if order[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    values = values_of(input).permute([dim - 1 for dim in order[1:]])
    return nested_view(values, structure.with_ragged(order.index(structure.ragged)))


@jagged("squeeze")
def squeeze(plain: Plain, input: Tensor, dim: Any = None) -> Tensor:
    """Without dims of one, which must be named."""
    if dim is None:
        raise RuntimeError(
            "squeeze(): For nested tensors, squeeze without the dim argument is not supported"
        )
    structure = structure_of(input)
    named = [wrap_dim(d, input.ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    at = [inner(input, d, "squeeze") for d in named]
    gone = sum(d < structure.ragged and input._array.shape[d] == 1 for d in named)
    values = values_of(input).squeeze(tuple(at))
    return nested_view(values, structure.with_ragged(structure.ragged - gone))


@jagged("unsqueeze")
def unsqueeze(plain: Plain, input: Tensor, dim: int) -> Tensor:
    """With a new dim of one, after the batch."""
    structure = structure_of(input)
    at = wrap_dim(dim, input.ndim + 1)
    if at == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    ragged = structure.ragged + (at <= structure.ragged)
    return nested_view(values_of(input).unsqueeze(at - 1), structure.with_ragged(ragged))


# ---- parts ---------------------------------------------------------------------------------------


@jagged("unbind")
def unbind(plain: Plain, input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The components."""
    if wrap_dim(dim, input.ndim) != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    return tuple(parts_of(input))


@jagged("select")
def select(plain: Plain, input: Tensor, dim: int, index: int) -> Tensor:
    """A component, or the slice of all at an index of a dim that is not ragged."""
    at = wrap_dim(dim, input.ndim)
    if at == 0:
        return part_of(input, _index(index, structure_of(input).count))
    inside = inner(input, at, "select")
    structure = structure_of(input)
    if structure.lengths is not None:
        raise ValueError(
            "select(): not yet supported on dim != 0 for non-contiguous nested tensor with holes"
        )
    ragged = structure.ragged - (at < structure.ragged)
    return nested_view(values_of(input).select(inside, index), structure.with_ragged(ragged))


def _index(index: Any, count: int) -> int:
    k = int(index)
    if not -count <= k < count:
        raise IndexError(f"index {k} is out of bounds for dimension 0 with size {count}")
    return k % count


@jagged("narrow")
def narrow(plain: Plain, input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """Some of a dim that is not ragged."""
    at = inner(input, dim, "narrow")
    return nested_view(values_of(input).narrow(at, start, length), structure_of(input))


def _parted(input: Tensor, parts: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(nested_view(part, structure_of(input)) for part in parts)


@jagged("split")
def split(plain: Plain, tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> Any:
    """Parts along a dim that is not ragged."""
    whole = hasattr(split_size_or_sections, "__index__")
    at = inner(tensor, dim, "split" if whole else "split_with_sizes")
    return _parted(tensor, values_of(tensor).split(split_size_or_sections, at))


@jagged("split_with_sizes")
def split_with_sizes(plain: Plain, input: Tensor, split_sizes: Any, dim: int = 0) -> Any:
    """Parts of given sizes along a dim that is not ragged."""
    at = inner(input, dim, "split_with_sizes")
    return _parted(input, values_of(input).split_with_sizes(split_sizes, at))


@jagged("chunk")
def chunk(plain: Plain, input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts along a dim that is not ragged, or of the batch."""
    if wrap_dim(dim, input.ndim) != 0:
        at = inner(input, dim, "chunk")
        return _parted(input, values_of(input).chunk(chunks, at))
    structure = structure_of(input)
    lengths = structure.offsets.diff().chunk(chunks)
    parts = values_of(input).split([int(n.sum()) for n in lengths], structure.ragged - 1)
    zero = structure.offsets.new_zeros(1)
    return tuple(
        nested_view(part, Jagged(published.public.cat([zero, n.cumsum(0)]), None, structure.ragged))
        for part, n in zip(parts, lengths)
    )


@jagged("__getitem__")
def get_item(plain: Plain, self: Tensor, key: Any) -> Any:
    """A component, or the same index of all in dims that are not ragged."""
    keys = key if isinstance(key, tuple) else (key,)
    if any(each is Ellipsis for each in keys):
        k = next(i for i, each in enumerate(keys) if each is Ellipsis)
        fill = (slice(None),) * (self.ndim - len(keys) + 1)
        keys = (*keys[:k], *fill, *keys[k + 1 :])
    out: Any = self
    dim = 0
    for i, each in enumerate(keys):
        if isinstance(each, slice):
            if each != slice(None):
                out = _slice(out, dim, each)
            dim += 1
        elif each is None:
            out = out.unsqueeze(dim)
            dim += 1
        elif hasattr(each, "__index__") and not isinstance(each, bool):
            out = out.select(dim, int(each))
            if not is_nested(out):
                rest = keys[i + 1 :]
                return out[rest] if rest else out
        else:
            raise NotImplementedError("NestedTensor: indexing by tensors is not supported")
    return out


def _slice(x: Tensor, dim: int, key: slice) -> Tensor:
    structure = require_dense(
        "slice_tensor", "self: jt, dim: any?, start: any?, end: any?, step: any?", x
    )
    at = inner(x, dim, "slice")
    return nested_view(values_of(x)[(slice(None),) * at + (key,)], structure)


# ---- joining -------------------------------------------------------------------------------------


def _require_same(name: str, tensors: Sequence[Any]) -> Tensor:
    first = next(t for t in tensors if is_nested(t))
    for t in tensors:
        if not is_jagged(t):
            raise RuntimeError(f"{name}(): expected all tensors to be nested")
        if structure_of(t).ragged != structure_of(first).ragged or (
            not raggedness_matches(first, tuple(t._array.shape))
            and lengths_of(structure_of(t)) != lengths_of(structure_of(first))
        ):
            raise RuntimeError(
                f"{name}(): expected all nested tensors to have matching ragged structures"
            )
    return first


@jagged("cat", "concat", "concatenate")
def cat(plain: Plain, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of the same raggedness joined along another dim."""
    first = next(t for t in tensors if is_nested(t))
    at = inner(first, dim, "cat")
    own = [
        t if is_nested(t) else made(t.expand(values_of(first).shape), structure_of(first))
        for t in tensors
    ]
    _require_same("cat", own)
    return made(published.public.cat([values_of(t) for t in own], at), structure_of(first))


@jagged("stack")
def stack(plain: Plain, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dim after the ragged one."""
    first = _require_same("stack", tensors)
    at = wrap_dim(dim, first.ndim + 1)
    structure = structure_of(first)
    if at <= structure.ragged:
        where = "ragged dim" if at == structure.ragged else f"dim={at}"
        raise RuntimeError(f"stack(): not supported for NestedTensor on {where}")
    return made(published.public.stack([values_of(t) for t in tensors], at - 1), structure)


# ---- memory --------------------------------------------------------------------------------------


@jagged("clone")
def clone(plain: Plain, input: Tensor, *, memory_format: Any = preserve_format) -> Tensor:
    """A copy; contiguous_format leaves holes out."""
    structure = structure_of(input)
    if structure.lengths is not None and memory_format is contiguous_format:
        if structure.ragged != 1:
            raise AssertionError("NJT with ragged_idx != 1 not supported for contiguous clone")
        return like_parts(parts_of(input), structure)
    return made(plain(values_of(input), memory_format=memory_format), structure)


@jagged("is_same_size")
def is_same_size(plain: Plain, self: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape, and the same offsets."""
    return tuple(self._array.shape) == tuple(other._array.shape)
