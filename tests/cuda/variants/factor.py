"""Variants of kernels/matrices/factor.py and ldl.py that are compiled for real targets."""

import inspect

from tritorch.kernels.matrices import factor, ldl


def variant(name, kind, family=factor, pair=False, **constants):
    types = {}
    parameters = inspect.signature(getattr(family, name).fn).parameters
    if "PAIR" in parameters:
        constants["PAIR"] = pair
    for argument in parameters:
        if argument in ("pivots_ptr", "info_ptr"):
            types[argument] = "*i32"
        elif argument == "order_ptr":
            types[argument] = "*i64"
        elif argument.endswith("_ptr"):
            types[argument] = f"*{kind}"
        elif argument not in constants:
            types[argument] = "i32"
    return types, constants


def solve_rows(kind, size, upper, unit, eye, pair=False):
    cols = 16 if pair else 32
    return variant("solve_rows", kind, UPPER=upper, UNIT=unit, EYE=eye, SIZE=size, BLOCK_COLS=cols,
                   pair=pair)  # fmt: skip


# Types of parts, and whether there are two.
KINDS = [("fp32", False), ("fp64", False), ("fp32", True), ("fp64", True)]


def panel(name):
    many = {"maxnreg": 192}  # registers
    return [
        variant(name, kind, pair=pair, BLOCK_ROWS=32 if pair else 64, BLOCK=1024, WIDTH=32,
                **(many if pair or kind == "fp64" else {}))
        for kind, pair in KINDS
    ]  # fmt: skip


VARIANTS = {
    ("factor", "lu_panel"): panel("lu_panel"),
    ("factor", "cholesky_panel"): panel("cholesky_panel"),
    ("factor", "reflect_panel"): panel("reflect_panel"),
    ("factor", "reflect_columns"): [
        variant("reflect_columns", kind, pair=pair, BACKWARDS=kind == "fp32",
                BLOCK_ROWS=32 if pair else 64, BLOCK_COLS=16)
        for kind, pair in KINDS
    ],
    ("factor", "joined_reflections"): [
        variant("joined_reflections", kind, pair=pair, SIZE=32) for kind, pair in KINDS
    ],
    ("factor", "solve_rows"): [
        solve_rows("fp32", 32, False, True, False),
        solve_rows("fp64", 64, True, False, True),
        solve_rows("fp64", 32, True, False, False),
        solve_rows("fp32", 32, False, True, False, True),
        solve_rows("fp64", 64, True, False, True, True),
    ],
    ("factor", "order_of_swaps"): [variant("order_of_swaps", "fp32", BLOCK=1024)],
    ("ldl", "ldl_factor"): [
        variant("ldl_factor", kind, ldl, pair, HERMITIAN=pair, BLOCK=256, ROWS=16 if pair else 32,
                COLS=32)
        for kind, pair in KINDS
    ],
    ("ldl", "ldl_solve"): [
        variant("ldl_solve", kind, ldl, pair, HERMITIAN=pair, ROWS=32, COLS=16)
        for kind, pair in KINDS
    ],
}  # fmt: skip
