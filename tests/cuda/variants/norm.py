"""Variants of kernels/norm.py and kernels/images/channels.py that are compiled for real targets."""

import inspect
import math

import triton.language as tl

from tritorch.gpu.nn import norm as plans
from tritorch.gpu.reduce.softmax import cut_rows, near_rows, row_plan
from tritorch.kernels import norm
from tritorch.kernels.images import channels

CASES = {
    "fp32": (tl.float32, "i32"), "bf16": (tl.float32, "i32"), "fp64": (tl.float64, "i64"),
}  # fmt: skip
STATISTICS = ("mean_ptr", "rstd_ptr", "var_ptr", "partial_ptr", "dw_ptr", "db_ptr",
              "given_mean_ptr", "given_var_ptr")  # fmt: skip
AFFINE = {"HAS_WEIGHT": True, "HAS_BIAS": True}


def _variant(kernel, kind, constants):
    names = inspect.signature(kernel.fn).parameters
    compute, size = CASES[kind]
    statistic = "*fp64" if kind == "fp64" else "*fp32"
    every = {"COMPUTE": compute, "WIDE": size == "i64"} | AFFINE | constants
    types = {
        n: statistic if n in STATISTICS else f"*{kind}" if n.endswith("_ptr") else size
        for n in names
        if not n.isupper() and n not in every
    }
    if "eps" in types:
        types["eps"] = "i64"
    return types, {k: v for k, v in every.items() if k in names or k == "num_warps"}


def _rows():
    for kind, n_cols in (("bf16", 1024), ("fp32", 4096), ("bf16", 32768), ("fp64", 8192)):
        plan = row_plan(4096, n_cols, 1, 2 if kind == "fp64" else 1).constants(n_cols)
        yield _variant(norm.norm_rows, kind, plan | {"RMS": False, "GROUPED": False})
        if n_cols < 8192:
            yield _variant(norm.norm_rows, kind, plan | {"RMS": True, "GROUPED": False})
    plan = row_plan(4096, 12544, 1, 2).constants(12544)
    yield _variant(norm.norm_rows, "bf16", plan | {"RMS": False, "GROUPED": True})


def _densest(near, per_thread, count=2):
    """Of the plans worth timing, which a table of measured ones may name, those with the most for
    each thread."""
    return sorted(near, key=per_thread, reverse=True)[:count]


def _rows_near():
    for n_cols, looped in ((1024, False), (16384, False), (65536, True)):
        near = [p for p in near_rows(4096, n_cols, 1, 1, 132, 90, "", 2) if p.looped == looped]
        for plan in _densest(near, lambda p: p.rows * p.cols / p.warps):
            chosen = plan.constants(n_cols) | {"RMS": False, "GROUPED": False, "target": 90}
            kernel, more = norm.norm_rows, {}
            if looped:
                kernel, more = norm.norm_looped, {"STEP": "whole", "PARTS": 1}
            types, constants = _variant(kernel, "bf16", chosen | more)
            yield looped, (types, constants | {"target": 90})


def _gradient(plan, rms):
    return {"RMS": rms, "STAGES": plan.stages, "HOLD_WEIGHT": plan.hold_weight, "ALIGN": 16,
            "BLOCK_ROWS": plan.rows, "BLOCK_COLS": plan.cols, "num_warps": plan.warps}  # fmt: skip


def _gradients_near():
    for n_cols in (1024, 4096):
        near = plans.near_gradient(4096, n_cols, 2, 132, False, 90)
        near = dict.fromkeys(plan._replace(programs=1) for plan in near)
        for plan in _densest(near, lambda p: (p.rows * p.cols / p.warps, p.rows)):
            types, constants = _variant(norm.norm_rows_backward, "bf16", _gradient(plan, False))
            yield types, constants | {"target": 90}


def _looped(kernel, row_blocks, *kinds):
    for kind in ("bf16", "fp64"):
        for constants in kinds:
            for step, parts in (("whole", 1), ("sums", 1), ("result", 128)):
                if kind == "fp64" and step != "whole":
                    continue
                plan = row_blocks(2 if kind == "fp64" else 1).constants(65536)
                yield _variant(kernel, kind, plan | constants | {"STEP": step, "PARTS": parts})


