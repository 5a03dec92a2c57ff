"""Attention whose scores a program's own functions change and hide, and its gradients.

    out = softmax(score(scale q k^T) where mask) v        lse = log(sum(exp(...))) of each row

SCORE and MASK are jit functions written from a program's Python (Note [Programs of scalars] in
`tritorch/ops/pointwise/scalar_programs.py`): of scores, batch, head, row and key, all as blocks
that
broadcast, and of what they load from (`mods`: pointers, sizes, strides).  SLOPE gives a score and
its derivative.  None: there is none.

# Note [Lists of blocks]
A block mask has for each block of Q_BLOCK rows a list of blocks of KV_BLOCK keys in which some keys
are seen, and another of those that are seen whole, where MASK is not asked; for the gradients of
keys, lists of blocks of rows for each block of keys.  A list is a row of a table (`blocks`) whose
first `count` entries are meant.  Tables of all batches or heads are one where they are shared:
table_steps, in lists, are 0 then.  Without SPARSE there are no lists: all keys are seen.

Tiles, layouts and the units of scores are those of attention.py.
"""

import triton
import triton.language as tl

from .attention import LN2, LOG2E, base_of, store_rows, tile, weights_of
from .copy import convert
from .matrices.matmul import dot
from .softmax import number


@triton.jit
def constant(value, DTYPE: tl.constexpr):
    """A number as a block."""
    return tl.full([1, 1], value, DTYPE)


@triton.jit
def offset(place, size, stride, WIDE: tl.constexpr = False):
    """Of a place along a dim: a negative one counts from its end, and one outside becomes the
    nearest inside."""
    if place.dtype.primitive_bitwidth < 32:
        place = place.to(tl.int32)
    place = tl.where(place < 0, place + size, place)
    place = tl.minimum(tl.maximum(place, 0), size - 1)
    if WIDE:
        place = place.to(tl.int64)
    return place * stride


@triton.jit
def hidden(s, row, col, of, mods, MASK: tl.constexpr, FULL: tl.constexpr):
    """Scores in units of log 2, -inf where a key is not seen; of: batch, head and lengths."""
    batch, head, n_rows, n_cols = of
    pointers, sizes, strides = mods
    visible = (row < n_rows) & (col < n_cols)
    if not FULL and MASK is not None:
        visible = visible & MASK(batch, head, row, col, pointers, sizes, strides)
    return tl.where(visible, s * LOG2E, float("-inf")), visible


@triton.jit
def changed(s, row, col, of, mods, SCORE: tl.constexpr):
    """Scores as SCORE leaves them."""
    batch, head, _, _ = of
    pointers, sizes, strides = mods
    if SCORE is not None:
        out = SCORE(s, batch, head, row, col, pointers, sizes, strides)
        s = tl.broadcast_to(out, s.shape)
    return s


@triton.jit
def changed_with_slope(s, row, col, of, mods, SLOPE: tl.constexpr):
    """Scores as SLOPE leaves them, and its derivative."""
    batch, head, _, _ = of
    pointers, sizes, strides = mods
    out, slope = SLOPE(s, batch, head, row, col, pointers, sizes, strides)
    return tl.broadcast_to(out, s.shape), tl.broadcast_to(slope, s.shape)


