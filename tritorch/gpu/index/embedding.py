"""The gradient of embeddings."""

from __future__ import annotations

from tritorch import _C
from tritorch.gpu.index.indexing import _along, reduce_into

Array = _C.Array


def embedding_backward(
    g: Array, indices: Array, n: int, padding_idx: int, by_frequency: bool
) -> Array:
    """Row i: the sum of the gradients where indices are i; their mean if by_frequency."""
    width = g.shape[-1]
    rows = g.reshape((indices.numel(), width))
    out = _C.empty((n, width), g.dtype, g.device_index).zero_()
    writes = _along("embedding_backward", out, 0, indices.reshape((indices.numel(),)), rows)
    reduce_into(out, rows, writes, "mean" if by_frequency else "sum", False)
    if padding_idx >= 0 and out.numel():
        out.select(0, padding_idx).zero_()
    return out
