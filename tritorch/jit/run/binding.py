"""Arguments of a call from Python, by a function's signature, with PyTorch's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.ir.types import ScriptClassType
from tritorch.jit.run.values import CastError, to_script
from tritorch.schema import types
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.tensor_type import TensorType


def bind(schema: FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The values of a signature's arguments; RuntimeError for a call that it does not fit."""
    return binder_of(schema)(args, kwargs)


def binder_of(schema: FunctionSchema) -> _Binder:
    """The function that binds a signature's calls."""
    binder: _Binder | None = schema.__dict__.get("_binder")
    if binder is None:
        binder = schema.__dict__["_binder"] = _Binder(schema)
    return binder


def bound_value(schema: FunctionSchema, place: int, value: Any) -> Any:
    """One argument's value; RuntimeError if it is of another type."""
    argument = schema._arguments[place]
    kind = argument.type
    try:
        if argument.N is not None and type(value) is not list and isinstance(kind, types.ListType):
            if not isinstance(value, (list, tuple)):  # one number for all places of an int[2]
                return [to_script(value, kind.getElementType())] * argument.N
        return to_script(value, kind)
    except CastError as error:
        raise RuntimeError(
            f"{schema.name}() Expected a value of type '{argument.type.annotation_str}' for "
            f"argument '{argument.name}' but instead found type '{type(value).__name__}'.\n"
            f"Position: {place}\nValue: {value!r}\nDeclaration: {schema}\n"
            f"Cast error details: {error}"
        ) from None


class _Binder:
    """Binds calls of one signature; values that are of the plain types already go quickly."""

    def __init__(self, schema: FunctionSchema) -> None:
        self._schema, self._arguments = schema, schema._arguments
        self._count = len(self._arguments)
        self._classes = [_classes_of(argument) for argument in self._arguments]
        if self._count and isinstance(self._arguments[0].type, ScriptClassType):
            self._classes[0] = (_OBJECT,)  # self
        # The defaults that a call may share, up to the first argument from behind that has none.
        self._defaults: list[Any] = []
        for argument in reversed(self._arguments):
            default = argument.default_value
            if not argument.has_default_value() or isinstance(default, (list, dict)):
                break
            self._defaults.insert(0, default)

    @property
    def takes_object_and_tensor(self) -> bool:
        """Tells whether the arguments are `self` and a tensor."""
        return self._classes == [(_OBJECT,), (Tensor,)]

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        missing = self._count - len(args)
        if kwargs or not 0 <= missing <= len(self._defaults):
            return self._slowly(args, kwargs)
        for value, classes in zip(args, self._classes):
            cls = type(value)
            if cls not in classes:
                if _OBJECT not in classes or not isinstance(value, ScriptObjectData):
                    return self._slowly(args, kwargs)
            elif cls is int and not _LEAST <= value <= _MOST:
                return self._slowly(args, kwargs)
        return [*args, *self._defaults[-missing:]] if missing else list(args)

    def _slowly(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        schema, count = self._schema, self._count
        if len(args) > count:
            raise RuntimeError(
                f"{schema.name}() expected at most {count} argument(s) but received {len(args)} "
                f"argument(s). Declaration: {schema}"
            )
        values = [bound_value(schema, place, value) for place, value in enumerate(args)]
        used = 0
        for place in range(len(args), count):
            argument = self._arguments[place]
            if argument.name in kwargs:
                values.append(bound_value(schema, place, kwargs[argument.name]))
                used += 1
            elif argument.has_default_value():
                values.append(_fresh(argument.default_value))
            else:
                raise RuntimeError(
                    f"{schema.name}() is missing value for argument '{argument.name}'. "
                    f"Declaration: {schema}"
                )
        if used != len(kwargs):
            self._refuse(len(args), kwargs)
        return values

    def _refuse(self, given: int, kwargs: Mapping[str, Any]) -> None:
        names = [argument.name for argument in self._arguments]
        for name in kwargs:
            if name in names[:given]:
                raise RuntimeError(
                    f"Argument '{name}' specified both as positional and keyword argument. "
                    f"Schema: {self._schema}"
                )
            if name not in names:
                raise RuntimeError(
                    f"Unknown keyword argument '{name}' for operator '{self._schema.name}'. "
                    f"Schema: {self._schema}"
                )


_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_OBJECT = ScriptObjectData
_PLAIN: dict[type, type] = {
    TensorType: Tensor, types.IntType: int, types.FloatType: float, types.BoolType: bool,
    types.StringType: str, types.ComplexType: complex,
}  # fmt: skip


def _classes_of(argument: Argument) -> tuple[type, ...]:
    """The classes of values that need no conversion; none where values are looked at."""
    kind = argument.type
    if isinstance(kind, types.OptionalType):
        found = _PLAIN.get(type(kind.getElementType()))
        return (type(None),) if found is None else (found, type(None))
    found = _PLAIN.get(type(kind))
    return () if found is None else (found,)


def _fresh(value: Any) -> Any:
    """A default that the call may change."""
    return value.copy() if isinstance(value, (list, dict)) else value
