"""Sparse tensors: how they are made and converted, and what operators do with them.

Importing this registers the rules by which dense operators take sparse operands.
"""

from tritorch.ops.interpret.sparse import (
    access,
    build,
    convert,
    diagonals,
    invariants,
    pointwise,
    products,
    record,
    reduce,
    shapes,
)

FUNCTIONS = {
    "addmm": products.addmm,
    "log_softmax": reduce.log_softmax,
    "mm": products.sparse_mm,
    "sampled_addmm": products.sampled_addmm,
    "softmax": reduce.softmax,
    "spdiags": diagonals.spdiags,
    "spsolve": products.spsolve,
    "sum": reduce.sparse_sum,
}
