"""flash_attn's functions on our attention.

Causal masks and windows are counted from the ends of both sequences, as there.  What our fused
kernel does not do (softcap, ALiBi, dropout) is computed by its definition.
"""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch import nn
from tritorch.compat.shims import _modules
from tritorch.compat.shims._attention import Options, Sequences, attend, of_batch
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as F

VERSION = "2.8.3"


def _options(
    dropout_p: float, softmax_scale: float | None, causal: bool, window_size: tuple[int, int],
    softcap: float, alibi_slopes: Tensor | None,
) -> Options:  # fmt: skip
    left, right = window_size
    window = (left, 0 if causal else right)
    return Options(softmax_scale, window, softcap, alibi_slopes, dropout_p)


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, *x.shape[2:])


def flash_attn_func(
    q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, softmax_scale: float | None = None,
    causal: bool = False, window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0,
    alibi_slopes: Tensor | None = None, deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:  # fmt: skip
    """softmax(q k^T * scale) v of (batch, length, heads, size); fewer heads of k and v are shared.

    return_attn_probs: (result, log of sums (batch, heads, length), None) is returned.  Always
    deterministic.
    """
    how = _options(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes)
    out, lse = attend(_rows(q), _rows(k), _rows(v), of_batch(q, k), how)
    out = out.reshape(*q.shape[:3], v.shape[-1])
    if not return_attn_probs:
        return out
    return out, lse.reshape(q.shape[2], *q.shape[:2]).transpose(0, 1), None


def flash_attn_qkvpacked_func(qkv: Tensor, *args: Any, **kwargs: Any) -> Any:
    """flash_attn_func of (batch, length, 3, heads, size)."""
    q, k, v = qkv.unbind(2)
    return flash_attn_func(q, k, v, *args, **kwargs)


def flash_attn_kvpacked_func(q: Tensor, kv: Tensor, *args: Any, **kwargs: Any) -> Any:
    """flash_attn_func of queries, and of keys and values (batch, length, 2, heads, size)."""
    k, v = kv.unbind(2)
    return flash_attn_func(q, k, v, *args, **kwargs)


def flash_attn_varlen_func(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int,
    max_seqlen_k: int, dropout_p: float = 0.0, softmax_scale: float | None = None,
    causal: bool = False, window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0,
    alibi_slopes: Tensor | None = None, deterministic: bool = False,
    return_attn_probs: bool = False, block_table: Tensor | None = None,
) -> Any:  # fmt: skip
    """The same of sequences that lie one after the other, (tokens, heads, size)."""
    if block_table is not None:
        raise NotImplementedError("tritorch's flash_attn_varlen_func: block_table is not served")
    how = _options(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes)
    where = Sequences(cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k))
    out, lse = attend(q, k, v, where, how)
    return (out, lse, None) if return_attn_probs else out


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor, cu_seqlens: Tensor, max_seqlen: int, *args: Any, **kwargs: Any
) -> Any:
    """flash_attn_varlen_func of (tokens, 3, heads, size)."""
    q, k, v = qkv.unbind(1)
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *args, **kwargs
    )


def flash_attn_varlen_kvpacked_func(
    q: Tensor, kv: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, *args: Any, **kwargs: Any
) -> Any:
    """flash_attn_varlen_func of queries, and of keys and values (tokens, 2, heads, size)."""
    k, v = kv.unbind(1)
    return flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, *args, **kwargs)


