"""Types and signatures of operators as PyTorch writes them: `torch.parse_schema` and torch.*Type.

Text goes through `tokens` and `parser` to a `FunctionSchema` (`signature`), whose arguments have
types (`types`, `tensor_type`); `infer` finds the type of a value.
"""

from tritorch.schema.infer import InferredType, infer_type
from tritorch.schema.parser import parse_schema
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.tags import Tag
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import (
    AnyType,
    AwaitType,
    BoolType,
    ClassType,
    ComplexType,
    DeviceObjType,
    DictType,
    EnumType,
    FloatType,
    FutureType,
    IntType,
    ListType,
    NoneType,
    NumberType,
    OptionalType,
    PyObjectType,
    RRefType,
    StreamObjType,
    StringType,
    SymBoolType,
    SymIntType,
    TupleType,
    Type,
    UnionType,
)
from tritorch.schema.unify import unify_type_list

__all__ = [
    "AnyType",
    "Argument",
    "AwaitType",
    "BoolType",
    "ClassType",
    "ComplexType",
    "DeviceObjType",
    "DictType",
    "EnumType",
    "FloatType",
    "FunctionSchema",
    "FutureType",
    "InferredType",
    "IntType",
    "ListType",
    "NoneType",
    "NumberType",
    "OptionalType",
    "PyObjectType",
    "RRefType",
    "StreamObjType",
    "StringType",
    "SymBoolType",
    "SymIntType",
    "Tag",
    "TensorType",
    "TupleType",
    "Type",
    "UnionType",
    "infer_type",
    "parse_schema",
    "unify_type_list",
]

for _name in __all__:
    _found = globals()[_name]
    if isinstance(_found, type):
        _found.__module__ = "tritorch"
