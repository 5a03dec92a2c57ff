"""Whether a value can be given for a type of a schema, as PyTorch's calls of operators decide."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.arrays.symbolic import SymBool, SymFloat, SymInt
from tritorch.core import layout as layouts
from tritorch.core.device import device
from tritorch.core.dtype import dtype
from tritorch.core.generator import Generator
from tritorch.core.tensor import Tensor
from tritorch.schema import types
from tritorch.schema.tensor_type import TensorType

_INTEGERS = (int, SymInt, np.integer)
_OF: dict[Any, tuple[type, ...]] = {
    types.IntType: _INTEGERS,
    types.SymIntType: _INTEGERS,
    types.FloatType: (float, int, SymFloat, SymInt, np.number),
    types.NumberType: (int, float, complex, np.generic, SymInt, SymFloat, SymBool),
    types.ComplexType: (int, float, complex),
    types.BoolType: (bool, SymBool, np.bool_),
    types.SymBoolType: (bool, SymBool),
    types.StringType: (str,),
    types.DeviceObjType: (device, str, int),
    types.GeneratorType: (Generator,),
    types.ScalarTypeType: (dtype, int),
    types.LayoutType: (layouts.layout, int),
    types.MemoryFormatType: (layouts.memory_format, int),
}


def is_of(value: Any, kind: Any, size: int | None = None) -> bool:
    """Whether a value is of a type; size: of a list for which one item may stand."""
    if isinstance(kind, types.OptionalType):
        return value is None or is_of(value, kind.getElementType(), size)
    if isinstance(kind, types.ListType):
        inside = kind.getElementType()
        if isinstance(value, (list, tuple)):
            return all(is_of(each, inside) for each in value)
        return size is not None and is_of(value, inside)
    if isinstance(kind, TensorType):
        return isinstance(value, Tensor)
    if isinstance(kind, (types.AnyType, types.ClassType)):
        return True
    if isinstance(value, bool) and not isinstance(kind, types.NumberType):
        return isinstance(kind, (types.BoolType, types.SymBoolType))
    if isinstance(value, Tensor):  # a number in a tensor
        return value.ndim == 0 and isinstance(kind, (types.IntType, types.FloatType))
    allowed = _OF.get(type(kind))
    return allowed is None or isinstance(value, allowed)
