"""Cross-entropy of rows of logits."""

from __future__ import annotations

import math

from tritorch import _C
from tritorch.core.dtype import float32, float64
from tritorch.gpu import errors
from tritorch.gpu.linalg.matmul import machine, triton_name
from tritorch.gpu.nn.norm import _compute, _dense
from tritorch.gpu.pointwise.layout import INT32_MAX, float_bits, reach
from tritorch.gpu.reduce.softmax import RowPlan, cut_rows
from tritorch.triton.kernel import kernel

Array = _C.Array


def row_tile(n_rows: int, n_cols: int, registers: int = 1) -> tuple[int, int, int]:
    """Rows, columns and warps of one program."""
    cols = min(1 << max(n_cols - 1, 0).bit_length(), 4096 // registers)
    rows = min(1 << max(n_rows - 1, 0).bit_length(), max(1024 // cols, 1))
    return rows, cols, 8 if rows * cols * registers > 2048 else 4


def plan(n_rows: int, n_cols: int, registers: int = 1, processors: int = 132) -> RowPlan:
    """How rows are spread over the forward pass's programs."""
    return cut_rows(n_rows, n_cols, *row_tile(n_rows, n_cols, registers), processors)


def _align(*sizes: int) -> int:
    return math.gcd(*sizes, 16)


def _report(logits: Array) -> tuple[Array, int]:
    return errors.mark(logits.device_index, "cross_entropy", "Target {value} is out of bounds.")


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
    rows = plan(n, c, compute.itemsize // 4, machine(logits.device_index)[1])
    blocks, constants = -(-n // rows.rows), rows.constants(_align(c, logits.strides[0]))
    constants |= {
        "HAS_WEIGHT": weight is not None, "SMOOTH": label_smoothing != 0,
        "COMPUTE": triton_name(compute), "WIDE": reach(logits.shape, logits.strides) > INT32_MAX,
    }  # fmt: skip
    partial = lse
    if rows.parts > 1:
        shape = (2, rows.parts, 2, n)  # for smoothing, sums of weights too
        partial = _C.empty(shape, compute, logits.device_index)
    for step in ("sums", "result") if rows.parts > 1 else ("whole",):
        kernel("loss", "cross_entropy")(
            (blocks, 1 if step == "result" else rows.parts), logits, target,
            _dense(weight, logits), losses, lse, partial, n, c, *logits.strides, *target.strides,
            ignore_index, float_bits(label_smoothing), *_report(logits), rows.per_part, rows.parts,
            STEP=step, PARTS=1 << (rows.parts - 1).bit_length() if step == "result" else 1,
            **constants,
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
        from tritorch.gpu.reduce.reduction import sum as total

        weights = total(weight, (0,), False, compute if compute is float64 else float32)
    rows, cols, warps = row_tile(n, c, compute.itemsize // 4)
    wide = max(reach(logits.shape, logits.strides), n * c) > INT32_MAX
    kernel("loss", "cross_entropy_backward")(
        (-(-n // rows) * -(-c // cols),), g, logits, target, _dense(weight, logits), weights, lse,
        out, n, c, *g.strides, *logits.strides, *target.strides, ignore_index,
        float_bits(label_smoothing), HAS_WEIGHT=weight is not None, SMOOTH=label_smoothing != 0,
        COMPUTE=triton_name(compute), WIDE=wide, ALIGN=_align(c, logits.strides[0]),
        BLOCK_ROWS=rows, BLOCK_COLS=cols, num_warps=warps,
    )  # fmt: skip
    return out


def cross_entropy_in_place(
    logits: Array, target: Array, weight: Array | None, ignore_index: int, g: Array
) -> Array:
    """The losses of rows, unrounded; the logits, dense rows, become their gradient."""
    n, c = logits.shape
    compute = _compute(logits.dtype)
    losses = _C.empty((n,), compute, logits.device_index)
    if n == 0:
        return losses
    cols = min(1 << max(c - 1, 0).bit_length(), 4096 * 4 // compute.itemsize)
    kernel("loss", "cross_entropy_in_place")(
        (n,), logits, target, _dense(weight, logits), g, losses, c, logits.strides[0],
        *g.strides, *target.strides, ignore_index, *_report(logits), HAS_WEIGHT=weight is not None,
        COMPUTE=triton_name(compute), WIDE=reach(logits.shape, logits.strides) > INT32_MAX,
        ALIGN=_align(c), ROW_ALIGN=_align(logits.strides[0]), BLOCK_COLS=cols,
        num_warps=8 if cols > 2048 else 4,
    )  # fmt: skip
    return losses
