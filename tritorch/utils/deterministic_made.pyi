"""Written by tools/make_stubs.py."""

# ruff: noqa
# fmt: off
# mypy: disable-error-code="overload-overlap,override,misc,assignment"
import builtins as _b
from collections.abc import Callable as _Callable, Sequence as _Sequence
from typing import (Any as _Any, Literal as _Literal, NoReturn as _NoReturn, Self as _Self, SupportsIndex as _SupportsIndex, overload as _overload)
import numpy as _numpy
from tritorch.core.tensor import Tensor as _Tensor
from tritorch.core.device import device as _device
from tritorch.core.dtype import dtype as _dtype
from tritorch.core.layout import layout as _layout
from tritorch.core.layout import memory_format as _memory_format
from tritorch.core.generator import Generator as _Generator
from tritorch.core.size import Size as _Size
from tritorch.arrays.symbolic import SymInt as _SymInt
from tritorch.core.tensor_methods import _Device as _Device, _Dtype as _Dtype, _Int as _Int, _Number as _Number, _Index as _Index
from tritorch import return_types as _return_types



keep_own: _b.bool
fill_uninitialized_memory: _b.bool
__all__ = ['fill_uninitialized_memory', 'keep_own']
