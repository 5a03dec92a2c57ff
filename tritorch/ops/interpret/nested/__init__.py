"""Nested tensors: what dense records do with them (Note [Nested tensors] in `arrays/nested.py`)."""

from tritorch.ops.interpret.nested import (
    common,
    functions,
    jagged,
    jagged_rows,
    strided,
    strided_rows,
)
from tritorch.ops.interpret.nested.tensor import NestedTensor

functions.install()

__all__ = [
    "NestedTensor", "common", "functions", "jagged", "jagged_rows", "strided", "strided_rows",
]  # fmt: skip
