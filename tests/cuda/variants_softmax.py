"""What of kernels/softmax.py is compiled for real targets."""

import triton.language as tl

CASES = [
    ("fp32", tl.float32, "i32", False, (1, 4096)),
    ("bf16", tl.float32, "i32", True, (32, 64)),
    ("fp64", tl.float64, "i64", True, (1, 1024)),
]


def _variants(pointers):
    return [
        (dict.fromkeys(pointers, f"*{kind}") | dict.fromkeys(("n_rows", "n_cols", "inner"), size),
         {"LOG": log, "COMPUTE": compute, "WIDE": wide, "BLOCK_ROWS": block[0],
          "BLOCK_COLS": block[1]})
        for kind, compute, size, wide, block in CASES
        for log in (False, True)
    ]  # fmt: skip


VARIANTS = {
    ("softmax", "softmax_rows"): _variants(("x_ptr", "y_ptr")),
    ("softmax", "softmax_looped"): _variants(("x_ptr", "y_ptr")),
    ("softmax", "softmax_rows_backward"): _variants(("dy_ptr", "y_ptr", "dx_ptr")),
    ("softmax", "softmax_looped_backward"): _variants(("dy_ptr", "y_ptr", "dx_ptr")),
}
