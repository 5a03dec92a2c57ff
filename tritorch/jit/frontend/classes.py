"""Classes of Python as types: classes with methods, interfaces, enumerations, named tuples."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import sys
import typing
import weakref
from collections.abc import Callable
from typing import Any

from tritorch.jit import internals as internal
from tritorch.jit._sources import referred
from tritorch.jit.frontend import late
from tritorch.jit.frontend.annotations import type_of, type_of_object
from tritorch.jit.frontend.functions import define, signature
from tritorch.jit.frontend.python import (
    MISSING,
    UNIT,
    PythonResolver,
    closure_lookup,
    default_values,
    definition_of,
    method_definition,
    modifier,
    torch_name,
    trial,
)
from tritorch.jit.frontend.source import Source
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.types import (
    InterfaceType,
    NamedTupleType,
    ScriptClassType,
    ScriptEnumType,
)
from tritorch.jit.run.values import WRAPPERS
from tritorch.schema.infer import infer_type
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type

_known: weakref.WeakKeyDictionary[type, Any] = weakref.WeakKeyDictionary()


def _name(python: type) -> str:
    return UNIT.mangle(torch_name(internal._qualified_name(python)))


# ---- enumerations and named tuples ---------------------------------------------------------------


def enum_type(python: type[enum.Enum]) -> ScriptEnumType:
    """The type of an enumeration."""
    if python in _known:
        return _known[python]
    values = {member.name: member.value for member in python}
    kinds = [infer_type(value) for value in values.values()]
    if not kinds:
        raise RuntimeError(f"No enum values defined for: '{python}'")
    if not all(kind.success() for kind in kinds):
        raise RuntimeError(f"Could not infer the types of the values of {python}")
    for kind in kinds:
        if kind.type().kind() not in ("IntType", "FloatType", "StringType"):
            raise RuntimeError(
                f"Cannot create Enum with value type '{kind.type().annotation_str}', only int, "
                "float and string are supported"
            )
    for kind in kinds[1:]:
        if kind.type() != kinds[0].type():
            raise RuntimeError(
                f"Could not unify type list since element 1 of type {kind.type()} did not match "
                f"the types before it ({kinds[0].type()})"
            )
    made = ScriptEnumType(_name(python), kinds[0].type(), values, python)
    UNIT.types[made.qualified_name()] = made
    _known[python] = made
    return made


def named_tuple_type(python: type) -> NamedTupleType:
    """The type of a class of named tuples."""
    if python in _known:
        return _known[python]
    fields = python._fields  # type: ignore[attr-defined]
    written: dict[str, Any] = {}
    for base in reversed(python.__mro__):
        written |= inspect.get_annotations(base) if base is not object else {}
    module = vars(inspect.getmodule(python) or typing)
    elements: list[Type] = []
    for field in fields:
        ann = written.get(field, MISSING)
        if ann is MISSING:
            elements.append(TensorType.get())
            continue
        if isinstance(ann, typing.ForwardRef):
            ann = ann.__forward_arg__
        if isinstance(ann, str):
            resolver = PythonResolver(lambda name: module.get(name, MISSING))
            tree = ast.parse(ann, mode="eval").body
            kind: Type | None = type_of(tree, resolver, Source(ann, None))
        else:
            kind = type_of_object(ann)
        if kind is None:
            raise RuntimeError(f"Unknown type annotation: '{ann}' in NamedTuple {python.__name__}.")
        elements.append(kind)
    defaults = getattr(python, "_field_defaults", {})
    made = NamedTupleType(
        _name(python), fields, elements, [defaults[f] for f in fields if f in defaults]
    )
    made._python = python
    UNIT.types[made.qualified_name()] = made
    _known[python] = made
    return made


# ---- interfaces ----------------------------------------------------------------------------------


def interface_type(python: type) -> InterfaceType:
    """The type of a class that `torch.jit.interface` marked."""
    if python in _known:
        return _known[python]
    from tritorch.nn.modules.module import Module

    is_module = issubclass(python, Module) and len(python.__mro__) == len(Module.__mro__) + 1
    if not is_module and len(python.__mro__) > 2:
        raise RuntimeError(
            "TorchScript interface does not support inheritance yet. Please directly inherit from "
            "'object' or 'nn.Module'."
        )
    made = InterfaceType(_name(python), is_module)
    _known[python] = made
    UNIT.types[made.qualified_name()] = made
    for name, function in vars(python).items():
        if (name.startswith("__") and name != "__call__") or not inspect.isfunction(function):
            continue
        source, node = definition_of(function)
        resolver = PythonResolver(closure_lookup(function), {python.__name__: python})
        body = [s for s in node.body if not isinstance(s, (ast.Pass, ast.Expr))]
        if body and not all(isinstance(s, ast.Raise) for s in body):
            raise RuntimeError(
                f"interface declarations should only contain a single 'pass' statement. {name}"
            )
        declared = signature(node, source, resolver, default_values(function), self_type=made)
        result = declared.result or TensorType.get()
        returns = [Argument._make("", result, result, None, Argument.NO_DEFAULT, False, None)]
        made.schemas[name] = FunctionSchema(name, "", declared.arguments, returns, False, False)
    return made


# ---- classes -------------------------------------------------------------------------------------


def class_type(
    python: type, required: bool = True, lookup: Callable[[str], Any] | None = None
) -> ScriptClassType | None:
    """The type of a class, whose methods are compiled.  required: RuntimeError where it cannot be
    one; else None."""
    if python in _known:
        return _known[python]
    from tritorch.nn.modules.module import Module

    if hasattr(python, "__torch_script_interface__"):
        return interface_type(python)  # type: ignore[return-value]
    if issubclass(python, Module) or python.__module__ in ("builtins", "typing", "abc"):
        if required:
            raise RuntimeError(f"Type '{python}' cannot be compiled")
        return None
    if internal.is_library(python) and not _is_scriptable(python):
        return None
    if not required and not dataclasses.is_dataclass(python) and not _can_be_compiled(python):
        return None
    if not is_new_style(python):
        raise RuntimeError(
            "TorchScript classes must be new-style classes. Please inherit from 'object'."
        )
    made = ScriptClassType(_name(python))
    _known[python] = made
    UNIT.types[made.qualified_name()] = made
    is_complete = False
    try:
        with referred(python.__name__):
            _fill(made, python, lookup)
        is_complete = True
    finally:
        if not is_complete:
            _known.pop(python, None)
            UNIT.types.pop(made.qualified_name(), None)
    return made


def is_new_style(python: type) -> bool:
    """True: every class of Python 3 is one."""
    return hasattr(python, "__class__")


def _is_scriptable(python: type) -> bool:
    return hasattr(python, "_jit_script_class")


def _can_be_compiled(python: type) -> bool:
    """Tells if all functions of a class are Python's, and none of its bases is in the way."""
    if modifier(python) in (internal.FunctionModifiers.IGNORE, internal.FunctionModifiers.UNUSED):
        return False
    if issubclass(python, (tuple, list, BaseException)):
        return False
    values = [getattr(python, name, None) for name in vars(python)]
    return all(hasattr(each, "__code__") for each in values if inspect.isroutine(each))


