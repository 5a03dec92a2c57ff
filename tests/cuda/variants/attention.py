"""Variants of kernels/attention.py that are compiled for real targets."""

import inspect

import triton.language as tl

from tritorch.gpu.nn.attention import _NEAR, blocks
from tritorch.kernels import attention

# Type, precision, width of a head, mask, what bounds a row's keys, wide, dropout, several lengths
THROUGH_POINTERS = [
    ("bf16", "ieee", 128, "none", ("AHEAD",), False, False, True),
    ("fp16", "ieee", 64, "bool", (), False, False, False),
    ("bf16", "ieee", 64, "add", (), True, False, False),
    ("fp32", "tf32", 64, "none", ("AHEAD",), False, False, False),
    ("fp32", "ieee", 64, "add", (), False, False, False),
    ("fp64", "ieee", 64, "none", ("AHEAD",), False, False, False),
    ("bf16", "ieee", 256, "none", ("AHEAD",), False, False, False),
    ("bf16", "ieee", 128, "none", ("AHEAD", "BEHIND"), False, True, True),
]
ENGINE = [
    ("bf16", "ieee", 64, "none", (), False, False, False),
    ("bf16", "ieee", 128, "none", ("AHEAD",), False, False, False),
    ("bf16", "ieee", 256, "none", ("AHEAD",), False, False, False),
    ("fp16", "ieee", 128, "none", ("AHEAD", "BEHIND"), True, False, False),
    ("fp16", "ieee", 64, "bool", (), False, True, False),
]
ITEM_SIZES = {"fp32": 4, "fp64": 8}


def variants(name, work):
    names = inspect.signature(getattr(attention, name).fn).parameters
    cases = [
        (case, engine, None)
        for engine, group in ((0, THROUGH_POINTERS), (90, ENGINE), (100, ENGINE))
        for case in group
    ]
    # What a table of measured plans may name, causal and not in turn.
    near = [(size, tile) for (each, size), tiles in _NEAR.items() if each == work for tile in tiles]
    for i, (size, tile) in enumerate(near):
        bounds = ("AHEAD",)[: i % 2]
        cases.append((("bf16", "ieee", size, "none", bounds, False, False, False), 90, tile))
    for (kind, precision, width, mask, bounds, wide, drop, varlen), engine, tile in cases:
        size, exact = "i64" if wide else "i32", "*fp64" if kind == "fp64" else "*fp32"
        masked = mask != "none" or drop
        itemsize = ITEM_SIZES.get(kind, 2)
        block_m, block_n, warps, stages = tile or blocks(width, itemsize, work, masked, engine)
        known = {
            "lse_ptr": exact, "delta_ptr": exact, "scale": "i64", "seed": "i64", "p_drop": "i64",
            "offset": "i64", "q_starts_ptr": "*i32", "k_starts_ptr": "*i32",
        }  # fmt: skip
        if mask == "bool":
            known["mask_ptr"] = "*i1"
        rows = {"q": block_m, "dout": block_m, "k": block_n, "v": block_n}
        for n, block in rows.items():
            known[n] = f"tensordesc<{kind}[1,1,{block},{width}]>" if engine else f"*{kind}"
        types = {}
        for n in names:
            if n.endswith("_strides"):
                types[n] = (size,) * 4
            elif not n.isupper():
                types[n] = known.get(n, f"*{kind}" if n.endswith("_ptr") else "i32")
        constants = {
            "MASK": mask, "AHEAD": "AHEAD" in bounds, "BEHIND": "BEHIND" in bounds,
            "BOTTOM": varlen, "DROP": drop, "FOLD": mask != "add", "PRECISION": precision,
            "WIDE": wide, "ENGINE": engine > 0, "VARLEN": varlen,
            "COMPUTE": tl.float64 if kind == "fp64" else tl.float32, "BLOCK_M": block_m,
            "BLOCK_N": block_n, "BLOCK_E": width, "BLOCK_V": width,
        }  # fmt: skip
        launch: dict = {"num_warps": warps, "num_stages": stages}
        if engine:  # tiles differ
            launch["target"] = engine
        yield types, {n: v for n, v in constants.items() if n in names} | launch


DROPOUT_MASK = (
    {"y_ptr": "*i1", "n_rows": "i32", "n_keys": "i32"} | dict.fromkeys(
        ("seed", "offset", "p_drop"), "i64"),
    {"BLOCK_M": 16, "BLOCK_N": 64, "num_warps": 4},
)  # fmt: skip
VARIANTS = {
    ("attention", "attention"): list(variants("attention", "forward")),
    ("attention", "attention_dq"): list(variants("attention_dq", "dq")),
    ("attention", "attention_dkdv"): list(variants("attention_dkdv", "dkdv")),
    ("attention", "dropout_mask"): [DROPOUT_MASK],
}
