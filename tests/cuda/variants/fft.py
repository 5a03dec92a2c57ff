"""Variants of kernels/fft.py that are compiled for real targets."""

import inspect

import triton.language as tl

from tritorch.gpu.fft import fft_plan
from tritorch.kernels import fft

WORDS = {"fp32": "*i64", "fp64": "*fp64"}  # complex numbers of 8 bytes are an integer each


def types_of(kernel, kind, size, absent, real=()):
    found = {}
    for name in inspect.signature(kernel.fn).parameters:
        if name.isupper() or name in absent:
            continue
        if name.endswith("_ptr"):
            found[name] = f"*{kind}" if name in real else WORDS[kind]
        elif name.endswith(("shape", "strides")):
            found[name] = (size,)
        else:
            found[name] = "i64" if name == "scale" else size
    return found


def transform(kind, n, load="complex", store="complex", m=None, way="whole", wide=False):
    """way: "whole", or one of the "first" and "second" of two launches, with factors."""
    itemsize = 4 if kind == "fp32" else 8
    stages = fft_plan.stages(m or n, 8 if m else itemsize)
    across = way != "whole"
    rows, warps, _ = fft_plan.tile(stages, 100_000, itemsize, across)
    absent = set()
    if len(stages.radices) == 1 and store != "unfolded":
        absent |= {"scratch_ptr", *(() if n % 2 else ("table_ptr",))}
    if load != "folded" and store != "unfolded":
        absent |= {"real_ptr"}
    if m is None:
        absent |= {"middle_ptr"}
    absent |= {
        "whole": {"step_ptr", *(() if m else ("before_ptr", "after_ptr"))},
        "first": {"after_ptr"},
        "second": {"before_ptr", "step_ptr"},
    }[way]
    if way == "whole":
        absent |= {"inner", "x_step", "y_step"}
    real = {"x_ptr"} if load in ("real", "pairs") else set()
    real |= {"y_ptr"} if store in ("real", "pairs") else set()
    constants = {
        "LOAD": load, "STORE": store, "ONESIDED": kind == "fp32", "SWAP_IN": load == "folded",
        "SWAP_OUT": load == "folded", "BACK": way == "second",
        "COMPUTE": tl.float32 if kind == "fp32" else tl.float64, "LENGTH": n, "N": stages.n,
        "RADICES": stages.radices, "WIDTHS": stages.widths, "SPANS": stages.spans, "ROWS": rows,
        "ACROSS": across, "NDIM": 1, "WIDE": wide, "HALF": fft_plan.power(n // 2 + 1),
        "num_warps": warps,
    }  # fmt: skip
    constants |= {name: 1 if name in ("inner", "x_step", "y_step") else None for name in absent}
    size = "i64" if wide else "i32"
    return types_of(fft.transform, kind, size, absent, real), constants


def unfold(kind, wide):
    constants = {"ONESIDED": not wide, "SWAP": wide, "NDIM": 1, "WIDE": wide, "BLOCK": 1024,
                 "COMPUTE": tl.float32 if kind == "fp32" else tl.float64}  # fmt: skip
    return types_of(fft.unfold, kind, "i64" if wide else "i32", ()), constants


VARIANTS = {
    ("fft", "transform"): [
        transform("fp32", 8192),
        transform("fp64", 4096),
        transform("fp32", 1024, way="first"),
        transform("fp64", 1024, way="second", wide=True),
        transform("fp32", 13 * 11 * 16, "pairs", "unfolded"),
        transform("fp64", 1024, "folded", "pairs"),
        transform("fp32", 16),
        transform("fp64", 13, "real", "mirrored"),
        transform("fp32", 1001, m=2048, wide=True),
        transform("fp64", 1009, "mirrored", "real", m=2048),
        transform("fp32", 16, "folded", "pairs"),
        transform("fp64", 1009, "pairs", "unfolded", m=2048),
        transform("fp64", 2197),
        transform("fp32", 2048, "folded", "pairs", way="second", wide=True),
    ],
    ("fft", "unfold"): [unfold("fp32", False), unfold("fp64", True)],
}
