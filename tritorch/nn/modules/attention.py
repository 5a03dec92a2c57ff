"""Multi-head attention."""

from __future__ import annotations

import math
from typing import Any

from tritorch.core.dtype import bool_
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as _functions, init
from tritorch.nn.modules.linear import NonDynamicallyQuantizableLinear, parameter
from tritorch.nn.modules.module import Module
from tritorch.ops.declare import PUBLIC

F: Any = _functions


def as_added(mask: Tensor | None, like: Tensor, name: str) -> Tensor | None:
    """A mask as what is added to scores: -inf where a boolean one holds."""
    if mask is None:
        return None
    if mask.dtype is bool_:
        zeros = PUBLIC["zeros"](mask.shape, dtype=like.dtype, device=mask.device)
        return zeros.masked_fill(mask, -math.inf)
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return mask


class MultiheadAttention(Module):
    """softmax(Q K^T / sqrt(d)) V for several heads, between linear maps."""

    in_proj_weight: Any
    in_proj_bias: Any
    q_proj_weight: Any
    k_proj_weight: Any
    v_proj_weight: Any
    bias_k: Any
    bias_v: Any

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        where = {"device": device, "dtype": dtype}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * embed_dim, embed_dim, **where)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = parameter(embed_dim, embed_dim, **where)
            self.k_proj_weight = parameter(embed_dim, self.kdim, **where)
            self.v_proj_weight = parameter(embed_dim, self.vdim, **where)
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim, **where) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, **where)
        new = lambda: parameter(1, 1, embed_dim, **where) if add_bias_kv else None
        self.bias_k, self.bias_v = new(), new()
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight,
                       self.v_proj_weight):  # fmt: skip
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("bias_k", "bias_v") and value is None and name not in self._parameters:
            object.__setattr__(self, name, None)  # PyTorch registers these only when they are used
        else:
            super().__setattr__(name, value)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """(output, attention weights or None)"""
        batched = self._check(query, key, value, key_padding_mask, attn_mask)
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "Need attn_mask if specifying the is_causal hint. You may use the Transformer "
                "module method `generate_square_subsequent_mask` to create this mask."
            )
        if not batched:
            query, key, value = (x.unsqueeze(1) for x in (query, key, value))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif self.batch_first:
            query, key, value = self._time_first(query, key, value)
        out, weights = self._attend(
            query, key, value, key_padding_mask, attn_mask, need_weights, is_causal
        )
        if not batched:
            out = out.squeeze(1)
        elif self.batch_first:
            out = out.transpose(0, 1)
        if weights is None:
            return out, None
        if average_attn_weights:
            weights = weights.mean(1)
        return out, weights if batched else weights.squeeze(0)

    @staticmethod
    def _time_first(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        # The same tensor stays the same, so that its projections are one product.
        q = query.transpose(0, 1)
        k = q if key is query else key.transpose(0, 1)
        return q, k, k if value is key else value.transpose(0, 1)

    def _check(self, query: Tensor, key: Tensor, value: Tensor, padding: Any, mask: Any) -> bool:
        if query.dim() not in (2, 3):
            raise AssertionError(
                f"query should be unbatched 2D or batched 3D tensor but received "
                f"{query.dim()}-D query tensor"
            )
        n = query.dim()
        if key.dim() != n or value.dim() != n:
            raise AssertionError(
                f"For {'batched (3-D)' if n == 3 else 'unbatched (2-D)'} `query`, expected `key` "
                f"and `value` to be {n}-D but found {key.dim()}-D and {value.dim()}-D tensors "
                f"respectively"
            )
        if padding is not None and padding.dim() != n - 1:
            raise AssertionError(
                f"For {'batched (3-D)' if n == 3 else 'unbatched (2-D)'} `query`, expected "
                f"`key_padding_mask` to be `None` or {n - 1}-D but found {padding.dim()}-D tensor "
                f"instead"
            )
        if mask is not None and mask.dim() not in (2, 3):
            raise AssertionError(
                f"expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor "
                f"instead"
            )
        if query.shape[-1] != self.embed_dim:
            raise AssertionError(
                f"was expecting embedding dimension of {self.embed_dim}, but got {query.shape[-1]}"
            )
        return n == 3

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        weight, bias, e = self.in_proj_weight, self.in_proj_bias, self.embed_dim
        if weight is not None and query is key is value:
            return F.linear(query, weight, bias).chunk(3, -1)
        parts = (
            weight.chunk(3)
            if weight is not None
            else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        )
        biases = (None,) * 3 if bias is None else bias.split(e)
        return tuple(F.linear(x, w, b) for x, w, b in zip((query, key, value), parts, biases))

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Any, mask: Any,
        need_weights: bool, is_causal: bool,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        length, batch, _ = query.shape
        q, k, v = self._project(query, key, value)
        mask, padding = as_added(mask, q, "attn_mask"), as_added(padding, q, "key_padding_mask")
        if self.bias_k is not None:
            k = PUBLIC["cat"]([k, self.bias_k.repeat(1, batch, 1)])
            v = PUBLIC["cat"]([v, self.bias_v.repeat(1, batch, 1)])
            mask, padding = (None if m is None else F.pad(m, (0, 1)) for m in (mask, padding))
        heads, size = self.num_heads, self.head_dim
        split = lambda x: x.reshape(x.shape[0], batch, heads, size).permute(1, 2, 0, 3)
        q, k, v = split(q), split(k), split(v)
        if self.add_zero_attn:
            zero = k.new_zeros((batch, heads, 1, size))
            k, v = PUBLIC["cat"]([k, zero], 2), PUBLIC["cat"]([v, zero], 2)
            mask, padding = (None if m is None else F.pad(m, (0, 1)) for m in (mask, padding))
        whole = self._whole_mask(mask, padding, batch, length, k.shape[2])
        dropout = self.dropout if self.training else 0.0
        if need_weights:
            scores = (q * (1.0 / math.sqrt(size))) @ k.transpose(-2, -1)
            weights = F.softmax(scores if whole is None else scores + whole, -1)
            weights = F.dropout(weights, dropout, True) if dropout else weights
            out = weights @ v
        else:
            weights = None
            causal = is_causal and padding is None
            out = F.scaled_dot_product_attention(
                q, k, v, None if causal else whole, dropout, causal
            )
        joined = out.permute(2, 0, 1, 3).reshape(length, batch, self.embed_dim)
        return self.out_proj(joined), weights

    def _whole_mask(
        self, mask: Tensor | None, padding: Tensor | None, batch: int, length: int, keys: int
    ) -> Tensor | None:
        if mask is not None:
            if mask.dim() == 2:
                if tuple(mask.shape) != (length, keys):
                    raise RuntimeError(
                        f"The shape of the 2D attn_mask is {mask.shape}, but should be "
                        f"{(length, keys)}."
                    )
                mask = mask.unsqueeze(0).unsqueeze(0)
            else:
                expected = (batch * self.num_heads, length, keys)
                if tuple(mask.shape) != expected:
                    raise RuntimeError(
                        f"The shape of the 3D attn_mask is {mask.shape}, but should be {expected}."
                    )
                mask = mask.reshape(batch, self.num_heads, length, keys)
        if padding is None:
            return mask
        if tuple(padding.shape) != (batch, keys):
            raise AssertionError(
                f"expecting key_padding_mask shape of {(batch, keys)}, but got {padding.shape}"
            )
        padding = padding.reshape(batch, 1, 1, keys)
        return padding if mask is None else mask + padding

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one, and PyTorch's number for its kind."""
        if key_padding_mask is None:
            return attn_mask, None if attn_mask is None else 0
        if attn_mask is None:
            return key_padding_mask, 1
        batch, length, _ = query.shape
        wide = attn_mask
        if attn_mask.dim() == 2:
            wide = attn_mask.expand(batch, self.num_heads, -1, -1)
        padding = key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return wide.view(batch, self.num_heads, -1, length) + padding, 2
