"""Modules as types: attributes, constants and submodules that an object has, methods of its class.

Modules of one class whose attributes have the same types and whose constants are equal share a
type.
"""

from __future__ import annotations

import inspect
import types as python_types
import typing
import weakref
from collections.abc import Callable
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.jit import internals as internal
from tritorch.jit.frontend import (
    classes,
    definitions,
    hooks,
    late,
    python_values,
)
from tritorch.jit.frontend.annotations import type_of_object
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.python import (
    UNIT,
    compile_function,
    is_python_function,
    method_definition,
    method_overloads,
    modifier,
    torch_name,
    trial,
)
from tritorch.jit.frontend.source import fail
from tritorch.jit.frontend.sugared import SimpleValue, Sugared, TupleOf
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Value
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.ir.types import InterfaceType, ScriptClassType
from tritorch.nn.modules.module import Module
from tritorch.schema import types
from tritorch.schema.infer import infer_type
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type

_INTERNAL = {name for name in vars(Module()) if name != "training"} | {
    "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_backward_hooks",
    "_forward_hooks", "_forward_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks",
    "_compiled_call_impl", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs",
    "_forward_hooks_always_called", "_state_dict_pre_hooks", "_load_state_dict_post_hooks",
    "_backward_pre_hooks", "_is_full_backward_hook",
}  # fmt: skip
_CONTAINERS = {
    "ModuleList": "list", "Sequential": "sequential", "ModuleDict": "dict",
    "ParameterList": "parameters", "ParameterDict": "parameter dict",
}  # fmt: skip


class ModuleInfo:
    """The facts of a module's type beside its attributes: the object of Python.

    failed: reasons why attributes have no type.  functions: attributes that are functions.
    """

    def __init__(self, python: Module) -> None:
        self._python = python
        self.failed: dict[str, str] = {}
        self.functions: dict[str, Any] = {}
        self.container = _container(type(python))
        self.overloads: dict[str, list[str]] = {}
        self.lookup: Callable[[str], Any] | None = None
        self.stubs: dict[str, Any] = {}

    @property
    def python(self) -> Module:
        """The module of Python."""
        return self._python

    # ---- methods ---------------------------------------------------------------------------------

    def compile_method(self, kind: ScriptClassType, name: str) -> GraphFunction | None:
        """The method of the class of a name, compiled when it is needed; None if there is none."""
        found = kind.methods.get(name)
        if found is not None:
            return found
        made = self._method(kind, name)
        if made is not None:
            kind.methods[name] = made
        return made

    def _method(self, kind: ScriptClassType, name: str) -> GraphFunction | None:
        python = type(self._python)
        definition = definitions.methods_of(python).get(name)
        overridden = inspect.getattr_static(python, name, None)
        if definition is not None and _is_ours(overridden):
            return definitions.define_method(kind, definition, UNIT)
        is_listing = name.removeprefix("named_") in _LISTINGS
        if (self.container is not None or is_listing) and _is_ours(overridden):
            return None  # what containers do, the compiler does
        function = overridden
        bound = vars(self._python).get(name)
        if isinstance(bound, python_types.MethodType):  # a method that was put on the object
            function = bound.__func__
        if isinstance(function, staticmethod):
            return compile_function(function.__func__)[0]
        if not is_python_function(function):
            return None
        how = modifier(function)
        if how in (internal.FunctionModifiers.IGNORE, internal.FunctionModifiers.UNUSED,
                   internal.FunctionModifiers._DROP):  # fmt: skip
            classes._left_in_python(kind, name, function)
            return kind.methods[name]
        return method_definition(
            kind, name, function, UNIT, self.lookup, {"super": _Super(self._python)}
        )

    def overrides(self, name: str) -> bool:
        """Tells if a program's class has a method of this name."""
        return not _is_ours(inspect.getattr_static(type(self._python), name, None))

    def overload_names(self, kind: ScriptClassType, name: str) -> list[str]:
        """The compiled overloads of a method that `torch.jit._overload_method` declared."""
        if name in self.overloads:
            return self.overloads[name]
        methods = getattr(self._python, "__overloads__", {}).get(name)
        if methods is not None:  # overloads that are methods of their own
            made = [each for each in methods if self.compile_method(kind, each) is not None]
            self.overloads[name] = made
            return made
        function = inspect.getattr_static(type(self._python), name, None)
        found: list[str] = []
        for at, declaration in enumerate(method_overloads(function)):
            each = f"{name}__{at}"
            kind.methods[each] = method_definition(
                kind, each, function, UNIT, self.lookup, {}, declaration
            )
            found.append(each)
        self.overloads[name] = found
        return found

    # ---- attributes ------------------------------------------------------------------------------

    def attr(
        self, em: Emitter, kind: ScriptClassType, value: Value, name: str, place: Any
    ) -> Sugared | None:
        """An attribute that is no slot: of a container, a function, a property."""
        if self.container in ("dict", "sequential", "list", "parameter dict") and name in (
            "items", "keys", "values",
        ):  # fmt: skip
            return ContainerMethod(value, kind, name)
        if name.removeprefix("named_") in _LISTINGS:
            return Listing(value, name)
        if name in self.functions:
            with trial() as attempt:
                found = python_values.to_sugared(em, self.functions[name], place, name)
                for function in getattr(found, "functions", ()):
                    function.ensure_defined()
            if attempt.error is not None:
                fail(
                    place,
                    f"Module '{kind.name()}' has no attribute '{name}' (This function exists as an "
                    "attribute on the Python module, but we failed to compile it to a TorchScript "
                    f"function. \nThe error stack is reproduced here:\n{attempt.error}",
                )
            return found
        static = inspect.getattr_static(type(self._python), name, None)
        if name == "_flat_weights" and hasattr(self._python, "_flat_weights_names"):
            names = self._python._flat_weights_names
            weights = [em.get_attr(value, each, TensorType.get()) for each in names]
            return SimpleValue(em.make_list(weights, TensorType.get()))
        if isinstance(static, (int, str)) and internal.is_library(type(self._python)):
            return em.constant_sugar(static, place)
        if name in self.failed:
            fail(
                place,
                f"Module '{kind.name()}' has no attribute '{name}' {self.failed[name]}",
            )
        return None


