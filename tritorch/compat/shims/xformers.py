"""xformers.ops' attention and its masks, on ours."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import tritorch as torch
from tritorch import nn
from tritorch.compat.shims import _modules
from tritorch.compat.shims._attention import Options, Sequences, attend, of_batch
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as F

VERSION = "0.0.32"


# ---- masks ---------------------------------------------------------------------------------------


class AttentionBias:
    """What is added to scores before the softmax, as a rule."""

    def materialize(
        self, shape: Sequence[int], dtype: Any = torch.float32, device: Any = "cpu"
    ) -> Tensor:
        """The rule as a tensor of 0 and -inf (or numbers)."""
        raise NotImplementedError


class _Window(AttentionBias):
    """Keys from `window[0]` before to `window[1]` after a row's place; -1: all."""

    window = (-1, 0)
    from_end = False

    def materialize(
        self, shape: Sequence[int], dtype: Any = torch.float32, device: Any = "cpu"
    ) -> Tensor:
        rows, keys = shape[-2:]
        away = torch.arange(keys, device=device) - torch.arange(rows, device=device)[:, None]
        if self.from_end:
            away = away - (keys - rows)
        left, right = self.window
        hidden = (away > right) if right >= 0 else torch.zeros_like(away, dtype=torch.bool)
        if left >= 0:
            hidden = hidden | (away < -left)
        bias = torch.zeros(tuple(shape), dtype=dtype, device=device)
        return bias.masked_fill(hidden, float("-inf"))


class LowerTriangularMask(_Window):
    """A row sees its place and those before it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Arguments are accepted, as there."""

    def add_bias(self, bias: Tensor) -> LowerTriangularMaskWithTensorBias:
        """The mask and numbers of one's own."""
        return LowerTriangularMaskWithTensorBias(bias)


class LowerTriangularFromBottomRightMask(LowerTriangularMask):
    """The last row sees all keys, each row before it one fewer."""

    from_end = True


class LocalAttentionFromBottomRightMask(_Window):
    """A row sees keys around its place, counted from the ends."""

    from_end = True

    def __init__(self, window_left: int, window_right: int) -> None:
        self.window = (window_left, window_right)


class LowerTriangularMaskWithTensorBias(LowerTriangularMask):
    """The mask, and numbers that are added."""

    def __init__(self, bias: Tensor) -> None:
        self._bias = bias

    def materialize(
        self, shape: Sequence[int], dtype: Any = torch.float32, device: Any = "cpu"
    ) -> Tensor:
        return super().materialize(shape, dtype, device) + self._bias.to(dtype)


class _SeqLenInfo:
    """Where sequences begin that lie one after the other."""

    def __init__(self, seqlens: Sequence[int]) -> None:
        self.seqlens = list(seqlens)
        self.seqstart_py = [0, *itertools.accumulate(self.seqlens)]
        self.max_seqlen, self.min_seqlen = (
            max(self.seqlens, default=0),
            min(self.seqlens, default=0),
        )
        self.seqstart = torch.tensor(self.seqstart_py, dtype=torch.int32)

    @classmethod
    def from_seqlens(cls, seqlens: Sequence[int], device: Any = None) -> _SeqLenInfo:
        """Of the sequences' lengths."""
        return cls(seqlens)

    def intervals(self) -> Any:
        """The first row of each sequence, and the one after its last."""
        return itertools.pairwise(self.seqstart_py)