def flash_attn_with_kvcache(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor | None = None, v: Tensor | None = None,
    rotary_cos: Tensor | None = None, rotary_sin: Tensor | None = None,
    cache_seqlens: Any = None, cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None, block_table: Tensor | None = None,
    softmax_scale: float | None = None, causal: bool = False,
    window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0,
    rotary_interleaved: bool = True, alibi_slopes: Tensor | None = None, num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:  # fmt: skip
    """Attention to cached keys and values, after new ones are put into the cache, in place.

    cache_seqlens: how many keys of each sequence the cache has before.
    """
    for name, given in (("block_table", block_table), ("cache_leftpad", cache_leftpad)):
        if given is not None:
            raise NotImplementedError(f"tritorch's flash_attn_with_kvcache: {name} is not served")
    batch = len(q)
    rows = list(range(batch)) if cache_batch_idx is None else cache_batch_idx.tolist()
    if cache_seqlens is None:
        lengths = [k_cache.shape[1]] * batch
    elif isinstance(cache_seqlens, int):
        lengths = [cache_seqlens] * batch
    else:
        lengths = cache_seqlens.tolist()
    added = 0
    if k is not None and v is not None:
        added = k.shape[1]
        if rotary_cos is not None and rotary_sin is not None:
            k = _turned(k, rotary_cos, rotary_sin, lengths, rotary_interleaved, moves=True)
            q = _turned(
                q,
                rotary_cos,
                rotary_sin,
                lengths,
                rotary_interleaved,
                causal or window_size != (-1, -1),
            )
        for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            k_cache[row, length : length + added] = k[i]
            v_cache[row, length : length + added] = v[i]
    total = [length + added for length in lengths]
    keys, values = (
        torch.cat([cache[row, :n] for row, n in zip(rows, total, strict=True)])
        for cache in (k_cache, v_cache)
    )
    ends = torch.tensor([0, *total], device=q.device).cumsum(0, dtype=torch.int32)
    where = Sequences(of_batch(q, q).q, ends, q.shape[1], max(total, default=0))
    how = _options(0.0, softmax_scale, causal, window_size, softcap, alibi_slopes)
    out, lse = attend(_rows(q), keys, values, where, how)
    out = out.reshape(*q.shape[:3], v_cache.shape[-1])
    if not return_softmax_lse:
        return out
    return out, lse.reshape(q.shape[2], *q.shape[:2]).transpose(0, 1)


def _turned(
    x: Tensor, cos: Tensor, sin: Tensor, lengths: list[int], interleaved: bool, moves: bool
) -> Tensor:
    """Rows turned by the angles of their places, which begin at a sequence's length."""
    parts = []
    for each, length in zip(x, lengths, strict=True):
        places = slice(length, length + len(each)) if moves else slice(length, length + 1)
        parts.append(apply_rotary_emb(each[None], cos[places], sin[places], interleaved)[0])
    return torch.stack(parts)


# ---- padding -------------------------------------------------------------------------------------


def index_first_axis(x: Tensor, indices: Tensor) -> Tensor:
    """Rows by number."""
    return x[indices]


def unpad_input(
    hidden_states: Tensor, attention_mask: Tensor, unused_mask: Tensor | None = None
) -> Any:
    """The rows of a batch that are no padding: (rows, their numbers, starts, longest, counts)."""
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    counts, used = kept.sum(-1, dtype=torch.int32), attention_mask.sum(-1, dtype=torch.int32)
    indices = kept.flatten().nonzero().flatten()
    starts = F.pad(counts.cumsum(0, dtype=torch.int32), (1, 0))
    rows = hidden_states.reshape(-1, *hidden_states.shape[2:])[indices]
    return rows, indices, starts, int(counts.max()), used


def pad_input(hidden_states: Tensor, indices: Tensor, batch: int, seqlen: int) -> Tensor:
    """A batch with zeros where there was padding."""
    out = hidden_states.new_zeros(batch * seqlen, *hidden_states.shape[1:])
    return out.index_put((indices,), hidden_states).reshape(batch, seqlen, *hidden_states.shape[1:])


# ---- rotary embeddings, normalisation, losses ----------------------------------------------------


def apply_rotary_emb(
    x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False, inplace: bool = False,
    seqlen_offsets: Any = 0, cu_seqlens: Tensor | None = None, max_seqlen: int | None = None,
) -> Tensor:  # fmt: skip
    """(batch, length, heads, size) turned by angles (length, size / 2), halves or pairs."""
    if cu_seqlens is not None:
        raise NotImplementedError("tritorch's apply_rotary_emb: cu_seqlens is not served")
    if isinstance(seqlen_offsets, Tensor):
        places = seqlen_offsets[:, None] + torch.arange(x.shape[1], device=x.device)
        c, s = cos[places][:, :, None], sin[places][:, :, None]
    else:
        end = seqlen_offsets + (x.shape[1] if cos.shape[0] > 1 else 1)
        c, s = (t[seqlen_offsets:end][None, :, None] for t in (cos, sin))
    size = 2 * cos.shape[-1]
    turned, rest = x[..., :size], x[..., size:]
    if interleaved:
        a, b = turned[..., ::2], turned[..., 1::2]
        out = torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)
    else:
        a, b = turned.chunk(2, -1)
        out = torch.cat([a * c - b * s, a * s + b * c], -1)
    out = torch.cat([out.to(x.dtype), rest], -1) if rest.shape[-1] else out.to(x.dtype)
    return x.copy_(out) if inplace else out


