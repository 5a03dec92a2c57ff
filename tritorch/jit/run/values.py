"""The border between Python and TorchScript: values by their declared types, and arguments.

Plain lists and dicts are copied on both ways, as in PyTorch; `ScriptList` and `ScriptDict` are not.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tritorch.compat.torch_private._awaits import NativeAwait
from tritorch.core.device import device as Device
from tritorch.core.generator import Generator
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor
from tritorch.futures import Future
from tritorch.jit._containers import ScriptDict, ScriptList
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.ir.types import (
    FunctionType,
    InterfaceType,
    NamedTupleType,
    ScriptClassType,
    ScriptEnumType,
)
from tritorch.jit.run.numbered import is_numbered, number_of
from tritorch.schema import types
from tritorch.schema.infer import infer_type
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type

_HALF = 1 << 63
RETURNED = "return value"  # the context of what a function of Python gives back


class CastError(RuntimeError):
    """A value of Python is none of a type."""


def _no_cast(value: Any) -> CastError:
    return CastError(
        f"Unable to cast Python instance of type {type(value)} to C++ type '?' (#define "
        "PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)"
    )


def to_script(value: Any, kind: Type, context: str | None = None) -> Any:
    """A value of Python as one of a type; CastError if it is none.

    context: what the value is, for the message; None: the message has the reason alone.
    """
    if context is None:
        return _converter(kind)(value, kind)
    try:
        return _converter(kind)(value, kind)
    except CastError as error:
        raise CastError(
            f" expected value of type {kind.str()} for {context} but instead got value of type "
            f"{type(value).__name__}.\nValue: {value!r}\nCast error details: {error}"
        ) from None


def _converter(kind: Type) -> Callable[[Any, Any], Any]:
    for cls in type(kind).__mro__:
        found = _CONVERTERS.get(cls)
        if found is not None:
            return found
    raise CastError(f"no value of Python is of the type {kind}")


def _tensor(value: Any, kind: Type) -> Any:
    if isinstance(value, Tensor):
        return value
    raise CastError(f"Unable to cast {value!r} to Tensor")


def _int(value: Any, kind: Type) -> int:
    if type(value) is not int:
        if is_numbered(value):
            return int(number_of(value))
        if isinstance(value, float) or not hasattr(type(value), "__index__"):
            raise _no_cast(value)
        value = value.__index__()
    if not -_HALF <= value < _HALF:
        raise _no_cast(value)
    return int(value)


def _float(value: Any, kind: Type) -> float:
    if type(value) is float:
        return value
    if not hasattr(type(value), "__float__") and not hasattr(type(value), "__index__"):
        raise _no_cast(value)
    return float(value)


def _bool(value: Any, kind: Type) -> bool:
    if type(value) is bool:
        return value
    if value is not None and not hasattr(type(value), "__bool__"):
        raise _no_cast(value)
    return bool(value)


def _complex(value: Any, kind: Type) -> complex:
    if isinstance(value, (complex, float, int)):
        return complex(value)
    raise _no_cast(value)


def _number(value: Any, kind: Type) -> Any:
    if isinstance(value, (complex, float, int)):
        return value
    if is_numbered(value):
        return number_of(value)
    if isinstance(value, Tensor) and value.dim() == 0:
        return value.item()
    raise CastError(f"Cannot cast {value!r} to Scalar")


def _string(value: Any, kind: Type) -> str:
    if isinstance(value, str):
        return value
    raise _no_cast(value)


def _none(value: Any, kind: Type) -> None:
    if value is not None:
        raise CastError(f"Cannot cast {value!r} to None")


_BY_VECTOR = (types.IntType, types.FloatType, types.BoolType, types.ComplexType, TensorType)


def _list(value: Any, kind: types.ListType) -> Any:
    element = kind.getElementType()
    if isinstance(value, ScriptList):
        if not value._kind.isSubtypeOf(element):
            raise CastError(f"Object {value!r} is not of the type {kind}")
        return value._values
    if isinstance(value, (str, bytes, Tensor)) or not isinstance(value, Sequence):
        raise _no_cast(value)
    convert = _converter(element)
    if not isinstance(element, _BY_VECTOR):
        return [convert(item, element) for item in value]
    try:
        return [convert(item, element) for item in value]
    except CastError:
        raise _no_cast(value) from None


def _dict(value: Any, kind: types.DictType) -> Any:
    key, item = kind.containedTypes()
    if isinstance(value, ScriptDict):
        if not (value._key == key and value._value.isSubtypeOf(item)):
            raise CastError(f"Object {value!r} is not of the type {kind}")
        return value._values
    if not isinstance(value, Mapping):
        raise _no_cast(value)
    convert_key, convert = _converter(key), _converter(item)
    return {convert_key(k, key): convert(v, item) for k, v in value.items()}


def _tuple(value: Any, kind: types.TupleType) -> Any:
    if not isinstance(value, (tuple, list)):
        raise _no_cast(value)
    places = kind.containedTypes()
    if len(places) != len(value):
        raise CastError(
            f"Object {value!r} had a different number of elements than type {kind.annotation_str}"
        )
    items = [_converter(part)(item, part) for item, part in zip(value, places)]
    return kind.python(*items) if isinstance(kind, NamedTupleType) else tuple(items)


def _optional(value: Any, kind: types.OptionalType) -> Any:
    if value is None:
        return None
    inner = kind.getElementType()
    return _converter(inner)(value, inner)


def _union(value: Any, kind: types.UnionType) -> Any:
    found = _any(value, kind)
    for member in kind.containedTypes():
        if matches(found, member):
            return _converter(member)(value, member)
    found = infer_type(value)
    given = found.type().annotation_str if found.success() else type(value).__name__
    raise CastError(f"Expected a member of {kind.annotation_str} but instead found type {given}")


def _any(value: Any, kind: Type) -> Any:
    if isinstance(value, (list, ScriptList)):
        return [_any(item, kind) for item in value]
    if type(value) is tuple:
        return tuple(_any(item, kind) for item in value)
    if isinstance(value, dict):
        return {_any(k, kind): _any(v, kind) for k, v in value.items()}
    if is_numbered(value):
        return number_of(value)
    data = _data_of(value)
    return value if data is None else data


def _device(value: Any, kind: Type) -> Device:
    if isinstance(value, Device):
        return value
    if isinstance(value, str):
        return Device(value)
    raise _no_cast(value)


def _numbered(value: Any, kind: Type) -> int:
    if is_numbered(value):
        return int(number_of(value))
    return _int(value, kind)


def _instance(*classes: type) -> Callable[[Any, Any], Any]:
    def convert(value: Any, kind: Type) -> Any:
        if isinstance(value, classes):
            return value
        raise _no_cast(value)

    return convert


def _as_it_is(value: Any, kind: Type) -> Any:
    return value


# ---- objects -------------------------------------------------------------------------------------


def _data_of(value: Any) -> ScriptObjectData | None:
    """The object of TorchScript that a Python object shows."""
    if isinstance(value, ScriptObjectData):
        return value
    data = getattr(value, "_c", None)
    return data if isinstance(data, ScriptObjectData) else None


def _object(value: Any, kind: ScriptClassType) -> Any:
    data = _data_of(value)
    if data is not None:
        if data.type is kind or data.type.isSubtypeOf(kind):
            return data
        if data.type.qualified_name() == kind.qualified_name():
            return data  # the same class, compiled twice
        raise CastError(
            f"Expected an object of type {kind.annotation_str} but got one of "
            f"{data.type.annotation_str}"
        )
    if kind.is_module_type:
        raise CastError(f"Unable to cast {value!r} to {kind.annotation_str}")
    made = ScriptObjectData(kind)
    for name, attribute in kind.attributes.items():
        if not hasattr(value, name):
            raise CastError(
                f"Tried to cast object to type {kind.annotation_str} but object was missing "
                f"attribute {name}"
            )
        try:
            made.slots[name] = to_script(getattr(value, name), attribute.type)
        except CastError as error:
            wanted = attribute.type.annotation_str
            raise CastError(
                f"Could not cast attribute '{name}' to type {wanted}: {error}"
            ) from None
    made.wrapper = lambda: value  # it comes back as the object that it was
    return made


def _interface(value: Any, kind: InterfaceType) -> Any:
    data = _data_of(value)
    if data is None:
        compiled = WRAPPERS["class of"](value)
        if compiled is None:
            raise CastError(
                f"Assigning the object {value} to an interface fails because the value is not a "
                "TorchScript compatible type, did you forget to turn it into a user defined "
                "TorchScript class?"
            )
        data = _object(value, compiled)
    why = kind.why_not_implemented_by(data.type)
    if why is not None:
        raise CastError(
            f"Object of type {data.type.annotation_str} is not compatible with interface "
            f"{kind.annotation_str}\n{why}"
        )
    return data


def _member(value: Any, kind: types.EnumType) -> Any:
    if not isinstance(value, enum.Enum):
        raise _no_cast(value)
    cls = kind.python if isinstance(kind, ScriptEnumType) else type(value)
    if type(value) is cls:
        return value
    if value.name not in cls.__members__ or cls[value.name].value != value.value:
        raise CastError(f"{value!r} is no member of {kind.annotation_str}")
    return cls[value.name]


def _function(value: Any, kind: FunctionType) -> GraphFunction:
    return kind.function


_CONVERTERS: dict[type, Callable[[Any, Any], Any]] = {
    TensorType: _tensor,
    types.AnyClassType: _any,
    types.AnyEnumType: _as_it_is,
    types.AnyType: _any,
    types.AwaitType: _instance(NativeAwait),
    types.BoolType: _bool,
    types.CapsuleType: _as_it_is,
    types.ClassType: _as_it_is,
    types.ComplexType: _complex,
    types.DeviceObjType: _device,
    types.DictType: _dict,
    types.EnumType: _member,
    types.FloatType: _float,
    types.FutureType: _instance(Future),
    types.GeneratorType: _instance(Generator),
    types.IntType: _int,
    types.LayoutType: _numbered,
    types.ListType: _list,
    types.MemoryFormatType: _numbered,
    types.NoneType: _none,
    types.NumberType: _number,
    types.OptionalType: _optional,
    types.PyObjectType: _as_it_is,
    types.QSchemeType: _as_it_is,
    types.RRefType: _as_it_is,
    types.ScalarTypeType: _numbered,
    types.StorageType: _instance(UntypedStorage),
    types.StreamObjType: _as_it_is,
    types.StringType: _string,
    types.SymBoolType: _bool,
    types.SymIntType: _int,
    types.TupleType: _tuple,
    types.UnionType: _union,
    FunctionType: _function,
    InterfaceType: _interface,
    ScriptClassType: _object,
}

# ---- out -----------------------------------------------------------------------------------------

# What shows objects to programs, "module" and "object", and the compiled "class of" an object:
# `tritorch.jit.modules`, `tritorch.jit.objects` and the front end's classes fill it.
WRAPPERS: dict[str, Callable[[Any], Any]] = {}
_ITSELF = (Tensor, int, float, str, bool, type(None), complex)


def to_python(value: Any, kind: Type | None = None) -> Any:
    """A value of TorchScript for Python: containers are copied, objects get their wrappers."""
    cls = type(value)
    if cls in _ITSELF:
        return value
    if cls is list:
        return [to_python(item) for item in value]
    if cls is dict:
        return {to_python(k): to_python(v) for k, v in value.items()}
    if cls is tuple:
        return tuple([to_python(item) for item in value])
    if isinstance(value, tuple) and hasattr(cls, "_make"):
        return cls._make(to_python(item) for item in value)
    if isinstance(value, ScriptObjectData):
        wrapper = None if value.wrapper is None else value.wrapper()
        if wrapper is not None:
            return wrapper
        return WRAPPERS["module" if value.type.is_module_type else "object"](value)
    return value


# ---- isinstance ----------------------------------------------------------------------------------

_PLAIN: dict[type, tuple[type, ...]] = {
    types.IntType: (int,), types.FloatType: (float,), types.BoolType: (bool,),
    types.ComplexType: (complex,), types.StringType: (str,), types.NoneType: (type(None),),
    types.DeviceObjType: (Device,), types.GeneratorType: (Generator,),
    types.NumberType: (int, float, complex), types.FutureType: (Future,),
    types.StorageType: (UntypedStorage,), types.AwaitType: (NativeAwait,),
}  # fmt: skip


def matches(value: Any, kind: Type) -> bool:
    """Tells whether a value of TorchScript is of a type; an empty list is of every list's."""
    cls = type(kind)
    if cls in _PLAIN:
        return type(value) in _PLAIN[cls] or (
            isinstance(value, _PLAIN[cls]) and not isinstance(value, bool)
        )
    if isinstance(kind, TensorType):
        return isinstance(value, Tensor)
    if isinstance(kind, types.AnyType):
        return True
    if isinstance(kind, (types.OptionalType, types.UnionType)):
        return any(matches(value, member) for member in kind._alternatives())
    if isinstance(kind, types.ListType):
        element = kind.getElementType()
        return isinstance(value, list) and all(matches(item, element) for item in value)
    if isinstance(kind, types.DictType):
        key, item = kind.containedTypes()
        return isinstance(value, dict) and all(
            matches(k, key) and matches(v, item) for k, v in value.items()
        )
    if isinstance(kind, types.TupleType):
        return _matches_tuple(value, kind)
    if isinstance(kind, (ScriptClassType, InterfaceType, types.AnyClassType)):
        return isinstance(value, ScriptObjectData) and value.type.isSubtypeOf(kind)
    if isinstance(kind, ScriptEnumType):
        return isinstance(value, kind.python)
    return isinstance(value, enum.Enum) if isinstance(kind, types.AnyEnumType) else False