def _rows_backward():
    cases = ("bf16", 1024), ("bf16", 8192), ("bf16", 16384), ("fp32", 4096), ("fp64", 2048)
    for kind, n_cols in cases:
        for rms in (False, True):
            plan = plans.gradient_plan(4096, n_cols, int(kind[-2:]) // 8, rms=rms)
            if plan is not None:
                yield _variant(norm.norm_rows_backward, kind, _gradient(plan, rms))


def _groups():
    for kind, per_group, spatial in (("bf16", 8, 3136), ("fp32", 16, 49), ("fp64", 8, 3136)):
        rows, cols, warps = plans.group_tile(per_group, spatial)
        chosen = {"BLOCK_C": rows, "BLOCK_S": cols, "ALIGN": math.gcd(spatial, 16)}
        for step, parts in (("whole", 1), ("sums", 1), ("result", 16)):
            if step == "whole" or kind == "bf16":
                steps = {"STEP": step, "PARTS": parts, "num_warps": warps}
                yield _variant(norm.group_norm_backward, kind, chosen | steps)


IMAGES = (("bf16", 64, 256, 3136), ("bf16", 64 * 3136, 256, 1), ("fp32", 64, 512, 49),
          ("fp64", 64, 256, 3136))  # fmt: skip


def _sums(kernel, *kinds):
    for kind, n, c, spatial in IMAGES:
        one = {"spatial": 1} if spatial == 1 else {}
        for chosen in kinds:
            if not (chosen.get("OF_ROWS") and spatial > 1):
                constants = plans.channel_plan(n, c, spatial).constants(c, spatial)
                yield _variant(kernel, kind, one | constants | chosen)


def _tiles(kernel, *kinds):
    for kind, n, c, spatial in IMAGES:
        last = spatial == 1
        n_rows, n_cols = (n, c) if last else (n * c, spatial)
        rows, cols, warps = plans.channel_tile(n_rows, n_cols, 256 if last else 1024)
        for chosen in kinds:
            yield _variant(kernel, kind, chosen | {
                "LAST": last, "ALIGN": math.gcd(n_cols, 16), "BLOCK_ROWS": rows,
                "BLOCK_COLS": cols, "num_warps": warps,
            })  # fmt: skip


def _finish(kernel, *kinds):
    for kind in ("fp32", "fp64"):
        for chosen in kinds:
            yield _variant(kernel, kind, {"BLOCK_S": 128, "BLOCK": 32, "num_warps": 8} | chosen)


_LAYER, _RMS = {"RMS": False, "GROUPED": False}, {"RMS": True, "GROUPED": False}
VARIANTS = {
    ("norm", "norm_rows"): [*_rows(), *(each for looped, each in _rows_near() if not looped)],
    ("norm", "norm_looped"): [
        *_looped(norm.norm_looped, lambda r: row_plan(264, 65536, 1, r), _LAYER, _RMS),
        *(each for looped, each in _rows_near() if looped),
    ],
    ("norm", "norm_rows_backward"): [*_rows_backward(), *_gradients_near()],
    ("norm", "norm_looped_backward"): list(
        _looped(norm.norm_looped_backward, lambda r: cut_rows(264, 65536, 1, 2048 // r, 8, 132),
                _LAYER, _RMS)
    ),
    ("norm", "group_norm_backward"): list(_groups()),
    ("channels", "channel_statistics"): list(_sums(channels.channel_statistics, {})),
    ("channels", "finish_channel_statistics"): list(
        _finish(channels.finish_channel_statistics, {"GIVEN": False}, {"GIVEN": True})
    ),
    ("channels", "join_channel_statistics"): list(
        _finish(channels.join_channel_statistics, {})
    ),
    ("channels", "channel_sums"): list(
        _sums(channels.channel_sums, {"OF_ROWS": False, "HAS_MEAN": True, "y_ptr": None},
              {"OF_ROWS": False, "HAS_MEAN": True},
              {"OF_ROWS": True, "HAS_MEAN": True, "y_ptr": None})
    ),
    ("channels", "finish_channel_sums"): list(_finish(channels.finish_channel_sums, {})),
    ("channels", "batch_norm"): list(
        _tiles(channels.batch_norm, {"RELU": False, "z_ptr": None}, {"RELU": True})
    ),
    ("channels", "batch_norm_backward"): list(
        _tiles(channels.batch_norm_backward,
               {"TRAINING": True, "y_ptr": None, "dz_ptr": None},
               {"TRAINING": False, "y_ptr": None, "dz_ptr": None}, {"TRAINING": True})
    ),
}  # fmt: skip
