"""Scaled dot-product attention that never holds the scores in memory, and its gradients.

Arrays are (batch, head, place, element); `group` query heads share a head of keys and values.
VARLEN: sequences of several lengths lie one after the other in one batch; starts say where.
ENGINE: q, k, v and dout are descriptors, whose blocks the copy engine brings; else pointers.

# Note [Which keys a row sees]
Row r sees the keys c with r - behind <= c <= r + ahead, and what a mask allows.  AHEAD, BEHIND:
there is such a bound.  BOTTOM: they are counted from the ends of both sequences, not from their
begins.  Blocks of keys that all rows of a program see whole need no comparisons: they have a loop
of their own.

Inner functions get their many arguments in groups:
keys   k, v, their strides, batch, head, begin, n_cols, n_qk, n_v
edge   n_rows, n_cols, mask, the offset of its head, its strides, factor, ahead, behind
drop   seed, offset, p, number of (batch, head) times rows, keys at most

# Note [Base 2]
Scores are kept in units of log 2, with the scale folded into the one multiplication that exp2 needs
anyway.  lse, the log of each row's sum, is stored in natural logs.
"""

import triton
import triton.language as tl

from .copy import convert
from .matrices.matmul import dot
from .random import to_unit
from .softmax import number

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def extent(starts, sequence, length, VARLEN: tl.constexpr):
    """Where a sequence begins, and its length."""
    if VARLEN:
        begin = tl.load(starts + sequence)
        end = tl.load(starts + sequence + 1)
        length = (end - begin).to(tl.int32)
    else:
        begin = 0
    return begin, length


@triton.jit
def base_of(batch, head, begin, strides, WIDE: tl.constexpr):
    """The offset of a sequence of one head, which begins at some place."""
    if WIDE:
        batch = batch.to(tl.int64)
        head = head.to(tl.int64)
    return batch * strides[0] + head * strides[1] + begin * strides[2]


