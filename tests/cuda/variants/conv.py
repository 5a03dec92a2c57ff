"""Variants of kernels/conv*.py and depthwise.py that are compiled for real targets."""

import inspect
import itertools

import triton.language as tl

from tritorch.gpu.linalg.matmul_plan import TMA_TILES
from tritorch.gpu.nn.conv import DEEPEST, blocks
from tritorch.gpu.nn.conv_plan import _WEIGHT_PIXELS, _WEIGHT_TILES, box_of
from tritorch.gpu.nn.depthwise import tile
from tritorch.kernels.images import conv, conv_pack, conv_tma, depthwise
from tritorch.kernels.scalar import activations

SIZES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8, "i64": 8}
FLAGS = ("TRANSPOSED", "BY_TAP", "HAS_BIAS")
# type, accumulator, 64-bit offsets, precision, whether channels are dense
CASES = [
    ("bf16", tl.float32, False, "ieee", True),
    ("fp32", tl.float32, False, "ieee", True),
    ("fp64", tl.float64, True, "ieee", False),
    ("fp16", tl.float32, True, "ieee", False),
    ("fp32", tl.float32, False, "tf32x3", True),
]


def arguments(module, name, kind, wide, last, dims=3):
    """Types of sizes and strides, and the strides that are 1."""
    types, ones = {}, {}
    for n in inspect.signature(getattr(module, name).fn).parameters:
        if n.endswith("_ptr"):
            types[n] = f"*{kind}"
        elif n.endswith("split_stride") or n.startswith("n_") or n in ("groups", "per_group"):
            types[n] = "i32"
        elif n.endswith("strides"):
            of_weight = n in ("w_strides", "dw_strides")
            size = (6 if dims == 3 else 3) if of_weight else 2 + dims
            types[n] = ["i64" if wide else "i32"] * size
            dense = (2 if dims == 3 else size - 1) if of_weight else 1 if last else size - 1
            types[n][dense] = "constexpr"
            types[n] = tuple(types[n])
            ones[n, dense] = 1
        elif not n.isupper() and n not in ("x", "w", "y", "g", "extra"):
            types[n] = ("i32",) * dims
    return types, ones


def through_pointers(name):
    names = inspect.signature(getattr(conv, name).fn).parameters
    flags = [flag for flag in FLAGS if flag in names]
    combinations = list(itertools.product((False, True), repeat=len(flags)))
    if "BY_TAP" in flags:  # what is read by tap first, which is compiled for all
        combinations.sort(key=lambda values: not values[flags.index("BY_TAP")])
    cases = CASES if "PRECISION" in names else [*CASES[:4], ("i64", tl.int64, False, "", False)]
    for i, (kind, accumulate, wide, precision, last) in enumerate(cases):
        types, ones = arguments(conv, name, kind, wide, last)
        size = SIZES[kind]
        fast = size == 2 or precision == "tf32x3"
        # The first type with every combination of flags, the others with one each.
        for values in combinations if i == 0 else combinations[i % len(combinations) :][:1]:
            chosen = dict(zip(flags, values))
            by_tap = chosen.get("BY_TAP", True)
            out, columns, warps, stages = blocks(4096, 1 << 20, by_tap, fast)
            tiled = {"BLOCK_OUT": out, "num_warps": warps, "num_stages": stages}
            deepest = DEEPEST[by_tap and not chosen.get("TRANSPOSED"), size] if fast else 16
            pixels = 64 if size == 2 else 16
            sizes = {
                "conv": tiled | {"BLOCK_PIXELS": columns, "BLOCK_IN": deepest},
                "conv_weight": tiled | {"BLOCK_IN": columns, "BLOCK_PIXELS": pixels},
            }.get(name, {"BLOCK_PIXELS": 256, "BLOCK_IN": 16})
            constants = {"ACCUMULATE": accumulate, "PRECISION": precision, "WIDE": wide}
            constants |= {"extra": None, "THEN": None}
            constants |= sizes | chosen
            yield (
                types,
                ones | {n: v for n, v in constants.items() if n in names or n.startswith("num_")},
            )


def following(kind, accumulate, wide, last):
    """What follows a convolution, as a launch of its own."""
    types, ones = arguments(conv, "follow", kind, wide, last)
    return types, ones | {
        "extra": None, "THEN": activations.relu, "ACCUMULATE": accumulate, "WIDE": wide,
        "BLOCK_OUT": 32, "BLOCK_PIXELS": 64, "num_warps": 4,
    }  # fmt: skip


