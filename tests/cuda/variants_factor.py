"""What of kernels/factor.py is compiled for real targets."""

import inspect

from tritorch.kernels import factor

TILE = {"BLOCK_ROWS": 64, "WIDTH": 32}


def variant(name, kind, **constants):
    types = {}
    for argument in inspect.signature(getattr(factor, name).fn).parameters:
        if argument in ("pivots_ptr", "info_ptr"):
            types[argument] = "*i32"
        elif argument == "order_ptr":
            types[argument] = "*i64"
        elif argument.endswith("_ptr"):
            types[argument] = f"*{kind}"
        elif argument not in constants:
            types[argument] = "i32"
    return types, constants


def solve_rows(kind, size, upper, unit, eye):
    return variant("solve_rows", kind, UPPER=upper, UNIT=unit, EYE=eye, SIZE=size, BLOCK_COLS=32)


KINDS = ("fp32", "fp64")
VARIANTS = {
    ("factor", "lu_panel"): [variant("lu_panel", kind, BLOCK=1024, **TILE) for kind in KINDS],
    ("factor", "cholesky_panel"): [variant("cholesky_panel", kind, **TILE) for kind in KINDS],
    ("factor", "reflect_panel"): [
        variant("reflect_panel", kind, BLOCK=1024, **TILE) for kind in KINDS
    ],
    ("factor", "reflect_columns"): [
        variant("reflect_columns", kind, BACKWARDS=kind == "fp32", BLOCK_ROWS=64, BLOCK_COLS=16)
        for kind in KINDS
    ],
    ("factor", "solve_rows"): [
        solve_rows("fp32", 32, False, True, False),
        solve_rows("fp64", 64, True, False, True),
        solve_rows("fp64", 32, True, False, False),
    ],
    ("factor", "order_of_swaps"): [variant("order_of_swaps", "fp32", BLOCK=1024)],
}
