"""Variants of kernels/indexing.py that are compiled for real targets."""

import inspect

import triton.language as tl

from tritorch.kernels import indexing

KEYS = {"key_ptr": "*i64", "order_ptr": "*i64", "count_ptr": "*i64", "start_ptr": "*i64",
        "winner_ptr": "*i32", "key_out_ptr": "*i64", "order_out_ptr": "*i64",
        "flag_ptr": "*i64", "where": "i64"}  # fmt: skip


def variant(name, constants, size="i32", ndim=2, module=indexing, **types):
    """Types of all arguments: sizes, tuples of ndim sizes, and the given pointers."""
    function = getattr(module, name)
    out = {}
    for argument in inspect.signature(function.fn).parameters:
        if argument in constants:
            continue
        if argument in types:
            out[argument] = types[argument]
        elif argument in KEYS:
            out[argument] = KEYS[argument]
        elif argument == "index_strides":
            out[argument] = ((size,) * ndim,) * 2
        elif argument in ("sizes", "steps"):
            out[argument] = (size,) * 2
        elif argument.endswith(("shape", "strides", "dims")):
            out[argument] = (size,) * ndim
        else:
            out[argument] = size
    return out, constants


INDICES = ("*i64", "*i64")
WIDTHS = [("i32", False), ("i64", True)]


def _gather(kind, size, wide):
    constants = {"NDIM": 2, "N_INDEX": 2, "WRAP": True, "WIDE": wide, "BLOCK": 256}
    return variant(
        "gather", constants, size, x_ptr=f"*{kind}", y_ptr=f"*{kind}", index_ptrs=INDICES
    )


def _scatter(kind, claimed, size, wide):
    constants = {"CLAIMED": claimed, "N_KEY": 2, "N_OUTER": 2, "N_INNER": 2, "WIDE": wide,
                 "BLOCK": 256}  # fmt: skip
    return variant("scatter", constants, size, x_ptr=f"*{kind}", y_ptr=f"*{kind}")


def _segments(name, kind, compute, op, size, wide, block=(1, 128)):
    constants = {"OP": op, "SELF": True, "N_KEY": 2, "N_INNER": 2, "WIDE": wide,
                 "BLOCK_ROWS": block[0], "BLOCK_COLS": block[1]}  # fmt: skip
    if name == "segment_reduce":
        constants |= {"COMPUTE": compute, "N_OUTER": 2}
    partial = {tl.float32: "*fp32", tl.float64: "*fp64", tl.int32: "*i32", tl.int64: "*i64"}
    return variant(
        name,
        constants,
        size,
        order_ptr="*i64",
        x_ptr=f"*{kind}",
        y_ptr=f"*{kind}",
        partial_ptr=partial[compute],
    )


REDUCTIONS = [
    ("fp32", tl.float32, "sum", "i32", False, (128, 1)),
    ("bf16", tl.float32, "mean", "i64", True),
    ("fp64", tl.float64, "amax", "i32", False),
    ("i64", tl.int64, "mean", "i32", False),
    ("i1", tl.int32, "prod", "i32", False),
]
MASKED = {"NDIM": 2, "WIDE": False, "BLOCK": 1024}
VARIANTS = {
    ("indexing", "gather"): [_gather(kind, *width) for kind in ("i8", "i64") for width in WIDTHS],
    ("indexing", "index_keys"): [
        variant("index_keys", {"NDIM": 2, "N_INDEX": 2, "WRAP": True, "BLOCK": 256}, size,
                index_ptrs=INDICES)
        for size in ("i32", "i64")
    ],
    ("indexing", "claim"): [
        variant("claim", {"BLOCK": 256}), variant("claim", {"BLOCK": 256}, winner_ptr="*i64")
    ],
    ("indexing", "scatter"): [
        _scatter(kind, claimed, *width)
        for kind, claimed in (("i8", True), ("i64", False)) for width in WIDTHS
    ],
    ("indexing", "sort_few"): [variant("sort_few", {"PART": 128, "BLOCK": 32})],
    ("indexing", "exclusive_scan"): [variant("exclusive_scan", {"BLOCK": 8192}, x_ptr="*i64")],
    ("indexing", "segment_reduce"): [
        _segments("segment_reduce", *r) for r in REDUCTIONS
    ],
    ("indexing", "segment_finish"): [_segments("segment_finish", *r) for r in REDUCTIONS],
    ("indexing", "mask_count"): [
        variant("mask_count", MASKED | {"COMPLEX": pair}, x_ptr=f"*{kind}")
        for kind, pair in (("i1", False), ("bf16", False), ("fp64", True))
    ],
    ("indexing", "nonzero"): [
        variant("nonzero", MASKED | {"COMPLEX": pair, "N_DIMS": 2}, x_ptr=f"*{kind}", y_ptr="*i64")
        for kind, pair in (("i1", False), ("bf16", False), ("fp32", True))
    ],
    ("indexing", "masked_select"): [
        variant("masked_select", MASKED, x_ptr=f"*{kind}", y_ptr=f"*{kind}", mask_ptr="*i1")
        for kind in ("i8", "i64")
    ],
    ("indexing", "masked_scatter"): [
        variant("masked_scatter", MASKED, x_ptr=f"*{kind}", y_ptr=f"*{kind}", mask_ptr="*i1")
        for kind in ("i8", "i64")
    ],
}  # fmt: skip
