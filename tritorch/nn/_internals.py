"""Small functions of torch.nn.functional that packages call: checks, masks, projections."""

from __future__ import annotations

import functools
import inspect
import math
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritorch.arrays.symbolic import SymInt
from tritorch.core import published
from tritorch.core.dtype import bool_, dtype as DType
from tritorch.core.tensor import Tensor
from tritorch.ops.index.embedding import embedding_renorm_
from tritorch.ops.linalg.linear import linear
from tritorch.ops.nn.folding import (
    _check_unpool_output_size as _check_unpool_output_size,
    _unpool_output_size as _unpool_output_size,
)
from tritorch.ops.nn.multihead import _mha_shape_check as _mha_shape_check
from tritorch.ops.pointwise.activation import _get_softmax_dim as _get_softmax_dim


def _verify_batch_size(size: Sequence[int]) -> None:
    """Refuses channels of one value, which training cannot normalise."""
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}"
        )


def _verify_spatial_size(size: Sequence[int]) -> None:
    """Refuses samples of one value a channel."""
    if math.prod(size[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {size}"
        )


def _none_or_dtype(input: Tensor | None) -> DType | None:
    """The dtype of a tensor that may be left out."""
    if input is None:
        return None
    if isinstance(input, Tensor):
        return input.dtype
    raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")


def _canonical_mask(
    mask: Tensor | None, mask_name: str, other_type: DType | None, other_name: str,
    target_type: DType, check_other: bool = True,
) -> Tensor | None:  # fmt: skip
    """A mask as what is added to scores: -inf where a boolean one holds."""
    if mask is None:
        return None
    if mask.dtype is not bool_ and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for "
            "both instead.",
            stacklevel=2,
        )
    if mask.is_floating_point():
        return mask
    zeros = published.public.zeros_like(mask, dtype=target_type)
    return zeros.masked_fill_(mask, -math.inf)


def _check_key_padding_mask(key_padding_mask: Tensor, src_len: int, bsz: int) -> None:
    """Refuses a mask that is not one of a batch's keys."""
    for dim, wanted in enumerate((bsz, src_len)):
        if key_padding_mask.shape[dim] != wanted:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{dim}] to be {wanted}, but got "
                f"{key_padding_mask.shape[dim]}"
            )


def _in_projection(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
    b_q: Tensor | None = None, b_k: Tensor | None = None, b_v: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Queries, keys and values, each by a weight and a bias of its own, with as many outputs."""
    size = q.size(-1)
    out = []
    for name, x, w, b in (
        ("query", q, w_q, b_q), ("key", k, w_k, b_k), ("value", v, w_v, b_v),
    ):  # fmt: skip
        if w.shape != (size, x.size(-1)):
            raise AssertionError(
                f"expecting {name} weights shape of {(size, x.size(-1))}, but got {w.shape}"
            )
        if b is not None and b.shape != (size,):
            raise AssertionError(f"expecting {name} bias shape of {(size,)}, but got {b.shape}")
        out.append(linear(x, w, b))
    return out[0], out[1], out[2]


def _in_projection_packed(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Queries, keys and values by one weight; of the same tensor, in one product."""
    size = q.size(-1)
    if k is v:
        if q is k:
            return _parts(linear(q, w, b), 3)
        w_q, w_kv = w.split([size, 2 * size])
        b_q, b_kv = (None, None) if b is None else b.split([size, 2 * size])
        return linear(q, w_q, b_q), *_parts(linear(k, w_kv, b_kv), 2)
    biases = (None,) * 3 if b is None else b.chunk(3)
    return tuple(linear(*each) for each in zip((q, k, v), w.chunk(3), biases))


def _parts(joined: Tensor, n: int) -> tuple[Tensor, ...]:
    """The last dim in n parts, each of which is contiguous."""
    return tuple(part.contiguous() for part in joined.chunk(n, -1))


def _is_integer(x: Any) -> bool:
    """Whether this is an integer of Python, of a trace or of NumPy, or a tensor of such."""
    if isinstance(x, (int, SymInt, np.integer)):
        return True
    return isinstance(x, Tensor) and not x.is_floating_point()


def _expand_single_value(v: Any) -> list[Any]:
    """A list of what may be one value, or none."""
    return [] if v is None else v if isinstance(v, list) else [v]


def _list_or_empty(l: list[Any] | None) -> list[Any]:
    return l or []


def _enum_list_as_int_list(l: Any) -> list[Any]:
    """The values of members of an enumeration."""
    return [each.value for each in (l if isinstance(l, list) else [l])]


def _no_grad_embedding_renorm_(
    weight: Tensor, input: Tensor, max_norm: float, norm_type: float
) -> None:
    """Shortens the rows of an embedding that are looked up, which no gradient sees."""
    embedding_renorm_(weight.detach(), input, max_norm, norm_type)


def _without_indices(name: str, whole: Callable[..., Any]) -> Callable[..., Tensor]:
    """The function with an underscore before its name: maxima, never their places."""

    @functools.wraps(whole)
    def function(*args: Any, **kwargs: Any) -> Tensor:
        bound = inspect.signature(whole).bind(*args, **kwargs)
        bound.arguments["return_indices"] = False
        return whole(*bound.args, **bound.kwargs)

    function.__name__ = function.__qualname__ = f"_{name}"
    function.__module__ = __name__
    return function


def private(functions: dict[str, Any]) -> dict[str, Any]:
    """What torch.nn.functional has besides its functions, by name."""
    found = {n: v for n, v in globals().items() if n[0] == "_" != n[1] and callable(v)}
    del found["_without_indices"], found["_parts"]  # our own
    for name, function in functions.items():
        if re.fullmatch(r"\w*max_pool\dd", name):
            found[f"_{name}"] = _without_indices(name, function)
    return found
