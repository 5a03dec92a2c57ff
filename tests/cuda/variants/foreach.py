"""Variants of kernels/foreach.py that are compiled for real targets."""

import triton.language as tl

from tritorch.kernels import pointwise

TYPES = {"table_ptr": "*i64", "chunks_ptr": "*i64", "numbers_ptr": "*i64", "number": "i64"}
OPERANDS = {"exp": (1,), "add": (1, 2), "mul": (1, -1), "pow": (-1, 1), "addcmul": (1, 2, 3, -1)}


def variants():
    kinds = ((tl.float32, tl.float32), (tl.bfloat16, tl.float32), (tl.float64, tl.float64))
    for i, (name, operands) in enumerate(OPERANDS.items()):
        for k, (kind, compute) in enumerate(kinds):
            yield TYPES, {
                "OP": getattr(pointwise, name), "OPERANDS": operands, "KIND": kind, "OUT": kind,
                "COMPUTE": compute, "WIDTH": 3 + sum(c > 0 for c in operands),
                "EACH": -1 in operands and bool((i + k) % 2), "ALIGNED": k != 1, "CHUNK": 4096,
                "BLOCK": 1024,
            }  # fmt: skip


VARIANTS = {("foreach", "apply"): list(variants())}
