"""Written by tools/make_stubs.py."""
# ruff: noqa
# fmt: off

import builtins as _b
from collections.abc import Callable as _Callable, Sequence as _Sequence
from typing import Any as _Any

from tritorch.core.device import device as _device
from tritorch.core.dtype import dtype as _dtype
from tritorch.core.generator import Generator as _Generator
from tritorch.core.tensor import Tensor as _Tensor


Any: _Any
class BFloat16Tensor(_Tensor): ...
class ByteTensor(_Tensor): ...
class CharTensor(_Tensor): ...
class DoubleTensor(_Tensor): ...
class FloatTensor(_Tensor): ...
class HalfTensor(_Tensor): ...
class IntTensor(_Tensor): ...
class LongTensor(_Tensor): ...
class ShortTensor(_Tensor): ...
from tritorch.sparse.semi_structured import SparseSemiStructuredTensor as SparseSemiStructuredTensor
from tritorch.sparse.semi_structured import SparseSemiStructuredTensorCUSPARSELT as SparseSemiStructuredTensorCUSPARSELT
from tritorch.sparse.semi_structured import SparseSemiStructuredTensorCUTLASS as SparseSemiStructuredTensorCUTLASS
from tritorch.ops.interpret.sparse.products import addmm as addmm
from tritorch.sparse.gradcheck import as_sparse_gradcheck as as_sparse_gradcheck
from tritorch.ops.interpret.sparse.invariants import check_sparse_tensor_invariants as check_sparse_tensor_invariants
from tritorch.sparse import gradcheck as gradcheck
from tritorch.ops.interpret.sparse.reduce import log_softmax as log_softmax
from tritorch.ops.interpret.sparse.products import sparse_mm as _as_mm
mm = _as_mm
from tritorch.ops.interpret.sparse.products import sampled_addmm as sampled_addmm
from tritorch.sparse import semi_structured as semi_structured
from tritorch.ops.interpret.sparse.reduce import softmax as softmax
from tritorch.ops.interpret.sparse.diagonals import spdiags as spdiags
from tritorch.ops.interpret.sparse.products import spsolve as spsolve
from tritorch.ops.interpret.sparse.reduce import sparse_sum as _as_sum
sum = _as_sum
from tritorch.sparse.semi_structured import to_sparse_semi_structured as to_sparse_semi_structured
__all__ = ['SparseSemiStructuredTensor', 'SparseSemiStructuredTensorCUSPARSELT', 'SparseSemiStructuredTensorCUTLASS', 'addmm', 'as_sparse_gradcheck', 'check_sparse_tensor_invariants', 'log_softmax', 'mm', 'softmax', 'sum', 'to_sparse_semi_structured']