class _Super(Sugared):
    """`super()` in a method: the methods of the bases."""

    def __init__(self, python: Module) -> None:
        self.python = python

    def call(self, em: Emitter, args: Any, kwargs: Any, place: Any) -> Sugared:
        fail(place, "super() is not supported")


def _is_ours(function: Any) -> bool:
    """Tells if a method is of `torch.nn`, not one that another class defines."""
    return function is None or internal.is_library(function, "nn")


def _container(python: type) -> str | None:
    for base in python.__mro__:
        if internal.is_library(base, "nn") and base.__name__ in _CONTAINERS:
            return _CONTAINERS[base.__name__]
    return None


# ---- containers ----------------------------------------------------------------------------------


def parts(em: Emitter, value: Value, kind: ScriptClassType) -> list[tuple[str, Sugared]]:
    """The modules, or parameters, of a container by name."""
    return [
        (name, SimpleValue(em.get_attr(value, name, attribute.type)))
        for name, attribute in kind.attributes.items()
        if _is_part(kind, attribute.type)
    ]


def _is_part(kind: ScriptClassType, attribute: Type) -> bool:
    wants_tensors = kind.python_info.container.startswith("parameter")
    if wants_tensors:
        return isinstance(attribute, TensorType)
    return getattr(attribute, "is_module_type", False)


class Listing(Sugared):
    """`modules`, `children`, `parameters` or `buffers` of a module, with names or without."""

    def __init__(self, value: Value, name: str) -> None:
        self.value, self.name = value, name

    def call(self, em: Emitter, args: Any, kwargs: Any, place: Any) -> Sugared:
        what = self.name.removeprefix("named_")
        found = [(n, SimpleValue(v)) for n, v in _listed(em, self.value, what, "", place)]
        if what == self.name:
            return TupleOf([part for _, part in found])
        return TupleOf([TupleOf([SimpleValue(em.const(n)), part]) for n, part in found])


_LISTINGS = {"modules", "children", "parameters", "buffers"}


def _listed(
    em: Emitter, value: Value, what: str, prefix: str, place: Any
) -> list[tuple[str, Value]]:
    kind = value._type
    if not isinstance(kind, ScriptClassType):
        fail(place, f"Could not compile {what}() of a module with a part of type {kind}")
    found = [(prefix, value)] if what == "modules" else []
    for name, attribute in kind.attributes.items():
        path = f"{prefix}.{name}" if prefix else name
        if getattr(attribute.type, "is_module_type", False):
            part = em.get_attr(value, name, attribute.type)
            if what == "children":
                found.append((path, part))
            else:
                found += _listed(em, part, what, path, place)
        elif (attribute.is_parameter and what == "parameters") or (
            attribute.is_buffer and what == "buffers"
        ):
            found.append((path, em.get_attr(value, name, attribute.type)))
    return found


