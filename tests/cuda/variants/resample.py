"""Variants of kernels/images/resample.py that are compiled for real targets."""

import triton.language as tl


def variant(kind, compute, size, wide, across):
    weight = "*fp64" if kind == "fp64" else "*fp32"
    types = {
        "x_ptr": f"*{kind}", "begin_ptr": "*i32", "weight_ptr": weight, "y_ptr": f"*{kind}",
        "n_elements": size, "n_channels": "i32", "n_taps": "i32", "n_inputs": "i32",
        "y_sizes": ("i32",) * 3, "x_strides": (size,) * 5,
    }  # fmt: skip
    return types, {"ACROSS": across, "COMPUTE": compute, "WIDE": wide, "BLOCK": 512}


VARIANTS = {
    ("resample", "resample"): [
        variant("fp32", tl.float32, "i32", False, True),
        variant("bf16", tl.float32, "i64", True, False),
        variant("fp64", tl.float64, "i32", False, False),
    ]
}
