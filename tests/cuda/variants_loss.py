"""What of kernels/loss.py is compiled for real targets."""

import inspect

import triton.language as tl

from tritorch.gpu.loss import row_tile
from tritorch.kernels import loss


def _variants(name):
    names = inspect.signature(getattr(loss, name).fn).parameters
    for kind, compute, size, wide in (
        ("fp32", tl.float32, "i32", False), ("bf16", tl.float32, "i64", True),
        ("fp64", tl.float64, "i32", False),
    ):  # fmt: skip
        exact = "*fp64" if kind == "fp64" else "*fp32"
        known = {
            "target_ptr": "*i64",
            "lse_ptr": exact,
            "w_sum_ptr": exact,
            "smoothing": "i64",
            "flag_ptr": "*i64",
            "where": "i64",
        }
        types = {
            n: known.get(n, f"*{kind}" if n.endswith("_ptr") else size)
            for n in names
            if not n.isupper()
        }
        rows, cols, warps = row_tile(4096, 50257 if kind == "bf16" else 1000)
        for weighted, smooth in ((False, False), (True, True), (False, True)):
            yield types, {"HAS_WEIGHT": weighted, "SMOOTH": smooth, "COMPUTE": compute,
                          "WIDE": wide, "BLOCK_ROWS": rows, "BLOCK_COLS": cols,
                          "num_warps": warps}  # fmt: skip


VARIANTS = {
    ("loss", name): list(_variants(name)) for name in ("cross_entropy", "cross_entropy_backward")
}
