"""What of kernels/conv.py is compiled for real targets."""

import inspect
import itertools

import triton.language as tl

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
    block_in = {"conv": 32, "conv_weight": 64}.get(name, 16)
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
        block = 128 if kind in ("bf16", "fp16") else 64
        constants = {
            "ACCUMULATE": accumulate, "PRECISION": precision, "WIDE": wide, "BLOCK_OUT": block,
            "BLOCK_PIXELS": 256 if "BLOCK_OUT" not in names else block if name == "conv" else 32,
            "BLOCK_IN": block_in,
        }  # fmt: skip
        # The first type with every combination of flags, the others with one each.
        for values in combinations if i == 0 else combinations[i % len(combinations) :][:1]:
            chosen = constants | dict(zip(flags, values))
            yield types, {n: v for n, v in chosen.items() if n in names}


VARIANTS = {
    ("conv", name): list(variants(name))
    for name in ("conv", "conv_direct", "conv_weight", "conv_weight_direct")
}