def _matches_tuple(value: Any, kind: types.TupleType) -> bool:
    if isinstance(kind, NamedTupleType) and not isinstance(value, kind.python):
        return False
    places = kind.containedTypes()
    return (
        isinstance(value, tuple) and len(value) == len(places) and all(map(matches, value, places))
    )


def is_instance(value: Any, kinds: Sequence[Type], static: Type) -> bool:
    """Tells whether a value is of one of these types; static: the type that it is known to have."""
    if any(static.isSubtypeOf(kind) for kind in kinds if not isinstance(static, types.AnyType)):
        return True
    return any(matches(value, kind) for kind in kinds)


def to_list(tensor: Tensor, kind: Type) -> Any:
    """Tensor.tolist() of a declared type."""
    depth, element = 0, kind
    while isinstance(element, types.ListType):
        element, depth = element.getElementType(), depth + 1
    if depth != tensor.dim():
        raise RuntimeError(
            "Output annotation list dimension and runtime tensor dimension must match for tolist()"
        )
    found = tensor.tolist()
    sample = found
    while isinstance(sample, list) and sample:
        sample = sample[0]
    if not isinstance(sample, list) and not matches(sample, element):
        raise RuntimeError("Output annotation element type and runtime tensor element type must "
                           "match for tolist()")  # fmt: skip
    return found
