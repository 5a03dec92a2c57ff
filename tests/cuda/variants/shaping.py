"""Variants that test_compile.py compiles of kernels/shaping.py, kernels/random.py and
kernels/scalar/complex.py."""

import inspect

import triton
import triton.language as tl

from tritorch.kernels import random as r
from tritorch.kernels.scalar import complex as c

PADS = {"n_elements": "i32", "n_in": "i32", "n_out": "i32", "before": "i32", "inner": "i32"}
TEMPLATES = {"part", "store", "map1", "map2", "map3", "map4", "roots_beside"}


def complex_cases(n):
    for name, value in vars(c).items():
        if not isinstance(value, triton.JITFunction) or value.__module__ != c.__name__:
            continue
        if name in TEMPLATES or len(inspect.signature(value.fn).parameters) != 2 * n:
            continue
        letters = "abcd"[:n]
        types = {f"{x}_ptr": "*fp32" for x in letters} | {"y_ptr": "*fp32", "n_elements": "i32"}
        types |= {"shape": ("i32",), "y_strides": ("i32",)}
        types |= {f"{x}_strides": ("i32",) for x in letters}
        constants = {"OP": value, "COMPUTE": tl.float32, "Y_PAIR": True, "NDIM": 1, "WIDE": False,
                     "BLOCK": 1024} | {f"{x.upper()}_PAIR": True for x in letters}  # fmt: skip
        yield types, constants


VARIANTS = {
    ("shaping", "reorder"): [
        ({"x_ptr": f"*{kind}", "y_ptr": f"*{kind}", "n_elements": "i32", "shape": ("i32",) * 3,
          "x_strides": ("i32",) * 3, "flips": ("i32",) * 3, "shifts": ("i32",) * 3},
         {"NDIM": 3, "WIDE": False, "BLOCK": 1024})
        for kind in ("u8", "i16", "i32", "i64")
    ],
    ("shaping", "triangle"): [
        ({"x_ptr": "*i32", "y_ptr": "*i32", "n_elements": "i32", "n_rows": "i32", "n_cols": "i32",
          "diagonal": "i32", "shape": ("i32",) * 3, "x_strides": ("i32",) * 3},
         {"UPPER": upper, "NDIM": 3, "WIDE": False, "BLOCK": 1024})
        for upper in (True, False)
    ],
    ("shaping", "pad_dim"): [
        ({"x_ptr": "*i32", "y_ptr": "*i32"} | PADS, {"MODE": mode, "WIDE": False, "BLOCK": 1024})
        for mode in (0, 1, 2)
    ],
    ("shaping", "pad_dim_backward"): [
        ({"g_ptr": "*bf16", "y_ptr": "*bf16"} | PADS,
         {"MODE": mode, "ACC": tl.float32, "WIDE": False, "BLOCK": 1024})
        for mode in (0, 1, 2)
    ],
    ("shaping", "arange"): [
        ({"y_ptr": f"*{kind}", "n_elements": "i32", "start": "i64", "step": "i64"},
         {"COMPUTE": compute, "WIDE": False, "BLOCK": 1024})
        for kind, compute in (("fp32", tl.float32), ("i64", tl.int64), ("bf16", tl.float32))
    ],
    ("shaping", "linspace"): [
        ({"y_ptr": f"*{kind}", "n_elements": size, "y_stride": size, "start": "i64", "end": "i64",
          "step": "i64"}, {"WIDE": size == "i64", "BLOCK": 1024})
        for kind, size in (("fp32", "i32"), ("fp64", "i64"), ("i64", "i32"))
    ],
    ("shaping", "tri_indices"): [
        ({"y_ptr": "*i64", "n_elements": "i32", "n_rows": "i32", "n_cols": "i32", "offset": "i32"},
         {"UPPER": upper, "STEPS": 10, "WIDE": False, "BLOCK": 1024}) for upper in (False, True)
    ],
    ("random", "draw"): [
        ({"y_ptr": y, "n_elements": "i32", "seed": "i64", "offset": "i64", "p": "i64",
          "q": "i64"},
         {"OP": op, "COMPUTE": tl.float64 if y == "*fp64" else tl.float32, "BLOCK": 256})
        for y, op in (("*fp32", r.uniform), ("*bf16", r.normal), ("*fp32", r.exponential),
                      ("*fp32", r.cauchy), ("*fp64", r.log_normal), ("*fp32", r.geometric),
                      ("*fp16", r.uniform_float16), ("*bf16", r.uniform_bfloat16))
    ],
    ("random", "dropout"): [
        ({"x_ptr": kind, "y_ptr": kind, "n_elements": "i32", "shape": ("i32",) * ndim,
          "x_strides": ("i32",) * (ndim - 1) + ("constexpr",),
          "y_strides": ("i32",) * (ndim - 1) + ("constexpr",), "seed": "i64", "offset": "i64",
          "p": "i64"},
         {("x_strides", ndim - 1): 1, ("y_strides", ndim - 1): 1, "NDIM": ndim, "WIDE": False,
          "COMPUTE": tl.float64 if kind == "*fp64" else tl.float32, "BLOCK": 256})
        for kind, ndim in (("*fp32", 1), ("*bf16", 1), ("*bf16", 3), ("*fp64", 1))
    ],
    ("random", "integers"): [
        ({"y_ptr": "*i64", "n_elements": "i32", "seed": "i64", "offset": "i64", "low": "i64",
          "span": "i64"}, {"WIDE": wide, "BLOCK": 256}) for wide in (False, True)
    ],
    ("complex", "map1"): list(complex_cases(1)),
    ("complex", "map2"): list(complex_cases(2)),
    ("complex", "map3"): list(complex_cases(3)),
    ("complex", "map4"): list(complex_cases(4)),
}  # fmt: skip
