"""Variants of kernels/sorting.py that are compiled for real targets."""

import inspect

from tritorch.kernels import sorting

WIDTHS = [("i32", False), ("i64", True)]
KINDS = ["fp32", "fp64", "bf16", "i8", "u64", "i1"]
WIDE_KEYS = ("fp64", "i64", "u64")


def variant(name, constants, size="i32", ndim=2, **types):
    """Types of all arguments: sizes, tuples of ndim sizes, int64 arrays, and what is given."""
    out = {}
    for argument in inspect.signature(getattr(sorting, name).fn).parameters:
        if argument in constants:
            continue
        if argument in types:
            out[argument] = types[argument]
        elif argument.endswith("_ptr"):
            out[argument] = "*i64"
        elif argument.endswith(("shape", "strides")):
            out[argument] = (size,) * ndim
        elif argument.endswith("_bits"):
            out[argument] = "i64"
        else:
            out[argument] = size
    return out, constants


def _blocks(kind, ordered, descending, size, wide, rows, block):
    constants = {"HAS_ORDER": ordered, "DESCENDING": descending, "NDIM": 2, "WIDE": wide,
                 "BLOCK_ROWS": rows, "BLOCK": block}  # fmt: skip
    constants |= {"LOG_BLOCK": block.bit_length() - 1, "N_BITS": (rows * block).bit_length() - 1}
    keys = "*i64" if kind in WIDE_KEYS else "*i32"
    return variant("sort_blocks", constants, size, x_ptr=f"*{kind}", keys_ptr=keys,
                   order_in_ptr="*i32", order_ptr="*i32")  # fmt: skip


VARIANTS = {
    ("sorting", "sort_blocks"): [
        # A network of 1024 takes seconds to compile, and is the same for all keys of one width: it
        # is not among those that are compiled for all.
        _blocks("fp32", False, True, "i64", True, 32, 16),
        _blocks("fp32", False, False, "i32", False, 1, 1024),
        _blocks("i64", True, False, "i32", False, 1, 1024),
        *(_blocks(kind, False, False, "i32", False, 8, 64) for kind in KINDS if kind != "fp32"),
    ],
    ("sorting", "merge_runs"): [
        variant("merge_runs", {"WIDE": wide, "BLOCK": 512}, size, keys_ptr=keys, keys_out_ptr=keys,
                order_ptr="*i32", order_out_ptr="*i32", run="i32", steps="i32")
        for keys in ("*i32", "*i64") for size, wide in WIDTHS
    ],
    ("sorting", "searchsorted"): [
        variant("searchsorted", {"RIGHT": kind == "fp32", "NDIM": 2, "V_NDIM": 2, "WIDE": wide,
                                 "BLOCK": 256}, size, x_ptr=f"*{kind}", v_ptr=f"*{kind}")
        for kind in KINDS for size, wide in WIDTHS
    ],
    ("sorting", "median"): [
        variant("median", {"FLOAT": real, "IGNORE_NAN": ignore, "WIDE": wide, "BLOCK": 256}, size,
                keys_ptr=keys, order_ptr="*i32")
        for keys, real, ignore in (("*i32", True, True), ("*i64", True, False),
                                   ("*i64", False, False))
        for size, wide in WIDTHS
    ],
    ("sorting", "mode"): [
        variant("mode", {"FLOAT": real, "BLOCK": 1024}, keys_ptr=keys, order_ptr="*i32")
        for keys, real in (("*i32", True), ("*i64", True), ("*i64", False))
    ],
    ("sorting", "count_runs"): [
        variant("count_runs", {"WIDE": wide, "BLOCK": 1024}, size, x_ptr=f"*{kind}")
        for kind in KINDS for size, wide in WIDTHS
    ],
    ("sorting", "write_runs"): [
        variant("write_runs", {"HAS_ORDER": ordered, "WIDE": False, "BLOCK": 1024},
                x_ptr=f"*{kind}", values_ptr=f"*{kind}")
        for kind in KINDS for ordered in (False, True)
    ],
    ("sorting", "greatest"): [
        variant("greatest", {"WIDE": wide, "BLOCK": 1024}, size, x_ptr=f"*{kind}")
        for kind in ("u8", "i64") for size, wide in WIDTHS
    ],
    ("sorting", "bincount"): [
        variant("bincount", {"WIDE": wide, "BLOCK": 1024}, size, x_ptr=f"*{kind}")
        for kind in ("u8", "i64") for size, wide in WIDTHS
    ],
    ("sorting", "histc"): [
        variant("histc", {"NDIM": 2, "WIDE": False, "BLOCK": 1024}, x_ptr=f"*{kind}")
        for kind in ("fp32", "bf16", "fp64")
    ],
}  # fmt: skip
