"""Jagged rows to padded ones and back, on the GPU; see kernels/nested.py."""

from __future__ import annotations

from typing import Any

from tritorch import _C
from tritorch.gpu.pointwise.layout import INT32_MAX
from tritorch.gpu.shape.shaping import dense_bits
from tritorch.triton.kernel import kernel

Array = _C.Array


def _move(x: Array, offsets: Array, out: Array, padded: Array, to_padded: bool) -> None:
    count, n_rows, n_cols = padded.shape
    source, each = dense_bits(x)
    target, _ = dense_bits(out)
    n_cols *= each
    cols = min(1 << max(n_cols - 1, 0).bit_length(), 128)
    rows = min(1 << max(n_rows - 1, 0).bit_length(), 1024 // cols)
    kernel("nested", "move_rows")(
        (count, -(-n_rows // rows), -(-n_cols // cols)), source, offsets.contiguous(), target,
        n_rows, n_cols, TO_PADDED=to_padded, WIDE=max(x.numel(), out.numel()) * each > INT32_MAX,
        BLOCK_ROWS=rows, BLOCK_COLS=cols, num_warps=4,
    )  # fmt: skip


def to_padded(x: Array, offsets: Array, length: int, padding: Any) -> Array:
    """out[b, s] = x[offsets[b] + s] where the component is as long, else padding."""
    out = _C.empty((offsets.shape[0] - 1, length, x.shape[1]), x.dtype, x.device_index)
    out.fill_(padding)
    if out.numel() and x.numel():
        _move(x, offsets, out, out, True)
    return out


def from_padded(x: Array, offsets: Array, total: int) -> Array:
    """out[offsets[b] + s] = x[b, s] for the rows that components have."""
    out = _C.empty((total, x.shape[2]), x.dtype, x.device_index).zero_()
    if out.numel() and x.numel():
        _move(x, offsets, out, x, False)
    return out
