"""Attention of linear maps and operators that can be observed and quantized one by one."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import tritorch as torch
from tritorch import nn
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as F
from tritorch.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]


def _bool_mask(mask: Tensor | None, name: str) -> Tensor | None:
    """A mask; one of bytes, which is deprecated, as one of bools."""
    if mask is None or mask.dtype != torch.uint8:
        return mask
    warnings.warn(
        f"Byte tensor for `{name}` in `nn.MultiheadAttention` is deprecated. Use bool tensor "
        "instead.",
        stacklevel=4,
    )
    return mask.to(torch.bool)


def _with_zeros(x: Tensor) -> Tensor:
    """Keys or values with one more step, of zeros."""
    zeros = torch.zeros((x.size(0), 1, x.size(2)))
    if x.is_quantized:
        zeros = torch.quantize_per_tensor(zeros, x.q_scale(), x.q_zero_point(), x.dtype)
    return torch.cat([x, zeros], dim=1)


class MultiheadAttention(nn.MultiheadAttention):
    """Multi-head attention whose projections are linear modules.

    What the heads compute is in floats; projections and what is around them can be quantized."""

    _FLOAT_MODULE: ClassVar[Any] = nn.MultiheadAttention
    __constants__ = ["batch_first"]  # noqa: RUF012

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        where = {"device": device, "dtype": dtype}
        super().__init__(embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim,
                         vdim, batch_first, **where)  # fmt: skip
        for name, size in (("Q", self.embed_dim), ("K", self.kdim), ("V", self.vdim)):
            setattr(self, f"linear_{name}", nn.Linear(size, self.embed_dim, bias=bias, **where))
        self.out_proj = nn.Linear(self.embed_dim, self.embed_dim, bias=bias, **where)  # type: ignore[assignment]
        quantization = torch.ao.quantization
        self.q_scaling_product = torch.ao.nn.quantized.FloatFunctional()
        self.quant_attn_output = quantization.QuantStub()
        self.quant_attn_output_weights = quantization.QuantStub()
        self.dequant_q = quantization.DeQuantStub()
        self.dequant_k = quantization.DeQuantStub()
        self.dequant_v = quantization.DeQuantStub()

    def _get_name(self) -> str:
        return "QuantizableMultiheadAttention"

    @classmethod
    def from_float(cls, other: Any) -> Any:
        """The module of a float one, with observers."""
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(f"Expected type {cls._FLOAT_MODULE}, got {type(other)}")
        if not hasattr(other, "qconfig"):
            raise AssertionError("The float module must have 'qconfig'")
        observed: Any = cls(
            other.embed_dim, other.num_heads, other.dropout, other.in_proj_bias is not None,
            other.bias_k is not None, other.add_zero_attn, other.kdim, other.vdim,
            other.batch_first,
        )  # fmt: skip
        observed.bias_k, observed.bias_v = other.bias_k, other.bias_v
        observed.qconfig = other.qconfig
        observed.out_proj.weight = other.out_proj.weight
        observed.out_proj.bias = other.out_proj.bias
        if other._qkv_same_embed_dim:
            weights = other.in_proj_weight.chunk(3)
        else:
            weights = other.q_proj_weight, other.k_proj_weight, other.v_proj_weight
        biases = (None,) * 3 if other.in_proj_bias is None else other.in_proj_bias.chunk(3)
        for name, weight, bias in zip("QKV", weights, biases):
            linear = getattr(observed, f"linear_{name}")
            linear.weight = Parameter(weight, weight.requires_grad)
            linear.bias = None if bias is None else Parameter(bias, bias.requires_grad)
        observed.eval()
        return torch.ao.quantization.prepare(observed, inplace=True)

    @torch.jit.unused
    def dequantize(self) -> Any:
        """The float module of a quantized one, with the quantized values of its weights."""
        projections = [getattr(self, f"linear_{name}")._weight_bias() for name in "QKV"]
        fp = self._FLOAT_MODULE(
            self.embed_dim, self.num_heads, self.dropout, projections[0][1] is not None,
            self.bias_k is not None, self.add_zero_attn, self.kdim, self.vdim, self.batch_first,
        )  # fmt: skip
        if fp._qkv_same_embed_dim != self._qkv_same_embed_dim:
            raise AssertionError(
                f"_qkv_same_embed_dim mismatch: {fp._qkv_same_embed_dim} != "
                f"{self._qkv_same_embed_dim}"
            )
        for name in ("bias_k", "bias_v"):
            if getattr(self, name) is not None:
                setattr(fp, name, Parameter(getattr(self, name).dequantize()))
        weight, bias = self.out_proj._weight_bias()
        fp.out_proj.weight = Parameter(weight.dequantize())
        if bias is not None:
            fp.out_proj.bias = Parameter(bias)
        weights = [weight.dequantize() for weight, _ in projections]
        with torch.no_grad():
            if fp._qkv_same_embed_dim:
                fp.in_proj_weight.copy_(torch.cat(weights))
            else:
                for name, weight in zip("qkv", weights):
                    setattr(fp, f"{name}_proj_weight", Parameter(weight))
            if fp.in_proj_bias is not None:
                if fp._qkv_same_embed_dim and any(bool((b != 0).any()) for _, b in projections):
                    raise AssertionError("Expected all bias elements to be 0")
                fp.in_proj_bias.copy_(torch.cat([b for _, b in projections]))
        return fp

    @classmethod
    def from_observed(cls, other: Any) -> Any:
        """Raises NotImplementedError: the quantized module's is meant."""
        raise NotImplementedError(
            "It looks like you are trying to prepare an MHA module. Please, see the examples on "
            "quantizable MHAs."
        )

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Attention, and its weights if they are wanted."""
        return self._forward_impl(
            query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights,
            is_causal,
        )  # fmt: skip

    def _check_mask(self, mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """An attention mask of 3 dims."""
        if not mask.is_floating_point() and mask.dtype != torch.bool:
            raise AssertionError(
                f"Only float and bool types are supported for attn_mask, not {mask.dtype}"
            )
        size = [query.size(0), key.size(0)]
        if mask.dim() == 2:
            mask = mask.unsqueeze(0)
            if list(mask.size()) != [1, *size]:
                raise RuntimeError("The size of the 2D attn_mask is not correct.")
        elif mask.dim() == 3:
            if list(mask.size()) != [query.size(1) * self.num_heads, *size]:
                raise RuntimeError("The size of the 3D attn_mask is not correct.")
        else:
            raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
        return mask

    def _forward_impl(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        if attn_mask is not None and is_causal:
            raise AssertionError("Only allow causal mask or attn_mask")
        if is_causal:
            raise AssertionError("causal mask not supported by AO MHA module")
        if self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        tgt_len, bsz, embed_dim = query.size()
        if self.embed_dim != embed_dim:
            raise AssertionError(f"embed_dim mismatch: {self.embed_dim} != {embed_dim}")
        if key.size(0) != value.size(0) or key.size(1) != value.size(1):
            raise AssertionError(
                f"key and value size mismatch: key.size()={key.size()}, value.size()={value.size()}"
            )
        head_dim = self.embed_dim // self.num_heads
        if head_dim * self.num_heads != self.embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        me: Any = self
        q = me.q_scaling_product.mul_scalar(me.linear_Q(query), float(head_dim) ** -0.5)
        k, v = me.linear_K(key), me.linear_V(value)
        attn_mask = _bool_mask(attn_mask, "attn_mask")
        if attn_mask is not None:
            attn_mask = self._check_mask(attn_mask, query, key)
        key_padding_mask = _bool_mask(key_padding_mask, "key_padding_mask")
        added = 0  # steps beyond those of the keys, which no mask hides
        if self.bias_k is not None and self.bias_v is not None:
            k = torch.cat([k, self.bias_k.repeat(1, bsz, 1)])
            v = torch.cat([v, self.bias_v.repeat(1, bsz, 1)])
            added += 1
        elif self.bias_k is not None:
            raise AssertionError("self.bias_k must be None when self.bias_v is None")
        elif self.bias_v is not None:
            raise AssertionError("self.bias_v must be None when self.bias_k is None")
        heads = bsz * self.num_heads
        q, k, v = (x.contiguous().view(-1, heads, head_dim).transpose(0, 1) for x in (q, k, v))
        if key_padding_mask is not None:
            if key_padding_mask.size(0) != bsz:
                raise AssertionError(
                    f"key_padding_mask.size(0) must be {bsz}, got {key_padding_mask.size(0)}"
                )
            if key_padding_mask.size(1) + added != k.size(1):
                raise AssertionError(
                    f"key_padding_mask.size(1) must be {k.size(1)}, got "
                    f"{key_padding_mask.size(1) + added}"
                )
        if self.add_zero_attn:
            k, v = _with_zeros(k), _with_zeros(v)
            added += 1
        if added and attn_mask is not None:
            attn_mask = F.pad(attn_mask, (0, added))
        if added and key_padding_mask is not None:
            key_padding_mask = F.pad(key_padding_mask, (0, added))
        src_len = k.size(1)
        q, k, v = me.dequant_q(q), me.dequant_k(k), me.dequant_v(v)
        weights = torch.bmm(q, k.transpose(1, 2))
        if attn_mask is not None:
            if attn_mask.dtype == torch.bool:
                weights = weights.masked_fill(attn_mask, float("-inf"))
            else:
                weights = weights + attn_mask
        if key_padding_mask is not None:
            weights = weights.view(bsz, self.num_heads, tgt_len, src_len)
            hidden = key_padding_mask.unsqueeze(1).unsqueeze(2)
            weights = weights.masked_fill(hidden, float("-inf")).view(heads, tgt_len, src_len)
        weights = F.softmax(weights, dim=-1)
        weights = F.dropout(weights, p=self.dropout, training=self.training)
        out = torch.bmm(weights, v)
        if self.batch_first:  # as in PyTorch, without bringing the heads together
            out = out.view(bsz, tgt_len, self.embed_dim)
        else:
            out = out.transpose(0, 1).contiguous().view(tgt_len, bsz, self.embed_dim)
        out = self.out_proj(me.quant_attn_output(out))
        weights = me.quant_attn_output_weights(weights)
        if not need_weights:
            return out, None
        weights = weights.view(bsz, self.num_heads, tgt_len, src_len)
        return out, weights.mean(dim=1) if average_attn_weights else weights