class RotaryEmbedding(nn.Module):
    """Turns queries and keys of (batch, length, 3, heads, size) by their places."""

    def __init__(
        self, dim: int, base: float = 10000.0, interleaved: bool = False,
        scale_base: float | None = None, device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if scale_base is not None:
            raise NotImplementedError("tritorch's RotaryEmbedding: scale_base is not served")
        self.dim, self.base, self.interleaved = dim, base, interleaved
        powers = torch.arange(0, dim, 2, device=device, dtype=torch.float32) / dim
        self.register_buffer("inv_freq", base**-powers, persistent=False)

    def forward(
        self, qkv: Tensor, kv: Tensor | None = None, seqlen_offset: int = 0,
        max_seqlen: int | None = None,
    ) -> Any:  # fmt: skip
        """qkv turned; of queries (batch, length, heads, size) and kv, both."""
        length = seqlen_offset + max(qkv.shape[1], max_seqlen or 0)
        angles = torch.outer(
            torch.arange(length, device=qkv.device, dtype=torch.float32), self.inv_freq
        )
        cos, sin = angles.cos().to(qkv.dtype), angles.sin().to(qkv.dtype)
        turn = lambda x: apply_rotary_emb(
            x, cos, sin, self.interleaved, seqlen_offsets=seqlen_offset
        )
        if kv is not None:
            return turn(qkv), torch.stack([turn(kv[:, :, 0]), kv[:, :, 1]], 2)
        q, k, v = qkv.unbind(2)
        return torch.stack([turn(q), turn(k), v], 2)


class CrossEntropyLoss(nn.Module):
    """cross_entropy with flash-attn's options that change its value."""

    def __init__(
        self, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0,
        logit_scale: float = 1.0, lse_square_scale: float = 0.0, inplace_backward: bool = False,
        process_group: Any = None, return_z_loss: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if process_group is not None or return_z_loss:
            raise NotImplementedError(
                "tritorch's CrossEntropyLoss: process_group and return_z_loss are not served"
            )
        self.ignore_index, self.reduction, self.label_smoothing = (
            ignore_index,
            reduction,
            label_smoothing,
        )
        self.logit_scale, self.lse_square_scale = logit_scale, lse_square_scale

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of (rows, classes)."""
        scores = input.float() * self.logit_scale
        loss = F.cross_entropy(
            scores, target, ignore_index=self.ignore_index, reduction="none",
            label_smoothing=self.label_smoothing,
        )  # fmt: skip
        used = target != self.ignore_index
        if self.lse_square_scale:
            loss = loss + used * self.lse_square_scale * scores.logsumexp(-1).square()
        if self.reduction == "none":
            return loss
        return loss.sum() / (used.sum() if self.reduction == "mean" else 1)


class RMSNorm(nn.RMSNorm):
    """flash_attn.ops.rms_norm.RMSNorm: its epsilon is 1e-5."""

    def __init__(self, hidden_size: int, eps: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(hidden_size, eps, **kwargs)


def install() -> None:
    """Makes the modules of flash_attn."""
    functions = {
        f.__name__: f
        for f in (
            flash_attn_func, flash_attn_kvpacked_func, flash_attn_qkvpacked_func,
            flash_attn_varlen_func, flash_attn_varlen_kvpacked_func,
            flash_attn_varlen_qkvpacked_func, flash_attn_with_kvcache,
        )
    }  # fmt: skip
    padding = {f.__name__: f for f in (index_first_axis, pad_input, unpad_input)}
    rotary = {
        "RotaryEmbedding": RotaryEmbedding, "apply_rotary_emb": apply_rotary_emb,
        "apply_rotary_emb_func": apply_rotary_emb,
    }  # fmt: skip
    _modules.add("flash_attn", VERSION, {
        "": functions, "flash_attn_interface": functions, "bert_padding": padding,
        "layers": {}, "layers.rotary": rotary, "losses": {},
        "losses.cross_entropy": {"CrossEntropyLoss": CrossEntropyLoss}, "ops": {},
        "ops.rms_norm": {"RMSNorm": RMSNorm},
    })  # fmt: skip
