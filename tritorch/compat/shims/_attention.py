"""Attention of sequences that lie one after the other, as flash-attn and xformers ask for it."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import tritorch as torch
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as F
from tritorch.nn.attention.varlen import AuxRequest, varlen_attn


class Sequences(NamedTuple):
    """Where the sequences of a batch begin, and the last one ends."""

    q: Tensor
    k: Tensor
    max_q: int
    max_k: int

    def pairs(self) -> list[tuple[slice, slice]]:
        """The rows of queries and of keys of each sequence."""
        both = zip(
            *(itertools.pairwise(starts.tolist()) for starts in (self.q, self.k)), strict=True
        )
        return [(slice(*a), slice(*b)) for a, b in both]


def of_batch(q: Tensor, k: Tensor) -> Sequences:
    """The sequences of (batch, length, heads, size) tensors, whose rows lie one after the other."""
    starts = [
        torch.arange(0, (len(x) + 1) * x.shape[1], x.shape[1], dtype=torch.int32, device=x.device)
        if x.shape[1] else torch.zeros(len(x) + 1, dtype=torch.int32, device=x.device)
        for x in (q, k)
    ]  # fmt: skip
    return Sequences(starts[0], starts[1], q.shape[1], k.shape[1])


class Options(NamedTuple):
    """What attention does beside softmax(q k^T * scale) v."""

    scale: float | None = None
    window: tuple[int, int] = (-1, -1)
    softcap: float = 0.0
    slopes: Tensor | None = None  # of ALiBi: (heads,) or (batch, heads)
    dropout: float = 0.0

    def is_plain(self) -> bool:
        """Whether the fused kernel does it."""
        return self.softcap == 0.0 and self.slopes is None and self.dropout == 0.0


def attend(
    q: Tensor, k: Tensor, v: Tensor, where: Sequences, how: Options
) -> tuple[Tensor, Tensor]:
    """The result, (tokens, heads, size), and the log of each row's sum, (heads, tokens)."""
    if how.is_plain():
        out, lse = varlen_attn(
            q, k, v, where.q, where.k, where.max_q, where.max_k, return_aux=AuxRequest(lse=True),
            scale=how.scale, window_size=how.window, enable_gqa=q.shape[1] != k.shape[1],
        )  # fmt: skip
        return out, lse.transpose(0, 1)
    parts = [
        _composed(q[rows], k[keys], v[keys], i, how) for i, (rows, keys) in enumerate(where.pairs())
    ]
    return torch.cat([out for out, _ in parts]), torch.cat([lse for _, lse in parts], 1)


def _composed(q: Tensor, k: Tensor, v: Tensor, index: int, how: Options) -> tuple[Tensor, Tensor]:
    """Attention of one sequence, by its definition."""
    heads, kind = q.shape[1], q.dtype
    q, k, v = (x.float().transpose(0, 1) for x in (q, k, v))
    if k.shape[0] != heads:
        k, v = (x.repeat_interleave(heads // x.shape[0], 0) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if how.scale is None else how.scale)
    if how.softcap:
        scores = how.softcap * (scores / how.softcap).tanh()
    rows, keys = scores.shape[1:]
    away = torch.arange(keys, device=q.device) - torch.arange(rows, device=q.device)[:, None]
    away = away - (keys - rows)  # places are counted from the ends
    if how.slopes is not None:
        slopes = how.slopes if how.slopes.ndim == 1 else how.slopes[index]
        scores = scores - slopes.float()[:, None, None] * away.abs()
    left, right = how.window
    hidden = torch.zeros_like(away, dtype=torch.bool)
    if left >= 0:
        hidden = hidden | (away < -left)
    if right >= 0:
        hidden = hidden | (away > right)
    scores = scores.masked_fill(hidden, float("-inf"))
    weights = scores.softmax(-1).masked_fill(hidden.all(-1, keepdim=True), 0.0)
    lse = scores.logsumexp(-1)
    weights = F.dropout(weights, how.dropout)
    return (weights @ v).transpose(0, 1).to(kind), lse
