"""Multi-head attention."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.nn import functional as _functions, init
from tritorch.nn.modules.linear import NonDynamicallyQuantizableLinear, parameter
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter

F: Any = _functions


class MultiheadAttention(Module):
    """softmax(Q K^T / sqrt(d)) V for several heads, between linear maps."""

    in_proj_weight: Parameter
    in_proj_bias: Parameter
    q_proj_weight: Parameter
    k_proj_weight: Parameter
    v_proj_weight: Parameter
    bias_k: Parameter | None
    bias_v: Parameter | None

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
        if query.is_nested or key.is_nested or value.is_nested:
            masked = attn_mask is not None or key_padding_mask is not None
            return self._of_components(query, key, value, masked, is_causal), None
        turned = self.batch_first and query.dim() == 3
        if turned:
            query, key, value = self._time_first(query, key, value)
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, self.training, key_padding_mask, need_weights,
            attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight, self.k_proj_weight,
            self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return out.transpose(0, 1) if turned else out, weights

    def _of_components(
        self, query: Tensor, key: Tensor, value: Tensor, masked: bool, is_causal: bool
    ) -> Tensor:
        """Of nested tensors: each component attends to its own."""
        nested = query.is_nested and key.is_nested and value.is_nested
        lacks = "" if nested else "query, key and value are not all nested"
        lacks = lacks if self.batch_first else "batch_first was not True"
        lacks = "masks are not supported with NestedTensor input" if masked else lacks
        if lacks:
            raise AssertionError(
                "MultiheadAttention does not support NestedTensor outside of its fast path. The "
                f"fast path was not hit because {lacks}"
            )
        from tritorch.ops.interpret.nested.record import like_parts, structure_of

        parts = [
            self.forward(q, k, v, need_weights=False, is_causal=is_causal)[0]
            for q, k, v in zip(query.unbind(), key.unbind(), value.unbind())
        ]
        return like_parts(parts, structure_of(query))

    @staticmethod
    def _time_first(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        # The same tensor stays the same, so that its projections are one product.
        q = query.transpose(0, 1)
        k = q if key is query else key.transpose(0, 1)
        return q, k, k if value is key else value.transpose(0, 1)

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