class ContainerMethod(Sugared):
    """`items`, `keys` or `values` of a container of modules."""

    def __init__(self, value: Value, kind: ScriptClassType, name: str) -> None:
        self.value, self.kind, self.name = value, kind, name

    def call(self, em: Emitter, args: Any, kwargs: Any, place: Any) -> Sugared:
        found = parts(em, self.value, self.kind)
        if self.name == "values":
            return TupleOf([part for _, part in found])
        if self.name == "keys":
            return TupleOf([SimpleValue(em.const(name)) for name, _ in found])
        return TupleOf([TupleOf([SimpleValue(em.const(name)), part]) for name, part in found])


def container_of(kind: Type) -> str | None:
    """The kind of container that a module's type is; None of others."""
    info = getattr(kind, "python_info", None)
    return None if info is None else getattr(info, "container", None)


def container_item(em: Emitter, value: Value, index: Value, place: Any) -> Sugared:
    """The part of a container at an index or a key."""
    kind = value._type
    found = parts(em, value, kind)  # type: ignore[arg-type]
    at = index.toIValue()
    if isinstance(at, str):
        for name, part in found:
            if name == at:
                return part
        fail(place, f"Key Error, {at}")
    if not isinstance(at, int):
        interface = em.interface_hint
        if isinstance(interface, InterfaceType):
            for name, part in found:
                other = part.as_value(em, place)._type
                why = interface.why_not_implemented_by(other)  # type: ignore[arg-type]
                if why is not None:
                    fail(
                        place,
                        f"Attribute {name} is not of annotated type {interface.annotation_str}: "
                        f"{why}",
                    )
            node = em.graph.insert("prim::ModuleContainerIndex", [value, index])
            return SimpleValue(node._outputs[0].setType(interface))
        fail(
            place,
            "Unable to extract string literal index. ModuleDict indexing is only supported with "
            "string literals. For example, 'i = \"a\"; self.layers[i](x)' will fail because i is "
            "not a literal. Enumeration of ModuleDict is supported, e.g. 'for k, v in "
            "self.items(): ...'"
            if container_of(kind) == "dict"
            else "Expected integer literal for index. ModuleList/Sequential indexing is only "
            "supported with integer literals. For example, 'i = 4; self.layers[i](x)' will fail "
            "because i is not a literal. Enumeration is supported, e.g. 'for index, v in "
            "enumerate(self): out = v(inp)'",
        )
    if not -len(found) <= at < len(found):
        fail(place, f"Index {at} out of range for container of {len(found)} modules")
    return found[at][1]


# ---- types ---------------------------------------------------------------------------------------

_types: weakref.WeakKeyDictionary[type, list[tuple[Any, ScriptClassType]]] = (
    weakref.WeakKeyDictionary()
)


def _constants(module: Module) -> dict[str, Any]:
    """The attributes that a class declares as constants."""
    names = list(getattr(module, "__constants__", ()))
    for name, ann in _annotations(type(module)).items():
        if internal.is_final(ann):
            names.append(name)
    found = {}
    for name in dict.fromkeys(names):
        if not hasattr(module, name):
            continue
        value = getattr(module, name)
        if isinstance(value, (Module, Tensor)) or name in module._parameters:
            continue
        if name in module._buffers:
            continue
        if callable(value) and not isinstance(value, type):
            continue
        found[name] = value
    return found


def _annotations(python: type) -> dict[str, Any]:
    """The annotations of a class and its bases, as objects where they can be evaluated."""
    found: dict[str, Any] = {}
    for base in reversed(python.__mro__):
        if internal.is_library(base, "nn") or base is object:
            continue
        written = vars(base).get("__annotations__")
        if written is None and hasattr(base, "__annotate__"):
            written = inspect.get_annotations(base)
        try:
            hints = typing.get_type_hints(base, include_extras=True) if written else {}
            found |= {name: hints[name] for name in written or ()}  # without those of its bases
        except Exception:
            found |= written or {}
    return found