class BlockDiagonalMask(AttentionBias):
    """Sequences of several lengths, one after the other in a batch of one; each sees itself."""

    window, from_end = (-1, -1), False

    def __init__(
        self, q_seqinfo: _SeqLenInfo, k_seqinfo: _SeqLenInfo, batch_sizes: Any = None
    ) -> None:
        self.q_seqinfo, self.k_seqinfo, self._batch_sizes = q_seqinfo, k_seqinfo, batch_sizes

    @classmethod
    def from_seqlens(
        cls, q_seqlen: Sequence[int], kv_seqlen: Sequence[int] | None = None, *, device: Any = None
    ) -> BlockDiagonalMask:
        """Of the lengths of queries, and of keys if they differ."""
        q = _SeqLenInfo(q_seqlen)
        return cls(q, q if kv_seqlen is None else _SeqLenInfo(kv_seqlen))

    @classmethod
    def from_tensor_list(cls, tensors: Sequence[Tensor]) -> tuple[BlockDiagonalMask, Tensor]:
        """The mask of batches, and their rows one after the other, (1, rows, ...)."""
        lengths = [x.shape[1] for x in tensors for _ in range(x.shape[0])]
        mask = cls.from_seqlens(lengths)
        mask._batch_sizes = [x.shape[0] for x in tensors]
        return mask, torch.cat([x.reshape(1, -1, *x.shape[2:]) for x in tensors], 1)

    def split(self, tensor: Tensor) -> list[Tensor]:
        """The batches again, of their rows one after the other."""
        starts, made, at = self.q_seqinfo.seqstart_py, [], 0
        for size in self._batch_sizes or [1] * len(self.q_seqinfo.seqlens):
            rows = tensor[:, starts[at] : starts[at + size]]
            made.append(rows.reshape(size, -1, *tensor.shape[2:]))
            at += size
        return made

    def make_causal(self) -> BlockDiagonalCausalMask:
        """Each row sees, of its sequence, its place and those before it."""
        return BlockDiagonalCausalMask(self.q_seqinfo, self.k_seqinfo, self._batch_sizes)

    def make_causal_from_bottomright(self) -> BlockDiagonalCausalFromBottomRightMask:
        """The same, counted from the ends."""
        return BlockDiagonalCausalFromBottomRightMask(
            self.q_seqinfo, self.k_seqinfo, self._batch_sizes
        )

    def make_local_attention(self, window_size: int) -> Any:
        """A row sees the last `window_size` places up to its own."""
        made = self.make_causal()
        made.window = (window_size - 1, 0)
        return made

    def materialize(
        self, shape: Sequence[int], dtype: Any = torch.float32, device: Any = "cpu"
    ) -> Tensor:
        bias = torch.full(tuple(shape), float("-inf"), dtype=dtype, device=device)
        for (a, b), (c, d) in zip(
            self.q_seqinfo.intervals(), self.k_seqinfo.intervals(), strict=True
        ):
            rule = _Window()
            rule.window, rule.from_end = self.window, self.from_end
            bias[..., a:b, c:d] = rule.materialize((b - a, d - c), dtype, device)
        return bias

    def sequences(self, device: Any) -> Sequences:
        """Where they begin, as attention takes it."""
        q, k = self.q_seqinfo, self.k_seqinfo
        return Sequences(q.seqstart.to(device), k.seqstart.to(device), q.max_seqlen, k.max_seqlen)


class BlockDiagonalCausalMask(BlockDiagonalMask):
    """Each row sees, of its sequence, its place and those before it."""

    window = (-1, 0)


class BlockDiagonalCausalFromBottomRightMask(BlockDiagonalCausalMask):
    """The same, counted from the ends of the sequences."""

    from_end = True


# ---- attention -----------------------------------------------------------------------------------


def memory_efficient_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_bias: Any = None, p: float = 0.0,
    scale: float | None = None, *, op: Any = None, output_dtype: Any = None,
) -> Tensor:  # fmt: skip
    """softmax(q k^T * scale + bias) v of (batch, length, heads, size), or without heads, or with
    groups of heads before them."""
    out, _ = _attention(query, key, value, attn_bias, p, scale, with_lse=False)
    return out if output_dtype is None else out.to(output_dtype)


def memory_efficient_attention_forward(*args: Any, **kwargs: Any) -> Tensor:
    """The same without gradients."""
    with torch.no_grad():
        return memory_efficient_attention(*args, **kwargs)