@triton.jit
def tile(
    x, batch, head, begin, first, n_rows, n_cols, strides, ROWS_MASKED: tl.constexpr,
    ENGINE: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """BLOCK rows from begin + first on of one head, WIDTH columns; 0 outside.

    ROWS_MASKED: rows of the sequence may end inside the block.
    """
    if ENGINE:
        out = tl.reshape(x.load([batch, head, first, 0]), (BLOCK, WIDTH))
    else:
        rows = first + tl.arange(0, BLOCK)
        cols = tl.arange(0, WIDTH)
        mask = (cols < n_cols)[None, :]
        if ROWS_MASKED:
            mask = mask & (rows < n_rows)[:, None]
        if WIDE:
            rows = rows.to(tl.int64)
        base = base_of(batch, head, begin, strides, WIDE)
        at = base + (rows * strides[2])[:, None] + (cols * strides[3])[None, :]
        out = tl.load(x + at, mask=mask, other=0.0)
    return out


@triton.jit
def seen(row, col, ahead, behind, AHEAD: tl.constexpr, BEHIND: tl.constexpr):
    """Whether a row sees a key; row and col broadcast."""
    yes = row >= 0
    if AHEAD:
        yes = yes & (col <= row + ahead)
    if BEHIND:
        yes = yes & (col >= row - behind)
    return yes


@triton.jit
def keys_of(
    first, n_cols, ahead, behind, AHEAD: tl.constexpr, BEHIND: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """begin, low, high, end: some of BLOCK_M rows see the keys begin to end, all of them low to
    high; multiples of BLOCK_N, but for the end and what meets it."""
    begin = 0
    low = 0
    end = n_cols
    high = n_cols
    if AHEAD:
        end = tl.minimum(end, first + BLOCK_M + ahead)
        high = tl.minimum(high, first + ahead + 1)
    if BEHIND:
        begin = tl.maximum(first - behind, 0) // BLOCK_N * BLOCK_N
        low = tl.maximum(first + BLOCK_M - 1 - behind, 0)
        low = tl.minimum((low + BLOCK_N - 1) // BLOCK_N * BLOCK_N, tl.maximum(end, 0))
    high = tl.maximum(tl.maximum(high, low) // BLOCK_N * BLOCK_N, low)
    return begin, low, high, end


@triton.jit
def rows_of(
    first, n_rows, ahead, behind, AHEAD: tl.constexpr, BEHIND: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """begin, low, high, end: rows begin to end see some of BLOCK_N keys, low to high each."""
    begin = 0
    low = 0
    end = n_rows
    high = n_rows
    if AHEAD:
        begin = tl.maximum(first - ahead, 0) // BLOCK_M * BLOCK_M
        low = tl.maximum(first + BLOCK_N - 1 - ahead, 0)
        low = (low + BLOCK_M - 1) // BLOCK_M * BLOCK_M
    if BEHIND:
        end = tl.minimum(end, first + BLOCK_N + behind)
        high = tl.minimum(high, tl.maximum(first + behind + 1, 0) // BLOCK_M * BLOCK_M)
    low = tl.minimum(low, tl.maximum((end + BLOCK_M - 1) // BLOCK_M * BLOCK_M, begin))
    return begin, low, tl.maximum(high, low), end


@triton.jit
def masked(
    s, row, col, edge, MASK: tl.constexpr, AHEAD: tl.constexpr, BEHIND: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Scores with -inf where a key is not seen, and what is added to them.

    With MASK "add" they come out scaled by factor, to log 2; otherwise not scaled yet.
    """
    n_rows, n_cols, mask_ptr, base, strides, factor, ahead, behind = edge
    visible = (col < n_cols) & seen(row, col, ahead, behind, AHEAD, BEHIND)
    if MASK != "none":
        if WIDE:
            at = base + row.to(tl.int64) * strides[2] + col.to(tl.int64) * strides[3]
        else:
            at = base + row * strides[2] + col * strides[3]
        m = tl.load(mask_ptr + at, mask=visible & (row < n_rows), other=0)
        if MASK == "bool":
            visible = visible & convert(m, tl.int1)
        else:
            s = s * factor + convert(m, s.dtype) * LOG2E
    return tl.where(visible, s, float("-inf"))


@triton.jit
def kept(drop, row, first, BLOCK: tl.constexpr):
    """Which of a block of weights dropout keeps: (rows, BLOCK keys from `first` on).

    One counter serves four keys.
    """
    seed, offset, p, place, n_keys = drop
    group = first // 4 + tl.arange(0, BLOCK // 4)
    at = (place + row) * tl.cdiv(n_keys, 4) + group[None, :]
    a, b, c, d = tl.randint4x(seed.to(tl.uint64), at + offset // 4)
    pairs = tl.join(tl.join(a, c), tl.join(b, d))  # so that the last two dims count 0 to 3
    bits = tl.reshape(pairs, (row.shape[0], BLOCK))
    return to_unit(bits) >= number(p, tl.float32)


@triton.jit
def over_keys(
    acc, total, top, q, row, low, high, keys, edge, drop, EDGE: tl.constexpr, MASK: tl.constexpr,
    AHEAD: tl.constexpr, BEHIND: tl.constexpr, DROP: tl.constexpr, FOLD: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, ENGINE: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Goes on with keys low to high.  EDGE: not every row sees each of them."""
    k, v, k_strides, v_strides, batch, head, begin, n_cols, n_qk, n_v = keys
    factor = edge[5]
    for first in range(low, high, BLOCK_N):
        key = tile(
            k, batch, head, begin, first, n_cols, n_qk, k_strides, EDGE, ENGINE, WIDE, BLOCK_N,
            BLOCK_E,
        )  # fmt: skip
        s = dot(q, tl.trans(key), tl.zeros([q.shape[0], BLOCK_N], COMPUTE), PRECISION)
        if not FOLD and MASK != "add":
            s = s * factor
        if EDGE or MASK != "none":
            col = (first + tl.arange(0, BLOCK_N))[None, :]
            s = masked(s, row, col, edge, MASK, AHEAD, BEHIND, WIDE)
        higher = tl.max(s, axis=1)
        if FOLD:
            higher = higher * factor
        higher = tl.maximum(top, higher)
        if EDGE or MASK != "none":
            shift = tl.where(higher == float("-inf"), 0.0, higher)
        else:
            shift = higher
        if FOLD:
            p = tl.exp2(s * factor - shift[:, None])
        else:
            p = tl.exp2(s - shift[:, None])
        decay = tl.exp2(top - shift)
        total = total * decay + tl.sum(p, axis=1)
        top = higher
        if DROP:
            p = tl.where(kept(drop, row, first, BLOCK_N), p, 0.0)
        value = tile(
            v, batch, head, begin, first, n_cols, n_v, v_strides, EDGE, ENGINE, WIDE, BLOCK_N,
            BLOCK_V,
        )  # fmt: skip
        acc = dot(convert(p, value.dtype), value, acc * decay[:, None], PRECISION)
    return acc, total, top


@triton.jit(do_not_specialize=["ahead", "behind", "seed", "offset", "p_drop"])
def attention(
    q, k, v, mask_ptr, out_ptr, lse_ptr, q_starts_ptr, k_starts_ptr, n_heads, group, q_len, kv_len,
    n_qk, n_v, q_strides, k_strides, v_strides, out_strides, lse_strides, mask_strides, scale,
    ahead, behind, seed, offset, p_drop, MASK: tl.constexpr, AHEAD: tl.constexpr,
    BEHIND: tl.constexpr, BOTTOM: tl.constexpr, DROP: tl.constexpr, FOLD: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, ENGINE: tl.constexpr, VARLEN: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    """out = softmax(q k^T scale + mask) v, lse = log(sum(exp(...))) of each row.

    One program computes BLOCK_M rows of one head, BLOCK_N keys at a time, rescaling what it has
    when a larger score comes.  A row that sees no key gives 0.  FOLD: scale is positive and the
    mask adds nothing, so the largest score can be taken before scaling.  The last rows, which see
    the most, come first.
    """
    n_blocks = tl.cdiv(q_len, BLOCK_M)
    pid = tl.program_id(0)
    head = pid // n_blocks % n_heads
    sequence = pid // n_blocks // n_heads
    first = (n_blocks - 1 - pid % n_blocks) * BLOCK_M
    q_begin, n_rows = extent(q_starts_ptr, sequence, q_len, VARLEN)
    k_begin, n_cols = extent(k_starts_ptr, sequence, kv_len, VARLEN)
    batch = sequence * (0 if VARLEN else 1)
    if first < n_rows:
        if BOTTOM:
            ahead += n_cols - n_rows
            behind -= n_cols - n_rows
        rows = first + tl.arange(0, BLOCK_M)
        row = rows[:, None]
        query = tile(
            q, batch, head, q_begin, first, n_rows, n_qk, q_strides, True, ENGINE, WIDE, BLOCK_M,
            BLOCK_E,
        )  # fmt: skip
        keys = k, v, k_strides, v_strides, batch, head // group, k_begin, n_cols, n_qk, n_v
        factor = number(scale, COMPUTE) * LOG2E
        mask_base = base_of(batch, head, 0, mask_strides, WIDE)
        edge = n_rows, n_cols, mask_ptr, mask_base, mask_strides, factor, ahead, behind
        drop = seed, offset, p_drop, (sequence * n_heads + head).to(tl.int64) * q_len, kv_len
        top = tl.full([BLOCK_M], float("-inf"), COMPUTE)
        total = tl.zeros([BLOCK_M], COMPUTE)
        acc = tl.zeros([BLOCK_M, BLOCK_V], COMPUTE)
        begin, low, high, end = keys_of(
            first, n_cols, ahead, behind, AHEAD, BEHIND, BLOCK_M, BLOCK_N
        )
        if BEHIND:
            acc, total, top = over_keys(
                acc, total, top, query, row, begin, low, keys, edge, drop, True, MASK, AHEAD,
                BEHIND, DROP, FOLD, COMPUTE, PRECISION, ENGINE, WIDE, BLOCK_N, BLOCK_E, BLOCK_V,
            )  # fmt: skip
        acc, total, top = over_keys(
            acc, total, top, query, row, low, high, keys, edge, drop, False, MASK, AHEAD, BEHIND,
            DROP, FOLD, COMPUTE, PRECISION, ENGINE, WIDE, BLOCK_N, BLOCK_E, BLOCK_V,
        )  # fmt: skip
        acc, total, top = over_keys(
            acc, total, top, query, row, high, end, keys, edge, drop, True, MASK, AHEAD, BEHIND,
            DROP, FOLD, COMPUTE, PRECISION, ENGINE, WIDE, BLOCK_N, BLOCK_E, BLOCK_V,
        )  # fmt: skip
        if DROP:
            acc = acc * (1 / (1 - number(p_drop, COMPUTE)))
        shift = tl.where(top == float("-inf"), 0.0, top)
        out = acc / tl.where(total == 0, 1.0, total)[:, None]
        store_rows(
            out_ptr, out, batch, head, q_begin, rows, n_rows, n_v, out_strides, WIDE, BLOCK_V
        )
        at = base_of(batch, head, q_begin, lse_strides, WIDE) + rows
        tl.store(lse_ptr + at, (shift + tl.log2(total)) * LN2, mask=rows < n_rows)


@triton.jit
def store_rows(
    x, value, batch, head, begin, rows, n_rows, n_cols, strides, WIDE: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """Stores rows of one head, whose elements are dense."""
    if WIDE:
        rows = rows.to(tl.int64)
    cols = tl.arange(0, WIDTH)
    at = base_of(batch, head, begin, strides, WIDE) + rows * strides[2]
    tl.store(
        x + at[:, None] + cols[None, :],
        convert(value, x.dtype.element_ty),
        mask=(rows < n_rows)[:, None] & (cols < n_cols)[None, :],
    )


@triton.jit
def weights_of(lses, at, mask):
    """lse to base 2 of some rows; rows that see nothing, or are none, get weights 0."""
    lse = tl.load(lses + at, mask=mask, other=float("inf"))
    return tl.where(lse == float("-inf"), float("inf"), lse) * LOG2E


@triton.jit
def dq_over_keys(
    acc, q, dout, lse, delta, row, low, high, keys, edge, drop, EDGE: tl.constexpr,
    MASK: tl.constexpr, AHEAD: tl.constexpr, BEHIND: tl.constexpr, DROP: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, ENGINE: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Goes on with keys low to high.  EDGE: not every row sees each of them."""
    k, v, k_strides, v_strides, batch, head, begin, n_cols, n_qk, n_v = keys
    for first in range(low, high, BLOCK_N):
        key = tile(
            k, batch, head, begin, first, n_cols, n_qk, k_strides, EDGE, ENGINE, WIDE, BLOCK_N,
            BLOCK_E,
        )  # fmt: skip
        value = tile(
            v, batch, head, begin, first, n_cols, n_v, v_strides, EDGE, ENGINE, WIDE, BLOCK_N,
            BLOCK_V,
        )  # fmt: skip
        s = dot(q, tl.trans(key), tl.zeros([q.shape[0], BLOCK_N], COMPUTE), PRECISION)
        if MASK != "add":
            s = s * edge[5]
        if EDGE or MASK != "none":
            col = (first + tl.arange(0, BLOCK_N))[None, :]
            s = masked(s, row, col, edge, MASK, AHEAD, BEHIND, WIDE)
        p = tl.exp2(s - lse)
        dp = dot(dout, tl.trans(value), tl.zeros([q.shape[0], BLOCK_N], COMPUTE), PRECISION)
        if DROP:
            grown = 1 / (1 - number(drop[2], COMPUTE))
            dp = tl.where(kept(drop, row, first, BLOCK_N), dp * grown, 0.0)
        ds = p * (dp - delta)
        acc = dot(convert(ds, key.dtype), key, acc, PRECISION)
    return acc


@triton.jit(do_not_specialize=["ahead", "behind", "seed", "offset", "p_drop"])
def attention_dq(
    dout, q, k, v, out_ptr, mask_ptr, lse_ptr, delta_ptr, dq_ptr, q_starts_ptr, k_starts_ptr,
    n_heads, group, q_len, kv_len, n_qk, n_v, dout_strides, q_strides, k_strides, v_strides,
    out_strides, dq_strides, lse_strides, mask_strides, scale, ahead, behind, seed, offset, p_drop,
    MASK: tl.constexpr, AHEAD: tl.constexpr, BEHIND: tl.constexpr, BOTTOM: tl.constexpr,
    DROP: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr, ENGINE: tl.constexpr,
    VARLEN: tl.constexpr, WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """dq = ds k scale, with ds = p (dout v^T - delta), p = exp(s - lse) and delta = sum(dout out),
    which is left for the gradients of k and v.

    One program computes BLOCK_M rows of one head, so nothing needs atomics.
    """
    n_blocks = tl.cdiv(q_len, BLOCK_M)
    pid = tl.program_id(0)
    head = pid // n_blocks % n_heads
    sequence = pid // n_blocks // n_heads
    first = (n_blocks - 1 - pid % n_blocks) * BLOCK_M
    q_begin, n_rows = extent(q_starts_ptr, sequence, q_len, VARLEN)
    k_begin, n_cols = extent(k_starts_ptr, sequence, kv_len, VARLEN)
    batch = sequence * (0 if VARLEN else 1)
    if first < n_rows:
        if BOTTOM:
            ahead += n_cols - n_rows
            behind -= n_cols - n_rows
        rows = first + tl.arange(0, BLOCK_M)
        row = rows[:, None]
        g = tile(
            dout, batch, head, q_begin, first, n_rows, n_v, dout_strides, True, ENGINE, WIDE,
            BLOCK_M, BLOCK_V,
        )  # fmt: skip
        o = tile(
            out_ptr, batch, head, q_begin, first, n_rows, n_v, out_strides, True, False, WIDE,
            BLOCK_M, BLOCK_V,
        )  # fmt: skip
        delta = tl.sum(convert(g, COMPUTE) * convert(o, COMPUTE), axis=1)
        at = base_of(batch, head, q_begin, lse_strides, WIDE) + rows
        tl.store(delta_ptr + at, delta, mask=rows < n_rows)
        tl.debug_barrier()  # read again, it lies as the loops below want it
        delta = tl.load(delta_ptr + at, mask=rows < n_rows, other=0.0)
        lse = weights_of(lse_ptr, at, rows < n_rows)
        query = tile(
            q, batch, head, q_begin, first, n_rows, n_qk, q_strides, True, ENGINE, WIDE, BLOCK_M,
            BLOCK_E,
        )  # fmt: skip
        keys = k, v, k_strides, v_strides, batch, head // group, k_begin, n_cols, n_qk, n_v
        unit = number(scale, COMPUTE)
        mask_base = base_of(batch, head, 0, mask_strides, WIDE)
        edge = n_rows, n_cols, mask_ptr, mask_base, mask_strides, unit * LOG2E, ahead, behind
        drop = seed, offset, p_drop, (sequence * n_heads + head).to(tl.int64) * q_len, kv_len
        acc = tl.zeros([BLOCK_M, BLOCK_E], COMPUTE)
        begin, low, high, end = keys_of(
            first, n_cols, ahead, behind, AHEAD, BEHIND, BLOCK_M, BLOCK_N
        )
        if BEHIND:
            acc = dq_over_keys(
                acc, query, g, lse[:, None], delta[:, None], row, begin, low, keys, edge, drop,
                True, MASK, AHEAD, BEHIND, DROP, COMPUTE, PRECISION, ENGINE, WIDE, BLOCK_N,
                BLOCK_E, BLOCK_V,
            )  # fmt: skip
        acc = dq_over_keys(
            acc, query, g, lse[:, None], delta[:, None], row, low, high, keys, edge, drop, False,
            MASK, AHEAD, BEHIND, DROP, COMPUTE, PRECISION, ENGINE, WIDE, BLOCK_N, BLOCK_E, BLOCK_V,
        )  # fmt: skip
        acc = dq_over_keys(
            acc, query, g, lse[:, None], delta[:, None], row, high, end, keys, edge, drop, True,
            MASK, AHEAD, BEHIND, DROP, COMPUTE, PRECISION, ENGINE, WIDE, BLOCK_N, BLOCK_E, BLOCK_V,
        )  # fmt: skip
        store_rows(
            dq_ptr, acc * unit, batch, head, q_begin, rows, n_rows, n_qk, dq_strides, WIDE, BLOCK_E
        )


@triton.jit
def dkdv_over_rows(
    dk, dv, key, value, col, first_col, low, high, low_all, high_all, rows_of_q, edge, drop,
    MASK: tl.constexpr, AHEAD: tl.constexpr, BEHIND: tl.constexpr, DROP: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, ENGINE: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Goes on with rows low to high.  EDGE: not each of them sees all keys (those past the end,
    which nobody stores, aside).  Scores are transposed: a row for each key."""
    q, dout, lse_ptr, delta_ptr, q_strides, dout_strides, batch, head, begin, n_qk, n_v = rows_of_q
    n_rows = edge[0]
    for first in range(low, high, BLOCK_M):
        rows = first + tl.arange(0, BLOCK_M)
        query = tile(
            q, batch, head, begin, first, n_rows, n_qk, q_strides, True, ENGINE, WIDE, BLOCK_M,
            BLOCK_E,
        )  # fmt: skip
        g = tile(
            dout, batch, head, begin, first, n_rows, n_v, dout_strides, True, ENGINE, WIDE, BLOCK_M,
            BLOCK_V,
        )  # fmt: skip
        lse = weights_of(lse_ptr, rows, rows < n_rows)
        delta = tl.load(delta_ptr + rows, mask=rows < n_rows, other=0.0)
        s = dot(key, tl.trans(query), tl.zeros([BLOCK_N, BLOCK_M], COMPUTE), PRECISION)
        if MASK != "add":
            s = s * edge[5]
        if MASK != "none":
            s = masked(s, rows[None, :], col, edge, MASK, AHEAD, BEHIND, WIDE)
        elif AHEAD or BEHIND:
            if first < low_all or first >= high_all:
                s = masked(s, rows[None, :], col, edge, MASK, AHEAD, BEHIND, WIDE)
        p = tl.exp2(s - lse[None, :])
        dp = dot(value, tl.trans(g), tl.zeros([BLOCK_N, BLOCK_M], COMPUTE), PRECISION)
        if DROP:
            keeps = tl.trans(kept(drop, rows[:, None], first_col, BLOCK_N))
            grown = 1 / (1 - number(drop[2], COMPUTE))
            dp = tl.where(keeps, dp * grown, 0.0)
            dv = dot(convert(tl.where(keeps, p * grown, 0.0), g.dtype), g, dv, PRECISION)
        else:
            dv = dot(convert(p, g.dtype), g, dv, PRECISION)
        ds = p * (dp - delta[None, :])
        dk = dot(convert(ds, query.dtype), query, dk, PRECISION)
    return dk, dv


@triton.jit(do_not_specialize=["ahead", "behind", "seed", "offset", "p_drop"])
def attention_dkdv(
    dout, q, k, v, mask_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, q_starts_ptr, k_starts_ptr,
    n_heads, group, q_len, kv_len, n_qk, n_v, dout_strides, q_strides, k_strides, v_strides,
    dk_strides, dv_strides, lse_strides, mask_strides, scale, ahead, behind, seed, offset, p_drop,
    MASK: tl.constexpr, AHEAD: tl.constexpr, BEHIND: tl.constexpr, BOTTOM: tl.constexpr,
    DROP: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr, ENGINE: tl.constexpr,
    VARLEN: tl.constexpr, WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """dk = ds^T q scale and dv = p^T dout, with ds and p as in attention_dq.

    One program computes BLOCK_N keys of one head, over all rows of the query heads that share it.
    """
    n_blocks = tl.cdiv(kv_len, BLOCK_N)
    n_kv_heads = n_heads // group
    pid = tl.program_id(0)
    kv_head = pid // n_blocks % n_kv_heads
    sequence = pid // n_blocks // n_kv_heads
    first = pid % n_blocks * BLOCK_N
    q_begin, n_rows = extent(q_starts_ptr, sequence, q_len, VARLEN)
    k_begin, n_cols = extent(k_starts_ptr, sequence, kv_len, VARLEN)
    batch = sequence * (0 if VARLEN else 1)
    if first < n_cols:
        if BOTTOM:
            ahead += n_cols - n_rows
            behind -= n_cols - n_rows
        cols = first + tl.arange(0, BLOCK_N)
        key = tile(
            k, batch, kv_head, k_begin, first, n_cols, n_qk, k_strides, True, ENGINE, WIDE, BLOCK_N,
            BLOCK_E,
        )  # fmt: skip
        value = tile(
            v, batch, kv_head, k_begin, first, n_cols, n_v, v_strides, True, ENGINE, WIDE, BLOCK_N,
            BLOCK_V,
        )  # fmt: skip
        unit = number(scale, COMPUTE)
        factor = unit * LOG2E
        dk = tl.zeros([BLOCK_N, BLOCK_E], COMPUTE)
        dv = tl.zeros([BLOCK_N, BLOCK_V], COMPUTE)
        begin, low, high, end = rows_of(
            first, n_rows, ahead, behind, AHEAD, BEHIND, BLOCK_M, BLOCK_N
        )
        for shared in range(group):
            head = kv_head * group + shared
            at = base_of(batch, head, q_begin, lse_strides, WIDE)
            of_q = (
                q, dout, lse_ptr + at, delta_ptr + at, q_strides, dout_strides, batch, head,
                q_begin, n_qk, n_v,
            )  # fmt: skip
            mask_base = base_of(batch, head, 0, mask_strides, WIDE)
            edge = n_rows, n_cols, mask_ptr, mask_base, mask_strides, factor, ahead, behind
            drop = seed, offset, p_drop, (sequence * n_heads + head).to(tl.int64) * q_len, kv_len
            dk, dv = dkdv_over_rows(
                dk, dv, key, value, cols[:, None], first, begin, end, low, high, of_q,
                edge, drop, MASK, AHEAD, BEHIND, DROP, COMPUTE, PRECISION, ENGINE, WIDE,
                BLOCK_M, BLOCK_N, BLOCK_E, BLOCK_V,
            )  # fmt: skip
        store_rows(
            dk_ptr, dk * unit, batch, kv_head, k_begin, cols, n_cols, n_qk, dk_strides, WIDE,
            BLOCK_E,
        )  # fmt: skip
        store_rows(
            dv_ptr, dv, batch, kv_head, k_begin, cols, n_cols, n_v, dv_strides, WIDE, BLOCK_V
        )


@triton.jit(do_not_specialize=["seed", "offset", "p_drop"])
def dropout_mask(
    y_ptr, n_rows, n_keys, seed, offset, p_drop, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Which weights dropout keeps, (rows of all heads, keys): for the composed definition."""
    row = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    first = tl.program_id(1) * BLOCK_N
    col = (first + tl.arange(0, BLOCK_N))[None, :]
    drop = seed, offset, p_drop, 0, n_keys
    keeps = kept(drop, row.to(tl.int64), first, BLOCK_N)
    at = row.to(tl.int64) * n_keys + col
    tl.store(y_ptr + at, keeps, mask=(row < n_rows) & (col < n_keys))
