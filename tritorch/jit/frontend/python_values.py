"""Objects of Python as sugared values: what a name of the program around a function means."""

from __future__ import annotations

import builtins
import enum
import functools
import inspect
import types as python_types
from typing import Any

from tritorch.core.device import device as Device
from tritorch.core.tensor import Tensor
from tritorch.jit import internals as internal
from tritorch.jit._sources import referring
from tritorch.jit.frontend import definitions, globals, late, matching, python
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.source import fail
from tritorch.jit.frontend.sugared import (
    Args,
    BuiltinFunction,
    CastFunction,
    ClassValue,
    EnumClass,
    ExceptionClass,
    FunctionValue,
    Kwargs,
    NamedTupleClass,
    SimpleValue,
    SpecialForm,
    Sugared,
    TupleOf,
)
from tritorch.jit.ir.operators import schemas
from tritorch.jit.ir.types import InterfaceType, NamedTupleType, ScriptClassType, ScriptEnumType
from tritorch.jit.run.numbered import is_numbered, number_of
from tritorch.nn.modules.module import Module
from tritorch.schema import types
from tritorch.schema.infer import infer_type


class PythonModule(Sugared):
    """A module of Python; its attributes are those that it has."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def describe(self) -> str:
        """ "python value of type 'module'"."""
        return "python value of type 'module'"

    def attr(self, em: Emitter, name: str, place: Any) -> Sugared:
        found = getattr(self.module, name, _MISSING)
        if found is _MISSING:
            shown = self.module.__name__.replace("tritorch", "torch")
            fail(place, f"module '{shown}' has no attribute '{name}'")
        return to_sugared(em, found, place, name)

    def has_attr(self, em: Emitter, name: str, place: Any) -> bool:
        return hasattr(self.module, name)


_MISSING = object()


class PythonValue(Sugared):
    """An object of Python that has no meaning in TorchScript."""

    def __init__(self, value: Any, name: str = "") -> None:
        self.value, self.name = value, name

    def describe(self) -> str:
        """Its type."""
        return f"python value of type '{type(self.value).__name__}'"

    def as_value(self, em: Emitter, place: Any) -> Any:
        fail(
            place,
            f"python value of type '{type(self.value).__name__}' cannot be used as a value. "
            "Perhaps it is a closed over global variable? If so, please consider passing it in as "
            "an argument or use a local varible instead.",
        )

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        if inspect.isclass(self.value) and self.value.__module__ != "builtins":
            raise python.FrontendError(
                place, f"Cannot instantiate class '{self.value.__name__}' in a script function"
            )
        return super().call(em, args, kwargs, place)


class IgnoredFunction(Sugared):
    """A function that stays in Python: `torch.jit.ignore`."""

    def __init__(self, function: Any, self_value: Any = None, owner: Any = None) -> None:
        self.function, self.self_value, self.owner = function, self_value, owner

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:

        arguments, result, is_vararg = python.ignored_signature(
            self.function, self.self_value is not None or inspect.ismethod(self.function)
        )
        from tritorch.schema.signature import Argument, FunctionSchema

        returns = [Argument._make("", result, result, None, Argument.NO_DEFAULT, False, None)]
        name = self.function.__name__
        schema = FunctionSchema(name, "", arguments, returns, is_vararg, False)
        try:
            found = matching.match(em, schema, args, kwargs)
        except matching.Mismatch as reason:
            fail(place, f"\n{schema}:\n{reason}")
        inputs = found.inputs if self.self_value is None else [self.self_value, *found.inputs]
        node = em.graph.insert("prim::PythonOp", inputs)
        node.set("name", self.function.__name__)
        node.set("function", self.function)
        return SimpleValue(node._outputs[0].setType(result))


class UnusedFunction(Sugared):
    """A function that may be called but not run: `torch.jit.unused`."""

    def __init__(self, function: Any, is_method: bool = False) -> None:
        self.function, self.is_method = function, is_method

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:

        result = python.ignored_signature(self.function, self.is_method)[1]
        message = em.const("Cannot call @unused methods")
        em.graph.insert("prim::RaiseException", [message, em.const("RuntimeError")], 0)
        return SimpleValue(em.uninitialized(result))


def constant_value(em: Emitter, value: Any, place: Any) -> Sugared:
    """A value of Python as a constant of the graph."""
    found = constant_or_none(em, value)
    if found is None:
        return PythonValue(value)
    return found


def constant_or_none(em: Emitter, value: Any) -> Sugared | None:
    """A value as a constant; None if it cannot be one."""
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        if isinstance(value, enum.Enum):
            return _enum_member(em, value)
        return SimpleValue(em.const(value))
    if is_numbered(value):
        return SimpleValue(em.const(number_of(value), types.IntType.get()))
    if isinstance(value, Device):
        return SimpleValue(em.const(value, types.DeviceObjType.get()))
    if isinstance(value, enum.Enum):
        return _enum_member(em, value)
    if isinstance(value, (tuple, list)):
        parts = [constant_or_none(em, each) for each in value]
        if any(part is None for part in parts):
            return None
        values = [part.as_value(em, None) for part in parts]  # type: ignore[union-attr]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            from tritorch.jit.frontend.classes import named_tuple_type

            made = em.graph.insert("prim::TupleConstruct", values)._outputs[0]
            return SimpleValue(made.setType(named_tuple_type(type(value))))
        if isinstance(value, tuple):
            return SimpleValue(em.pack_tuple(values))
        kind = infer_type(value)
        if not kind.success():
            return None
        return SimpleValue(em.make_list(values, kind.type().getElementType()))  # type: ignore[attr-defined]
    if isinstance(value, dict):
        kind = infer_type(value)
        if not kind.success():
            return None
        return SimpleValue(em.literal(value, kind.type()))
    return None


def _enum_member(em: Emitter, value: enum.Enum) -> Sugared:
    from tritorch.jit.frontend.classes import enum_type

    return SimpleValue(em.graph.insertConstant(value, enum_type(type(value))))


def to_sugared(em: Emitter, value: Any, place: Any, name: str = "") -> Sugared:
    """The meaning of an object of Python."""
    if isinstance(value, Sugared):
        return value
    special = globals.special_forms().get(id(value))
    if special is not None:
        return SpecialForm(special)
    found = constant_or_none(em, value)
    if found is not None:
        return found
    if isinstance(value, python_types.ModuleType):
        return PythonModule(value)
    if isinstance(value, tuple):
        return TupleOf([to_sugared(em, each, place) for each in value])
    if inspect.isclass(value):
        return _of_class(em, value, place)
    if callable(value) and not isinstance(value, Tensor):
        return _of_callable(em, value, place, name)
    return PythonValue(value, name)


def _of_callable(em: Emitter, value: Any, place: Any, name: str) -> Sugared:
    plain = getattr(value, "__name__", "")
    if getattr(builtins, plain, None) is value:
        builtin = globals.builtin_name(plain)
        return PythonValue(value, name) if builtin is None else builtin
    definition = definitions.function_of(value)
    if definition is not None:
        return definition
    operator = getattr(value, "_script_operator", None)
    operator = operator or globals.operators_by_function().get(id(value))
    if operator is not None:
        return BuiltinFunction(operator)
    compiled = getattr(value, "_graph_function", None)  # a ScriptFunction
    if compiled is not None:
        return FunctionValue(compiled)
    packet = _operator_object(value)
    if packet is not None:
        return packet
    if isinstance(value, python_types.MethodType):
        if inspect.isclass(value.__self__):
            return FunctionValue(*python.compile_function(value.__func__))
        return PythonValue(value, name)
    if not isinstance(value, (python_types.FunctionType, functools.partial)):
        function = getattr(value, "__wrapped__", None)
        if not isinstance(function, python_types.FunctionType):
            method = getattr(value, "__call__", None)  # noqa: B004
            if isinstance(method, python_types.MethodType) and not isinstance(value, Module):
                return IgnoredFunction(method)
            return PythonValue(value, name)
        value = function
    if internal.is_library(value) and python.modifier(value) == internal.FunctionModifiers.DEFAULT:
        with python.trial() as attempt:
            found = function_value(em, value, place)
            for function in getattr(found, "functions", ()):
                function.ensure_defined()
        return found if attempt.error is None else BuiltinFunction(f"aten::{plain}")
    return function_value(em, value, place)


def function_value(em: Emitter, function: Any, place: Any) -> Sugared:
    """The meaning of a function of Python in a call."""
    how = python.modifier(function)
    if how in (python.internal.FunctionModifiers.UNUSED, python.internal.FunctionModifiers._DROP):
        return UnusedFunction(function)
    if how == python.internal.FunctionModifiers.IGNORE:
        return IgnoredFunction(function)
    dispatched = python.internal._try_get_dispatched_fn(function)
    if dispatched is not None:
        return python.BooleanDispatch(dispatched)
    return FunctionValue(*python.compile_function(function))


def _operator_object(value: Any) -> Sugared | None:
    """The operator of `torch.ops.<namespace>.<name>`."""
    from tritorch.ops.record.overloads import OpOverload, OpOverloadPacket

    if isinstance(value, OpOverloadPacket):
        return BuiltinFunction(value._qualified_op_name)
    if isinstance(value, OpOverload):
        return BuiltinFunction(value._schema.name)
    if type(value).__name__ == "OpNamespace":
        return PythonModule(value)
    return None


_CASTS: dict[Any, str] = {int: "int", float: "float", bool: "bool", str: "str", complex: "complex",
                          list: "list", tuple: "tuple", dict: "dict"}  # fmt: skip


def _of_class(em: Emitter, value: Any, place: Any) -> Sugared:
    from tritorch.jit.frontend import classes

    if value in _CASTS:
        return globals.builtin_name(_CASTS[value])  # type: ignore[return-value]
    if value is Device:
        return CastFunction("aten::device", types.DeviceObjType.get())
    if issubclass(value, BaseException):
        return ExceptionClass(_exception_name(value))
    if value in (range, zip, enumerate, reversed):
        return SpecialForm(value.__name__)
    if issubclass(value, enum.Enum):
        return EnumClass(classes.enum_type(value))
    if issubclass(value, tuple) and hasattr(value, "_fields"):
        return NamedTupleClass(classes.named_tuple_type(value))
    if internal.is_library(value):
        from tritorch.jit.definitions.contexts import context_of

        if schemas(f"aten::{value.__name__}"):  # such as set_grad_enabled
            return BuiltinFunction(f"aten::{value.__name__}")
        value = context_of(value) or value
    with referring(em.function.name, place):
        kind = classes.class_type(value, required=False)
    return PythonValue(value) if kind is None else ClassValue(kind)


def _exception_name(value: type) -> str:
    return (
        value.__name__ if value.__module__ == "builtins" else f"{value.__module__}.{value.__name__}"
    )


def of_type(kind: Any) -> Sugared:
    """The sugared value of a class by its type."""
    if isinstance(kind, NamedTupleType):
        return NamedTupleClass(kind)
    if isinstance(kind, ScriptEnumType):
        return EnumClass(kind)
    if isinstance(kind, (ScriptClassType, InterfaceType)):
        return ClassValue(kind)  # type: ignore[arg-type]
    raise TypeError(f"{kind} is no class")


late.provides(constant_value)
late.provides(to_sugared)
