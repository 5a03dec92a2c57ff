"""Functions on jagged tensors that look at shapes: views, parts, products, norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.core.dims import wrap_dim
from tritorch.core.gates import GATES
from tritorch.core.layout import contiguous_format, preserve_format
from tritorch.core.nested import Jagged, NestedInt
from tritorch.core.published import FUNCTIONAL, PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.checks import sizes
from tritorch.ops.interpret.nested.functions import jagged
from tritorch.ops.interpret.nested.padding import jagged_values, longest, padded_rows
from tritorch.ops.interpret.nested.record import (
    is_jagged,
    is_nested,
    lengths_of,
    like_parts,
    made,
    nested_view,
    parts_of,
    structure_of,
    values_of,
)

Plain = Callable[..., Any]


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
            f"({own}) and size is ({tuple(size)})."
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
        wide = PUBLIC["broadcast_shapes"](
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
        parts = parts_of(input)
        return parts[_index(index, len(parts))]
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
    return k


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
        nested_view(part, Jagged(PUBLIC["cat"]([zero, n.cumsum(0)]), None, structure.ragged))
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
    return made(PUBLIC["cat"]([values_of(t) for t in own], at), structure_of(first))


@jagged("stack")
def stack(plain: Plain, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dim after the ragged one."""
    first = _require_same("stack", tensors)
    at = wrap_dim(dim, first.ndim + 1)
    structure = structure_of(first)
    if at <= structure.ragged:
        where = "ragged dim" if at == structure.ragged else f"dim={at}"
        raise RuntimeError(f"stack(): not supported for NestedTensor on {where}")
    return made(PUBLIC["stack"]([values_of(t) for t in tensors], at - 1), structure)


# ---- rows ----------------------------------------------------------------------------------------


def _require_softmax_dim(name: str, x: Tensor, dim: int) -> int:
    structure = structure_of(x)
    if isinstance(dim, tuple):
        raise RuntimeError(
            f"{name}(): not supported for dimensions of type 'tuple' for NestedTensor"
        )
    at = wrap_dim(dim, x.ndim)
    if at == 0:
        raise RuntimeError(
            f"{name}(): not supported when reducing across the batch dimension for NestedTensor"
        )
    if at == structure.ragged:
        if name == "log_softmax":
            raise RuntimeError(
                "log_softmax(): not supported when reducing along the ragged dimension for "
                "NestedTensor"
            )
        if structure.ragged > 1:
            raise RuntimeError(
                "softmax(): not supported when reducing along the ragged dimension for ragged_idx "
                "> 1 for NestedTensor"
            )
        if structure.lengths is not None:
            raise RuntimeError(
                "softmax(): not supported where lengths is not None if reducing across the ragged "
                "dimension for NestedTensor"
            )
    return at


@jagged("softmax", "log_softmax")
def softmax(plain: Plain, input: Tensor, dim: Any = None, *args: Any, **rest: Any) -> Tensor:
    """Along a dense dim, or (softmax) along the ragged one."""
    name = plain.__name__
    at = _require_softmax_dim(name, input, dim)
    structure = structure_of(input)
    values = values_of(input)
    if at != structure.ragged:
        return made(plain(values, at - 1, *args, **rest), structure)
    rows = padded_rows(values, structure.offsets, longest(input, structure), -math.inf)
    out = plain(rows, 1, *args, **rest)
    return made(jagged_values(out, structure.offsets, 1, values.shape[0]), structure)


@jagged("layer_norm")
def layer_norm(
    plain: Plain, input: Tensor, normalized_shape: Sequence[Any], weight: Any = None,
    bias: Any = None, eps: float = 1e-5, *rest: Any,
) -> Tensor:  # fmt: skip
    """Over dense dims, or over the ragged one and all after it."""
    structure, shape = structure_of(input), tuple(input._array.shape)
    if input.ndim <= 2:
        raise RuntimeError(
            "layer_norm(): not supported for NestedTensor objects with 2 or fewer dimensions"
        )
    if len(normalized_shape) == input.ndim:
        raise RuntimeError(
            "layer_norm(): not supported when normalizing over the batch dimension for NestedTensor"
        )
    over_ragged = any(isinstance(n, NestedInt) for n in normalized_shape)
    if not over_ragged:
        values = values_of(input)
        return made(plain(values, normalized_shape, weight, bias, eps), structure)
    if structure.lengths is not None:
        raise RuntimeError(
            "layer_norm(): not supported where lengths is not None if operating on the ragged "
            "dimension for NestedTensor"
        )
    if shape[input.ndim - len(normalized_shape) :] != tuple(normalized_shape):
        raise RuntimeError(
            f"Given normalized_shape={list(normalized_shape)}, expected input with shape [*, "
            f"{', '.join(map(str, normalized_shape))}], but got input of size{list(shape)}"
        )
    parts = [FUNCTIONAL["layer_norm"](p, p.shape[structure.ragged - 1 :], None, None, eps)
             for p in parts_of(input)]  # fmt: skip
    return like_parts(parts, structure)


