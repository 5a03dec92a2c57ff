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

from tritorch.nn.intrinsic import _BNReLU as _BNReLU
from tritorch.nn.intrinsic import _ConvBn as _ConvBn
from tritorch.nn.intrinsic import _ConvBnReLU as _ConvBnReLU
from tritorch.nn.intrinsic import _FusedModule as _FusedModule

class BNReLU2d(_BNReLU):
    def __init__(self, *modules: _Any, **named: _Any) -> None: ...
class BNReLU3d(_BNReLU):
    def __init__(self, *modules: _Any, **named: _Any) -> None: ...
class ConvBn1d(_ConvBn):
    def __init__(self, *modules: _Any, **named: _Any) -> None: ...
class ConvBn2d(_ConvBn):
    def __init__(self, *modules: _Any, **named: _Any) -> None: ...
class ConvBn3d(_ConvBn):
    def __init__(self, *modules: _Any, **named: _Any) -> None: ...
class ConvBnReLU1d(_ConvBnReLU):
    def __init__(self, *modules: _Any, **named: _Any) -> None: ...
class ConvBnReLU2d(_ConvBnReLU):
    def __init__(self, *modules: _Any, **named: _Any) -> None: ...
class ConvBnReLU3d(_ConvBnReLU):
    def __init__(self, *modules: _Any, **named: _Any) -> None: ...
class ConvReLU1d(_FusedModule):
    def __init__(self, *modules: _Any, **named: _Any) -> None: ...
class ConvReLU2d(_FusedModule):
    def __init__(self, *modules: _Any, **named: _Any) -> None: ...
class ConvReLU3d(_FusedModule):
    def __init__(self, *modules: _Any, **named: _Any) -> None: ...
class LinearBn1d(_FusedModule):
    def __init__(self, *modules: _Any, **named: _Any) -> None: ...
class LinearReLU(_FusedModule):
    def __init__(self, *modules: _Any, **named: _Any) -> None: ...
__all__ = ['BNReLU2d', 'BNReLU3d', 'ConvBn1d', 'ConvBn2d', 'ConvBn3d', 'ConvBnReLU1d', 'ConvBnReLU2d', 'ConvBnReLU3d', 'ConvReLU1d', 'ConvReLU2d', 'ConvReLU3d', 'LinearBn1d', 'LinearReLU']
