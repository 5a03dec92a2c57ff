"""Variants of kernels/softmax.py that are compiled for real targets."""

import triton.language as tl

from tritorch.gpu.reduce.softmax import near_rows, row_plan

# Type, what is computed in, sizes' type, rows, columns, elements between those of a row.
CASES = [
    ("fp32", tl.float32, "i32", 4096, 1024, 1),
    ("bf16", tl.float32, "i32", 4096, 16384, 1),
    ("bf16", tl.float32, "i64", 4096, 64, 3136),
    ("fp64", tl.float64, "i32", 4096, 8192, 1),
]
# Sizes of which a table of measured plans may name others, and whether they are looped over.
TIMED = [(1024, False), (16384, False), (65536, True)]
LONG = [("bf16", tl.float32, "i32", 4096, 50304, 1), ("fp32", tl.float32, "i64", 2, 10**6, 64)]


def _variants(pointers, cases, **more):
    for kind, compute, size, n_rows, n_cols, inner in cases:
        registers = (len(pointers) - 1) * (2 if kind == "fp64" else 1)
        plan = row_plan(n_rows, n_cols, inner, registers)
        types = dict.fromkeys(pointers, f"*{kind}")
        if plan.looped:
            types["partial_ptr"] = "*fp64" if kind == "fp64" else "*fp32"
        types |= dict.fromkeys(("n_rows", "n_cols", "inner", "per_part", "n_parts"), size)
        one = {"inner": types.pop("inner") and 1} if inner == 1 else {}  # as launches have it
        for log in (False, True):
            yield (
                types,
                one
                | {"LOG": log, "COMPUTE": compute, "WIDE": size == "i64"}
                | more
                | (plan.constants(n_cols)),
            )


def _near(pointers, looped):
    """Of the plans worth timing, on sm_90, those with the most for each thread."""
    registers = len(pointers) - 1
    types = dict.fromkeys(pointers, "*bf16") | ({"partial_ptr": "*fp32"} if looped else {})
    types |= dict.fromkeys(("n_rows", "n_cols", "per_part", "n_parts"), "i32")
    constants = {"inner": 1, "LOG": False, "COMPUTE": tl.float32, "WIDE": False, "target": 90}
    constants |= {"STEP": "whole", "PARTS": 1} if looped else {}
    for n_cols in [n_cols for n_cols, long in TIMED if long == looped]:
        near = near_rows(4096, n_cols, 1, registers, 132, 90, "", 2)
        near = [plan for plan in near if plan.looped == looped]
        near.sort(key=lambda plan: (-plan.rows * plan.cols // plan.warps, -plan.cols))
        for plan in near[:2]:
            yield types, constants | plan.constants(n_cols)


def _looped(pointers):
    return [
        *_variants(pointers, LONG, STEP="whole", PARTS=1),
        *list(_variants(pointers, LONG[:1], STEP="sums", PARTS=1))[:1],
        *list(_variants(pointers, LONG[:1], STEP="result", PARTS=128))[:1],
        *_near(pointers, True),
    ]


VARIANTS = {
    ("softmax", "softmax_rows"): [
        *_variants(("x_ptr", "y_ptr"), [*CASES, ("bf16", tl.float32, "i32", 4096, 32768, 1)]),
        *_near(("x_ptr", "y_ptr"), False),
    ],
    ("softmax", "softmax_looped"): _looped(("x_ptr", "y_ptr")),
    ("softmax", "softmax_rows_backward"): [
        *_variants(("dy_ptr", "y_ptr", "dx_ptr"), CASES),
        *_near(("dy_ptr", "y_ptr", "dx_ptr"), False),
    ],
    ("softmax", "softmax_looped_backward"): _looped(("dy_ptr", "y_ptr", "dx_ptr")),
}
