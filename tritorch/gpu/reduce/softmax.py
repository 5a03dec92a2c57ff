"""Softmax and its gradients."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.core.dtype import dtype, float32, float64
from tritorch.gpu.linalg.matmul import machine, triton_name
from tritorch.gpu.pointwise.layout import INT32_MAX
from tritorch.gpu.tuning import measured
from tritorch.triton.kernel import kernel

Array = _C.Array

_REGISTERS = 2**15  # 32-bit registers of one program that hold rows
_PROGRAMS = 2  # on each multiprocessor, at least, before rows are cut into parts


class RowPlan(NamedTuple):
    """How rows are spread over programs."""

    looped: bool  # whether rows are too long to be held
    rows: int  # of one program
    cols: int  # of one step
    warps: int
    parts: int = 1  # of each row: programs
    per_part: int = 0  # columns

    def constants(self, n_cols: int) -> dict[str, Any]:
        """The kernels' constants."""
        return {
            "ALIGN": math.gcd(n_cols, 16), "BLOCK_ROWS": self.rows, "BLOCK_COLS": self.cols,
            "num_warps": self.warps,
        }  # fmt: skip

    def launch(
        self, function: Any, n_rows: int, n_cols: int, inputs: Any, sizes: Any, partial: Any,
        **constants: Any,
    ) -> None:  # fmt: skip
        """Runs a looped kernel, in the steps of Note [Long rows] in kernels/softmax.py.

        partial: makes an array of the shape it is given, for what parts add up to.
        """
        constants |= self.constants(n_cols)
        blocks = -(-n_rows // self.rows)
        if self.parts == 1:
            function((blocks, 1), *inputs, inputs[0], *sizes, n_cols, 1, STEP="whole", PARTS=1,
                     **constants)  # fmt: skip
            return
        sums = partial((self.parts, 2, n_rows))
        padded = 1 << (self.parts - 1).bit_length()
        for step, parts in (("sums", 1), ("result", padded)):
            function((blocks, self.parts), *inputs, sums, *sizes, self.per_part, self.parts,
                     STEP=step, PARTS=parts, **constants)  # fmt: skip


def _held(n_rows: int, n_cols: int, inner: int, registers: int) -> tuple[int, int, int, bool]:
    """Rows and columns of a program that holds rows, its registers, and whether they fit."""
    cols = 1 << (n_cols - 1).bit_length() if n_cols > 1 else 1
    rows = 1 << (n_rows - 1).bit_length() if n_rows > 1 else 1
    at_once = min(rows, 32 if inner > 1 else max(2048 // cols, 1))
    size = at_once * cols * registers
    return at_once, cols, size, size <= _REGISTERS // (2 if inner > 1 else 1)


def near_rows(
    n_rows: int, n_cols: int, inner: int, registers: int, processors: int, capability: int,
    work: str, itemsize: int,
) -> list[RowPlan]:  # fmt: skip
    """Plans worth timing on sm_90: other numbers of rows and warps, held rows looped over, other
    steps.

    A thread of a program that holds rows never has more than 64 registers of them, nor more than
    32 where it may not have more than 128 in all.
    """
    if capability != 90:
        return []
    at_once, cols, size, fits = _held(n_rows, n_cols, inner, registers)
    found = []
    if fits:
        warps = min(max(size // 1024, 4), 32)
        for rows in (at_once, at_once * 2, max(at_once // 2, 1)):
            for each in (warps, warps * 2, warps // 2):
                held = rows * cols * registers // (32 * max(each, 1))
                if 2 <= each <= 32 and held <= (64 if each <= 8 else 32):
                    found.append(RowPlan(False, rows, cols, each))
    if inner == 1 and n_cols >= 8192:
        for step, warps in ((4096, 8), (4096, 16), (8192, 16), (2048, 4), (2048, 8)):
            for programs in (_PROGRAMS, 4):
                found.append(
                    cut_rows(n_rows, n_cols, 1, step // registers, warps, processors, programs)
                )
    return list(dict.fromkeys(found))


@measured("rows", RowPlan, near_rows)
def row_plan(
    n_rows: int, n_cols: int, inner: int = 1, registers: int = 1, processors: int = 132,
    capability: int = 0, work: str = "", itemsize: int = 0,
) -> RowPlan:  # fmt: skip
    """The plan for rows whose elements take so many registers each.

    Dense rows go several to a program when short; rows that lie next to each other (inner > 1) go
    32 to a program, so that loads are coalesced.  capability, work, itemsize: of what was measured.
    """
    at_once, cols, size, fits = _held(n_rows, n_cols, inner, registers)
    if fits:
        return RowPlan(False, at_once, cols, min(max(size // 1024, 4), 32))
    if inner > 1:
        return cut_rows(n_rows, n_cols, at_once, 128 // registers, 4, processors)
    return cut_rows(n_rows, n_cols, 1, 4096 // registers, 8, processors)


def cut_rows(
    n_rows: int, n_cols: int, at_once: int, step: int, warps: int, processors: int,
    filled: int = _PROGRAMS,
) -> RowPlan:  # fmt: skip
    """The plan of long rows, by tiles of `at_once` rows and `step` columns.

    filled: programs on each multiprocessor, at least, before rows are cut into parts.
    """
    programs = -(-n_rows // at_once)
    parts = min(-(-n_cols // step), max(filled * processors // programs, 1))
    per_part = -(-n_cols // (parts * step)) * step
    return RowPlan(True, at_once, step, warps, -(-n_cols // per_part), per_part)


def _launch(
    name: str, arrays: tuple[Array, ...], shape: tuple[int, ...], dim: int, log: bool
) -> None:
    n_cols, inner = shape[dim], math.prod(shape[dim + 1 :])
    n_rows, device = math.prod(shape[:dim]) * inner, arrays[0].device_index
    compute = float64 if any(array.dtype is float64 for array in arrays) else float32
    inputs = 1 if log and max(array.itemsize for array in arrays) == 2 else len(arrays) - 1
    registers = inputs * compute.itemsize // 4  # two in 16 bits are held in one, if summed apart
    capability, processors = machine(device)
    work, itemsize = f"log_{name}" if log else name, arrays[0].itemsize
    plan = row_plan(n_rows, n_cols, inner, registers, processors, capability, work, itemsize)
    constants = {
        "LOG": log, "COMPUTE": triton_name(compute), "WIDE": n_rows * n_cols > INT32_MAX,
    }  # fmt: skip
    sizes = n_rows, n_cols, inner
    if plan.looped:
        plan.launch(
            kernel("softmax", name.format("looped")), n_rows, n_cols, arrays, sizes,
            lambda shape: _C.empty(shape, compute, device), **constants,
        )  # fmt: skip
        return
    kernel("softmax", name.format("rows"))(
        (-(-n_rows // plan.rows),), *arrays, *sizes, **constants, **plan.constants(n_cols)
    )


def _forward(x: Array, dim: int, dtype: dtype, log: bool) -> Array:
    out = _C.empty(x.shape, dtype, x.device_index)
    if out.numel():
        # Dense, so that rows of any dim are two numbers; the output is dense too.
        _launch("softmax_{}", (x.contiguous(), out), x.shape, dim, log)
    return out


def _backward(g: Array, out: Array, dim: int, dtype: dtype, log: bool) -> Array:
    dx = _C.empty(out.shape, dtype, out.device_index)
    if dx.numel():
        arrays = (g.contiguous(), out.contiguous(), dx)  # as above
        _launch("softmax_{}_backward", arrays, out.shape, dim, log)
    return dx


def softmax(x: Array, dim: int, dtype: dtype) -> Array:
    """exp(x) / sum(exp(x))."""
    return _forward(x, dim, dtype, False)


def log_softmax(x: Array, dim: int, dtype: dtype) -> Array:
    """x - log(sum(exp(x)))."""
    return _forward(x, dim, dtype, True)


def softmax_backward(g: Array, out: Array, dim: int, dtype: dtype) -> Array:
    """out * (g - sum(g * out))."""
    return _backward(g, out, dim, dtype, False)


def log_softmax_backward(g: Array, out: Array, dim: int, dtype: dtype) -> Array:
    """g - exp(out) * sum(g)."""
    return _backward(g, out, dim, dtype, True)
