"""Variants of kernels/matrices/sparse.py that are compiled for real targets."""

import triton.language as tl


def spmm(kind, compute, size, wide):
    types = {
        "values_ptr": f"*{kind}", "col_ptr": "*i64", "pointer_ptr": "*i64", "x_ptr": f"*{kind}",
        "y_ptr": f"*{kind}", "n_cols": "i32", "x_strides": (size, size), "y_row_stride": size,
    }  # fmt: skip
    constants = {"COMPUTE": compute, "WIDE": wide, "BLOCK_ENTRIES": 8, "BLOCK_COLS": 128}
    return types, constants


def sampled_mm(kind, compute, size, wide):
    types = {
        "x_ptr": f"*{kind}", "y_ptr": f"*{kind}", "row_ptr": "*i64", "col_ptr": "*i64",
        "out_ptr": f"*{kind}", "n_entries": "i32", "n_inner": "i32", "x_strides": (size, size),
        "y_strides": (size, size),
    }  # fmt: skip
    constants = {"COMPUTE": compute, "WIDE": wide, "BLOCK_ENTRIES": 8, "BLOCK_INNER": 128}
    return types, constants


def variants(make):
    return [
        make("fp32", tl.float32, "i32", False),
        make("bf16", tl.float32, "i64", True),
        make("fp64", tl.float64, "i32", False),
        make("i64", tl.int64, "i32", False),
    ]


VARIANTS = {("sparse", "spmm"): variants(spmm), ("sparse", "sampled_mm"): variants(sampled_mm)}
