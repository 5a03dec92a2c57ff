"""Multi-head attention with its projections (multi_head_attention_forward)."""

from __future__ import annotations

import math
from typing import Any

from tritorch.core import defaults, published
from tritorch.core.dtype import bool_
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.linear import linear
from tritorch.ops.nn.attention import scaled_dot_product_attention
from tritorch.ops.record.publishing import functional
from tritorch.ops.reduce.softmax import softmax
from tritorch.ops.shape import factory
from tritorch.ops.shape.joining import cat
from tritorch.ops.shape.padding import pad


def as_added(mask: Tensor | None, like: Tensor, name: str) -> Tensor | None:
    """A mask as what is added to scores: -inf where a boolean one holds."""
    if mask is None:
        return None
    if mask.dtype is bool_:
        zeros = factory.zeros(mask.shape, dtype=like.dtype, device=mask.device)
        return zeros.masked_fill(mask, -math.inf)
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return mask


def _advise_one_type(padding: Tensor | None, mask: Tensor | None) -> None:
    if padding is not None and mask is not None and padding.dtype is not mask.dtype:
        defaults.warn(
            "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type "
            "for both instead.",
            stacklevel=4,
        )


def _mha_shape_check(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None,
    attn_mask: Tensor | None, num_heads: int,
) -> bool:  # fmt: skip
    """Whether there is a batch; raises for numbers of dims that do not fit."""
    padding, mask = key_padding_mask, attn_mask
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query "
            f"tensor"
        )
    n = query.dim()
    what = f"For {'batched (3-D)' if n == 3 else 'unbatched (2-D)'} `query`, expected"
    if key.dim() != n or value.dim() != n:
        raise AssertionError(
            f"{what} `key` and `value` to be {n}-D but found {key.dim()}-D and {value.dim()}-D "
            f"tensors respectively"
        )
    if padding is not None and padding.dim() != n - 1:
        raise AssertionError(
            f"{what} `key_padding_mask` to be `None` or {n - 1}-D but found {padding.dim()}-D "
            f"tensor instead"
        )
    if mask is not None and mask.dim() not in (2, 3):
        raise AssertionError(
            f"{what} `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor instead"
        )
    if n == 2 and mask is not None and mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(mask.shape) != expected:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {expected} but got {mask.shape}"
            )
    return n == 3


def _project(
    query: Tensor, key: Tensor, value: Tensor, weights: Any, bias: Tensor | None, packed: bool
) -> Any:
    if packed and query is key is value:  # one product
        return linear(query, weights, bias).chunk(3, -1)
    parts = weights.chunk(3) if packed else weights
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple(linear(x, w, b) for x, w, b in zip((query, key, value), parts, biases))


def _weights(given: Any, in_proj: Tensor | None, separate: bool) -> Any:
    if not separate:
        if in_proj is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        return in_proj
    for name, weight in zip(("q", "k", "v"), given):
        if weight is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
    return given


def _wider(masks: Any) -> Any:
    """Masks with one more key, which is seen."""
    return tuple(None if m is None else pad(m, (0, 1)) for m in masks)


def _static(x: Tensor, name: str, batch: int, heads: int, size: int) -> Tensor:
    if x.shape[0] != batch * heads:
        raise AssertionError(f"expecting {name}.size(0) of {batch * heads}, but got {x.shape[0]}")
    if x.shape[2] != size:
        raise AssertionError(f"expecting {name}.size(2) of {size}, but got {x.shape[2]}")
    return x.reshape(batch, heads, x.shape[1], size)


