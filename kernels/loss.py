"""Cross-entropy of rows of logits, without their softmax in memory.

Rows that are few and long are cut into parts: see Note [Long rows] in softmax.py.  ALIGN divides
n_cols and the stride of rows.
"""

import triton
import triton.language as tl

from .copy import convert
from .errors import report
from .softmax import aligned, all_parts, finite, keep_parts, number, online, read, together


@triton.jit
def logits_of(
    begin, row_mask, start, n_cols, x_col_stride, BLOCK_COLS: tl.constexpr
):  # fmt: skip
    """Offsets and mask of a tile of logits, its columns and which exist."""
    cols = start + tl.arange(0, BLOCK_COLS)
    col_mask = cols < n_cols
    offsets = begin[:, None] + (cols.to(begin.dtype) * x_col_stride)[None, :]
    return offsets, row_mask[:, None] & col_mask[None, :], cols, col_mask


@triton.jit
def weights_of(w, cols, col_mask, HAS_WEIGHT: tl.constexpr, COMPUTE: tl.constexpr):
    """Weights of classes; 1 if there are none."""
    if HAS_WEIGHT:
        return read(w, cols, col_mask, 0.0, COMPUTE)
    else:
        return col_mask.to(COMPUTE)


@triton.jit
def cross_entropy(
    x_ptr, target_ptr, w_ptr, loss_ptr, lse_ptr, partial_ptr, n_rows, n_cols, x_row_stride,
    x_col_stride, target_stride, ignore, smoothing, flag_ptr, where, per_part, n_parts,
    HAS_WEIGHT: tl.constexpr, SMOOTH: tl.constexpr, STEP: tl.constexpr, PARTS: tl.constexpr,
    COMPUTE: tl.constexpr, WIDE: tl.constexpr, ALIGN: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """loss = (lse - x[t]) w[t] (1 - s) + s / n_cols sum((lse - x) w), lse = log(sum(exp(x))).

    0 where the target t is ignored.  One program reads BLOCK_ROWS rows once; each lane keeps a
    maximum and a sum of its own.
    """
    n_cols = aligned(n_cols, ALIGN)
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    row_mask = rows < n_rows
    begin = rows
    if WIDE:
        begin = rows.to(tl.int64)
    begin = begin * aligned(x_row_stride, ALIGN)
    more = partial_ptr + 2 * n_rows * n_parts  # sums of weights and of x times them
    if STEP == "result":
        top, total = all_parts(partial_ptr, rows, row_mask, n_rows, n_parts, float("-inf"), PARTS)
        if SMOOTH:
            weights, weighted = all_parts(more, rows, row_mask, n_rows, n_parts, 0.0, PARTS)
            w_sum = tl.sum(weights, axis=1)
            xw_sum = tl.sum(weighted, axis=1)
    else:
        first = tl.program_id(1) * per_part
        last = tl.minimum(first + per_part, n_cols)
        top = tl.full([BLOCK_ROWS, BLOCK_COLS], float("-inf"), COMPUTE)
        total = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
        weighted = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
        weights = tl.zeros([BLOCK_COLS], COMPUTE)
        for start in range(first, last, BLOCK_COLS):
            offsets, mask, cols, col_mask = logits_of(
                begin, row_mask, start, n_cols, x_col_stride, BLOCK_COLS
            )
            x = read(x_ptr, offsets, mask, float("-inf"), COMPUTE)
            top, total = online(top, total, x)
            if SMOOTH:
                w = weights_of(w_ptr, cols, col_mask, HAS_WEIGHT, COMPUTE)
                weights += w
                weighted += tl.where(mask, x * w[None, :], 0.0)
        if SMOOTH:
            w_sum = tl.sum(weights, axis=0) + tl.zeros([BLOCK_ROWS], COMPUTE)
            xw_sum = tl.sum(weighted, axis=1)
    top, total = together(top, total)
    if STEP == "sums":
        part = tl.program_id(1)
        keep_parts(partial_ptr, part, rows, row_mask, n_rows, top, total)
        if SMOOTH:
            keep_parts(more, part, rows, row_mask, n_rows, w_sum, xw_sum)
    else:
        lse = finite(top) + tl.log(total)
        target = tl.load(target_ptr + rows * target_stride, mask=row_mask, other=0)
        seen = row_mask & (target != ignore)
        hit = seen & (target >= 0) & (target < n_cols)
        report(flag_ptr, where, target, seen & (hit == 0))
        x_hit = read(x_ptr, begin + target.to(begin.dtype) * x_col_stride, hit, 0.0, COMPUTE)
        loss = lse - x_hit
        if HAS_WEIGHT:
            loss *= read(w_ptr, target, hit, 0.0, COMPUTE)
        if SMOOTH:
            s = number(smoothing, COMPUTE)
            loss = loss * (1.0 - s) + (lse * w_sum - xw_sum) * (s / n_cols)
        loss = tl.where(hit, loss, 0.0)
        tl.store(loss_ptr + rows, convert(loss, loss_ptr.dtype.element_ty), mask=row_mask)
        tl.store(lse_ptr + rows, lse, mask=row_mask)


@triton.jit
def cross_entropy_backward(
    dloss_ptr, x_ptr, target_ptr, w_ptr, w_sum_ptr, lse_ptr, dx_ptr, n_rows, n_cols, dloss_stride,
    x_row_stride, x_col_stride, target_stride, ignore, smoothing,
    HAS_WEIGHT: tl.constexpr, SMOOTH: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr,
    ALIGN: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """dx = p (h + r sum(w)) - h [col = t] - r w, with p = exp(x - lse), h = dloss w[t] (1 - s) and
    r = dloss s / n_cols; dx is dense.  One program computes one tile.
    """
    n_cols = aligned(n_cols, ALIGN)
    n_col_blocks = tl.cdiv(n_cols, BLOCK_COLS)
    pid = tl.program_id(0)
    rows = pid // n_col_blocks * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    row_mask = rows < n_rows
    target = tl.load(target_ptr + rows * target_stride, mask=row_mask, other=0)
    hit = row_mask & (target != ignore) & (target >= 0) & (target < n_cols)
    dloss = read(dloss_ptr, rows * dloss_stride, hit, 0.0, COMPUTE)
    lse = tl.load(lse_ptr + rows, mask=row_mask, other=0.0)
    if WIDE:
        rows = rows.to(tl.int64)
    start = pid % n_col_blocks * BLOCK_COLS
    offsets, mask, cols, col_mask = logits_of(
        rows * aligned(x_row_stride, ALIGN), row_mask, start, n_cols, x_col_stride, BLOCK_COLS
    )
    x = read(x_ptr, offsets, mask, 0.0, COMPUTE)
    p = tl.exp(x - lse[:, None])
    h = dloss
    if HAS_WEIGHT:
        h *= read(w_ptr, target, hit, 0.0, COMPUTE)
    if SMOOTH:
        s = number(smoothing, COMPUTE)
        h *= 1.0 - s
        r = dloss * (s / n_cols)
        if HAS_WEIGHT:
            w = read(w_ptr, cols, col_mask, 0.0, COMPUTE)
            dx = p * (h + r * tl.load(w_sum_ptr))[:, None] - r[:, None] * w[None, :]
        else:
            dx = p * (h + r * n_cols)[:, None] - r[:, None]
    else:
        dx = p * h[:, None]
    dx -= tl.where(cols[None, :] == target[:, None], h[:, None], 0.0)
    dx = tl.where(hit[:, None], dx, 0.0)
    offsets, mask, _, _ = logits_of(rows * n_cols, row_mask, start, n_cols, 1, BLOCK_COLS)
    tl.store(dx_ptr + offsets, convert(dx, dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def logit_gradient(x, cols, lse, target, hit, h):
    """(exp(x - lse) - [col = t]) h; 0 where the row has no target."""
    dx = tl.exp(x - lse) - tl.where(cols == target, 1.0, 0.0)
    return tl.where(hit, dx * h, 0.0)


@triton.jit
def cross_entropy_in_place(
    x_ptr, target_ptr, w_ptr, dloss_ptr, loss_ptr, n_cols, x_row_stride, dloss_stride,
    target_stride, ignore, flag_ptr, where, HAS_WEIGHT: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, ALIGN: tl.constexpr, ROW_ALIGN: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """loss = (lse - x[t]) w[t], and x becomes its gradient: (exp(x - lse) - [col = t]) w[t] dloss.

    One program goes through one row twice; what it reads the second time is in the cache.  Whole
    tiles have no mask, so that only the last one of a row of odd length is read by elements.
    """
    n_cols = aligned(n_cols, ALIGN)
    row = tl.program_id(0)
    target = tl.load(target_ptr + row * target_stride + tl.arange(0, 1))
    seen = target != ignore
    hit = seen & (target >= 0) & (target < n_cols)
    report(flag_ptr, where, target, seen & (hit == 0))
    begin = row
    if WIDE:
        begin = row.to(tl.int64)
    row_ptr = x_ptr + begin * aligned(x_row_stride, ROW_ALIGN)
    # Before any thread overwrites it: the sums below are a barrier.
    x_hit = read(row_ptr, target, hit, 0.0, COMPUTE)
    cols = tl.arange(0, BLOCK_COLS)[None, :]
    top = tl.full([1, BLOCK_COLS], float("-inf"), COMPUTE)
    total = tl.zeros([1, BLOCK_COLS], COMPUTE)
    whole = n_cols // BLOCK_COLS * BLOCK_COLS
    for start in range(0, whole, BLOCK_COLS):
        top, total = online(top, total, convert(tl.load(row_ptr + start + cols), COMPUTE))
    rest = whole + cols
    mask = rest < n_cols
    if whole < n_cols:
        top, total = online(top, total, read(row_ptr, rest, mask, float("-inf"), COMPUTE))
    top, total = together(top, total)
    lse = finite(top) + tl.log(total)
    loss = lse - x_hit
    h = read(dloss_ptr, row * dloss_stride + tl.arange(0, 1), hit, 0.0, COMPUTE)
    if HAS_WEIGHT:
        w = read(w_ptr, target, hit, 0.0, COMPUTE)
        loss *= w
        h *= w
    loss = convert(tl.where(hit, loss, 0.0), loss_ptr.dtype.element_ty)
    tl.store(loss_ptr + row + tl.arange(0, 1), loss)
    lse = lse[:, None]
    target = target[:, None]
    hit = hit[:, None]
    h = h[:, None]
    for start in range(0, whole, BLOCK_COLS):
        x = convert(tl.load(row_ptr + start + cols), COMPUTE)
        dx = logit_gradient(x, start + cols, lse, target, hit, h)
        tl.store(row_ptr + start + cols, convert(dx, x_ptr.dtype.element_ty))
    if whole < n_cols:
        dx = logit_gradient(read(row_ptr, rest, mask, 0.0, COMPUTE), rest, lse, target, hit, h)
        tl.store(row_ptr + rest, convert(dx, x_ptr.dtype.element_ty), mask=mask)
