"""The class of tensors, under PyTorch's name for its module."""

from __future__ import annotations

from tritorch.core.gates import convert as convert
from tritorch.core.tensor import Tensor as Tensor

_convert = convert
