"""Attention of sequences of several lengths that lie one after the other (nn.attention.varlen)."""

from __future__ import annotations

from typing import Any

from tritorch.arrays.sym_functions import sym_sqrt
from tritorch.core.dtype import int32, int64
from tritorch.core.tensor import Tensor
from tritorch.ops.nn import attention
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import computed
from tritorch.ops.record.operator import Operator
from tritorch.ops.shape.joining import cat
from tritorch.ops.shape.ranges import arange

Bounds = tuple[int, int]


def _composed(
    q: Tensor, k: Tensor, v: Tensor, q_starts: Tensor, k_starts: Tensor, longest: Bounds,
    window: Bounds, scale: float,
) -> Tensor:  # fmt: skip
    behind, ahead = window
    parts = []
    q_ends, k_ends = q_starts.tolist(), k_starts.tolist()
    for i in range(len(q_ends) - 1):
        rows, keys = slice(q_ends[i], q_ends[i + 1]), slice(k_ends[i], k_ends[i + 1])
        a, b, c = (x.transpose(0, 1) for x in (q[rows], k[keys], v[keys]))
        shift = b.shape[1] - a.shape[1]
        place = arange(a.shape[1], device=q.device).unsqueeze(1) + shift
        col = arange(b.shape[1], device=q.device)
        mask = (col <= place + (ahead if ahead >= 0 else b.shape[1])) & (
            col >= place - (behind if behind >= 0 else b.shape[1] + a.shape[1])
        )
        parts.append(attention._composed(a, b, c, mask, False, scale).transpose(0, 1))
    return cat(parts)


def _gradients(
    g: Any, q: Any, k: Any, v: Any, q_starts: Any, k_starts: Any, out: Any, longest: Bounds,
    window: Bounds, scale: float,
) -> Any:  # fmt: skip
    inputs = (g[0], q, k, v, q_starts, k_starts, out[0].detach(), out[1])
    return (*_varlen_back.call(inputs, (longest, window, scale)), None, None)


_varlen = Operator(
    "varlen_attention", "q k v q_starts k_starts", "longest window scale",
    schema="(Tensor q, Tensor k, Tensor v, Tensor q_starts, Tensor k_starts, int[] longest, "
        "int[] window, float scale) -> (Tensor, Tensor)",
    cpu="attention.varlen", composed=_composed,
    grad=Gradient(joint=_gradients, node="VarlenAttn", outputs=0b01),
    rules=Rules(
        infer=lambda q, k, v, *rest: (
            q.new((*q.shape[:-1], v.shape[-1])), q.new((q.shape[1], q.shape[0]), computed(q))
        ),
        cost=lambda outs, q, k, v, a, b, longest, *rest: (
            2 * (q.numel() + outs[0].numel()) * longest[1]
        ),
    ),
)  # fmt: skip
_varlen_back = Operator(
    "varlen_attention_backward", "y q k v q_starts k_starts out_ lse", "longest window scale",
    schema="(Tensor y, Tensor q, Tensor k, Tensor v, Tensor q_starts, Tensor k_starts, "
        "Tensor out_, Tensor lse, int[] longest, int[] window, float scale) -> (Tensor, "
        "Tensor, Tensor)",
    kind="internal", cpu="attention.varlen_backward", grad=Gradient(outputs=0b111),
    rules=Rules(
        infer=lambda y, q, k, v, *rest: (q.new(q.shape), k.new(k.shape), v.new(v.shape)),
        cost=lambda outs, y, q, *rest: (6 * q.numel() + 4 * y.numel()) * rest[6][1],
    ),
)  # fmt: skip


def _check(q: Tensor, k: Tensor, v: Tensor, q_starts: Tensor, k_starts: Tensor) -> None:
    for name, x in (("query", q), ("key", k), ("value", v)):
        if x.ndim != 3:
            raise ValueError(f"{name} must be (tokens, heads, head size), got {x.ndim} dims")
        if x.dtype is not q.dtype or x.device != q.device:
            raise ValueError(f"{name} must have query's dtype and device")
        if not x.dtype.is_floating_point:
            raise ValueError(f"varlen_attn computes floating point types, got {x.dtype}")
    if k.shape[:2] != v.shape[:2] or q.shape[2] != k.shape[2]:
        raise ValueError(
            f"key {list(k.shape)} and value {list(v.shape)} must have as many tokens and heads, "
            f"and query {list(q.shape)} and key the same head size"
        )
    for name, starts in (("cu_seq_q", q_starts), ("cu_seq_k", k_starts)):
        if starts.ndim != 1 or starts.dtype not in (int32, int64):
            raise ValueError(f"{name} must be a vector of int32, got {starts.dtype}")
    if q_starts.shape != k_starts.shape:
        raise ValueError("cu_seq_q and cu_seq_k must have as many entries")


def varlen(
    q: Tensor, k: Tensor, v: Tensor, q_starts: Tensor, k_starts: Tensor, longest: Bounds,
    window: Bounds, scale: float | None, gqa: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Results (T, H, E) and the log-sums of rows, (T, H)."""
    _check(q, k, v, q_starts, k_starts)
    heads, shared = q.shape[1], k.shape[1]
    if not gqa and heads != shared:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and "
            f"Hkv={shared}. Try setting enable_gqa=True for GQA."
        )
    if gqa and heads % shared:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={shared}."
        )
    factor = 1 / sym_sqrt(q.shape[2]) if scale is None else scale
    out, lse = _varlen.call(
        (q, k, v, q_starts, k_starts),
        ((int(longest[0]), int(longest[1])), (int(window[0]), int(window[1])), float(factor)),
    )
    return out, lse.transpose(0, 1)
