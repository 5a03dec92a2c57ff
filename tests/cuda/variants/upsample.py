"""Variants of kernels/images/upsample.py that are compiled for real targets."""

import inspect

import triton.language as tl

from tritorch.kernels.images import upsample

# type, COMPUTE, COORDINATE, offsets, WIDE, CHANNELS_LAST, DIMS
CASES = [
    ("fp32", tl.float32, tl.float32, "i32", False, False, 2),
    ("bf16", tl.float32, tl.float32, "i32", False, True, 2),
    ("fp64", tl.float64, tl.float64, "i64", True, False, 3),
    ("fp16", tl.float32, tl.float64, "i64", True, False, 1),
    ("u8", tl.float32, tl.float32, "i32", False, True, 2),
]


def variants(name):
    names = inspect.signature(getattr(upsample, name).fn).parameters
    for kind, compute, coordinate, size, wide, last, dims in CASES:
        if kind == "u8" and name.endswith("backward"):
            continue
        types = {}
        for n in names:
            if n.endswith("_ptr"):
                types[n] = f"*{kind}"
            elif n.startswith("n_"):
                types[n] = size
            elif n == "margin":
                types[n] = "i32"
            elif not n.isupper():
                count = 5 if n.endswith("strides") else 3
                bits = n in ("ratios", "shifts", "inverses")
                types[n] = ("i64" if bits else size if count == 5 else "i32",) * count
        constants = {
            "COMPUTE": compute, "COORDINATE": coordinate, "DIMS": dims, "CHANNELS_LAST": last,
            "WIDE": wide, "BLOCK": 256 if name.endswith("backward") else 512,
        }  # fmt: skip
        yield types, {n: v for n, v in constants.items() if n in names}


VARIANTS = {
    ("upsample", name): list(variants(name))
    for name in ("nearest", "nearest_backward", "linear", "linear_backward")
}
