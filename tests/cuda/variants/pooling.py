"""Variants of kernels/images/pooling.py that are compiled for real targets."""

import inspect
import math

import triton.language as tl

from tritorch.kernels.images import pooling

# type, its accumulator, offsets, WIDE, ADAPTIVE, CHANNELS_LAST, BLOCK, TAPS
CASES = [
    ("fp32", tl.float32, "i32", False, False, False, 512, 1),
    ("bf16", tl.float32, "i32", False, True, False, 16, 64),
    ("fp64", tl.float64, "i64", True, False, True, 512, 1),
    ("fp16", tl.float32, "i32", False, False, True, 4, 256),
    ("i64", tl.int64, "i64", True, True, False, 512, 1),
    ("u8", tl.int64, "i32", False, False, False, 512, 1),
]
DEEP = {"max_pool_backward"}  # takes fewer elements at a time
FIXED = {"index_ptr": "*i64", "bound_ptr": "*i64"}


def variants(name):
    names = inspect.signature(getattr(pooling, name).fn).parameters
    for i, (kind, total, size, wide, adaptive, last, block, taps) in enumerate(CASES):
        if kind == "u8" and name != "max_pool":
            continue
        types = {}
        for n in names:
            if n.endswith("_ptr"):
                types[n] = FIXED.get(n, f"*{kind}")
            elif n.startswith("n_") or n == "divisor":
                types[n] = size
            elif not n.isupper():
                types[n] = (size if n.endswith("strides") else "i32",) * (
                    5 if n.endswith("strides") else 3
                )
        floating = kind not in ("i64", "u8")
        constants = {
            "VALUE": tl.uint8 if kind == "u8" else total, "ACCUMULATE": total,
            "LOWEST": -math.inf if floating else 0 if kind == "u8" else -(2**63),
            "ADAPTIVE": adaptive, "COUNT_PADDING": i % 2 == 0, "HAS_DIVISOR": i == 2,
            "CHANNELS_LAST": last, "WIDE": wide, "TAPS": taps,
            "BLOCK": block if "TAPS" in names else 256 if name in DEEP else 512,
        }  # fmt: skip
        yield types, {n: v for n, v in constants.items() if n in names}


VARIANTS = {
    ("pooling", name): list(variants(name))
    for name in ("max_pool", "index_bounds", "max_pool_backward", "avg_pool", "avg_pool_backward")
}
VARIANTS["pooling", "index_bounds"] = VARIANTS["pooling", "index_bounds"][:3]  # of one type only
