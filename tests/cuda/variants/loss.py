"""Variants of kernels/loss.py that are compiled for real targets."""

import inspect
import itertools
import math

import triton.language as tl

from tritorch.gpu.loss.loss import row_tile
from tritorch.kernels import loss


def _types(name, kind, size, one=()):
    exact = "*fp64" if kind == "fp64" else "*fp32"
    known = {
        "target_ptr": "*i64", "lse_ptr": exact, "w_sum_ptr": exact, "partial_ptr": exact,
        "smoothing": "i64", "flag_ptr": "*i64", "where": "i64",
    }  # fmt: skip
    names = inspect.signature(getattr(loss, name).fn).parameters
    return {
        n: known.get(n, f"*{kind}" if n.endswith("_ptr") else size)
        for n in names
        if not n.isupper() and n not in one
    }


CASES = (
    ("fp32", tl.float32, "i32", False, 1000), ("bf16", tl.float32, "i64", True, 50304),
    ("fp64", tl.float64, "i32", False, 1000),
)  # fmt: skip


def _variants(name, *steps):
    for kind, compute, size, wide, classes in CASES:
        registers = 2 if kind == "fp64" else 1
        rows, cols, warps = row_tile(4096, classes, registers)
        one = {"x_col_stride": 1, "target_stride": 1}  # as launches have them
        for (weighted, smooth), step in itertools.product(
            ((False, False), (True, True), (False, True)), steps
        ):
            if step.get("STEP", "whole") != "whole" and (kind != "bf16" or weighted != smooth):
                continue
            yield _types(name, kind, size, one), one | step | {
                "HAS_WEIGHT": weighted, "SMOOTH": smooth, "COMPUTE": compute, "WIDE": wide,
                "ALIGN": math.gcd(classes, 16), "BLOCK_ROWS": rows, "BLOCK_COLS": cols,
                "num_warps": warps,
            }  # fmt: skip


def _in_place():
    for kind, compute, size, wide, classes in CASES:
        cols = min(1 << (classes - 1).bit_length(), 2048 if kind == "fp64" else 4096)
        one = {"dloss_stride": 1, "target_stride": 1}
        yield _types("cross_entropy_in_place", kind, size, one), one | {
            "HAS_WEIGHT": kind == "bf16", "COMPUTE": compute, "WIDE": wide,
            "ALIGN": math.gcd(classes, 16), "ROW_ALIGN": 16,
            "BLOCK_COLS": cols, "num_warps": 8 if cols > 2048 else 4,
        }  # fmt: skip


STEPS = {"STEP": "whole", "PARTS": 1}, {"STEP": "sums", "PARTS": 1}, {"STEP": "result", "PARTS": 32}
VARIANTS = {
    ("loss", "cross_entropy"): list(_variants("cross_entropy", *STEPS)),
    ("loss", "cross_entropy_backward"): list(_variants("cross_entropy_backward", {})),
    ("loss", "cross_entropy_in_place"): list(_in_place()),
}
