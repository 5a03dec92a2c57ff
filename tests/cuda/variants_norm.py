"""What of kernels/norm.py is compiled for real targets."""

import inspect

import triton.language as tl

from tritorch.gpu.softmax import row_blocks
from tritorch.kernels import norm

CASES = [("fp32", tl.float32, "i32", False), ("bf16", tl.float32, "i32", False),
         ("fp64", tl.float64, "i64", True)]  # fmt: skip
STATISTICS = ("mean_ptr", "rstd_ptr", "var_ptr", "partial_ptr", "dw_ptr", "db_ptr",
              "given_mean_ptr", "given_var_ptr")  # fmt: skip


def _variants(name, *constants):
    names = inspect.signature(getattr(norm, name).fn).parameters
    out = []
    for kind, compute, size, wide in CASES:
        statistic = "*fp64" if kind == "fp64" else "*fp32"
        types = {
            n: statistic if n in STATISTICS else f"*{kind}" if n.endswith("_ptr") else size
            for n in names
            if not n.isupper()
        }
        if "eps" in types:
            types["eps"] = "i64"
        for chosen in constants:
            every = {"COMPUTE": compute, "WIDE": wide} | chosen
            out.append((types, {k: v for k, v in every.items() if k in names or k == "num_warps"}))
    return out


AFFINE = {"HAS_WEIGHT": True, "HAS_BIAS": True}


def _launch(n_rows, n_cols):
    _, rows, cols, warps = row_blocks(n_rows, n_cols, 1)
    return AFFINE | {"BLOCK_ROWS": rows, "BLOCK_COLS": cols, "num_warps": warps}


ROWS = _launch(4096, 1024)
ROW_KINDS = (
    ROWS | {"RMS": False, "GROUPED": False}, ROWS | {"RMS": True, "GROUPED": False},
    ROWS | {"RMS": False, "GROUPED": True},
)  # fmt: skip
TILES = ({"BLOCK_C": 128, "BLOCK_K": 16}, {"BLOCK_C": 1, "BLOCK_K": 1024})
VARIANTS = {
    ("norm", name): _variants(name, *constants)
    for name, constants in {
        "norm_rows": ROW_KINDS,
        "norm_looped": ROW_KINDS,
        "norm_rows_backward": ROW_KINDS,
        "norm_looped_backward": ROW_KINDS,
        "channel_sums": [tile | {"HAS_MEAN": has} for tile in TILES for has in (True, False)],
        "finish_channel_sums": ({"BLOCK": 128},),
        "channel_statistics": TILES,
        "finish_channel_statistics": [{"GIVEN": given, "BLOCK": 128} for given in (True, False)],
        "batch_norm": (AFFINE | {"BLOCK": 1024}, {"HAS_WEIGHT": False, "HAS_BIAS": False,
                                                  "BLOCK": 1024}),
        "batch_norm_backward": [
            AFFINE | {"TRAINING": training, "BLOCK": 1024} for training in (True, False)
        ],
    }.items()
}  # fmt: skip
