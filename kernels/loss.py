"""Cross-entropy of rows of logits, without their softmax in memory."""

import triton
import triton.language as tl

from .copy import convert
from .errors import report
from .softmax import number, read


@triton.jit
def cross_entropy(
    x_ptr, target_ptr, w_ptr, loss_ptr, lse_ptr, n_rows, n_cols, x_row_stride, x_col_stride,
    target_stride, ignore, smoothing, flag_ptr, where, HAS_WEIGHT: tl.constexpr,
    SMOOTH: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """loss = (lse - x[t]) w[t] (1 - s) + s / n_cols sum((lse - x) w), lse = log(sum(exp(x))).

    0 where the target t is ignored.  One program reads BLOCK_ROWS rows once; each lane keeps a
    maximum and a sum of its own.
    """
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    row_mask = rows < n_rows
    begin = rows
    if WIDE:
        begin = rows.to(tl.int64)
    begin = begin * x_row_stride
    top = tl.full([BLOCK_ROWS, BLOCK_COLS], float("-inf"), COMPUTE)
    total = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    weighted = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    weights = tl.zeros([BLOCK_COLS], COMPUTE)
    for start in range(0, n_cols, BLOCK_COLS):
        cols = start + tl.arange(0, BLOCK_COLS)
        col_mask = cols < n_cols
        mask = row_mask[:, None] & col_mask[None, :]
        offsets = begin[:, None] + (cols.to(begin.dtype) * x_col_stride)[None, :]
        x = read(x_ptr, offsets, mask, float("-inf"), COMPUTE)
        higher = tl.maximum(top, x)
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(top - shift) + tl.exp(x - shift)
        top = higher
        if SMOOTH:
            if HAS_WEIGHT:
                w = read(w_ptr, cols, col_mask, 0.0, COMPUTE)
            else:
                w = col_mask.to(COMPUTE)
            weights += w
            weighted += tl.where(mask, x * w[None, :], 0.0)
    row_top = tl.max(top, axis=1)
    shift = tl.where(row_top == float("-inf"), 0.0, row_top)
    lse = shift + tl.log(tl.sum(total * tl.exp(top - shift[:, None]), axis=1))
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
        spread = lse * tl.sum(weights, axis=0) - tl.sum(weighted, axis=1)
        loss = loss * (1.0 - s) + spread * (s / n_cols)
    loss = tl.where(hit, loss, 0.0)
    tl.store(loss_ptr + rows, convert(loss, loss_ptr.dtype.element_ty), mask=row_mask)
    tl.store(lse_ptr + rows, lse, mask=row_mask)


@triton.jit
def cross_entropy_backward(
    dloss_ptr, x_ptr, target_ptr, w_ptr, w_sum_ptr, lse_ptr, dx_ptr, n_rows, n_cols, dloss_stride,
    x_row_stride, x_col_stride, target_stride, ignore, smoothing, HAS_WEIGHT: tl.constexpr,
    SMOOTH: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """dx = p (h + r sum(w)) - h [col = t] - r w, with p = exp(x - lse), h = dloss w[t] (1 - s) and
    r = dloss s / n_cols; dx is dense.  One program computes one tile.
    """
    n_col_blocks = tl.cdiv(n_cols, BLOCK_COLS)
    pid = tl.program_id(0)
    rows = pid // n_col_blocks * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    cols = pid % n_col_blocks * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    row_mask = rows < n_rows
    col_mask = cols < n_cols
    mask = row_mask[:, None] & col_mask[None, :]
    target = tl.load(target_ptr + rows * target_stride, mask=row_mask, other=0)
    hit = row_mask & (target != ignore) & (target >= 0) & (target < n_cols)
    dloss = read(dloss_ptr, rows * dloss_stride, hit, 0.0, COMPUTE)
    lse = tl.load(lse_ptr + rows, mask=row_mask, other=0.0)
    if WIDE:
        rows = rows.to(tl.int64)
        cols = cols.to(tl.int64)
    x_offsets = (rows * x_row_stride)[:, None] + (cols * x_col_stride)[None, :]
    x = read(x_ptr, x_offsets, mask, 0.0, COMPUTE)
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
    offsets = (rows * n_cols)[:, None] + cols[None, :]
    tl.store(dx_ptr + offsets, convert(dx, dx_ptr.dtype.element_ty), mask=mask)
