"""What of kernels/attention.py is compiled for real targets."""

import inspect

import triton.language as tl

from tritorch.gpu.attention import blocks
from tritorch.kernels import attention

# Type, precision, width of a head, mask, causal, wide
CASES = [
    ("bf16", "ieee", 128, "none", True, False),
    ("fp16", "ieee", 64, "bool", False, False),
    ("bf16", "ieee", 64, "add", False, True),
    ("fp32", "tf32", 64, "none", True, False),
    ("fp32", "ieee", 64, "add", False, False),
    ("fp64", "ieee", 64, "none", True, False),
    ("bf16", "ieee", 256, "none", True, False),
]
ITEM_SIZES = {"fp32": 4, "fp64": 8}


def variants(name, backward):
    names = inspect.signature(getattr(attention, name).fn).parameters
    for kind, precision, width, mask, causal, wide in CASES:
        size, exact = "i64" if wide else "i32", "*fp64" if kind == "fp64" else "*fp32"
        known = {"lse_ptr": exact, "delta_ptr": exact, "scale": "i64"}
        if mask == "bool":
            known["mask_ptr"] = "*i1"
        types = {}
        for n in names:
            if n.endswith("_strides"):
                types[n] = (size,) * 4
            elif not n.isupper():
                types[n] = known.get(n, f"*{kind}" if n.endswith("_ptr") else "i32")
        block_m, block_n, warps, stages = blocks(
            width, ITEM_SIZES.get(kind, 2), backward, mask != "none"
        )
        constants = {
            "MASK": mask, "CAUSAL": causal, "PRECISION": precision, "WIDE": wide,
            "COMPUTE": tl.float64 if kind == "fp64" else tl.float32, "BLOCK_M": block_m,
            "BLOCK_N": block_n, "BLOCK_E": width, "BLOCK_V": width,
        }  # fmt: skip
        launch = {} if name == "attention_delta" else {"num_warps": warps, "num_stages": stages}
        yield types, {n: v for n, v in constants.items() if n in names} | launch


VARIANTS = {
    ("attention", "attention"): list(variants("attention", False)),
    ("attention", "attention_delta"): list(variants("attention_delta", True))[:1],
    ("attention", "attention_dq"): list(variants("attention_dq", True)),
    ("attention", "attention_dkdv"): list(variants("attention_dkdv", True)),
}
