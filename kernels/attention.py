"""Scaled dot-product attention that never holds the scores in memory, and its gradients.

Arrays are (batch, head, place, element); `group` query heads share a head of keys and values.
"""

import triton
import triton.language as tl

from .copy import convert
from .matmul import dot
from .softmax import number


@triton.jit
def tile(x, base, rows, n_rows, cols, n_cols, row_stride, col_stride):
    """x[rows, cols] of one head, 0 outside."""
    mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
    offsets = base + (rows * row_stride)[:, None] + (cols * col_stride)[None, :]
    return tl.load(x + offsets, mask=mask, other=0.0)


@triton.jit
def scores(q, k_t, mask, mask_base, rows, cols, n_rows, n_cols, row_stride, col_stride, scale,
           MASK: tl.constexpr, CAUSAL: tl.constexpr, COMPUTE: tl.constexpr,
           PRECISION: tl.constexpr):  # fmt: skip
    """q k scale + mask; -inf where there is no key or it may not be seen."""
    s = dot(q, k_t, tl.zeros([q.shape[0], k_t.shape[1]], COMPUTE), PRECISION) * scale
    seen = (cols < n_cols)[None, :] & (rows >= 0)[:, None]
    if CAUSAL:
        seen = seen & (rows[:, None] >= cols[None, :])
    if MASK != "none":
        at = mask + mask_base + (rows * row_stride)[:, None] + (cols * col_stride)[None, :]
        m = tl.load(at, mask=seen & (rows < n_rows)[:, None], other=0)
        if MASK == "bool":
            seen = seen & convert(m, tl.int1)
        else:
            s += convert(m, COMPUTE)
    return tl.where(seen, s, float("-inf"))


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, mask_ptr, out_ptr, lse_ptr, n_heads, group, q_len, kv_len, n_qk, n_v,
    q_strides, k_strides, v_strides, mask_strides, scale, MASK: tl.constexpr,
    CAUSAL: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """out = softmax(q k^T scale + mask) v, lse = log(sum(exp(...))) of each row.

    One program computes BLOCK_M rows of one head, BLOCK_N keys at a time, rescaling what it has
    when a larger score comes.  A row that sees no key gives 0.
    """
    n_blocks = tl.cdiv(q_len, BLOCK_M)
    pid = tl.program_id(0)
    if WIDE:
        pid = pid.to(tl.int64)
    head = pid // n_blocks % n_heads
    batch = pid // n_blocks // n_heads
    first = pid % n_blocks * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    e = tl.arange(0, BLOCK_E)
    ev = tl.arange(0, BLOCK_V)
    k_base = batch * k_strides[0] + head // group * k_strides[1]
    v_base = batch * v_strides[0] + head // group * v_strides[1]
    mask_base = batch * mask_strides[0] + head * mask_strides[1]
    q_base = batch * q_strides[0] + head * q_strides[1]
    q = tile(q_ptr, q_base, rows, q_len, e, n_qk, q_strides[2], q_strides[3])
    factor = number(scale, COMPUTE)
    top = tl.full([BLOCK_M], float("-inf"), COMPUTE)
    total = tl.zeros([BLOCK_M], COMPUTE)
    acc = tl.zeros([BLOCK_M, BLOCK_V], COMPUTE)
    end = kv_len
    if CAUSAL:
        end = tl.minimum(kv_len, first + BLOCK_M)
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        if WIDE:
            cols = cols.to(tl.int64)
        k_t = tile(k_ptr, k_base, e, n_qk, cols, kv_len, k_strides[3], k_strides[2])
        s = scores(
            q, k_t, mask_ptr, mask_base, rows, cols, q_len, kv_len, mask_strides[2],
            mask_strides[3], factor, MASK, CAUSAL, COMPUTE, PRECISION,
        )  # fmt: skip
        higher = tl.maximum(top, tl.max(s, axis=1))
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.exp(s - shift[:, None])
        decay = tl.exp(top - shift)
        total = total * decay + tl.sum(p, axis=1)
        top = higher
        v = tile(v_ptr, v_base, cols, kv_len, ev, n_v, v_strides[2], v_strides[3])
        acc = dot(convert(p, v.dtype), v, acc * decay[:, None], PRECISION)
    shift = tl.where(top == float("-inf"), 0.0, top)
    out = acc / tl.where(total == 0, 1.0, total)[:, None]
    row_mask = rows < q_len
    row = pid // n_blocks * q_len + rows
    tl.store(lse_ptr + row, shift + tl.log(total), mask=row_mask)
    mask = row_mask[:, None] & (ev < n_v)[None, :]
    tl.store(
        out_ptr + row[:, None] * n_v + ev[None, :],
        convert(out, out_ptr.dtype.element_ty),
        mask=mask,
    )


