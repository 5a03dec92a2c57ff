"""Attention of sequences of several lengths without padding, as torch.nn.attention.varlen.

The sequences of a batch lie one after the other; `cu_seq_q` and `cu_seq_k` say where each begins
and the last ends.  Windows are counted from the ends of both sequences.  Paged keys (`block_table`)
and `seqused_k` are not supported.
"""

from __future__ import annotations

from typing import NamedTuple

from tritorch.core.tensor import Tensor
from tritorch.ops.nn.varlen import varlen
from tritorch.ops.record.publishing import write_out

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """What varlen_attn returns beside its result."""

    lse: bool = False


def varlen_attn(
    query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor, cu_seq_k: Tensor | None,
    max_q: int, max_k: int, *, return_aux: AuxRequest | None = None, scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1), enable_gqa: bool = False,
    seqused_k: Tensor | None = None, block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """softmax(q k^T * scale) v of each sequence, (tokens, heads, head size).

    window_size: how many keys before and after its place a row sees; -1: all.  num_splits is
    accepted: keys are never split here, so results do not depend on the batch.
    """
    if cu_seq_k is None or seqused_k is not None or block_table is not None:
        raise NotImplementedError("varlen_attn: paged or partly used keys are not supported")
    out, lse = varlen(
        query, key, value, cu_seq_q, cu_seq_k, (max_q, max_k), window_size, scale, enable_gqa
    )
    return (out, lse) if return_aux is not None and return_aux.lse else out


def varlen_attn_out(
    out: Tensor, query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor,
    cu_seq_k: Tensor | None, max_q: int, max_k: int, *, return_aux: AuxRequest | None = None,
    scale: float | None = None, window_size: tuple[int, int] = (-1, -1), enable_gqa: bool = False,
    seqused_k: Tensor | None = None, block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """varlen_attn, written into `out`."""
    result = varlen_attn(
        query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, return_aux=return_aux, scale=scale,
        window_size=window_size, enable_gqa=enable_gqa, seqused_k=seqused_k,
        block_table=block_table, num_splits=num_splits,
    )  # fmt: skip
    if isinstance(result, tuple):
        return write_out(result[0], out), result[1]
    return write_out(result, out)
