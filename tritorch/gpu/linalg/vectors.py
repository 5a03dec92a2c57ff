"""Products of vectors of three numbers."""

from __future__ import annotations

from typing import Any

from tritorch import _C
from tritorch.arrays.arrays import pairs
from tritorch.gpu.pointwise import pointwise
from tritorch.gpu.pointwise.layout import INT32_MAX, block_size, reach
from tritorch.triton.kernel import kernel

Array = _C.Array


def cross(a: Array, b: Array, dim: int) -> Array:
    """a x b along a dim of three; both of one shape."""
    y = _C.empty(a.shape, a.dtype, a.device_index)
    n = y.numel() // 3
    if n == 0:
        return y
    pair = a.dtype.is_complex
    arrays: list[Any] = [a, b, y]
    scale = 2 if pair else 1
    steps = [scale * x.strides[dim] for x in arrays]
    others = [i for i in range(a.ndim) if i != dim]
    dims, strides = pointwise.launch_layout(
        tuple(a.shape[i] for i in others),
        [tuple(scale * x.strides[i] for i in others) for x in arrays],
    )
    wide = max(reach((*dims, 3), (*s, step)) for s, step in zip(strides, steps)) > INT32_MAX
    block, warps = block_size(n)
    kernel("vectors", "cross")(
        (-(-n // block),), *(pairs(x) if pair else x for x in arrays), n, dims, *strides, *steps,
        COMPUTE=pointwise.triton_type(a.dtype.to_real()), PAIR=pair, NDIM=len(dims), WIDE=wide,
        BLOCK=block, num_warps=warps,
    )  # fmt: skip
    return y