def by_engine(index, kind="bf16", images=(64, 56, 56), transposed=False, stride=1, addend="none",
              statistics=False):  # fmt: skip
    block_m, block_n, warps, stages = TMA_TILES[index]
    box = n, h, w = box_of(block_m, *images)
    block_k = 128 // SIZES[kind]
    subtiles = 2 if block_n >= 128 else 1
    types, _ = arguments(conv_tma, "conv_tma", kind, False, True, 2)
    ones = dict.fromkeys(("stride", "dilation", "period", "phases"), ("constexpr",) * 2)
    if stride > 1:
        ones["stride"] = ones["phases"] = ones["period"] = ("i32",) * 2
    types |= ones | {"first_phase": ("constexpr",) * 2, "stats_ptr": "*fp32"}
    constants = {(key, i): 1 for key, kinds in ones.items() for i in (0, 1) if kinds[i] != "i32"}
    constants |= {("first_phase", i): 0 for i in (0, 1)}
    block_w = (block_k, 1, block_n) if transposed else (block_n, 1, block_k)
    desc = lambda *block: f"tensordesc<{kind}[{','.join(map(str, block))}]>"
    types |= {"x": desc(n, h, 1, w, block_k), "w": desc(*block_w)}
    types["y"] = desc(n, h, 1, w, block_n // subtiles)
    if addend == "none":
        constants["extra"] = None
    else:
        strides = ("i32", "i32", "constexpr")
        types["extra"] = (f"*{kind}", *strides, "*fp32", "i32", "*fp32", "i32", "i64", "i64")
        constants["extra", 3] = 1
    for once in ("groups", "n_splits"):
        del types[once]
    return types, constants | {
        "groups": 1, "n_splits": 1, "STATS": statistics, "ADDEND": addend, "ACTIVATION": None,
        "TRANSPOSED": transposed, "PRECISION": "tf32" if kind == "fp32" else "ieee",
        "WIDE": False, "GROUP": 8, "SUBTILES": subtiles, "BOX_N": box[0], "BOX_H": box[1],
        "BOX_W": box[2], "BLOCK_N": block_n, "BLOCK_K": block_k, "num_warps": warps,
        "num_stages": stages,
    }  # fmt: skip


def weight_by_engine(index, images=(64, 56, 56), stride=1):
    out, ins, warps, stages = _WEIGHT_TILES[index]
    n, h, w = box_of(_WEIGHT_PIXELS, *images)
    types, ones = arguments(conv_tma, "conv_weight_tma", "fp32", False, True, 2)
    types |= {"dw_strides": ("i32", "i32", "constexpr", "i32", "i32", "i32"), "dw_ptr": "*fp32"}
    ones = {("dw_strides", 2): 1}
    if stride == 1:
        types["stride"] = ("constexpr",) * 2
        ones |= {("stride", 0): 1, ("stride", 1): 1}
    desc = lambda *block: f"tensordesc<bf16[{','.join(map(str, block))}]>"
    types |= {"g": desc(n, h, w, out), "x": desc(n, h, 1, w, ins)}
    return types, ones | {
        "PRECISION": "ieee", "WIDE": False, "BOX_N": n, "BOX_H": h, "BOX_W": w, "BLOCK_OUT": out,
        "BLOCK_IN": ins, "num_warps": warps, "num_stages": stages,
    }  # fmt: skip


def single(name, kind, accumulate, last, transposed=False, wide=False):
    types, ones = arguments(depthwise, name, kind, wide, last, 2)
    rows, cols, channels, warps = tile(last, 512, 56, 56, SIZES[kind])
    constants = {"ACCUMULATE": accumulate, "WIDE": wide, "num_warps": warps, "BLOCK": channels}
    if name == "depthwise":
        return types, ones | constants | {
            "TRANSPOSED": transposed, "HAS_BIAS": not transposed, "TAPS": 3, "BOX_H": rows,
            "BOX_W": cols,
        }  # fmt: skip
    types["dw_ptr"] = "*fp64" if kind == "fp64" else "*fp32"
    return types, ones | constants | {"TAPS": 4, "BLOCK_PIXELS": 4096 // (4 * channels)}


SINGLE = [("bf16", tl.float32, True), ("bf16", tl.float32, False), ("fp32", tl.float32, True),
          ("fp64", tl.float64, True)]  # fmt: skip
ROWS = arguments(conv_pack, "pack_rows", "bf16", False, True)[0] | {
    "width": "i32", "packed_width": "i32", "padding": "i32", "rows": ("i32",) * 2
}  # fmt: skip

VARIANTS = {
    ("conv", name): list(through_pointers(name))
    for name in ("conv", "conv_direct", "conv_weight", "conv_weight_direct")
} | {
    ("conv", "follow"): [
        following(kind, accumulate, wide, last) for kind, accumulate, wide, _, last in CASES[:4]
    ],
    ("conv_tma", "conv_tma"): [
        *(by_engine(i) for i in (0, 1, 2, 4)),
        *(by_engine(i, transposed=True, stride=2) for i in (0, 2)),
        by_engine(3, images=(64, 7, 7), addend="row"),
        by_engine(2, kind="fp16", stride=2, addend="matrix"),
        *(by_engine(i, statistics=True) for i in (2, 4)),
        by_engine(0, images=(1, 1, 1 << 20)),
        by_engine(2, kind="fp32"),
    ],
    ("conv_tma", "conv_weight_tma"): [
        *(weight_by_engine(i) for i in range(5)), weight_by_engine(0, (64, 7, 7), 2)
    ],
    ("conv_pack", "pack_rows"): [
        (ROWS, {("x_strides", 1): 1, "WIDE": False, "CHANNELS": 4, "BLOCK": 256})
    ],
    ("depthwise", "depthwise"): [
        *(single("depthwise", *case) for case in SINGLE),
        single("depthwise", *SINGLE[0], transposed=True, wide=True),
    ],
    ("depthwise", "depthwise_weight"): [
        *(single("depthwise_weight", *case) for case in SINGLE),
    ],
}  # fmt: skip
