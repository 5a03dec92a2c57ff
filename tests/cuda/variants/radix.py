"""Variants of kernels/radix.py that are compiled for real targets."""

from tests.cuda.variants.indexing import variant
from tritorch.kernels import radix

COUNT = {"count_ptr": "*i64", "shift": "i32", "flip": "i32"}
MOVE = {"start_ptr": "*i64", "shift": "i32", "flip": "i32", "first": "i32"}


def _variants(kind, keys, order, first, size="i32", wide=False):
    constants = {"DESCENDING": first, "NDIM": 1, "WIDE": wide, "BLOCK": 1024, "num_warps": 4}
    types = {"x_ptr": f"*{kind}", "x_row_strides": (size,), "shape": (size,)}
    count = variant("radix_count", constants, size, 1, radix, **types, **COUNT)
    constants = constants | {"PART": 32, "num_warps": 1}
    move = variant(
        "radix_move", constants, size, 1, radix, **types, **MOVE, order_ptr=f"*{order}",
        key_out_ptr=f"*{keys}", order_out_ptr=f"*{order}",
    )  # fmt: skip
    return count, move


_EVERY = [
    _variants("i32", "i32", "i32", False),
    _variants("bf16", "i32", "i32", True),
    _variants("i64", "i64", "i64", False, "i64", True),
]
VARIANTS = {
    ("radix", "radix_count"): [count for count, _ in _EVERY],
    ("radix", "radix_move"): [move for _, move in _EVERY],
}
