"""Resampling of one dim of images by a table of weights; see kernels/images/resample.py."""

from __future__ import annotations

import functools

import numpy as np

from tritorch import _C
from tritorch.core.dtype import dtype, float32, float64
from tritorch.gpu.arrays import from_numpy
from tritorch.gpu.linalg.matmul import triton_name
from tritorch.gpu.nn.images import five_strides, is_wide, three
from tritorch.gpu.nn.pooling import block_of
from tritorch.host.nn.resample import table
from tritorch.triton.kernel import kernel

Array = _C.Array


@functools.cache
def _table(
    n: int, m: int, scale: float | None, align: bool, kind: str, transposed: bool, compute: dtype,
    index: int,
) -> tuple[Array, Array]:  # fmt: skip
    """host/nn/resample.py's table on a GPU: it stays, since graphs may read it."""
    begin, weights = table(n, m, scale, align, kind, transposed)
    found = (from_numpy(begin.astype(np.int32), index),
             from_numpy(weights.astype(compute.numpy), index))  # fmt: skip
    _C.stream_synchronize(index, _C.current_stream(index))  # others' streams read it too
    return found


def resample(
    x: Array, dim: int, n: int, m: int, scale: float | None, align: bool, kind: str,
    transposed: bool,
) -> Array:  # fmt: skip
    """One dim of n elements as m; transposed: back, as gradients go."""
    compute = float64 if x.dtype is float64 else float32
    begin, weights = _table(n, m, scale, align, kind, transposed, compute, x.device_index)
    shape = (*x.shape[:dim], begin.shape[0], *x.shape[dim + 1 :])
    out = _C.empty(shape, x.dtype, x.device_index)
    if out.numel() == 0:
        return out
    block = block_of(out.numel())
    kernel("resample", "resample")(
        (-(-out.numel() // block),), x, begin, weights, out, out.numel(), x.shape[1],
        weights.shape[1], x.shape[dim], three(shape[2:]), five_strides(x), ACROSS=dim == 3,
        COMPUTE=triton_name(compute), WIDE=is_wide(x, out), BLOCK=block, num_warps=4,
    )  # fmt: skip
    return out
