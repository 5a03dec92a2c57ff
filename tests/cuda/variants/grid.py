"""Variants of kernels/images/grid.py that are compiled for real targets."""

import inspect

import triton.language as tl

from tritorch.kernels.images import grid

# type, COMPUTE, size, WIDE, MODE, PADDING, ALIGN, DIMS
CASES = [
    ("fp32", tl.float32, "i32", False, 0, 0, False, 2),
    ("bf16", tl.float32, "i32", False, 1, 1, True, 3),
    ("fp64", tl.float64, "i64", True, 2, 2, False, 2),
    ("fp16", tl.float32, "i64", True, 0, 2, True, 3),
]


def variants(name):
    names = inspect.signature(getattr(grid, name).fn).parameters
    for kind, compute, size, wide, mode, padding, align, dims in CASES:
        types = {}
        for n in names:
            if n in ("key_ptr", "order_ptr", "begin_ptr"):
                types[n] = "*i64"
            elif n == "weight_ptr":
                types[n] = "*fp64" if kind == "fp64" else "*fp32"
            elif n.endswith("_ptr"):
                types[n] = f"*{kind}"
            elif n.endswith("strides"):
                types[n] = (size,) * 5
            elif n.endswith("sizes"):
                types[n] = ("i32",) * 3
            elif not n.isupper():
                types[n] = "i32" if n == "n_channels" else size
        constants = {
            "MODE": mode, "PADDING": padding, "ALIGN": align, "DIMS": dims,
            "TAPS": (2, 1, 4)[mode], "COMPUTE": compute, "WIDE": wide, "BLOCK": 64,
            "CHANNELS": 16,
        }  # fmt: skip
        yield types, {n: v for n, v in constants.items() if n in names}


VARIANTS = {
    ("grid", name): list(variants(name))
    for name in ("grid_sample", "grid_backward", "grid_taps", "grid_gather")
}
