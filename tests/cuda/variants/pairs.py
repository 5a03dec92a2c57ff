"""Variants of kernels/scalar/pairs.py that are compiled for real targets."""

import triton.language as tl

from tritorch.kernels.scalar import pairs

SHAPES = ("row_shape", "row_strides", "col_shape", "col_strides")
SIZES = ("n_rows", "n_cols", "segment")


def product(kind, size, rows, cols):
    types = {"x_ptr": f"*{kind}", "y_ptr": f"*{kind}"} | dict.fromkeys(SIZES, size)
    types |= dict.fromkeys(SHAPES, (size,))
    return types, {"ROW_DIMS": 1, "COL_DIMS": 1, "BLOCK_ROWS": rows, "BLOCK_COLS": cols,
                   "ACC": tl.float32 if kind == "fp32" else tl.float64,
                   "WIDE": size == "i64", "num_warps": 8}  # fmt: skip


def scan(kind, size, combine, identity, rows, cols, totals=False):
    types = {"x_ptr": f"*{kind}", "carry_ptr": f"*{kind}", "y_ptr": f"*{kind}"}
    types |= dict.fromkeys((*SIZES, "x_stride", "y_stride"), size)
    types |= dict.fromkeys(("row_shape", "x_row_strides", "y_row_strides"), (size,))
    constants = {"COMBINE": combine, "IDENTITY": identity, "TOTALS": totals, "ROW_DIMS": 1,
                 "ACC": tl.float32 if kind == "fp32" else tl.float64, "HAS_CARRY": not totals,
                 "WIDE": size == "i64", "BLOCK_ROWS": rows, "BLOCK_COLS": cols,
                 "num_warps": 8}  # fmt: skip
    if totals:
        types.pop("carry_ptr")
        constants["carry_ptr"] = None
    return types, constants


VARIANTS = {
    ("pairs", "product_of_columns"): [
        product("fp32", "i32", 2, 1024),
        product("fp64", "i64", 128, 32),
    ],
    ("pairs", "scan_pairs"): [
        scan("fp32", "i32", pairs.times, 1.0, 1, 1024),
        scan("fp64", "i64", pairs.log_plus, float("-inf"), 64, 16),
        scan("fp64", "i32", pairs.times, 1.0, 1, 1024, True),
        scan("fp32", "i32", pairs.log_plus, float("-inf"), 1, 512),
    ],
}
