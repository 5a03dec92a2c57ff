"""What of kernels/conv.py is compiled for real targets."""

import inspect

import triton.language as tl

from tritorch.kernels import conv

CASES = [("fp32", tl.float32, "i32", False, "ieee"), ("bf16", tl.float32, "i32", False, "ieee"),
         ("fp64", tl.float64, "i64", True, "ieee"),
         ("fp32", tl.float32, "i32", False, "tf32x3")]  # fmt: skip
LENGTHS = {"x_strides": 5, "dy_strides": 5}
TILE = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16, "BLOCK": 256, "HAS_BIAS": True}


def _variants(name):
    names = inspect.signature(getattr(conv, name).fn).parameters
    out = []
    for kind, compute, size, wide, precision in CASES:
        types = {}
        for n in names:
            if n.endswith("_ptr"):
                types[n] = f"*{kind}"
            elif n.startswith("n_") or n == "per_split":
                types[n] = size
            elif not n.isupper():
                types[n] = (size,) * LENGTHS.get(n, 3)
        for backward in (False, True) if "BACKWARD" in names else (False,):
            constants = TILE | {"BACKWARD": backward, "PRECISION": precision, "COMPUTE": compute,
                                "WIDE": wide}  # fmt: skip
            out.append((types, {k: v for k, v in constants.items() if k in names}))
    return out


VARIANTS = {("conv", name): _variants(name) for name in ("conv", "conv_thin", "conv_weight")}
