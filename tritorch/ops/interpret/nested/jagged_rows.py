"""Rows of jagged tensors: softmax, norms, products, attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritorch.arrays.nested import Jagged, NestedInt
from tritorch.core import late_bound, published
from tritorch.core.dims import wrap_dim
from tritorch.core.gates import GATES
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.nested.functions import jagged
from tritorch.ops.interpret.nested.jagged import raggedness_matches, require_dense
from tritorch.ops.interpret.nested.padding import jagged_values, longest, padded_rows
from tritorch.ops.interpret.nested.record import (
    is_jagged,
    is_nested,
    like_parts,
    made,
    parts_of,
    structure_of,
    values_of,
)

Plain = Any

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
    rows = padded_rows(values, structure.offsets, longest(structure), -math.inf)
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
    parts = [published.functional.layer_norm(p, p.shape[structure.ragged - 1 :], None, None, eps)
             for p in parts_of(input)]  # fmt: skip
    return like_parts(parts, structure)


@jagged("native_layer_norm")
def native_layer_norm(
    plain: Plain, input: Tensor, normalized_shape: Sequence[Any], weight: Any, bias: Any, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Over dense dims, with the mean and 1 / std of the rows of values."""
    out, mean, rstd = plain(values_of(input), normalized_shape, weight, bias, eps)
    return made(out, structure_of(input)), mean, rstd


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


@jagged("conv1d", "conv2d", "conv3d", "convolution")
def convolution(plain: Plain, input: Tensor, weight: Tensor, *args: Any, **options: Any) -> Tensor:
    """Of images, of which components have several numbers: (B, j, channels, ..)."""
    structure = require_dense("convolution_default", "input: jt, weight: t, bias: t?", input)
    return made(plain(values_of(input), weight, *args, **options), structure)


# ---- products ------------------------------------------------------------------------------------


def _padded(x: Tensor, structure: Jagged) -> Tensor:
    ragged = structure.ragged
    values = values_of(x).transpose(0, ragged - 1)
    rows = padded_rows(values, structure.offsets, longest(structure), 0)
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
            return published.public.stack([plain(a, b) for a, b in pairs])
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
    tensors: Sequence[Any], structure: Jagged, causal: bool, scale: Any, gqa: bool
) -> Tensor:
    heads = tensors[0].ndim == 4
    rows = [values_of(t).transpose(0, 1) if heads else values_of(t).unsqueeze(1) for t in tensors]
    ends = [structure_of(t).offsets for t in tensors[:2]]
    most = longest(structure), longest(structure_of(tensors[1]))
    window = (-1, 0) if causal else (-1, -1)
    out, _ = late_bound.varlen(
        rows[0], rows[1], rows[2], ends[0], ends[1], most, window, scale, gqa
    )
    return made(out.transpose(0, 1) if heads else out.squeeze(1), structure)