def infer_attribute(value: Any) -> tuple[Type | None, str]:
    """The type of an attribute's value, or the reason why it has none."""
    from tritorch.jit._containers import ScriptDict, ScriptList

    if isinstance(value, (ScriptList, ScriptDict)):
        return value._type, ""  # type: ignore[union-attr]
    data = getattr(value, "_c", None)
    if isinstance(data, ScriptObjectData):
        return data.type, ""
    if type(value).__name__ == "ScriptObject":  # of a native class, which knows its type
        return value._type(), ""
    found = infer_type(value)
    if found.success():
        kind = found.type()
        return _declared_parts(value, kind), ""
    made = _of_object(value)
    if made is not None:
        return made, ""
    return None, (
        f"(This attribute exists on the Python module, but we failed to convert Python type: "
        f"'{type(value).__module__ + '.' if type(value).__module__ != 'builtins' else ''}"
        f"{type(value).__qualname__}' to a TorchScript type. {found.reason()}. Its type was "
        "inferred; try adding a type annotation for the attribute.)"
    )


def _declared_parts(value: Any, kind: Type) -> Type:
    """The inferred type with declared types in place of those that only values have."""
    import enum

    if isinstance(value, enum.Enum):
        return classes.enum_type(type(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return classes.named_tuple_type(type(value))
    if isinstance(value, list) and value and isinstance(kind, types.ListType):
        return types.ListType(_declared_parts(value[0], kind.getElementType()))
    return kind


def _of_object(value: Any) -> Type | None:
    """The type of an object of a class that can be compiled."""
    return classes.type_of_instance(value)


def module_type(module: Module, share: bool = True) -> ScriptClassType:
    """The type of a module: one that exists, if share, or a new one."""
    data = getattr(module, "_c", None)
    if isinstance(data, ScriptObjectData):
        return data.type
    info = ModuleInfo(module)
    attributes, constants = _describe(module, info)
    key = _key(module, attributes, constants, info)
    known = _types.setdefault(type(module), [])
    if share:
        for other, kind in known:
            if other == key:
                return kind
    kind = ScriptClassType(UNIT.mangle(torch_name(internal._qualified_name(type(module)))), True)
    kind.python_info = info
    for name, (attribute, is_parameter, is_buffer) in attributes.items():
        kind.add_attribute(name, attribute, is_parameter, is_buffer)
    kind.constants.update(constants)
    _declare_properties(kind, module)
    hooks.declare(kind, module)
    UNIT.types[kind.qualified_name()] = kind
    if share:
        known.append((key, kind))
    return kind


def _declare_properties(kind: ScriptClassType, module: Module) -> None:
    """Gives a type the properties of a module's class; they are compiled when they are needed."""
    python = type(module)
    unused = getattr(module, "__jit_unused_properties__", ())
    for name in dir(python):
        static = inspect.getattr_static(python, name, None)
        if (
            not isinstance(static, property)
            or name in unused
            or not is_python_function(static.fget)
        ):
            continue
        if _is_ours(static.fget) or modifier(static.fget) != internal.FunctionModifiers.DEFAULT:
            continue
        getter = method_definition(kind, f"__{name}_getter", static.fget, UNIT)
        setter = None
        if static.fset is not None:
            setter = method_definition(kind, f"__{name}_setter", static.fset, UNIT)
            kind.methods[setter.name] = setter
        kind.methods[getter.name] = getter
        kind.properties[name] = (getter, setter)


Described = dict[str, tuple[Type, bool, bool]]


def _describe(module: Module, info: ModuleInfo) -> tuple[Described, dict[str, Any]]:
    """The types of a module's attributes, and its constants."""
    found: Described = {}
    constants = _constants(module)
    written = _annotations(type(module))
    ignored = set(getattr(module, "__jit_ignored_attributes__", ()))
    for name, value in module._parameters.items():
        kind = _written_type(written.get(name)) or (
            types.NoneType.get() if value is None else TensorType.get()
        )
        found[name] = (kind, True, False)
    for name, value in module._buffers.items():
        kind = _written_type(written.get(name)) or (
            types.NoneType.get() if value is None else TensorType.get()
        )
        found[name] = (kind, False, True)
    found["training"] = (types.BoolType.get(), False, False)
    found["_is_full_backward_hook"] = (types.OptionalType(types.BoolType.get()), False, False)
    for name, item in vars(module).items():
        if name in _INTERNAL or name in found or name in constants or name in ignored:
            continue
        _describe_attribute(name, item, written, info, found)
    for name, item in module._modules.items():
        if name in ignored:
            continue
        if item is None:
            found[name] = (types.NoneType.get(), False, False)
            continue
        wanted = _written_type(written.get(name))
        is_interface = wanted is not None and wanted.is_interface_type()
        found[name] = (wanted if is_interface else module_type(item), False, False)  # type: ignore[assignment]
        if is_interface:
            module_type(item)
    return found, constants


def _written_type(ann: Any) -> Type | None:
    """The type of an attribute's annotation; None where there is none or it is Final."""
    if ann is None or isinstance(ann, str) or internal.is_final(ann):
        return None
    return type_of_object(ann)


def _describe_attribute(
    name: str, item: Any, written: dict[str, Any], info: ModuleInfo, found: Described
) -> None:
    from tritorch.jit._attribute import Attribute

    if isinstance(item, Attribute):
        kind = type_of_object(item.type)
        if kind is not None:
            found[name] = (kind, False, False)
            return
        item = item.value
    if name in written:
        kind = _written_type(written[name])
        if kind is not None:
            found[name] = (kind, False, False)
            return
    if is_python_function(item) or isinstance(
        item, (python_types.BuiltinFunctionType, python_types.MethodType)
    ):
        info.functions[name] = item
        return
    if hasattr(item, "_graph_function") or type(item).__name__ == "Gate" or inspect.isclass(item):
        info.functions[name] = item
        return
    kind, reason = infer_attribute(item)
    if kind is None:
        info.failed[name] = reason
    else:
        found[name] = (kind, False, False)


def _key(module: Module, attributes: Described, constants: dict[str, Any], info: ModuleInfo) -> Any:
    """The key under which modules share a type: the facts that they have in common."""
    kinds = tuple(
        (name, _identity(kind), is_parameter, is_buffer)
        for name, (kind, is_parameter, is_buffer) in attributes.items()
    )
    values = tuple((name, repr(value)) for name, value in constants.items())
    functions = tuple((name, id(value)) for name, value in info.functions.items())
    hooks = tuple(
        id(h) for h in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    )
    own = tuple(n for n, v in vars(module).items() if isinstance(v, python_types.MethodType))
    return kinds, values, functions, tuple(info.failed), hooks, own


def _identity(kind: Type) -> Any:
    if isinstance(kind, types.ClassType):  # native, known by its name
        return kind.qualified_name()
    return (
        id(kind)
        if hasattr(kind, "qualified_name") and kind.kind() != "TupleType"
        else kind.annotation_str
    )


# ---- objects -------------------------------------------------------------------------------------


def module_object(module: Module, share: bool = True, memo: dict[int, Any] | None = None) -> Any:
    """A module's data in TorchScript: its type, its attributes; submodules likewise."""
    data = getattr(module, "_c", None)
    if isinstance(data, ScriptObjectData):
        return data
    memo = {} if memo is None else memo
    if id(module) in memo:
        return memo[id(module)]
    from tritorch.jit._attribute import Attribute
    from tritorch.jit.run.module_data import ScriptModuleData
    from tritorch.jit.run.values import to_script

    kind = module_type(module, share)
    data = ScriptModuleData(kind, UNIT)
    memo[id(module)] = data
    data.source = module
    for name, attribute in kind.attributes.items():
        if name in module._modules and module._modules[name] is not None:
            data.slots[name] = module_object(module._modules[name], share, memo)
            continue
        value = _value_of(module, name)
        if isinstance(value, Attribute):
            value = value.value
        data.slots[name] = to_script(value, attribute.type)
    return data


def _value_of(module: Module, name: str) -> Any:
    for table in (module._parameters, module._buffers):
        if name in table:
            return table[name]
    if name == "_is_full_backward_hook":
        return None
    return vars(module).get(name, getattr(module, name, None))


def methods_to_compile(module: Module) -> list[str]:
    """The methods that are compiled without being called: forward, and those that are exported."""
    python = type(module)
    names = []
    forward = inspect.getattr_static(python, "forward", None)
    has_forward = forward is not None and forward is not Module.forward
    if (
        (has_forward and modifier(forward) == internal.FunctionModifiers.DEFAULT)
        or (has_forward and modifier(forward) == internal.FunctionModifiers.EXPORT)
        or isinstance(vars(module).get("forward"), python_types.MethodType)
    ):
        names.append("forward")
    for name in dir(python):
        item = inspect.getattr_static(python, name, None)
        if is_python_function(item) and modifier(item) == internal.FunctionModifiers.EXPORT:
            if name not in names:
                names.append(name)
    return names


late.provides(container_of)
late.provides(container_item)
late.provides(parts, "container_parts")