def type_of_instance(value: Any) -> ScriptClassType | None:
    """The type of an object whose class can be compiled, with all of its methods; else None."""
    python = type(value)
    if python in _known:
        return _known[python] if isinstance(_known[python], ScriptClassType) else None
    module = python.__module__.partition(".")[0]
    if module in _NEVER or not _can_be_compiled(python):
        return None
    with trial() as attempt:
        made = class_type(python, required=False)
        for method in () if made is None else list(made.methods.values()):
            method.ensure_defined()
    if attempt.error is not None:
        _known.pop(python, None)
        return None
    return made


# Modules whose classes never are TorchScript's: Python's own, and the library.
_NEVER = {*sys.stdlib_module_names, "tritorch", "torch", "numpy"}


def _compiled_class(value: Any) -> ScriptClassType | None:
    found = _known.get(type(value))
    return found if isinstance(found, ScriptClassType) else None


WRAPPERS["class of"] = _compiled_class


def _fill(kind: ScriptClassType, python: type, lookup: Callable[[str], Any] | None) -> None:
    """Compiles `__init__`, which declares the attributes; other methods follow when called."""
    from tritorch.jit.frontend import dataclass_methods

    kind.doc = python.__doc__ or ""
    names = {python.__name__: python}
    if dataclasses.is_dataclass(python):
        dataclass_methods.add(kind, python, names)
    methods: dict[str, Any] = {}
    for name, value in vars(python).items():
        if isinstance(value, staticmethod):
            function = value.__func__
            static = GraphFunction(f"{kind.qualified_name()}.{name}")
            _define_static(static, function, lookup, names)
            kind.static_methods[name] = static
        elif isinstance(value, property):
            getter = method_definition(kind, f"{name}.getter", value.fget, UNIT, lookup, names)
            getter.qualified_name = f"{kind.qualified_name()}.__{name}_getter"
            setter = None
            if value.fset is not None:
                setter = method_definition(kind, name, value.fset, UNIT, lookup, names)
                setter.qualified_name = f"{kind.qualified_name()}.__{name}_setter"
                kind.methods[setter.name] = setter
            if modifier(value.fget) in (
                internal.FunctionModifiers.IGNORE,
                internal.FunctionModifiers.UNUSED,
            ):
                continue
            kind.methods[getter.name] = getter
            kind.properties[name] = (getter, setter)
        elif inspect.isfunction(value):
            if dataclasses.is_dataclass(python) and name in kind.methods:
                continue
            if name in _DATACLASS_ONLY and not _has_source(value):
                continue
            methods[name] = value
        elif not name.startswith("__"):
            kind.unresolved.add(name)
    for name in ("__init__", *(n for n in methods if n != "__init__")):
        method = methods.get(name)
        if method is None:
            continue
        if modifier(method) in (
            internal.FunctionModifiers.IGNORE,
            internal.FunctionModifiers.UNUSED,
            internal.FunctionModifiers._DROP,
        ):
            _left_in_python(kind, name, method)
            continue
        kind.methods[name] = method_definition(kind, name, method, UNIT, lookup, names)
    if "__init__" in kind.methods:
        kind.methods["__init__"].ensure_defined()
    for method in (*kind.methods.values(), *kind.static_methods.values()):
        method.ensure_defined()


