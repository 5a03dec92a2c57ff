"""Variants that test_compile.py compiles of kernels/reduction.py and kernels/scan.py."""

import triton.language as tl

from tritorch.kernels import reduction as r, scan as s

ROWS = {"row_shape": ("i32",), "row_strides": ("i32",), "col_shape": ("i32",),
        "col_strides": ("i32",)}  # fmt: skip


def reduce(x, y, acc, pre, combine, identity, rows, cols, has_row=False):
    types = {"x_ptr": x, "r_ptr": "*fp32", "y_ptr": y, "n_rows": "i32", "n_cols": "i32",
             "segment": "i32", "power": "i64"} | ROWS  # fmt: skip
    constants = {
        "PRE": pre, "COMBINE": combine, "IDENTITY": identity, "ACC": acc, "HAS_ROW": has_row,
        "ROW_DIMS": 1, "COL_DIMS": 1, "WIDE": False, "BLOCK_ROWS": rows, "BLOCK_COLS": cols,
    }  # fmt: skip
    return types, constants


def scan(x, y, acc, combine, identity, tile=(1, 1024), extra=(), **given):
    types = {
        "x_ptr": x, "y_ptr": y, "carry_ptr": "*i64" if acc == tl.int64 else "*fp32",
        "row_shape": ("i32",), "x_row_strides": ("i32",), "y_row_strides": ("i32",),
    } | dict.fromkeys(("n_rows", "n_cols", "segment", "x_stride", "y_stride"), "i32")  # fmt: skip
    constants = {
        "COMBINE": combine, "IDENTITY": identity, "ACC": acc, "TOTALS": False, "HAS_CARRY": True,
        "ROW_DIMS": 1, "WIDE": False, "BLOCK_ROWS": tile[0], "BLOCK_COLS": tile[1],
    } | given  # fmt: skip
    if tile[0] == 1:
        types |= {"x_stride": "constexpr", "y_stride": "constexpr"}
        constants |= {"x_stride": 1, "y_stride": 1}
    return types | dict(extra), constants


def states(*outputs, **given):
    types = {k: v for k, v in given.items() if not k.isupper()} | dict(outputs) | ROWS
    types |= dict.fromkeys(("n_rows", "n_cols", "segment"), "i32")
    constants = {
        "ACC": tl.float32, "ROW_DIMS": 1, "COL_DIMS": 1, "WIDE": False, "BLOCK_ROWS": 2,
        "BLOCK_COLS": 1024,
    } | {k: v for k, v in given.items() if k.isupper()}  # fmt: skip
    return types, constants


PLACES = [("places_ptr", "*i64"), ("carry_at_ptr", "*i64"), ("i_ptr", "*i64")]
VARIANTS = {
    ("reduction", "reduce_columns"): [
        reduce("*fp32", "*fp32", tl.float32, r.same, r.plus, 0, 2, 1024),
        reduce("*bf16", "*bf16", tl.float32, r.same, r.plus, 0, 128, 32),
        reduce("*fp64", "*fp64", tl.float64, r.squared, r.plus, 0, 2, 1024),
        reduce("*i64", "*i64", tl.int64, r.same, r.exclusive, 0, 2, 1024),
        reduce("*i64", "*i64", tl.int64, r.same, r.times, 1, 2, 1024),
        reduce("*fp32", "*i1", tl.float32, r.truth, r.larger, 0, 2, 1024),
        reduce("*fp32", "*fp32", tl.float32, r.same, r.larger, float("-inf"), 2, 1024),
        reduce("*fp32", "*fp32", tl.float32, r.size, r.smaller, float("inf"), 2, 1024),
        reduce("*fp32", "*fp32", tl.float32, r.size_to_power, r.plus, 0, 2, 1024),
        reduce("*fp32", "*fp32", tl.float32, r.squared_distance, r.plus, 0, 2, 1024, True),
    ],
    ("reduction", "reduce_extreme"): [
        states(("best_ptr", "*bf16"), ("where_ptr", "*i64"), x_ptr="*bf16", i_ptr="*i64",
               LARGEST=True, IDENTITY=float("-inf"), HAS_INDEX=False),
        states(("best_ptr", "*i64"), ("where_ptr", "*i64"), x_ptr="*i64", i_ptr="*i64",
               LARGEST=False, IDENTITY=2**63 - 1, HAS_INDEX=True, ACC=tl.int64),
    ],
    ("reduction", "reduce_moments"): [
        states(("mean_ptr", kind), ("spread_ptr", kind), x_ptr=kind, divisor="i64", ACC=acc)
        for kind, acc in (("*fp32", tl.float32), ("*bf16", tl.float32), ("*fp64", tl.float64))
    ],
    ("reduction", "reduce_logsumexp"): [
        states(("top_ptr", kind), ("total_ptr", "*fp32"), x_ptr=kind, FINAL=kind == "*bf16")
        for kind in ("*fp32", "*bf16")
    ],
    ("reduction", "merge_moments"): [
        ({"mean_ptr": "*fp32", "spread_ptr": "*fp32", "out_mean_ptr": "*bf16", "out_ptr": "*bf16",
          "divisor": "i64"} | dict.fromkeys(("n_rows", "n_cols", "segment", "n_parts"), "i32"),
         {"ACC": tl.float32, "PARTS": 1024}),
    ],
    ("reduction", "merge_logsumexp"): [
        ({"top_ptr": "*fp32", "total_ptr": "*fp32", "y_ptr": "*bf16", "n_parts": "i32"},
         {"ACC": tl.float32, "PARTS": 1024}),
    ],
    ("scan", "scan_columns"): [
        scan("*fp32", "*fp32", tl.float32, s.plus, 0, EXCLUSIVE=False),
        scan("*fp32", "*fp32", tl.float32, s.plus, 0, EXCLUSIVE=False, TOTALS=True),
        scan("*bf16", "*bf16", tl.float32, s.plus, 0, (64, 16), EXCLUSIVE=False),
        scan("*i64", "*i64", tl.int64, s.times, 1, EXCLUSIVE=False),
        scan("*bf16", "*bf16", tl.float32, s.log_plus, float("-inf"), EXCLUSIVE=False),
    ],
    ("scan", "scan_extreme"): [
        scan("*fp32", "*fp32", tl.float32, s.later_larger, float("-inf"), extra=PLACES,
             HAS_PLACES=False),
        scan("*fp32", "*fp32", tl.float32, s.later_smaller, float("inf"), (64, 16), extra=PLACES,
             HAS_PLACES=True),
    ],
}  # fmt: skip
