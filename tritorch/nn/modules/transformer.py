"""Transformer encoders and decoders."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

from tritorch import _C
from tritorch.amp.state import is_autocast_enabled
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as _functions, init
from tritorch.nn.modules.attention import MultiheadAttention
from tritorch.nn.modules.container import ModuleList
from tritorch.nn.modules.linear import Linear
from tritorch.nn.modules.module import Module
from tritorch.nn.modules.norm import LayerNorm
from tritorch.nn.modules.stateless import STATELESS
from tritorch.ops.nn.multihead import as_added
from tritorch.ops.record.checks import any_true
from tritorch.ops.shape.factory import full

F: Any = _functions
Dropout: Any = STATELESS["Dropout"]


def _activation(given: Any) -> Callable[[Tensor], Tensor]:
    if not isinstance(given, str):
        return given
    if given not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    return getattr(F, given)


def _clones(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _causal(size: int, device: Any = None, dtype: Any = None) -> Tensor:
    return full((size, size), -math.inf, device=device, dtype=dtype).triu(1)


def _is_causal(mask: Tensor | None, is_causal: bool | None, size: int) -> bool:
    """Whether a mask is the causal one (None: to be found out)."""
    if is_causal is not None or mask is None:
        return bool(is_causal)
    if tuple(mask.shape) != (size, size):
        return False
    return not any_true(mask != _causal(size, mask.device, mask.dtype))


def _length(layers: Any, x: Tensor) -> int:
    batch_first = len(layers) and layers[0].self_attn.batch_first
    return x.shape[1] if batch_first and x.dim() == 3 else x.shape[0]


class _Layer(Module):
    """What both kinds of layers share: blocks with residuals, normed before or after."""

    norm_first: bool

    def _residual(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Tensor:
        out = self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
                             is_causal=is_causal, need_weights=False)[0]  # fmt: skip
        return self.dropout1(out)

    def _ff_block(self, x: Tensor) -> Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return getattr(self, self._last_dropout)(x)

    _last_dropout = "dropout2"

    def _feed_forward(
        self, d_model: int, dim_feedforward: int, dropout: float, activation: Any, bias: bool,
        where: dict[str, Any],
    ) -> None:  # fmt: skip
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.activation = _activation(activation)


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a feed-forward network."""

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Any = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where
        )
        self._feed_forward(d_model, dim_feedforward, dropout, activation, bias, where)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        # PyTorch's fast path, when it loads the module, asks which it is.
        is_relu = self.activation is F.relu or isinstance(self.activation, STATELESS["ReLU"])
        is_gelu = self.activation is F.gelu or isinstance(self.activation, STATELESS["GELU"])
        self.activation_relu_or_gelu = 1 if is_relu else 2 if is_gelu else 0

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """The layer's output."""
        padding = as_added(src_key_padding_mask, src, "key_padding_mask")
        mask = as_added(src_mask, src, "attn_mask")
        attend = lambda x: self._sa_block(x, mask, padding, is_causal)
        return self._residual(self._residual(src, self.norm1, attend), self.norm2, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, then a feed-forward network."""

    _last_dropout = "dropout3"

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Any = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        where = {"device": device, "dtype": dtype}
        attention = {"dropout": dropout, "bias": bias, "batch_first": batch_first, **where}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self._feed_forward(d_model, dim_feedforward, dropout, activation, bias, where)
        self.norm_first = norm_first
        for i in (1, 2, 3):
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where))
        for i in (1, 2, 3):
            setattr(self, f"dropout{i}", Dropout(dropout))

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """The layer's output."""
        attend = lambda x: self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def recall(x: Tensor) -> Tensor:
            out = self.multihead_attn(
                x, memory, memory, attn_mask=memory_mask, is_causal=memory_is_causal,
                key_padding_mask=memory_key_padding_mask, need_weights=False,
            )[0]  # fmt: skip
            return self.dropout2(out)

        x = self._residual(tgt, self.norm1, attend)
        x = self._residual(x, self.norm2, recall)
        return self._residual(x, self.norm3, self._ff_block)


def _why_not_nested(layer: Any) -> str:
    """Why PyTorch would not pack what a layer gets; "" if it would."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not an instance of TransformerEncoderLayer"
    attention = layer.self_attn
    reasons = (
        (layer.norm_first, "encoder_layer.norm_first was True"),
        (
            not attention.batch_first,
            "encoder_layer.self_attn.batch_first was not True(use batch_first for better inference "
            "performance)",
        ),
        (
            attention.in_proj_bias is None,
            "encoder_layer.self_attn was passed bias=False",
        ),
        (
            not attention._qkv_same_embed_dim,
            "encoder_layer.self_attn._qkv_same_embed_dim was not True",
        ),
        (
            not layer.activation_relu_or_gelu,
            "encoder_layer.activation_relu_or_gelu was not True",
        ),
        (
            layer.norm1.eps != layer.norm2.eps,
            "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps",
        ),
        (attention.num_heads % 2 == 1, "encoder_layer.self_attn.num_heads is odd"),
    )
    return next((why for lacks, why in reasons if lacks), "")


class TransformerEncoder(Module):
    """A stack of encoder layers."""

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True, mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers, self.num_layers = _clones(encoder_layer, num_layers), num_layers
        self.norm = norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        lacks = _why_not_nested(encoder_layer)
        self.use_nested_tensor = enable_nested_tensor and not lacks
        if enable_nested_tensor and lacks:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because "
                f"{lacks}",
                stacklevel=2,
            )

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:  # fmt: skip
        """Each layer on the last one's output."""
        padding = as_added(src_key_padding_mask, src, "src_key_padding_mask")
        mask = as_added(mask, src, "mask")
        out = src
        causal = _is_causal(mask, is_causal, _length(self.layers, src))
        for layer in self.layers:
            out = layer(out, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if padding is not None and mask is None and self._packs(src, padding):
            out = out.masked_fill((padding != 0).unsqueeze(-1), 0)
        return out if self.norm is None else self.norm(out)

    def _packs(self, src: Tensor, padding: Tensor) -> bool:
        """Whether PyTorch would compute without the padding, as a nested tensor, which fills it
        with zeros afterwards.  The other elements are the same: no token attends to the padding."""
        from tritorch.backends.mha import get_fastpath_enabled

        first = self.layers[0]
        if not getattr(self, "use_nested_tensor", False) or first.training or src.dim() != 3:
            return False
        if not get_fastpath_enabled() or is_autocast_enabled() or src.is_nested:
            return False
        if _C.is_grad_enabled() and (
            src.requires_grad or any(weight.requires_grad for weight in first.parameters())
        ):
            return False
        there = padding == 0
        return not self.mask_check or not bool((there[:, 1:] & ~there[:, :-1]).any())


class TransformerDecoder(Module):
    """A stack of decoder layers."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers, self.num_layers = _clones(decoder_layer, num_layers), num_layers
        self.norm = norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Each layer on the last one's output."""
        causal = _is_causal(tgt_mask, tgt_is_causal, _length(self.layers, tgt))
        out = tgt
        for layer in self.layers:
            out = layer(
                out, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return out if self.norm is None else self.norm(out)


class Transformer(Module):
    """An encoder and a decoder."""

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
        num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Any = F.relu, custom_encoder: Any = None, custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        where = {"device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                 norm_first, bias, device, dtype)  # fmt: skip
        norm = lambda: LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.encoder = custom_encoder if custom_encoder is not None else TransformerEncoder(
            TransformerEncoderLayer(*layer), num_encoder_layers, norm()
        )  # fmt: skip
        self.decoder = custom_decoder if custom_decoder is not None else TransformerDecoder(
            TransformerDecoderLayer(*layer), num_decoder_layers, norm()
        )  # fmt: skip
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """The decoder's output on tgt, given the encoder's on src."""
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """-inf above the diagonal."""
        return _causal(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for weight in self.parameters():
            if weight.dim() > 1:
                init.xavier_uniform_(weight)