_DATACLASS_ONLY = {"__eq__", "__repr__", "__hash__"}


def _has_source(function: Any) -> bool:
    try:
        inspect.getsource(function)
    except (OSError, TypeError):
        return False
    return True


def _left_in_python(kind: ScriptClassType, name: str, function: Any) -> None:
    """A method that stays in Python: a graph that only calls it."""
    made = GraphFunction(f"{kind.qualified_name()}.{name}")

    def fill(compiled: GraphFunction) -> None:
        from tritorch.jit.frontend.python import ignored_signature
        from tritorch.jit.ir.graph import Graph

        arguments, result, is_vararg = ignored_signature(function, True)
        graph = Graph()
        values = [graph.addInput("self").setType(kind)]
        values += [graph.addInput(a.name).setType(a.type) for a in arguments]
        if modifier(function) != internal.FunctionModifiers.IGNORE:
            message = graph.insertConstant("Cannot call @unused methods")
            graph.insert("prim::RaiseException", [message, graph.insertConstant("RuntimeError")], 0)
            output = graph.insert("prim::Uninitialized").output()
        else:
            node = graph.insert("prim::PythonOp", values)
            node.set("name", name).set("function", function)
            output = node.output()
        graph.registerOutput(output.setType(result))
        compiled.graph = graph
        receiver = Argument._make("self", kind, kind, None, Argument.NO_DEFAULT, False, None)
        returns = [Argument._make("", result, result, None, Argument.NO_DEFAULT, False, None)]
        compiled.schema = FunctionSchema(
            name, "", [receiver, *arguments], returns, is_vararg, False
        )

    made._define = fill
    kind.methods[name] = made


def _define_static(
    static: GraphFunction, function: Any, lookup: Any, names: dict[str, Any]
) -> None:
    def fill(compiled: GraphFunction) -> None:
        source, node = definition_of(function)
        resolver = PythonResolver(closure_lookup(function, lookup), names)
        declared = signature(node, source, resolver, default_values(function))
        define(compiled, node, source, resolver, UNIT, declared)

    static._define = fill


def python_class_of(kind: Any) -> type | None:
    """The class of Python that a type was made from."""
    for python, known in list(_known.items()):
        if known is kind:
            return python
    return None


def type_of_class(ann: Any) -> Type | None:
    """The type that a class stands for in an annotation; None if it is none of TorchScript's."""
    if issubclass(ann, enum.Enum):
        return enum_type(ann)
    if issubclass(ann, tuple) and hasattr(ann, "_fields"):
        return named_tuple_type(ann)
    if hasattr(ann, "__torch_script_interface__"):
        return interface_type(ann)
    return class_type(ann, required=False)


late.provides(type_of_class)
