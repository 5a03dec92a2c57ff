"""The type of a value, as TorchScript would take it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from tritorch.core.device import device as Device
from tritorch.core.dtype import dtype
from tritorch.core.generator import Generator
from tritorch.core.layout import layout, memory_format, qscheme
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor
from tritorch.schema import types
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type
from tritorch.schema.unify import unify

# bool before int, which it is in Python.
_PLAIN: tuple[tuple[type, type[types.Plain]], ...] = (
    (bool, types.BoolType),
    (int, types.IntType),
    (float, types.FloatType),
    (complex, types.ComplexType),
    (str, types.StringType),
    (type(None), types.NoneType),
    (Device, types.DeviceObjType),
    (Generator, types.GeneratorType),
    (UntypedStorage, types.StorageType),
    (dtype, types.IntType),
    (layout, types.IntType),
    (memory_format, types.IntType),
    (qscheme, types.IntType),
)


class InferredType:
    """A type, or the reason why there is none."""

    def __init__(self, found: Type | str, /) -> None:
        if not isinstance(found, (Type, str)):
            raise TypeError(f"InferredType: expected a Type or str, got {type(found).__name__}")
        self._found = found

    def success(self) -> bool:
        """Whether there is a type."""
        return isinstance(self._found, Type)

    def type(self) -> Type:
        """The type; RuntimeError if there is none."""
        if isinstance(self._found, str):
            raise RuntimeError(
                f"Tried to get the type from an InferredType but the type is null. Reason: "
                f"{self._found}"
            )
        return self._found

    def reason(self) -> str:
        """Why there is no type; RuntimeError if there is one."""
        if isinstance(self._found, Type):
            raise RuntimeError(f"reason(): the type was inferred: {self._found}")
        return self._found


def infer_type(value: Any) -> InferredType:
    """The type of a value: a container needs elements of one type, and at least one."""
    if isinstance(value, Tensor):
        return InferredType(TensorType.get())
    if isinstance(value, enum.Enum):
        return _of_enum(value)
    for python, ours in _PLAIN:
        if isinstance(value, python):
            return InferredType(ours.get())
    if isinstance(value, tuple):
        return _of_tuple(value)
    if isinstance(value, list):
        if not value:
            return InferredType("List trace inputs must have elements")
        return _of_list(value)
    if isinstance(value, dict):
        if not value:
            return InferredType("Dictionary inputs must have entries")
        return _of_dict(value)
    if hasattr(type(value), "register_forward_hook"):
        return InferredType("Cannot infer concrete type of torch.nn.Module")
    return InferredType(
        "Only tensors and (possibly nested) tuples of tensors, lists, or dicts are supported as "
        f"inputs or outputs of traced functions, but instead got value of type "
        f"{type(value).__name__}."
    )


def _of_enum(value: enum.Enum) -> InferredType:
    inside = infer_type(value.value)
    if not inside.success():
        return inside
    kind = type(value)
    return InferredType(types.EnumType(kind.__qualname__, inside.type(), list(kind)))


def _of_tuple(value: tuple[Any, ...]) -> InferredType:
    places = []
    for element in value:
        found = infer_type(element)
        if not found.success():
            return found
        places.append(found.type())
    return InferredType(types.TupleType(places))


def _of_all(values: Iterable[Any], what: str, mismatch: str) -> InferredType:
    """The type that all values have."""
    so_far: Type | None = None
    for value in values:
        found = infer_type(value)
        if not found.success():
            return InferredType(f"Could not infer type of {what}: {found.reason()}")
        both = found.type() if so_far is None else unify(so_far, found.type())
        if both is None:
            return InferredType(f"{mismatch}. Found {so_far} and {found.type()}")
        so_far = both
    assert so_far is not None
    return InferredType(so_far)


def _of_list(value: list[Any]) -> InferredType:
    element = _of_all(
        value,
        "list element",
        "List inputs to traced functions must have consistent element type",
    )
    return InferredType(types.ListType(element.type())) if element.success() else element


def _of_dict(value: dict[Any, Any]) -> InferredType:
    mismatch = "Dictionary inputs to traced functions must have consistent type"
    keys = _of_all(value, "dict key", mismatch)
    if not keys.success():
        return keys
    values = _of_all(value.values(), "dict value", mismatch)
    if not values.success():
        return values
    return InferredType(types.DictType(keys.type(), values.type()))
