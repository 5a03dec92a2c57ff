"""Sparse tensors' functions, as in torch.sparse."""

from typing import Any

from tritorch.core import gates as _gates, legacy as _legacy
from tritorch.ops.interpret.sparse import FUNCTIONS as _FUNCTIONS
from tritorch.ops.interpret.sparse.invariants import check_sparse_tensor_invariants
from tritorch.sparse.gradcheck import as_sparse_gradcheck
from tritorch.sparse.semi_structured import (
    SparseSemiStructuredTensor,
    SparseSemiStructuredTensorCUSPARSELT,
    SparseSemiStructuredTensorCUTLASS,
    to_sparse_semi_structured,
)

# Under PyTorch's inner names: autocast's policies are those of mm and addmm, but not of sum and
# softmax.
_INNER = {
    "mm": "mm",
    "addmm": "addmm",
    "sampled_addmm": "sparse_sampled_addmm",
    "spdiags": "_spdiags",
    "spsolve": "_spsolve",
}
_MADE = _gates.publish(
    {_INNER.get(name, f"_sparse_{name}"): function for name, function in _FUNCTIONS.items()},
    __name__,
)
globals().update({name: _MADE[_INNER.get(name, f"_sparse_{name}")] for name in _FUNCTIONS})

__all__ = [
    "SparseSemiStructuredTensor",
    "SparseSemiStructuredTensorCUSPARSELT",
    "SparseSemiStructuredTensorCUTLASS",
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "softmax",
    "sum",
    "to_sparse_semi_structured",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _legacy.SPARSE_TYPES:
        return _legacy.SPARSE_TYPES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
