"""Variants of kernels/ctc.py that are compiled for real targets."""

import inspect

from tritorch.kernels import ctc

SCALARS = {"max_steps": "i32", "n_states": "i32", "n_classes": "i32", "blank": "i32",
           "dloss_stride": "i32", "where": "i64", "log_probs_strides": ("i32",) * 3,
           "target_strides": ("i32",) * 2}  # fmt: skip
INTEGERS = ("target_ptr", "n_steps_ptr", "n_labels_ptr", "flag_ptr")


def variants(name):
    names = inspect.signature(getattr(ctc, name).fn).parameters
    for kind, block, zero in (("fp32", 64, True), ("fp64", 1024, False)):
        pointers = {n: "*i64" if n in INTEGERS else f"*{kind}" for n in names}
        constants = {"BLOCK": block, "ZERO_INFINITY": zero, "BLOCK_CLASSES": 32, "BLOCK_STATES": 64}
        types = {n: SCALARS.get(n, pointers[n]) for n in names if not n.isupper()}
        yield types, {n: v for n, v in constants.items() if n in names}


VARIANTS = {
    ("ctc", name): list(variants(name)) for name in ("ctc_alpha", "ctc_share", "ctc_backward")
}