def memory_efficient_attention_forward_requires_grad(
    query: Tensor, key: Tensor, value: Tensor, attn_bias: Any = None, p: float = 0.0,
    scale: float | None = None, *, op: Any = None, output_dtype: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The result, and the log of each row's sum, (batch, heads, length)."""
    return _attention(query, key, value, attn_bias, p, scale, with_lse=True)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Any, p: float, scale: float | None,
    with_lse: bool,
) -> tuple[Tensor, Any]:  # fmt: skip
    shape = query.shape
    if not 3 <= query.ndim <= 5:
        raise ValueError(
            f"Invalid shape for query: {tuple(shape)}. Supported: (batch, length, size), "
            "(batch, length, heads, size), (batch, length, groups, heads, size)"
        )
    q, k, v = (_with_heads(x) for x in (query, key, value))
    is_rule = bias is None or isinstance(bias, (BlockDiagonalMask, _Window))
    tensor_bias = isinstance(bias, LowerTriangularMaskWithTensorBias) or not is_rule
    if tensor_bias or not _counts_from_ends(bias, q, k):
        out, lse = _biased(q, k, v, bias, p, scale, with_lse)
    else:
        window = (-1, -1) if bias is None else bias.window
        where = bias.sequences(q.device) if isinstance(bias, BlockDiagonalMask) else of_batch(q, k)
        flat = [x.reshape(-1, *x.shape[2:]) for x in (q, k, v)]
        out, lse = attend(flat[0], flat[1], flat[2], where, Options(scale, window, dropout=p))
        out = out.reshape(*q.shape[:3], v.shape[-1])
        lse = lse.reshape(q.shape[2], *q.shape[:2]).transpose(0, 1)
    return out.reshape(*shape[:-1], v.shape[-1]), lse


def _with_heads(x: Tensor) -> Tensor:
    """(batch, length, heads, size): groups are heads too, and one head is none."""
    if x.ndim == 3:
        return x.unsqueeze(2)
    return x.flatten(2, 3) if x.ndim == 5 else x


def _counts_from_ends(bias: Any, q: Tensor, k: Tensor) -> bool:
    """Whether a rule means the same counted from the ends, as attention of sequences counts."""
    if bias is None or bias.window == (-1, -1) or bias.from_end:
        return True
    if isinstance(bias, BlockDiagonalMask):
        return bias.q_seqinfo.seqlens == bias.k_seqinfo.seqlens
    return q.shape[1] == k.shape[1]


def _biased(
    q: Tensor, k: Tensor, v: Tensor, bias: Any, p: float, scale: float | None, with_lse: bool
) -> tuple[Tensor, Any]:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if isinstance(bias, AttentionBias):
        bias = bias.materialize((q.shape[2], k.shape[2]), q.dtype, q.device)
    elif bias.ndim == 3:
        bias = bias.reshape(q.shape[0], -1, *bias.shape[1:])
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=p, scale=scale)
    lse = None
    if with_lse:
        factor = q.shape[-1] ** -0.5 if scale is None else scale
        lse = (q.float() @ k.float().mT * factor + bias).logsumexp(-1)
    return out.transpose(1, 2), lse


# ---- others --------------------------------------------------------------------------------------


def unbind(x: Tensor, dim: int) -> tuple[Tensor, ...]:
    """The parts of a dim."""
    return x.unbind(dim)


class SwiGLU(nn.Module):
    """w3(silu(w1 x) * w2 x)."""

    def __init__(
        self, in_features: int, hidden_features: int, out_features: int | None = None,
        bias: bool = True, *, _pack_weights: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_features, self.hidden_features = in_features, hidden_features
        self.out_features = out_features or in_features
        self.w12 = nn.Linear(in_features, 2 * hidden_features, bias=bias)
        self.w3 = nn.Linear(hidden_features, self.out_features, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """The result."""
        a, b = self.w12(x).chunk(2, -1)
        return self.w3(F.silu(a) * b)


def install() -> None:
    """Makes the modules of xformers."""
    masks = {
        k.__name__: k
        for k in (
            AttentionBias, BlockDiagonalCausalFromBottomRightMask, BlockDiagonalCausalMask,
            BlockDiagonalMask, LocalAttentionFromBottomRightMask,
            LowerTriangularFromBottomRightMask, LowerTriangularMask,
            LowerTriangularMaskWithTensorBias, _SeqLenInfo,
        )
    }  # fmt: skip
    functions = {
        f.__name__: f
        for f in (
            memory_efficient_attention, memory_efficient_attention_forward,
            memory_efficient_attention_forward_requires_grad,
        )
    }  # fmt: skip
    names = ("Cutlass", "Flash", "Triton", "FlashAttention")
    engines = {f"MemoryEfficientAttention{name}Op": None for name in names}  # ours is the only one
    shown = {k: v for k, v in masks.items() if k in ("AttentionBias", "LowerTriangularMask")}
    _modules.add("xformers", VERSION, {
        "": {}, "ops": functions | engines | shown | {"SwiGLU": SwiGLU, "unbind": unbind},
        "ops.fmha": functions | masks, "ops.fmha.attn_bias": masks,
    })  # fmt: skip