@triton.jit
def attention_delta(
    dout_ptr, out_ptr, delta_ptr, n_rows, q_len, n_heads, n_v, dout_strides, out_strides,
    COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """delta = sum(dout out) of each row; one program takes BLOCK_M rows of all heads."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    if WIDE:
        rows = rows.to(tl.int64)
    ev = tl.arange(0, BLOCK_V)
    head = rows // q_len
    place = rows % q_len
    mask = (rows < n_rows)[:, None] & (ev < n_v)[None, :]
    dout_rows = head // n_heads * dout_strides[0] + head % n_heads * dout_strides[1]
    dout_rows += place * dout_strides[2]
    out_rows = head // n_heads * out_strides[0] + head % n_heads * out_strides[1]
    out_rows += place * out_strides[2]
    dout = tl.load(
        dout_ptr + dout_rows[:, None] + (ev * dout_strides[3])[None, :], mask=mask, other=0.0
    )
    out = tl.load(
        out_ptr + out_rows[:, None] + (ev * out_strides[3])[None, :], mask=mask, other=0.0
    )
    delta = tl.sum(convert(dout, COMPUTE) * convert(out, COMPUTE), axis=1)
    tl.store(delta_ptr + rows, delta, mask=rows < n_rows)


@triton.jit
def attention_dq(
    dout_ptr, q_ptr, k_ptr, v_ptr, mask_ptr, lse_ptr, delta_ptr, dq_ptr, n_heads, group, q_len,
    kv_len, n_qk, n_v, dout_strides, q_strides, k_strides, v_strides, mask_strides, scale,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    """dq = ds k, with ds = p (dout v^T - delta) scale and p = exp(s - lse).

    One program computes BLOCK_M rows of one head, so nothing needs atomics.
    """
    n_blocks = tl.cdiv(q_len, BLOCK_M)
    pid = tl.program_id(0)
    if WIDE:
        pid = pid.to(tl.int64)
    head = pid // n_blocks % n_heads
    batch = pid // n_blocks // n_heads
    first = pid % n_blocks * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    row = pid // n_blocks * q_len + rows
    e = tl.arange(0, BLOCK_E)
    ev = tl.arange(0, BLOCK_V)
    k_base = batch * k_strides[0] + head // group * k_strides[1]
    v_base = batch * v_strides[0] + head // group * v_strides[1]
    mask_base = batch * mask_strides[0] + head * mask_strides[1]
    q_base = batch * q_strides[0] + head * q_strides[1]
    dout_base = batch * dout_strides[0] + head * dout_strides[1]
    q = tile(q_ptr, q_base, rows, q_len, e, n_qk, q_strides[2], q_strides[3])
    dout = tile(dout_ptr, dout_base, rows, q_len, ev, n_v, dout_strides[2], dout_strides[3])
    lse = tl.load(lse_ptr + row, mask=rows < q_len, other=0.0)
    lse = tl.where(lse == float("-inf"), 0.0, lse)
    delta = tl.load(delta_ptr + row, mask=rows < q_len, other=0.0)
    factor = number(scale, COMPUTE)
    acc = tl.zeros([BLOCK_M, BLOCK_E], COMPUTE)
    end = kv_len
    if CAUSAL:
        end = tl.minimum(kv_len, first + BLOCK_M)
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        if WIDE:
            cols = cols.to(tl.int64)
        k = tile(k_ptr, k_base, cols, kv_len, e, n_qk, k_strides[2], k_strides[3])
        s = scores(
            q, tl.trans(k), mask_ptr, mask_base, rows, cols, q_len, kv_len, mask_strides[2],
            mask_strides[3], factor, MASK, CAUSAL, COMPUTE, PRECISION,
        )  # fmt: skip
        p = tl.exp(s - lse[:, None])
        v_t = tile(v_ptr, v_base, ev, n_v, cols, kv_len, v_strides[3], v_strides[2])
        dp = dot(dout, v_t, tl.zeros([BLOCK_M, BLOCK_N], COMPUTE), PRECISION)
        ds = p * (dp - delta[:, None]) * factor
        acc = dot(convert(ds, k.dtype), k, acc, PRECISION)
    mask = (rows < q_len)[:, None] & (e < n_qk)[None, :]
    tl.store(
        dq_ptr + row[:, None] * n_qk + e[None, :], convert(acc, dq_ptr.dtype.element_ty), mask=mask
    )


@triton.jit
def attention_dkdv(
    dout_ptr, q_ptr, k_ptr, v_ptr, mask_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, n_heads, group,
    q_len, kv_len, n_qk, n_v, dout_strides, q_strides, k_strides, v_strides, mask_strides, scale,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    """dk = ds^T q and dv = p^T dout, with ds and p as in attention_dq.

    One program computes BLOCK_N keys of one head, over all rows of the query heads that share it.
    """
    n_blocks = tl.cdiv(kv_len, BLOCK_N)
    n_kv_heads = n_heads // group
    pid = tl.program_id(0)
    if WIDE:
        pid = pid.to(tl.int64)
    kv_head = pid // n_blocks % n_kv_heads
    batch = pid // n_blocks // n_kv_heads
    first = pid % n_blocks * BLOCK_N
    cols = first + tl.arange(0, BLOCK_N)
    e = tl.arange(0, BLOCK_E)
    ev = tl.arange(0, BLOCK_V)
    k_base = batch * k_strides[0] + kv_head * k_strides[1]
    v_base = batch * v_strides[0] + kv_head * v_strides[1]
    k_t = tile(k_ptr, k_base, e, n_qk, cols, kv_len, k_strides[3], k_strides[2])
    v_t = tile(v_ptr, v_base, ev, n_v, cols, kv_len, v_strides[3], v_strides[2])
    factor = number(scale, COMPUTE)
    dk = tl.zeros([BLOCK_N, BLOCK_E], COMPUTE)
    dv = tl.zeros([BLOCK_N, BLOCK_V], COMPUTE)
    begin = 0
    if CAUSAL:
        begin = first // BLOCK_M * BLOCK_M
    for shared in range(group):
        head = kv_head * group + shared
        mask_base = batch * mask_strides[0] + head * mask_strides[1]
        q_base = batch * q_strides[0] + head * q_strides[1]
        dout_base = batch * dout_strides[0] + head * dout_strides[1]
        for start in range(begin, q_len, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M)
            if WIDE:
                rows = rows.to(tl.int64)
            row = (batch * n_heads + head) * q_len + rows
            q = tile(q_ptr, q_base, rows, q_len, e, n_qk, q_strides[2], q_strides[3])
            lse = tl.load(lse_ptr + row, mask=rows < q_len, other=0.0)
            lse = tl.where(lse == float("-inf"), 0.0, lse)
            s = scores(
                q, k_t, mask_ptr, mask_base, rows, cols, q_len, kv_len, mask_strides[2],
                mask_strides[3], factor, MASK, CAUSAL, COMPUTE, PRECISION,
            )  # fmt: skip
            p = tl.exp(s - lse[:, None])
            dout = tile(dout_ptr, dout_base, rows, q_len, ev, n_v, dout_strides[2], dout_strides[3])
            dv = dot(tl.trans(convert(p, dout.dtype)), dout, dv, PRECISION)
            delta = tl.load(delta_ptr + row, mask=rows < q_len, other=0.0)
            dp = dot(dout, v_t, tl.zeros([BLOCK_M, BLOCK_N], COMPUTE), PRECISION)
            ds = p * (dp - delta[:, None]) * factor
            dk = dot(tl.trans(convert(ds, q.dtype)), q, dk, PRECISION)
    col = pid // n_blocks * kv_len + cols
    col_mask = (cols < kv_len)[:, None]
    tl.store(
        dk_ptr + col[:, None] * n_qk + e[None, :],
        convert(dk, dk_ptr.dtype.element_ty),
        mask=col_mask & (e < n_qk)[None, :],
    )
    tl.store(
        dv_ptr + col[:, None] * n_v + ev[None, :],
        convert(dv, dv_ptr.dtype.element_ty),
        mask=col_mask & (ev < n_v)[None, :],
    )
