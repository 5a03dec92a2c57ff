"""Rows of strided nested tensors: softmax, norms, products, attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch.arrays.nested import Ragged
from tritorch.core.dims import wrap_dim
from tritorch.core.gates import GATES
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.nested.functions import strided
from tritorch.ops.interpret.nested.record import (
    is_nested,
    made,
    of_parts,
    parts_of,
    structure_of,
    values_of,
)
from tritorch.ops.interpret.nested.strided import require_contiguous

Plain = Any


def _dense(x: Tensor, structure: Ragged) -> Tensor:
    """The elements of components that lie dense, flat."""
    values = values_of(x)
    return values if values.shape[0] == structure.numel() else values[: structure.numel()]


def _each(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A nested tensor of what a function makes of each component."""
    if not structure_of(x).count:
        return x.clone()
    return of_parts([function(part) for part in parts_of(x)])


# ---- rows ----------------------------------------------------------------------------------------


@strided("softmax", "log_softmax")
def softmax(plain: Plain, input: Tensor, dim: Any = None, *args: Any, **rest: Any) -> Tensor:
    """Along a dim of the components."""
    if not structure_of(input).count:
        return input.clone()
    at = wrap_dim(dim, input.ndim)
    if at == 0:
        raise RuntimeError("Cannot apply softmax across nested dimension 0")
    return _each(lambda part: plain(part, at - 1, *args, **rest), input)


@strided("layer_norm")
def layer_norm(
    plain: Plain, input: Tensor, normalized_shape: Sequence[int], weight: Any = None,
    bias: Any = None, eps: float = 1e-5, *rest: Any,
) -> Tensor:  # fmt: skip
    """Over the last dims, in which components do not differ."""
    wanted = tuple(normalized_shape)
    structure = require_contiguous(
        input, "input must be contiguous to be normalised; see Tensor.contiguous()"
    )
    shape = tuple(input._array.shape)[1:]
    n = len(shape) - len(wanted)
    if n < 0 or any(type(size) is not int for size in shape[n:]):
        raise RuntimeError(
            "normalized_shape extends into irregular dimensions for the nested tensor"
        )
    for k, (own, size) in enumerate(zip(shape[n:], wanted)):
        if own != size:
            raise RuntimeError(
                f"The shape at dimension {k} of normalized_shape ({size}) doesn't match the input "
                f"({own})"
            )
    rows = _dense(input, structure).view(-1, *wanted)
    return made(plain(rows, wanted, weight, bias, eps).view(-1), structure)


@strided("linear")
def linear(plain: Plain, input: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    """x W^T + b of the rows of all components."""
    if is_nested(weight):
        raise RuntimeError("Linear does not support nested weight when input is a nested tensor.")
    structure = require_contiguous(input, "for now linear only supports contiguous nested tensor")
    if input.ndim != 3 or weight.ndim != 2:
        raise RuntimeError(
            f"Linear requires nested_tensor.dim == 3 and dense_matrix.dim == 2. Nested tensor dim: "
            f"{input.ndim}. Dense tensor dim: {weight.ndim}"
        )
    last = {size[-1] for size in structure.sizes}
    if len(last) != 1:
        raise RuntimeError(
            "Expected all tensors in nested tensor to have the same trailing dimension, instead "
            f"last dimension equals: {sorted(last)}"
        )
    (k,) = last
    if k != weight.shape[1]:
        raise RuntimeError(
            f"Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) "
            f"'last_dim' to equal 'weight.size(1), but got: last_dim = {k}, and weight.size(1) = "
            f"{weight.shape[1]}"
        )
    out = plain(_dense(input, structure).view(-1, k), weight, bias)
    sizes_ = [(*size[:-1], weight.shape[0]) for size in structure.sizes]
    return made(out.reshape(-1), Ragged(sizes_))


# ---- products ------------------------------------------------------------------------------------


def _components(t: Tensor) -> list[Tensor]:
    return parts_of(t) if is_nested(t) else list(t.unbind(0))


def _batches(name: str, a: Tensor, b: Tensor, words: str) -> tuple[list[Tensor], list[Tensor]]:
    left, right = _components(a), _components(b)
    if len(left) != len(right):
        raise RuntimeError(
            f"{name}Expected size for the 1st dimension of {words} tensor to be: {len(left)} but "
            f"got: {len(right)}."
        )
    return left, right


@strided("bmm")
def bmm(plain: Plain, input: Tensor, mat2: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The product of batches of matrices."""
    for k, t in enumerate((input, mat2), start=1):
        if t.ndim != 3:
            raise RuntimeError(f"batch{k} must be a 3D tensor")
    left, right = _batches("", input, mat2, "batch2")
    for k, (a, b) in enumerate(zip(left, right)):
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(
                f"{k}-th nested matrices in batch cannot be multiplied "
                f"({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
            )
    mm = GATES["tritorch"]["mm"]  # which autocast sees
    return of_parts([mm(a, b) for a, b in zip(left, right)])


@strided("matmul", "__matmul__")
def matmul(plain: Plain, input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The products of components, whose leading dims are the same."""
    if not (is_nested(input) and is_nested(other)):
        if is_nested(input) and other.ndim == 2 < input.ndim:
            return _each(lambda part: plain(part, other), input)
        if input.ndim != 3 or other.ndim != 3:
            words = ["nested" if is_nested(t) else "non-nested" for t in (input, other)]
            raise RuntimeError(
                f"Expected both to be nested, but got a {words[0]} self and {words[1]} other"
            )
        return bmm(plain, input, other)
    for place, t in (("1st", input), ("2nd", other)):
        if t.ndim < 3:
            raise RuntimeError(
                f"matmul: For nested tensors, only inputs with >= 3 dims are currently supported. "
                f"{place} input has rank: {t.ndim}"
            )
    if input.ndim != other.ndim:
        raise RuntimeError("matmul: both inputs must have the same rank")
    left, right = _batches("matmul: ", input, other, "2nd input")
    for a, b in zip(left, right):
        if a.shape[:-2] != b.shape[:-2]:
            raise RuntimeError(
                f"matmul: For nested tensors, batch dimensions must have the same sizes, got "
                f"{list(a.shape[:-2])} and {list(b.shape[:-2])}"
            )
        if a.shape[-1] != b.shape[-2]:
            raise RuntimeError(
                f"matmul: Nested tensors cannot be matrix multiplied ({a.shape[-2]}x{a.shape[-1]}"
                f" and {b.shape[-2]}x{b.shape[-1]})"
            )
    return of_parts([plain(a, b) for a, b in zip(left, right)])


@strided("__rmatmul__")
def rmatmul(plain: Plain, self: Tensor, other: Tensor) -> Tensor:
    """other @ self."""
    return matmul(GATES["tritorch"]["matmul"], other, self)


@strided("scaled_dot_product_attention")
def attention(
    plain: Plain, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: Any = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Attention of each component."""
    if attn_mask is not None:
        raise RuntimeError(
            "_scaled_dot_product_attention_math: Nested tensors for query / key are not supported "
            "when an explicit attn_mask is set"
        )
    if is_causal:
        raise RuntimeError(
            "_scaled_dot_product_attention_math: Nested tensors for query / key are not supported "
            "when is_causal=True"
        )
    results = [
        plain(q, k, v, None, dropout_p, False, scale, enable_gqa)
        for q, k, v in zip(*map(_components, (query, key, value)))
    ]
    return of_parts(results)