def _joined(
    mask: Tensor | None, padding: Tensor | None, batch: int, heads: int, length: int, keys: int
) -> Tensor | None:
    """Both masks as one, for (batch, heads, length, keys) scores."""
    if mask is not None:
        if mask.dim() == 2:
            if tuple(mask.shape) != (length, keys):
                raise RuntimeError(
                    f"The shape of the 2D attn_mask is {mask.shape}, but should be "
                    f"{(length, keys)}."
                )
            mask = mask.unsqueeze(0).unsqueeze(0)
        else:
            expected = (batch * heads, length, keys)
            if tuple(mask.shape) != expected:
                raise RuntimeError(
                    f"The shape of the 3D attn_mask is {mask.shape}, but should be {expected}."
                )
            mask = mask.reshape(batch, heads, length, keys)
    if padding is None:
        return mask
    if tuple(padding.shape) != (batch, keys):
        raise AssertionError(
            f"expecting key_padding_mask shape of {(batch, keys)}, but got {padding.shape}"
        )
    padding = padding.reshape(batch, 1, 1, keys)
    return padding if mask is None else mask + padding


@functional
@autocast("lower")
def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None,
    bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
    out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None,
    need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """(output, attention weights or None) of (length, batch, embedding) or (length, embedding)."""
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    _advise_one_type(key_padding_mask, attn_mask)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    if query.shape[-1] != embed_dim_to_check:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim_to_check}, but got {query.shape[-1]}"
        )
    size = query.shape[-1] // num_heads
    if size * num_heads != query.shape[-1]:
        raise AssertionError(f"embed_dim {query.shape[-1]} not divisible by num_heads {num_heads}")
    if not batched:
        same = (key is query, value is key)
        query = query.unsqueeze(1)
        key = query if same[0] else key.unsqueeze(1)
        value = key if same[1] else value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    if use_separate_proj_weight and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    if not use_separate_proj_weight and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    length, batch, _ = query.shape
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    weights = _weights(separate, in_proj_weight, use_separate_proj_weight)
    q, k, v = _project(query, key, value, weights, in_proj_bias, not use_separate_proj_weight)
    mask = as_added(attn_mask, q, "attn_mask")
    padding = as_added(key_padding_mask, q, "key_padding_mask")
    if (bias_k is None) != (bias_v is None):
        absent, present = ("bias_k", "bias_v") if bias_k is None else ("bias_v", "bias_k")
        raise AssertionError(f"{present} is set but {absent} is None")
    if bias_k is not None and bias_v is not None:
        for name, static in (("key", static_k), ("value", static_v)):
            if static is not None:
                raise AssertionError(f"bias cannot be added to static {name}.")
        k = cat([k, bias_k.repeat(1, batch, 1)])
        v = cat([v, bias_v.repeat(1, batch, 1)])
        mask, padding = _wider((mask, padding))
    split = lambda x: x.reshape(x.shape[0], batch, num_heads, size).permute(1, 2, 0, 3)
    q = split(q)
    k = split(k) if static_k is None else _static(static_k, "static_k", batch, num_heads, size)
    v = split(v) if static_v is None else _static(static_v, "static_v", batch, num_heads, size)
    if add_zero_attn:
        zero = k.new_zeros((batch, num_heads, 1, size))
        k, v = cat([k, zero], 2), cat([v, zero], 2)
        mask, padding = _wider((mask, padding))
    whole = _joined(mask, padding, batch, num_heads, length, k.shape[2])
    dropout, found = dropout_p if training else 0.0, None
    if need_weights:
        scores = (q * (1.0 / math.sqrt(size))) @ k.transpose(-2, -1)
        found = softmax(scores if whole is None else scores + whole, -1)
        found = published.functional.dropout(found, dropout, True) if dropout else found
        out = found @ v
    else:
        causal = is_causal and padding is None
        out = scaled_dot_product_attention(q, k, v, None if causal else whole, dropout, causal)
    out = out.permute(2, 0, 1, 3).reshape(length, batch, num_heads * size)
    out = linear(out, out_proj_weight, out_proj_bias)
    if found is not None:
        found = found.mean(1) if average_attn_weights else found
        found = found if batched else found.squeeze(0)
    return out if batched else out.squeeze(1), found