@triton.jit
def listed(step, blocks, SPARSE: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Where the step's BLOCK places begin, in blocks of SIZE each."""
    if SPARSE:
        PARTS: tl.constexpr = SIZE // BLOCK
        first = tl.load(blocks + step // PARTS) * SIZE + step % PARTS * BLOCK
    else:
        first = step * BLOCK
    return first


@triton.jit
def list_of(table, strides, batch, head, block):
    """How many entries a list has, and where they are."""
    counts, blocks, width = table
    at = batch * strides[0] + head * strides[1] + block
    return tl.load(counts + at), blocks + at.to(tl.int64) * width


@triton.jit
def over_keys(
    acc, total, top, q, row, steps, blocks, keys, of, mods, unit, FULL: tl.constexpr,
    SCORE: tl.constexpr, MASK: tl.constexpr, SPARSE: tl.constexpr, KV_BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, ENGINE: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Goes on with the keys of a list.  FULL: they are seen whole."""
    k, v, k_strides, v_strides, batch, head, n_cols, n_qk, n_v = keys
    for step in range(steps):
        first = listed(step, blocks, SPARSE, KV_BLOCK, BLOCK_N)
        key = tile(
            k, batch, head, 0, first, n_cols, n_qk, k_strides, True, ENGINE, WIDE, BLOCK_N, BLOCK_E
        )
        col = (first + tl.arange(0, BLOCK_N))[None, :]
        s = dot(q, tl.trans(key), tl.zeros([q.shape[0], BLOCK_N], COMPUTE), PRECISION) * unit
        s = changed(s, row, col, of, mods, SCORE)
        s, _ = hidden(s, row, col, of, mods, MASK, FULL)
        higher = tl.maximum(top, tl.max(s, axis=1))
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.exp2(s - shift[:, None])
        decay = tl.exp2(top - shift)
        total = total * decay + tl.sum(p, axis=1)
        top = higher
        value = tile(
            v, batch, head, 0, first, n_cols, n_v, v_strides, True, ENGINE, WIDE, BLOCK_N, BLOCK_V
        )
        acc = dot(convert(p, value.dtype), value, acc * decay[:, None], PRECISION)
    return acc, total, top


@triton.jit
def flex(
    q, k, v, out_ptr, lse_ptr, top_ptr, partial, full, pointers, n_heads, group, q_len, kv_len,
    n_qk, n_v, q_strides, k_strides, v_strides, out_strides, lse_strides, table_steps, sizes,
    strides, scale, SCORE: tl.constexpr, MASK: tl.constexpr, SPARSE: tl.constexpr,
    FULL: tl.constexpr, TOPS: tl.constexpr, Q_BLOCK: tl.constexpr, KV_BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, ENGINE: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """out and lse, and with TOPS the largest score of each row.

    One program computes BLOCK_M rows of one head, over the keys of its lists: `partial`, and with
    FULL `full`.  A row that sees no key gives 0.
    """
    n_blocks = tl.cdiv(q_len, BLOCK_M)
    pid = tl.program_id(0)
    head = pid // n_blocks % n_heads
    batch = pid // n_blocks // n_heads
    first = (n_blocks - 1 - pid % n_blocks) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    row = rows[:, None]
    query = tile(
        q, batch, head, 0, first, q_len, n_qk, q_strides, True, ENGINE, WIDE, BLOCK_M, BLOCK_E
    )
    keys = k, v, k_strides, v_strides, batch, head // group, kv_len, n_qk, n_v
    of = constant(batch, tl.int32), constant(head, tl.int32), q_len, kv_len
    mods = pointers, sizes, strides
    unit = number(scale, COMPUTE)
    top = tl.full([BLOCK_M], float("-inf"), COMPUTE)
    total = tl.zeros([BLOCK_M], COMPUTE)
    acc = tl.zeros([BLOCK_M, BLOCK_V], COMPUTE)
    if SPARSE:
        count, blocks = list_of(partial, table_steps, batch, head, first // Q_BLOCK)
        steps = count * (KV_BLOCK // BLOCK_N)
    else:
        blocks = lse_ptr
        steps = tl.cdiv(kv_len, BLOCK_N)
    acc, total, top = over_keys(
        acc, total, top, query, row, steps, blocks, keys, of, mods, unit, False, SCORE, MASK,
        SPARSE, KV_BLOCK, COMPUTE, PRECISION, ENGINE, WIDE, BLOCK_N, BLOCK_E, BLOCK_V,
    )  # fmt: skip
    if FULL:
        count, blocks = list_of(full, table_steps, batch, head, first // Q_BLOCK)
        steps = count * (KV_BLOCK // BLOCK_N)
        acc, total, top = over_keys(
            acc, total, top, query, row, steps, blocks, keys, of, mods, unit, True, SCORE, MASK,
            SPARSE, KV_BLOCK, COMPUTE, PRECISION, ENGINE, WIDE, BLOCK_N, BLOCK_E, BLOCK_V,
        )  # fmt: skip
    shift = tl.where(top == float("-inf"), 0.0, top)
    out = acc / tl.where(total == 0, 1.0, total)[:, None]
    store_rows(out_ptr, out, batch, head, 0, rows, q_len, n_v, out_strides, WIDE, BLOCK_V)
    at = base_of(batch, head, 0, lse_strides, WIDE) + rows
    tl.store(lse_ptr + at, (shift + tl.log2(total)) * LN2, mask=rows < q_len)
    if TOPS:
        tl.store(top_ptr + at, top * LN2, mask=rows < q_len)


@triton.jit
def flex_delta(
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
def dq_over_keys(
    acc, q, dout, lse, delta, row, steps, blocks, keys, of, mods, unit, FULL: tl.constexpr,
    SLOPE: tl.constexpr, MASK: tl.constexpr, SPARSE: tl.constexpr, KV_BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, ENGINE: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Goes on with the keys of a list.  FULL: they are seen whole."""
    k, v, k_strides, v_strides, batch, head, n_cols, n_qk, n_v = keys
    for step in range(steps):
        first = listed(step, blocks, SPARSE, KV_BLOCK, BLOCK_N)
        key = tile(
            k, batch, head, 0, first, n_cols, n_qk, k_strides, True, ENGINE, WIDE, BLOCK_N, BLOCK_E
        )
        value = tile(
            v, batch, head, 0, first, n_cols, n_v, v_strides, True, ENGINE, WIDE, BLOCK_N, BLOCK_V
        )
        col = (first + tl.arange(0, BLOCK_N))[None, :]
        s = dot(q, tl.trans(key), tl.zeros([q.shape[0], BLOCK_N], COMPUTE), PRECISION) * unit
        dp = dot(dout, tl.trans(value), tl.zeros([q.shape[0], BLOCK_N], COMPUTE), PRECISION)
        if SLOPE is None:
            s, _ = hidden(s, row, col, of, mods, MASK, FULL)
            ds = tl.exp2(s - lse) * (dp - delta)
        else:
            s, slope = changed_with_slope(s, row, col, of, mods, SLOPE)
            s, visible = hidden(s, row, col, of, mods, MASK, FULL)
            ds = tl.where(visible, tl.exp2(s - lse) * (dp - delta) * slope, 0.0)
        acc = dot(convert(ds, key.dtype), key, acc, PRECISION)
    return acc


@triton.jit
def flex_dq(
    dout, q, k, v, lse_ptr, delta_ptr, dq_ptr, partial, full, pointers, n_heads, group, q_len,
    kv_len, n_qk, n_v, dout_strides, q_strides, k_strides, v_strides, dq_strides, lse_strides,
    table_steps, sizes, strides, scale, SLOPE: tl.constexpr, MASK: tl.constexpr,
    SPARSE: tl.constexpr, FULL: tl.constexpr, Q_BLOCK: tl.constexpr, KV_BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, ENGINE: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """dq = ds k scale, with ds = p (dout v^T - delta) slope and p = exp(s - lse)."""
    n_blocks = tl.cdiv(q_len, BLOCK_M)
    pid = tl.program_id(0)
    head = pid // n_blocks % n_heads
    batch = pid // n_blocks // n_heads
    first = (n_blocks - 1 - pid % n_blocks) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    row = rows[:, None]
    query = tile(
        q, batch, head, 0, first, q_len, n_qk, q_strides, True, ENGINE, WIDE, BLOCK_M, BLOCK_E
    )
    g = tile(
        dout, batch, head, 0, first, q_len, n_v, dout_strides, True, ENGINE, WIDE, BLOCK_M, BLOCK_V
    )
    at = base_of(batch, head, 0, lse_strides, WIDE) + rows
    lse = weights_of(lse_ptr, at, rows < q_len)
    delta = tl.load(delta_ptr + at, mask=rows < q_len, other=0.0)
    keys = k, v, k_strides, v_strides, batch, head // group, kv_len, n_qk, n_v
    of = constant(batch, tl.int32), constant(head, tl.int32), q_len, kv_len
    mods = pointers, sizes, strides
    unit = number(scale, COMPUTE)
    acc = tl.zeros([BLOCK_M, BLOCK_E], COMPUTE)
    if SPARSE:
        count, blocks = list_of(partial, table_steps, batch, head, first // Q_BLOCK)
        steps = count * (KV_BLOCK // BLOCK_N)
    else:
        blocks = lse_ptr
        steps = tl.cdiv(kv_len, BLOCK_N)
    acc = dq_over_keys(
        acc, query, g, lse[:, None], delta[:, None], row, steps, blocks, keys, of, mods, unit,
        False, SLOPE, MASK, SPARSE, KV_BLOCK, COMPUTE, PRECISION, ENGINE, WIDE, BLOCK_N, BLOCK_E,
        BLOCK_V,
    )  # fmt: skip
    if FULL:
        count, blocks = list_of(full, table_steps, batch, head, first // Q_BLOCK)
        steps = count * (KV_BLOCK // BLOCK_N)
        acc = dq_over_keys(
            acc, query, g, lse[:, None], delta[:, None], row, steps, blocks, keys, of, mods, unit,
            True, SLOPE, MASK, SPARSE, KV_BLOCK, COMPUTE, PRECISION, ENGINE, WIDE, BLOCK_N,
            BLOCK_E, BLOCK_V,
        )  # fmt: skip
    store_rows(dq_ptr, acc * unit, batch, head, 0, rows, q_len, n_qk, dq_strides, WIDE, BLOCK_E)


@triton.jit
def dkdv_over_rows(
    dk, dv, key, value, col, steps, blocks, rows_of_q, of, mods, unit, FULL: tl.constexpr,
    SLOPE: tl.constexpr, MASK: tl.constexpr, SPARSE: tl.constexpr, Q_BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, ENGINE: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Goes on with the rows of a list.  Scores are transposed: a row for each key."""
    q, dout, lses, deltas, q_strides, dout_strides, batch, head, n_rows, n_qk, n_v = rows_of_q
    for step in range(steps):
        first = listed(step, blocks, SPARSE, Q_BLOCK, BLOCK_M)
        rows = first + tl.arange(0, BLOCK_M)
        row = rows[None, :]
        query = tile(
            q, batch, head, 0, first, n_rows, n_qk, q_strides, True, ENGINE, WIDE, BLOCK_M, BLOCK_E
        )
        g = tile(
            dout, batch, head, 0, first, n_rows, n_v, dout_strides, True, ENGINE, WIDE, BLOCK_M,
            BLOCK_V,
        )  # fmt: skip
        lse = weights_of(lses, rows, rows < n_rows)
        delta = tl.load(deltas + rows, mask=rows < n_rows, other=0.0)
        s = dot(key, tl.trans(query), tl.zeros([BLOCK_N, BLOCK_M], COMPUTE), PRECISION) * unit
        dp = dot(value, tl.trans(g), tl.zeros([BLOCK_N, BLOCK_M], COMPUTE), PRECISION)
        if SLOPE is None:
            s, _ = hidden(s, row, col, of, mods, MASK, FULL)
            p = tl.exp2(s - lse[None, :])
            ds = p * (dp - delta[None, :])
        else:
            s, slope = changed_with_slope(s, row, col, of, mods, SLOPE)
            s, visible = hidden(s, row, col, of, mods, MASK, FULL)
            p = tl.exp2(s - lse[None, :])
            ds = tl.where(visible, p * (dp - delta[None, :]) * slope, 0.0)
        dv = dot(convert(p, g.dtype), g, dv, PRECISION)
        dk = dot(convert(ds, query.dtype), query, dk, PRECISION)
    return dk, dv


@triton.jit
def flex_dkdv(
    dout, q, k, v, lse_ptr, delta_ptr, dk_ptr, dv_ptr, partial, full, pointers, n_heads, group,
    q_len, kv_len, n_qk, n_v, dout_strides, q_strides, k_strides, v_strides, dk_strides,
    dv_strides, lse_strides, table_steps, sizes, strides, scale, SLOPE: tl.constexpr,
    MASK: tl.constexpr, SPARSE: tl.constexpr, FULL: tl.constexpr, Q_BLOCK: tl.constexpr,
    KV_BLOCK: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr, ENGINE: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    """dk = ds^T q scale and dv = p^T dout, with ds and p as in flex_dq.

    One program computes BLOCK_N keys of one head, over the rows of its lists (of blocks of rows)
    of all query heads that share it.
    """
    n_blocks = tl.cdiv(kv_len, BLOCK_N)
    n_kv_heads = n_heads // group
    pid = tl.program_id(0)
    kv_head = pid // n_blocks % n_kv_heads
    batch = pid // n_blocks // n_kv_heads
    first = pid % n_blocks * BLOCK_N
    cols = first + tl.arange(0, BLOCK_N)
    col = cols[:, None]
    key = tile(
        k, batch, kv_head, 0, first, kv_len, n_qk, k_strides, True, ENGINE, WIDE, BLOCK_N, BLOCK_E
    )
    value = tile(
        v, batch, kv_head, 0, first, kv_len, n_v, v_strides, True, ENGINE, WIDE, BLOCK_N, BLOCK_V
    )
    mods = pointers, sizes, strides
    unit = number(scale, COMPUTE)
    dk = tl.zeros([BLOCK_N, BLOCK_E], COMPUTE)
    dv = tl.zeros([BLOCK_N, BLOCK_V], COMPUTE)
    for shared in range(group):
        head = kv_head * group + shared
        at = base_of(batch, head, 0, lse_strides, WIDE)
        of_q = (
            q, dout, lse_ptr + at, delta_ptr + at, q_strides, dout_strides, batch, head, q_len,
            n_qk, n_v,
        )  # fmt: skip
        of = constant(batch, tl.int32), constant(head, tl.int32), q_len, kv_len
        if SPARSE:
            count, blocks = list_of(partial, table_steps, batch, head, first // KV_BLOCK)
            steps = count * (Q_BLOCK // BLOCK_M)
        else:
            blocks = lse_ptr
            steps = tl.cdiv(q_len, BLOCK_M)
        dk, dv = dkdv_over_rows(
            dk, dv, key, value, col, steps, blocks, of_q, of, mods, unit, False, SLOPE, MASK,
            SPARSE, Q_BLOCK, COMPUTE, PRECISION, ENGINE, WIDE, BLOCK_M, BLOCK_N, BLOCK_E, BLOCK_V,
        )  # fmt: skip
        if FULL:
            count, blocks = list_of(full, table_steps, batch, head, first // KV_BLOCK)
            steps = count * (Q_BLOCK // BLOCK_M)
            dk, dv = dkdv_over_rows(
                dk, dv, key, value, col, steps, blocks, of_q, of, mods, unit, True, SLOPE, MASK,
                SPARSE, Q_BLOCK, COMPUTE, PRECISION, ENGINE, WIDE, BLOCK_M, BLOCK_N, BLOCK_E,
                BLOCK_V,
            )  # fmt: skip
    store_rows(dk_ptr, dk * unit, batch, kv_head, 0, cols, kv_len, n_qk, dk_strides, WIDE, BLOCK_E)
    store_rows(dv_ptr, dv, batch, kv_head, 0, cols, kv_len, n_v, dv_strides, WIDE, BLOCK_V)
