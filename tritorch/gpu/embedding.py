"""The gradient of embeddings on the GPU."""

from __future__ import annotations

from tritorch import _C
from tritorch.gpu import indexing

Array = _C.Array


def embedding_backward(
    g: Array, indices: Array, n: int, padding_idx: int, by_frequency: bool
) -> Array:
    """Row i: the sum of the gradients where indices are i; by_frequency: their mean.

    Rows are added in the order of the indices, so that the same inputs give the same bits.
    """
    width = g.shape[-1]
    out = _C.empty((n, width), g.dtype, g.device_index).zero_()
    keys = indexing._make_keys(
        (indices,), indices.shape, (0,) * indices.ndim, (indices.strides,), (n,), (1,), n, False
    )
    writes = indexing.Writes(
        keys, n, (n,), (width,), indices.shape, g.strides[:-1], (width,), g.strides[-1:], (1,)
    )
    indexing.reduce_into(out, g, writes, "mean" if by_frequency else "sum", False)
    if padding_idx >= 0 and out.numel():
        out.select(0, padding_idx).zero_()
    return out