@jagged("rms_norm")
def rms_norm(
    plain: Plain, input: Tensor, normalized_shape: Sequence[Any], *args: Any, **kwargs: Any
) -> Tensor:
    """Over dense dims."""
    structure = structure_of(input)
    if len(normalized_shape) > input.ndim - structure.ragged - 1:
        raise ValueError(
            "rms_norm(): Normalization over the ragged dim not supported for nested tensors"
        )
    return made(plain(values_of(input), normalized_shape, *args, **kwargs), structure)


@jagged("linear")
def linear(plain: Plain, input: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    """x W^T + b of the rows of all components."""
    if is_nested(weight) or is_nested(bias):
        raise ValueError("NestedTensor linear_default(input: jt, weight: t, bias: t?): expected "
                         "weight to be a tensor")  # fmt: skip
    structure = require_dense("linear_default", "input: jt, weight: t, bias: t?", input)
    return made(plain(values_of(input), weight, bias), structure)


# ---- products ------------------------------------------------------------------------------------


def _padded(x: Tensor, structure: Jagged) -> Tensor:
    ragged = structure.ragged
    values = values_of(x).transpose(0, ragged - 1)
    rows = padded_rows(values, structure.offsets, longest(x, structure), 0)
    return rows.transpose(1, ragged)


@jagged("matmul", "__matmul__")
def matmul(plain: Plain, input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Products with dense matrices, and of tensors of the same raggedness."""
    if not is_nested(other):
        structure = structure_of(input)
        if input.ndim >= 3 and input.ndim == other.ndim and structure.ragged < input.ndim - 1:
            dense = plain(_padded(input, structure), other)
            return _unpadded(dense, input, structure)
        if other.ndim == 2 < input.ndim and structure.ragged < input.ndim - 1:
            return made(plain(values_of(input), other), structure)
    elif not is_nested(input):
        structure = structure_of(other)
        if other.ndim >= 3 and input.ndim == other.ndim and structure.ragged >= 2:
            dense = plain(input, _padded(other, structure))
            return _unpadded(dense, other, structure)
        if input.ndim == 2 < other.ndim and structure.ragged >= 2:
            return made(plain(input, values_of(other)), structure)
    elif input.ndim > 3 and other.ndim > 3 and raggedness_matches(input, other._array.shape):
        return made(plain(values_of(input), values_of(other)), structure_of(input))
    elif input.ndim == other.ndim == 3 and structure_of(input).ragged == 2:
        same = input._array.shape[2] == other._array.shape[structure_of(other).ragged]
        if structure_of(other).ragged == 1 and same:
            pairs = zip(parts_of(input), parts_of(other))
            return PUBLIC["stack"]([plain(a, b) for a, b in pairs])
    shapes = [tuple(t._array.shape) for t in (input, other)]
    raise RuntimeError(
        f"matmul(): not supported between inputs of shapes {shapes[0]} and {other.shape}"
    )


def _unpadded(dense: Tensor, like: Tensor, structure: Jagged) -> Tensor:
    total = like._array.values.shape[structure.ragged - 1]
    values = jagged_values(dense, structure.offsets, structure.ragged, total)
    return made(values, structure)


@jagged("__rmatmul__")
def rmatmul(plain: Plain, self: Tensor, other: Tensor) -> Tensor:
    """other @ self."""
    return matmul(GATES["tritorch"]["matmul"], other, self)


@jagged("bmm")
def bmm(plain: Plain, input: Tensor, mat2: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The product of batches of matrices."""
    if input.ndim != 3:
        raise ValueError("bmm(): input must be 3D")
    if mat2.ndim != 3:
        raise ValueError("bmm(): mat2 must be 3D")
    return matmul(GATES["tritorch"]["matmul"], input, mat2)


@jagged("scaled_dot_product_attention")
def attention(
    plain: Plain, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: Any = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Attention of each component, whose ragged dim is that of the tokens or one before it."""
    _require_attention(query, key, value, attn_mask)
    structure = structure_of(query)
    rest = (dropout_p, is_causal, scale, enable_gqa)
    if min(t.ndim for t in (query, key, value)) > 3 and structure.ragged == 1:
        out = plain(values_of(query), values_of(key), values_of(value), None, *rest)
        return made(out, structure)
    tensors = (query, key, value)
    if not dropout_p and _has_one_kernel(tensors, enable_gqa):
        return _in_one(tensors, structure, is_causal, scale, enable_gqa)
    parts = [plain(q, k, v, None, *rest) for q, k, v in zip(*map(parts_of, tensors))]
    return like_parts(parts, structure)


def _require_attention(query: Any, key: Any, value: Any, mask: Any) -> None:
    tensors = {"query": query, "key": key, "value": value}
    start = "Expected query, key, and value to "
    if not all(is_jagged(t) for t in tensors.values()):
        asked = [f"{name}.is_nested: {t.is_nested}" for name, t in tensors.items()]
        raise ValueError(f"{start}be nested tensors, but got {asked[0]}, {asked[1]}, and "
                         f"{asked[2]} instead.")  # fmt: skip
    for attribute, words in (("dtype", "dtype"), ("device", "device type")):
        found = [f"{name}.{attribute}: {getattr(t, attribute)}" for name, t in tensors.items()]
        if len({getattr(t, attribute) for t in tensors.values()}) > 1:
            raise ValueError(f"{start}have the same {words}, but got {found[0]}, {found[1]}, and "
                             f"{found[2]} instead.")  # fmt: skip
    dims = [t.ndim for t in tensors.values()]
    if min(dims) < 3:
        raise ValueError(
            f"{start}all be at least 3 dimensional, but got query.dim: {dims[0]}, key.dim: "
            f"{dims[1]} and value.dim: {dims[2]} instead."
        )
    at = [structure_of(t).ragged for t in tensors.values()]
    if len(set(at)) > 1:
        raise ValueError(
            f"{start}all be ragged on the same dimension, but got ragged dims {at[0]}, {at[1]}, "
            f"and {at[2]}, respectively."
        )
    if mask is not None:
        raise ValueError("Masks are not yet supported!")


def _has_one_kernel(tensors: Sequence[Tensor], gqa: bool) -> bool:
    """Whether attention of sequences that lie one after the other computes it: for floats without
    holes, with as many heads, keys and values of one size."""
    q, k, v = tensors
    structures = [structure_of(t) for t in tensors]
    shapes = [t._array.shape for t in tensors]
    return (
        q.ndim == k.ndim == v.ndim <= 4
        and all(s.lengths is None and s.ragged == q.ndim - 2 for s in structures)
        and shapes[0][-1] == shapes[1][-1] == shapes[2][-1]
        and shapes[1][q.ndim - 2] == shapes[2][q.ndim - 2]
        and (q.ndim == 3 or shapes[1][1] == shapes[2][1])
        and (q.ndim == 3 or gqa or shapes[0][1] == shapes[1][1])
        and q.dtype.is_floating_point
        and min(t.numel() for t in tensors) > 0
    )


def _in_one(
    tensors: Sequence[Tensor], structure: Jagged, causal: bool, scale: Any, gqa: bool
) -> Tensor:
    from tritorch.ops.varlen import varlen

    heads = tensors[0].ndim == 4
    rows = [values_of(t).transpose(0, 1) if heads else values_of(t).unsqueeze(1) for t in tensors]
    ends = [structure_of(t).offsets for t in tensors[:2]]
    longest_ = tuple(t._get_max_seqlen() for t in tensors[:2])  # type: ignore[attr-defined]
    window = (-1, 0) if causal else (-1, -1)
    out, _ = varlen(*rows, *ends, longest_, window, scale, gqa)  # type: ignore[misc, arg-type]
    return made(out.transpose(0, 1) if heads else out.squeeze(1), structure)


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
