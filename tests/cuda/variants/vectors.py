"""Variants of kernels/matrices/vectors.py that are compiled for real targets."""

import triton.language as tl


def _variant(kind, compute, pair, size, ndim):
    types = {"a_ptr": f"*{kind}", "b_ptr": f"*{kind}", "y_ptr": f"*{kind}", "n_elements": size}
    types |= dict.fromkeys(("shape", "a_strides", "b_strides", "y_strides"), (size,) * ndim)
    types |= dict.fromkeys(("a_step", "b_step", "y_step"), size)
    return types, {"COMPUTE": compute, "PAIR": pair, "NDIM": ndim, "WIDE": size == "i64",
                   "BLOCK": 256}  # fmt: skip


VARIANTS = {
    ("vectors", "cross"): [
        _variant("fp32", tl.float32, False, "i32", 1),
        _variant("bf16", tl.float32, False, "i64", 2),
        _variant("fp64", tl.float64, True, "i32", 2),
        _variant("i32", tl.int32, False, "i32", 1),
    ]
}  # fmt: skip
