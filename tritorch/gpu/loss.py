"""Cross-entropy of rows of logits."""

from __future__ import annotations

from tritorch import _C
from tritorch._triton.kernel import kernel
from tritorch.core.dtype import float32, float64
from tritorch.gpu import errors
from tritorch.gpu.layout import INT32_MAX, float_bits, reach
from tritorch.gpu.matmul import triton_name
from tritorch.gpu.norm import _compute, _dense

Array = _C.Array


def row_tile(n_rows: int, n_cols: int) -> tuple[int, int, int]:
    """Rows, columns and warps of one program."""
    cols = min(1 << max(n_cols - 1, 0).bit_length(), 4096)
    rows = min(1 << max(n_rows - 1, 0).bit_length(), max(1024 // cols, 1))
    return rows, cols, 8 if rows * cols > 2048 else 4


def cross_entropy(
    logits: Array, target: Array, weight: Array | None, ignore_index: int, label_smoothing: float
) -> tuple[Array, Array]:
    """One loss a row, and log(sum(exp(logits)))."""
    n, c = logits.shape
    compute = _compute(logits.dtype)
    losses = _C.empty((n,), logits.dtype, logits.device_index)
    lse = _C.empty((n,), compute, logits.device_index)
    if n == 0:
        return losses, lse
    rows, cols, warps = row_tile(n, c)
    kernel("loss", "cross_entropy")(
        (-(-n // rows),), logits, target, _dense(weight, logits), losses, lse, n, c,
        *logits.strides, *target.strides, ignore_index, float_bits(label_smoothing),
        *errors.mark(logits.device_index, "cross_entropy", "Target {value} is out of bounds."),
        HAS_WEIGHT=weight is not None, SMOOTH=label_smoothing != 0,
        COMPUTE=triton_name(compute), WIDE=reach(logits.shape, logits.strides) > INT32_MAX,
        BLOCK_ROWS=rows, BLOCK_COLS=cols, num_warps=warps,
    )  # fmt: skip
    return losses, lse


def cross_entropy_backward(
    g: Array,
    logits: Array,
    target: Array,
    weight: Array | None,
    ignore_index: int,
    label_smoothing: float,
    lse: Array,
) -> Array:
    """The gradient of the logits."""
    n, c = logits.shape
    compute = _compute(logits.dtype)
    out = _C.empty((n, c), logits.dtype, logits.device_index)
    if out.numel() == 0:
        return out
    lse = lse.contiguous()
    weights = lse
    if label_smoothing and weight is not None:
        from tritorch.gpu.reduction import sum as total

        weights = total(weight, (0,), False, compute if compute is float64 else float32)
    rows, cols, warps = row_tile(n, c)
    wide = max(reach(logits.shape, logits.strides), n * c) > INT32_MAX
    kernel("loss", "cross_entropy_backward")(
        (-(-n // rows) * -(-c // cols),), g, logits, target, _dense(weight, logits), weights, lse,
        out, n, c, *g.strides, *logits.strides, *target.strides, ignore_index,
        float_bits(label_smoothing), HAS_WEIGHT=weight is not None, SMOOTH=label_smoothing != 0,
        COMPUTE=triton_name(compute), WIDE=wide, BLOCK_ROWS=rows, BLOCK_COLS=cols, num_warps=warps,
    )  # fmt: skip
    return out
