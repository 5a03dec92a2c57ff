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


FUNCTIONS: _Any
from tritorch.ops.windows import bartlett as bartlett
def blackman(M: _b.int, *, sym: _b.bool = ..., dtype: _dtype | None = ..., layout: _Any = ..., device: _Any = ..., requires_grad: _b.bool = ...) -> _Tensor: ...
from tritorch.ops.windows import cosine as cosine
from tritorch.ops.windows import exponential as exponential
from tritorch.ops.windows import gaussian as gaussian
from tritorch.ops.windows import general_cosine as general_cosine
from tritorch.ops.windows import general_hamming as general_hamming
def hamming(M: _b.int, *, sym: _b.bool = ..., dtype: _dtype | None = ..., layout: _Any = ..., device: _Any = ..., requires_grad: _b.bool = ...) -> _Tensor: ...
def hann(M: _b.int, *, sym: _b.bool = ..., dtype: _dtype | None = ..., layout: _Any = ..., device: _Any = ..., requires_grad: _b.bool = ...) -> _Tensor: ...
from tritorch.ops.windows import kaiser as kaiser
def nuttall(M: _b.int, *, sym: _b.bool = ..., dtype: _dtype | None = ..., layout: _Any = ..., device: _Any = ..., requires_grad: _b.bool = ...) -> _Tensor: ...
from tritorch.core.gates import publish as publish
__all__ = ['bartlett', 'blackman', 'cosine', 'exponential', 'gaussian', 'general_cosine', 'general_hamming', 'hamming', 'hann', 'kaiser', 'nuttall']
