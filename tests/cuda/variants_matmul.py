"""What of kernels/matmul.py is compiled for real targets."""

import triton.language as tl

from tritorch.gpu.matmul import tile

STRIDES = {
    f"{x}_{which}_stride": "i32" for x in "abc" for which in ("batch", "row", "col")
} | dict.fromkeys(("n_rows", "n_cols", "n_inner", "inner_per_split", "c_split_stride"), "i32")


def _types(a, c, wide=False):
    sizes = dict.fromkeys(STRIDES, "i64") if wide else STRIDES
    return {"a_ptr": f"*{a}", "b_ptr": f"*{a}", "c_ptr": f"*{c}"} | sizes


SIZES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8}


def _tiled(a, c, sizes, precision="ieee", is_complex=False, wide=False):
    fast = (SIZES[a] == 2 or precision != "ieee") and not is_complex
    *block, warps, stages = tile(*sizes, SIZES[a], fast, is_complex)
    constants = {"ACCUMULATE": tl.float64 if a == "fp64" else tl.float32, "PRECISION": precision,
                 "COMPLEX": is_complex, "WIDE": wide, "GROUP": 8,
                 "BLOCK_M": block[0], "BLOCK_N": block[1], "BLOCK_K": block[2],
                 "num_warps": warps, "num_stages": stages}  # fmt: skip
    return _types(a, c, wide) | {"a_col_stride": "constexpr", "b_col_stride": "constexpr"}, (
        constants | {"a_col_stride": 1, "b_col_stride": 1}
    )


def _thin(a, wide):
    constants = {"ACCUMULATE": tl.float64 if a == "fp64" else tl.float32, "WIDE": wide}
    return _types(a, a, wide), constants | {"BLOCK_M": 16, "BLOCK_N": 2, "BLOCK_K": 128}


def _integers(a, accumulate):
    types = {k: v for k, v in _types(a, a).items() if "split" not in k}
    rows = 16 if a == "i64" else 64
    return types, {"ACCUMULATE": accumulate, "WIDE": False, "BLOCK_M": rows, "BLOCK_N": 64}


VARIANTS = {
    ("matmul", "matmul"): [
        _tiled("bf16", "bf16", (8192, 8192, 8192)),
        _tiled("bf16", "bf16", (512, 512, 512)),
        _tiled("bf16", "bf16", (8192, 768, 512)),
        _tiled("fp16", "fp32", (16, 4096, 4096), wide=True),
        _tiled("fp32", "fp32", (4096, 4096, 4096)),
        _tiled("fp32", "fp32", (4096, 4096, 4096), "tf32"),
        _tiled("fp32", "fp32", (4096, 4096, 4096), "tf32x3"),
        _tiled("fp64", "fp64", (4096, 4096, 4096)),
        _tiled("fp32", "fp32", (4096, 4096, 4096), is_complex=True),
        _tiled("fp64", "fp64", (4096, 4096, 4096), is_complex=True),
    ],
    ("matmul", "matmul_thin"): [
        _thin(kind, wide) for kind in ("bf16", "fp32", "fp64") for wide in (False, True)
    ],
    ("matmul", "matmul_integers"): [
        _integers("i8", tl.int32), _integers("i32", tl.int32), _integers("i64", tl.int64)
    ],
    ("matmul", "sum_splits"): [
        ({"x_ptr": f"*{x}", "y_ptr": f"*{y}", "n_elements": "i32", "n_splits": "i32"},
         {"BLOCK": 256})
        for x, y in (("fp32", "bf16"), ("fp32", "fp32"), ("fp64", "fp64"))
    ],
}  # fmt: skip
