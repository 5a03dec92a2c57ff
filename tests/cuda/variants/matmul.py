"""Variants of kernels/matrices/matmul.py that are compiled for real targets."""

import itertools

import triton.language as tl

from tritorch.gpu.linalg.matmul_plan import TMA_TILES, candidates, simple_tile
from tritorch.kernels.scalar.activations import gelu

SIZES = {"fp8e4nv": 1, "bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8, "i8": 1}

SUMMED = {"fp64": tl.float64, "i8": tl.int32}


def _ending(kind, size, addend, scaled=False, activation=None):
    """The types and constants of what is done to a product."""
    constants = {"ADDEND": addend, "SCALED": scaled, "ACTIVATION": activation}
    if addend == "none" and not scaled:
        return {}, constants | {"extra": None}
    pointer = f"*{kind}"
    types = (pointer, size, size, "constexpr", "*fp32", "i32", "*fp32", "i32", "i64", "i64")
    return {"extra": types}, constants | {("extra", 3): 1}


IN_MEMORY = {"A_FIRST": None, "B_FIRST": None}


def _common(a, c, wide, ending):
    size = "i64" if wide else "i32"
    types, constants = ending(size)
    strides = (size, size, "constexpr")
    names = ("n_rows", "n_cols", "n_inner", "inner_per_split", "c_split_stride")
    types = types | dict.fromkeys(names, size) | {"a_ptr": f"*{a}", "b_ptr": f"*{a}"}
    types |= dict.fromkeys(("a_strides", "b_strides", "c_strides"), strides) | {"c_ptr": f"*{c}"}
    ones = {(f"{x}_strides", 2): 1 for x in "abc"}
    return types, constants | ones | {
        "ACCUMULATE": SUMMED.get(a, tl.float32), "WIDE": wide
    }  # fmt: skip


def _plain(size):
    return _ending("", size, "none")


def _bias(kind):
    return lambda size: _ending(kind, size, "row")


def _tiled(a, c, sizes, precision="ieee", is_complex=False, wide=False, ending=_plain):
    fast = (SIZES[a] <= 2 or precision != "ieee") and not is_complex
    *block, warps, stages = simple_tile(*sizes[:2], SIZES[a], fast, is_complex)
    types, constants = _common(a, c, wide, ending)
    return types, constants | {
        "PRECISION": precision, "COMPLEX": is_complex, "EVEN": not wide, "GROUP": 8, **IN_MEMORY,
        "BLOCK_M": block[0], "BLOCK_N": block[1], "BLOCK_K": block[2], "num_warps": warps,
        "num_stages": stages,
    }  # fmt: skip


def _engine(a, c, tile, columns, into=True, ending=_plain, exact=False):
    block_m, block_n, warps, stages = tile
    block_k = 128 // SIZES[a]
    subtiles = 2 if block_n >= 128 else 1
    desc = lambda kind, *block: f"tensordesc<{kind}[1,{block[0]},{block[1]}]>"
    types, constants = _common(a, c, False, ending)
    x = (block_k, block_m) if columns[0] else (block_m, block_k)
    y = (block_n, block_k) if columns[1] else (block_k, block_n)
    types = {k: v for k, v in types.items() if k[:2] not in ("a_", "b_")}
    constants = {k: v for k, v in constants.items() if k[0][:2] not in ("a_", "b_")}
    types |= {"a": desc(a, *x), "b": desc(a, *y), "n_batches": "i32", "n_splits": "i32"}
    if into:
        types["c"] = desc(c, block_m, block_n // subtiles)
    else:
        constants["c"] = None
    return types, constants | {
        "PRECISION": "tf32" if a == "fp32" else "ieee", "IMPRECISE": 32 if exact else None,
        "A_COLS": bool(columns[0]), "B_COLS": bool(columns[1]), "A_SHARED": True, "B_SHARED": True,
        "GROUP": 8, "SUBTILES": subtiles, "BLOCK_M": block_m, "BLOCK_N": block_n,
        "BLOCK_K": block_k, "num_warps": warps, "num_stages": stages,
    }  # fmt: skip


def _thin(a, c, wide, ending=_plain):
    types, constants = _common(a, c, wide, ending)
    return types, constants | {"BLOCK_M": 16, "BLOCK_N": 2, "BLOCK_K": 128, **IN_MEMORY}


STRIDES = {
    f"{x}_{which}_stride": "i32" for x in "abc" for which in ("batch", "row", "col")
} | dict.fromkeys(("n_rows", "n_cols", "n_inner"), "i32")


def _integers(a, accumulate):
    types = STRIDES | {"a_ptr": f"*{a}", "b_ptr": f"*{a}", "c_ptr": f"*{a}"}
    rows = 16 if a == "i64" else 64
    return types, {"ACCUMULATE": accumulate, "WIDE": False, "BLOCK_M": rows, "BLOCK_N": 64}


def _sum(x, c, ending=_plain):
    types, constants = ending("i32")
    sizes = dict.fromkeys(("n_elements", "n_splits", "n_rows", "n_cols"), "i32")
    return types | sizes | {"x_ptr": f"*{x}", "c_ptr": f"*{c}"}, constants | {
        "WIDE": False, "BLOCK": 256
    }  # fmt: skip


def _residual(size):
    return _ending("bf16", size, "matrix")


def _scaled(size):
    return _ending("bf16", size, "row", True, gelu)


ENGINE = [
    *(_engine("bf16", "bf16", TMA_TILES[i % len(TMA_TILES)], columns)
      for i, columns in enumerate(itertools.product((0, 1), repeat=2))),
    *(_engine("bf16", "bf16", tile, (0, 1), ending=_bias("bf16")) for tile in TMA_TILES[:3]),
    *(_engine("fp16", "fp32", tile, (0, 0)) for tile in TMA_TILES[4:]),
    *(_engine("fp8e4nv", "bf16", tile, (0, 1), ending=_scaled) for tile in TMA_TILES[::2]),
    *(_engine("fp8e4nv", "bf16", (p.block_m, p.block_n, p.warps, p.stages), (0, 1), ending=_scaled,
              exact=True) for p in candidates(1, small=True)),
    *(_engine("fp32", "fp32", tile, (0, 1)) for tile in TMA_TILES[::2]),
    *(_engine("bf16", "bf16", tile, (0, 1), ending=_residual) for tile in TMA_TILES[:3]),
    _engine("bf16", "bf16", TMA_TILES[0], (0, 1), into=False, ending=_bias("bf16")),
    # split, or added up in float32
    *(_engine("bf16", "fp32", tile, (1, 0), into=False, ending=_residual)
      for tile in TMA_TILES[:2]),
    _engine("bf16", "fp32", TMA_TILES[2], (1, 0), ending=_residual),
]  # fmt: skip

VARIANTS = {
    ("matmul", "matmul"): [
        _tiled("bf16", "bf16", (8192, 8192, 8192)),
        _tiled("bf16", "bf16", (512, 512, 512), ending=_bias("bf16")),
        _tiled("bf16", "bf16", (8192, 768, 512)),
        _tiled("fp16", "fp32", (16, 4096, 4096), wide=True),
        _tiled("fp32", "fp32", (4096, 4096, 4096)),
        _tiled("fp32", "fp32", (4096, 4096, 4096), "tf32", ending=_bias("fp32")),
        _tiled("fp32", "fp32", (4096, 4096, 4096), "tf32x3"),
        _tiled("fp64", "fp64", (4096, 4096, 4096)),
        _tiled("fp8e4nv", "bf16", (4096, 4096, 4096), ending=_scaled),
        _tiled("i8", "i32", (4096, 4096, 4096)),
        _tiled("i8", "i32", (16, 16, 4096), wide=True),
        _tiled("fp32", "fp32", (4096, 4096, 4096), is_complex=True),
        _tiled("fp64", "fp64", (4096, 4096, 4096), is_complex=True),
    ],
    ("matmul", "matmul_tma"): ENGINE,
    ("matmul", "matmul_thin"): [
        *(_thin(kind, kind, wide) for kind in ("bf16", "fp32", "fp64") for wide in (False, True)),
        _thin("bf16", "bf16", False, _bias("bf16")),
    ],
    ("matmul", "matmul_integers"): [
        _integers("i8", tl.int32), _integers("i32", tl.int32), _integers("i64", tl.int64)
    ],
    ("matmul", "sum_splits"): [
        *(_sum(x, y) for x, y in (("fp32", "bf16"), ("fp32", "fp32"), ("fp64", "fp64"))),
        _sum("i32", "i32"),
        _sum("fp32", "bf16", _scaled),
    ],
}  # fmt: skip
