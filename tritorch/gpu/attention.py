"""Scaled dot-product attention, (B, H, L, E)."""

from __future__ import annotations

from typing import Any

from tritorch import _C
from tritorch._triton.kernel import kernel
from tritorch.core.dtype import float32
from tritorch.gpu import matmul
from tritorch.gpu.layout import INT32_MAX, broadcast_strides, float_bits, reach
from tritorch.gpu.matmul import accumulator, triton_name

Array = _C.Array


def blocks(
    width: int, itemsize: int, backward: bool, masked: bool = False
) -> tuple[int, int, int, int]:
    """BLOCK_M, BLOCK_N, warps and stages for heads of a width (a power of two).

    What tests/cuda/test_compile.py compiles for real targets without spilling registers.
    """
    if itemsize == 2:
        if backward:
            return (32 if masked else 64, 64, 8, 2) if width <= 64 else (32, 32, 8, 1)
        return (
            (128, 64, 4 if width <= 64 and not masked else 8, 3) if width <= 128 else (64, 32, 8, 2)
        )
    if itemsize == 4 and width <= 64:
        return (16, 32, 4, 2) if backward else (32, 32, 4, 2)
    return (32, 16, 4, 1) if width <= 128 and not backward else (16, 16, 4, 1)


def _power(n: int) -> int:
    return max(1 << (n - 1).bit_length(), 16)


def _common(
    q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float, backward: bool
) -> tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]:
    """Sizes, strides and constants that the launches share."""
    batch, heads, q_len, width = q.shape
    kv_heads, kv_len, v_width = k.shape[1], k.shape[2], v.shape[3]
    shape = (batch, heads, q_len, kv_len)
    strides = (0, 0, 0, 0) if mask is None else broadcast_strides(mask.shape, mask.strides, shape)
    arrays = [q, k, v] if mask is None else [q, k, v, mask]
    wide = max(reach(a.shape, a.strides) for a in arrays) > INT32_MAX
    block_e, block_v = _power(width), _power(v_width)
    block_m, block_n, warps, stages = blocks(
        max(block_e, block_v), q.itemsize, backward, mask is not None
    )
    kind = "none" if mask is None else "bool" if mask.dtype.name == "bool" else "add"
    constants = {
        "MASK": kind, "CAUSAL": causal, "COMPUTE": triton_name(accumulator(q.dtype)),
        "PRECISION": matmul.precision if q.dtype is float32 else "ieee", "WIDE": wide,
        "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_E": block_e, "BLOCK_V": block_v,
        "num_warps": warps, "num_stages": stages,
    }  # fmt: skip
    sizes = (heads, heads // max(kv_heads, 1), q_len, kv_len, width, v_width)
    return sizes, (q.strides, k.strides, v.strides, strides, float_bits(scale)), constants


def attention(
    q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float
) -> tuple[Array, Array]:
    """softmax(q k^T scale + mask) v, and the log of each row's sum."""
    batch, heads, q_len, _ = q.shape
    out = _C.empty((batch, heads, q_len, v.shape[3]), q.dtype, q.device_index)
    lse = _C.empty((batch, heads, q_len), accumulator(q.dtype), q.device_index)
    if lse.numel() == 0:
        return out, lse
    sizes, rest, constants = _common(q, k, v, mask, causal, scale, False)
    kernel("attention", "attention")(
        (batch * heads * -(-q_len // constants["BLOCK_M"]),), q, k, v, q if mask is None else mask,
        out, lse, *sizes, *rest, **constants,
    )  # fmt: skip
    return out, lse


def attention_backward(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None, out: Array, lse: Array,
    causal: bool, scale: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients of q, k and v."""
    batch, heads, q_len, _ = q.shape
    kv_heads, kv_len = k.shape[1], k.shape[2]
    dq, dk, dv = (_C.empty(x.shape, x.dtype, x.device_index) for x in (q, k, v))
    if lse.numel() == 0 or kv_len == 0:
        return dq.zero_(), dk.zero_(), dv.zero_()
    lse = lse.contiguous()
    delta = _C.empty(lse.shape, lse.dtype, q.device_index)
    sizes, rest, constants = _common(q, k, v, mask, causal, scale, True)
    n_rows, block_v = lse.numel(), constants["BLOCK_V"]
    wide = max(reach(g.shape, g.strides), reach(out.shape, out.strides)) > INT32_MAX
    constants["WIDE"] |= wide
    block = max(2048 // block_v, 1)
    kernel("attention", "attention_delta")(
        (-(-n_rows // block),), g, out, delta, n_rows, q_len, heads, v.shape[3], g.strides,
        out.strides, COMPUTE=constants["COMPUTE"], WIDE=wide, BLOCK_M=block, BLOCK_V=block_v,
        num_warps=4,
    )  # fmt: skip
    operands = (g, q, k, v, q if mask is None else mask, lse, delta)
    kernel("attention", "attention_dq")(
        (batch * heads * -(-q_len // constants["BLOCK_M"]),), *operands, dq, *sizes, g.strides,
        *rest, **constants,
    )  # fmt: skip
    kernel("attention", "attention_dkdv")(
        (batch * kv_heads * -(-kv_len // constants["BLOCK_N"]),), *operands, dk, dv, *sizes,
        g.strides, *rest, **constants,
    )  # fmt: skip
    return dq, dk, dv
