"""What of kernels/conv.py is compiled for real targets."""

import inspect
import itertools

import triton.language as tl

from tritorch.gpu.conv import DEEPEST, blocks
from tritorch.kernels import conv

CASES = [
    ("bf16", tl.float32, "i32", False, "ieee"),
    ("fp32", tl.float32, "i32", False, "ieee"),
    ("fp64", tl.float64, "i64", True, "ieee"),
    ("fp16", tl.float32, "i64", True, "ieee"),
    ("fp32", tl.float32, "i32", False, "tf32x3"),
]
FLAGS = ("TRANSPOSED", "BY_TAP", "HAS_BIAS")


def variants(name):
    names = inspect.signature(getattr(conv, name).fn).parameters
    flags = [flag for flag in FLAGS if flag in names]
    combinations = list(itertools.product((False, True), repeat=len(flags)))
    cases = CASES if "PRECISION" in names else [*CASES[:4], ("i64", tl.int64, "i32", False, "ieee")]
    for i, (kind, accumulate, size, wide, precision) in enumerate(cases):
        types = {}
        for n in names:
            if n.endswith("_ptr"):
                types[n] = f"*{kind}"
            elif n.startswith("n_") or n == "groups" or n.endswith("split_stride"):
                types[n] = "i32"
            elif not n.isupper():
                types[n] = (size if n.endswith("strides") else "i32",) * (
                    {"w_strides": 6, "dw_strides": 6}.get(n, 5) if n.endswith("strides") else 3
                )
        fast = kind in ("bf16", "fp16") or precision != "ieee"
        out, columns, warps, stages = blocks(4096, 1 << 20, 8, fast)
        pixels = 64 if kind in ("bf16", "fp16") else 16
        deepest = (64 if kind in ("bf16", "fp16") else 32) if fast else 16
        tiled = {"BLOCK_OUT": out, "num_warps": warps, "num_stages": stages}
        sizes = {
            "conv": tiled | {"BLOCK_PIXELS": columns, "BLOCK_IN": deepest},
            "conv_weight": tiled | {"BLOCK_IN": columns, "BLOCK_PIXELS": pixels},
        }.get(name, {"BLOCK_PIXELS": 256, "BLOCK_IN": 16})
        constants = {"ACCUMULATE": accumulate, "PRECISION": precision, "WIDE": wide} | sizes
        # The first type with every combination of flags, the others with one each.
        for values in combinations if i == 0 else combinations[i % len(combinations) :][:1]:
            chosen = constants | dict(zip(flags, values))
            if name == "conv" and fast:
                chosen["BLOCK_IN"] = DEEPEST[
                    chosen["BY_TAP"] and not chosen["TRANSPOSED"], 4 if kind == "fp32" else 2
                ]
            yield types, {n: v for n, v in chosen.items() if n in names or n.startswith("num_")}


VARIANTS = {
    ("conv", name): list(variants(name))
    for name in ("conv", "conv_direct", "conv_weight", "conv_weight_direct")
}
