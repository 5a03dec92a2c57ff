"""Sugared values: the meaning of names and expressions while a function is compiled.

A `SimpleValue` is a value of the graph.  Others exist only for the compiler: operators, functions,
classes, modules of Python, ranges.  Each says what its attributes, calls, items and iteration mean.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tritorch.jit.frontend import late, matching
from tritorch.jit.frontend.source import fail
from tritorch.jit.frontend.upgraders import is_old
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Value
from tritorch.jit.ir.operators import schemas
from tritorch.jit.ir.types import (
    FieldsType,
    InterfaceType,
    NamedTupleType,
    ScriptClassType,
    ScriptEnumType,
)
from tritorch.schema import types
from tritorch.schema.parser import parse_schema
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type

if TYPE_CHECKING:
    from tritorch.jit.frontend.emitter import Emitter

Args = Sequence[Value]
Kwargs = Mapping[str, Value]


class Sugared:
    """A meaning; by default nothing can be done with it."""

    def describe(self) -> str:
        """The words of errors for it."""
        return type(self).__name__

    def attr(self, em: Emitter, name: str, place: Any) -> Sugared:
        """The attribute of a name."""
        fail(place, f"attribute lookup is not defined on {self.describe()}")

    def set_attr(self, em: Emitter, name: str, value: Value, place: Any) -> None:
        """Assigns an attribute."""
        fail(place, f"attribute assignment is not defined on {self.describe()}")

    def has_attr(self, em: Emitter, name: str, place: Any) -> bool:
        """Tells, for `hasattr`, if there is an attribute of the name."""
        fail(
            place,
            f"hasattr's first argument must be a object or module. Got {self.describe()} instead",
        )

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        """The result of a call."""
        fail(place, f"cannot call a {self.describe()}")

    def as_value(self, em: Emitter, place: Any) -> Value:
        """The value of the graph that it stands for."""
        fail(place, f"{self.describe()} cannot be used as a value")

    def items(self, em: Emitter, place: Any, count: int | None = None) -> list[Sugared]:
        """Its parts, whose number the compiler knows."""
        fail(place, f"{self.describe()} cannot be used as a tuple")

    def item(self, em: Emitter, index: Value, place: Any) -> Sugared:
        """The part at an index."""
        fail(place, f"'{self.describe()}' object is not subscriptable")

    def iterate(self, em: Emitter, place: Any) -> Sugared:
        """The object that a loop goes over: it has `length` and `item`, or `static_items`."""
        fail(place, f"'{self.describe()}' object is not iterable")

    def length(self, em: Emitter, place: Any) -> Value:
        """The number of parts."""
        fail(place, f"'{self.describe()}' object is not iterable")

    def static_items(self, em: Emitter, place: Any) -> list[Sugared] | None:
        """The parts over which a loop is unrolled; None where it runs."""
        return None


# Attributes of tensors that operators compute.
_TENSOR_PROPERTIES = {
    "dtype": "prim::dtype", "device": "prim::device", "grad": "prim::grad", "data": "prim::data",
    "shape": "aten::size", "is_cuda": "prim::is_cuda", "is_cpu": "prim::is_cpu",
    "is_xpu": "prim::is_xpu", "is_sparse": "prim::is_sparse", "layout": "prim::layout",
    "is_sparse_csr": "prim::is_sparse_csr", "is_mkldnn": "prim::is_mkldnn",
    "is_mps": "prim::is_mps", "is_quantized": "prim::is_quantized", "is_vulkan": "prim::is_vulkan",
    "is_ipu": "prim::is_ipu", "is_meta": "prim::is_meta", "is_leaf": "aten::is_leaf",
    "requires_grad": "prim::requires_grad", "itemsize": "prim::itemsize", "nbytes": "prim::nbytes",
    "T": "aten::numpy_T", "H": "aten::matrix_H", "mT": "aten::mT", "mH": "aten::mH",
    "ndim": "aten::dim", "name": "prim::name", "real": "aten::real", "imag": "aten::imag",
    "retains_grad": "aten::retains_grad", "is_nested": "prim::is_nested", "is_xla": "prim::is_xla",
    "is_maia": "prim::is_maia",
}  # fmt: skip
# Methods that convert a tensor's elements, with the dtypes' numbers.
_TENSOR_CASTS = {
    "byte": 0, "char": 1, "short": 2, "int": 3, "long": 4, "half": 5, "float": 6, "double": 7,
    "cfloat": 9, "cdouble": 10, "bool": 11, "bfloat16": 15,
}  # fmt: skip
_DEVICE_PROPERTIES = {"type": "prim::type", "index": "prim::index"}
_MEMORY_FORMAT_METHODS = {"to", "contiguous", "is_contiguous"}


class SimpleValue(Sugared):
    """A value of the graph."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def describe(self) -> str:
        """Its type."""
        return f"value of type '{self.value._type.annotation_str}'"

    def as_value(self, em: Emitter, place: Any) -> Value:
        return self.value

    # ---- attributes ------------------------------------------------------------------------------

    def attr(self, em: Emitter, name: str, place: Any) -> Sugared:
        kind = self.value._type
        found = self._find(em, kind, name, place)
        if found is not None:
            return found
        hint = self._why_no_attribute(kind, name)
        fail(
            place,
            f"'{kind.annotation_str}' object has no attribute or method '{name}'.{hint}",
        )

    def _why_no_attribute(self, kind: Type, name: str) -> str:
        if isinstance(kind, types.OptionalType):
            return " Did you forget to check for None?"
        if isinstance(kind, ScriptClassType) and name in kind.unresolved:
            return (
                f" '{name}' is defined as a class attribute which currently is not supported. "
                "Consider converting this to an instance attribute."
            )
        if isinstance(kind, ScriptClassType) and not kind.is_module_type:
            return " Did you forget to initialize an attribute in __init__()?"
        return ""

    def _find(self, em: Emitter, kind: Type, name: str, place: Any) -> Sugared | None:
        """The attribute or method; None if there is none."""
        if isinstance(kind, TensorType):
            if name in _TENSOR_PROPERTIES:
                return SimpleValue(em.operator(_TENSOR_PROPERTIES[name], [self.value]))
            if name in _TENSOR_CASTS:
                return TensorCast(self.value, _TENSOR_CASTS[name])
        elif isinstance(kind, types.DeviceObjType):
            if name in _DEVICE_PROPERTIES:
                return SimpleValue(em.operator(_DEVICE_PROPERTIES[name], [self.value]))
        elif isinstance(kind, (NamedTupleType, FieldsType)):
            if name in kind.fields:
                at = kind.fields.index(name)
                return SimpleValue(em.tuple_index(self.value, at))
        elif isinstance(kind, ScriptClassType):
            found = self._of_class(em, kind, name, place)
            if found is not None:
                return found
        elif isinstance(kind, InterfaceType):
            if name in kind.schemas:
                return InterfaceMethod(self.value, kind, name)
        elif isinstance(kind, types.ClassType) and name in native_methods(kind):
            return NativeMethod(self.value, kind, name)
        elif isinstance(kind, types.EnumType):
            if name in ("name", "value"):
                known = self.value.toIValue()
                if isinstance(known, enum.Enum):
                    return SimpleValue(em.const(getattr(known, name)))
                node = em.graph.insert(f"prim::Enum{name.title()}", [self.value])
                inside = kind._contained[0] if name == "value" else types.StringType.get()
                return SimpleValue(node._outputs[0].setType(inside))
        elif isinstance(kind, types.ListType) and name == "sort":
            element = kind.getElementType()
            if isinstance(element, ScriptClassType):
                return SortMethod(self.value)
        if isinstance(kind, types.FutureType) and name == "wait":
            return BuiltinFunction("aten::wait", self.value)
        if isinstance(kind, types.AwaitType):  # asking for an attribute asks for the result
            result = em.operator("prim::awaitable_wait", [self.value])
            return SimpleValue(result)._find(em, result._type, name, place)
        if self._is_operator_method(kind, name):
            return BuiltinFunction(f"aten::{name}", self.value)
        return None

    def _is_operator_method(self, kind: Type, name: str) -> bool:
        """Tells if an operator of the name takes this type first."""
        is_number = kind.isSubtypeOf(types.NumberType.get()) or isinstance(kind, types.BoolType)
        for schema in schemas(f"aten::{name}"):
            if schema._arguments:
                formal = schema._arguments[0].type
                if is_number and schema._arguments[0].name != "self":
                    continue
                if kind.isSubtypeOf(formal):
                    return True
                if matching.has_variables(formal):
                    if matching.bind_variables(formal, kind, {}) is None:
                        return True
        return name.startswith("__") is False and any(
            schema._arguments and schema._arguments[0].type.kind() == kind.kind()
            for schema in schemas(f"prim::{name}")
        )

    def _of_class(
        self, em: Emitter, kind: ScriptClassType, name: str, place: Any
    ) -> Sugared | None:
        attribute = kind.find_attribute(name)
        if attribute is not None:
            return SimpleValue(em.get_attr(self.value, name, attribute))
        info = getattr(kind, "python_info", None)
        if info is not None and (overloads := info.overload_names(kind, name)):
            return MethodValue(self.value, kind, *overloads)
        if name in kind.methods or em.compile_method(kind, name) is not None:
            return MethodValue(self.value, kind, name)
        if name in kind.static_methods:
            return FunctionValue(kind.static_methods[name])
        if name in kind.properties:
            return MethodValue(self.value, kind, kind.properties[name][0].name).call(
                em, [], {}, place
            )
        if name in kind.constants:
            return em.constant_sugar(kind.constants[name], place)
        return None if info is None else info.attr(em, kind, self.value, name, place)

    def set_attr(self, em: Emitter, name: str, value: Value, place: Any) -> None:
        kind = self.value._type
        if not isinstance(kind, ScriptClassType):
            fail(
                place,
                f"Tried to set an attribute: {name} on a non-class: {kind.annotation_str}",
            )
        wanted = kind.find_attribute(name)
        if wanted is None:
            if name in kind.properties and kind.properties[name][1] is not None:
                setter = kind.properties[name][1]
                MethodValue(self.value, kind, setter.name).call(em, [value], {}, place)  # type: ignore[union-attr]
                return
            if em.may_declare_attribute(kind, self.value):
                if isinstance(value._type, types.NoneType):
                    fail(place, "Trying to add an attribute of type NoneType; annotate it")
                if _contains(em.hinted_attribute(name) or value._type, kind):
                    fail(place, f"Recursive class types are not supported: attribute '{name}'")
                kind.add_attribute(name, em.hinted_attribute(name) or value._type)
                wanted = kind.find_attribute(name)
            elif name in kind.properties:
                fail(
                    place,
                    f"Tried to set read-only attribute: {name}",
                )
            elif em.is_init and kind is em.self_type:
                fail(
                    place,
                    "First assignment cannot be in a control-flow block. Initialize the field at "
                    "the top level first",
                )
            else:
                fail(
                    place,
                    f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it "
                    "in __init__()?",
                )
        assert wanted is not None
        value = matching.convert(em, value, wanted, False)
        if not value._type.isSubtypeOf(wanted):
            fail(
                place,
                f"Wrong type for attribute assignment. Expected {wanted.annotation_str} but got "
                f"{value._type.annotation_str}",
            )
        node = em.graph.insert("prim::SetAttr", [self.value, value], 0)
        node.set("name", name)

    def has_attr(self, em: Emitter, name: str, place: Any) -> bool:
        kind = self.value._type
        if isinstance(kind, ScriptClassType):
            return (
                name in kind.attributes
                or name in kind.methods
                or name in kind.constants
                or name in kind.properties
            )
        fail(
            place,
            f"hasattr's first argument must be a object or module. Got {self.describe()} instead",
        )

    # ---- calls and items -------------------------------------------------------------------------

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        kind = self.value._type
        if isinstance(kind, ScriptClassType):
            if kind.forward_hooks or kind.forward_pre_hooks:
                return late.call_with_hooks(em, self.value, kind, args, kwargs, place)
            method = "forward" if kind.is_module_type else "__call__"
            if self._of_class(em, kind, method, place) is not None:
                return self.attr(em, method, place).call(em, args, kwargs, place)
        if isinstance(kind, InterfaceType):
            return self.attr(em, "forward", place).call(em, args, kwargs, place)
        if type(kind).__name__ == "FunctionType":
            return FunctionValue(kind.function).call(em, args, kwargs, place)  # type: ignore[attr-defined]
        return super().call(em, args, kwargs, place)

    def _parts(self, em: Emitter) -> list[Sugared] | None:
        """The modules of a container, keys of a ModuleDict; None of what is no container."""
        container = late.container_of(self.value._type)
        if container is None:
            return None
        found = late.container_parts(em, self.value, self.value._type)
        if container.endswith("dict"):
            return [SimpleValue(em.const(name)) for name, _ in found]
        return [part for _, part in found]

    def _overrides(self, em: Emitter, name: str) -> bool:
        """Tells if a program's class of containers has a method of its own for what they do."""
        info = getattr(self.value._type, "python_info", None)
        return info is not None and info.overrides(name)

    def items(self, em: Emitter, place: Any, count: int | None = None) -> list[Sugared]:
        kind = self.value._type
        if (found := self._parts(em)) is not None:
            return found
        if isinstance(kind, types.TupleType):
            return [SimpleValue(each) for each in em.unpack_tuple(self.value)]
        if isinstance(kind, types.ListType):
            if count is None:
                fail(
                    place,
                    "Provided list cannot be used as a tuple because its length is not statically "
                    "known",
                )
            return [SimpleValue(each) for each in em.unpack_list(self.value, count)]
        if isinstance(kind, types.AnyType):
            fail(
                place,
                "Provided Any cannot be used as a tuple",
            )
        if isinstance(kind, TensorType) and count is not None:
            parts = em.operator("aten::unbind", [self.value])
            return [SimpleValue(each) for each in em.unpack_list(parts, count)]
        fail(place, f"{kind.annotation_str} cannot be used as a tuple")

    def item(self, em: Emitter, index: Value, place: Any) -> Sugared:
        kind = self.value._type
        if isinstance(kind, types.TupleType):
            return SimpleValue(em.tuple_item(self.value, index, place))
        if isinstance(kind, TensorType):
            zero = em.const(0)
            return SimpleValue(em.operator("aten::select", [self.value, zero, index]))
        if isinstance(kind, (ScriptClassType, InterfaceType)):
            if late.container_of(kind) is not None and not self._overrides(em, "__getitem__"):
                return late.container_item(em, self.value, index, place)
            if isinstance(em.interface_hint, InterfaceType) and kind.is_module_type:
                node = em.graph.insert("prim::ModuleContainerIndex", [self.value, index])
                return SimpleValue(node._outputs[0].setType(em.interface_hint))
            return self.attr(em, "__getitem__", place).call(em, [index], {}, place)
        return SimpleValue(em.call_builtin("aten::__getitem__", [self.value, index], place))

    def length(self, em: Emitter, place: Any) -> Value:
        kind = self.value._type
        if isinstance(kind, types.TupleType):
            return em.const(len(kind.elements()))
        found = None if self._overrides(em, "__len__") else self._parts(em)
        if found is not None:
            return em.const(len(found))
        if isinstance(kind, ScriptClassType):
            return self.attr(em, "__len__", place).call(em, [], {}, place).as_value(em, place)
        return em.call_builtin("aten::len", [self.value], place)

    def iterate(self, em: Emitter, place: Any) -> Sugared:
        kind = self.value._type
        if isinstance(kind, (types.ListType, types.StringType, TensorType, types.TupleType)):
            return self
        if isinstance(kind, types.DictType):
            return SimpleValue(em.call_builtin("aten::keys", [self.value], place))
        if self._parts(em) is not None:
            return self
        if isinstance(kind, ScriptClassType) and "__iter__" not in kind.methods:
            if {"__len__", "__getitem__"} <= set(kind.methods):
                return self
        fail(place, f"'{kind.annotation_str}' object is not iterable")

    def static_items(self, em: Emitter, place: Any) -> list[Sugared] | None:
        if isinstance(self.value._type, types.TupleType):
            return self.items(em, place)
        return self._parts(em)


def _contains(kind: Type, part: Type) -> bool:
    """Tells if a type has another one in it."""
    return kind is part or any(_contains(each, part) for each in kind._contained)


class TensorCast(Sugared):
    """`x.float()` and its like."""

    def __init__(self, value: Value, dtype: int) -> None:
        self.value, self.dtype = value, dtype

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        if args or kwargs:
            fail(place, "conversions of tensors take no arguments")
        given = [self.value, em.const(self.dtype), em.const(False), em.const(False)]
        return SimpleValue(em.call_builtin("aten::to", given, place))


class SortMethod(Sugared):
    """`list.sort` of objects of a class that has `__lt__`."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        kind = self.value._type.getElementType()  # type: ignore[attr-defined]
        method = kind.methods.get("__lt__") if isinstance(kind, ScriptClassType) else None
        if method is None:
            fail(place, f"To sort a list of {kind.annotation_str} it must define a __lt__ method")
        reverse = [*args, *kwargs.values()] or [em.const(False)]
        node = em.graph.insert("aten::sort", [self.value, *reverse], 0)
        node.function = method
        return NoneValue()


class BuiltinFunction(Sugared):
    """An operator by its name, with the first argument if it is a method."""

    def __init__(self, name: str, self_value: Value | None = None) -> None:
        self.name, self.self_value = name, self_value

    def describe(self) -> str:
        """ "builtin"."""
        return "builtin"

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        if is_old(self.name):
            old = self._old(em, args, kwargs)
            if old is not None:
                return old
        found = matching.call_operator(em, self.name, args, kwargs, place, self.self_value)
        assert found is not None
        return SimpleValue(found)

    def _old(self, em: Emitter, args: Args, kwargs: Kwargs) -> Sugared | None:
        """The call as the archive's version meant it; None if it means the same now."""
        for function in late.old_operators(self.name):
            mark = em.mark()
            try:
                found = matching.match(em, function.schema, args, kwargs, False, self.self_value)
            except matching.Mismatch:
                em.rewind(mark)
                continue
            (result,) = em.graph.insertGraph(function.graph.copy(), found.inputs)
            return SimpleValue(result)
        return None

    def as_value(self, em: Emitter, place: Any) -> Value:
        fail(place, "builtin cannot be used as a value")


class NoneValue(Sugared):
    """None, as the result of what gives nothing."""

    def as_value(self, em: Emitter, place: Any) -> Value:
        return em.graph.insertConstant(None)


class FunctionValue(Sugared):
    """A compiled function, or overloads of one."""

    def __init__(self, *functions: GraphFunction) -> None:
        self.functions = functions

    def describe(self) -> str:
        """ "function"."""
        return "function"

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        function, found = choose(em, self.functions, args, kwargs, place)
        constant = em.function_constant(function)
        node = em.graph.insert("prim::CallFunction", [constant, *found.inputs])
        node.function = function
        return SimpleValue(node._outputs[0].setType(found.results[0]))

    def as_value(self, em: Emitter, place: Any) -> Value:
        return em.function_constant(self.functions[0])


def choose(
    em: Emitter, functions: Sequence[GraphFunction], args: Args, kwargs: Kwargs, place: Any,
    self_value: Value | None = None,
) -> tuple[GraphFunction, matching.Match]:  # fmt: skip
    """The first function that the arguments fit, and how they do."""
    reasons: list[str] = []
    for implicit in (False, True) if len(functions) > 1 else (True,):
        reasons = []
        for function in functions:
            with em.calling(function, place):
                schema = function.schema
            mark = em.mark()
            try:
                return function, matching.match(em, schema, args, kwargs, implicit, self_value)
            except matching.Mismatch as reason:
                em.rewind(mark)
                reasons.append(f"{schema}:\n{reason}")
    if len(reasons) == 1:
        fail(place, f"\n{reasons[0]}")
    fail(
        place,
        "\nArguments for call are not valid.\nThe following variants are available:\n  \n  "
        + "\n  \n  ".join(reasons)
        + "\n\nThe original call is",
    )


class MethodValue(Sugared):
    """A method of an object or a module, bound to it; or overloads of one."""

    def __init__(self, self_value: Value, kind: ScriptClassType, *names: str) -> None:
        self.self_value, self.kind, self.names = self_value, kind, names

    def describe(self) -> str:
        """ "method"."""
        return "method"

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        functions = [
            self.kind.find_method(n) or em.compile_method(self.kind, n) for n in self.names
        ]
        function, found = choose(em, functions, args, kwargs, place, self.self_value)  # type: ignore[arg-type]
        node = em.graph.insert("prim::CallMethod", found.inputs)
        node.set("name", function.name)
        node.function = function
        return SimpleValue(node._outputs[0].setType(found.results[0]))

    def as_value(self, em: Emitter, place: Any) -> Value:
        fail(place, "method cannot be used as a value")


class InterfaceMethod(Sugared):
    """A method of an object of which only the interface is known."""

    def __init__(self, self_value: Value, kind: InterfaceType, name: str) -> None:
        self.self_value, self.kind, self.name = self_value, kind, name

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        schema = self.kind.schemas[self.name]
        try:
            found = matching.match(em, schema, args, kwargs, True, self.self_value)
        except matching.Mismatch as reason:
            fail(place, f"\n{schema}:\n{reason}")
        node = em.graph.insert("prim::CallMethod", found.inputs)
        node.set("name", self.name)
        return SimpleValue(node._outputs[0].setType(found.results[0]))


def native_methods(kind: types.ClassType) -> dict[str, str]:
    """The methods of a class of `torch.classes`, with the types of their results."""
    import tritorch.ops.quantized  # noqa: F401
    from tritorch.ops.quantized.packed import KINDS

    known = KINDS.get(kind.qualified_name())
    return known.methods if known is not None else {}


class NativeMethod(Sugared):
    """A method of an object of `torch.classes`; none takes arguments."""

    def __init__(self, self_value: Value, kind: types.ClassType, name: str) -> None:
        self.self_value, self.kind, self.name = self_value, kind, name

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        if args or kwargs:
            fail(place, f"{self.kind.name()}.{self.name} takes no arguments")
        node = em.graph.insert("prim::CallMethod", [self.self_value])
        node.set("name", self.name)
        result = parse_schema(f"f() -> {native_methods(self.kind)[self.name]}")._returns
        parts = [each.type for each in result]
        found = parts[0] if len(parts) == 1 else types.TupleType(parts)
        return SimpleValue(node._outputs[0].setType(found))


class ClassValue(Sugared):
    """A class: calling it makes an object."""

    def __init__(self, kind: ScriptClassType) -> None:
        self.kind = kind

    def describe(self) -> str:
        """The class."""
        return self.kind.annotation_str

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        node = em.graph.insert("prim::CreateObject")
        value = node._outputs[0].setType(self.kind)
        if self.kind.find_method("__init__") or em.compile_method(self.kind, "__init__"):
            MethodValue(value, self.kind, "__init__").call(em, args, kwargs, place)
        elif args or kwargs:
            fail(place, f"{self.kind.annotation_str} takes no arguments")
        return SimpleValue(value)

    def attr(self, em: Emitter, name: str, place: Any) -> Sugared:
        if name == "__new__":
            return NewMethod(self.kind)
        if name in self.kind.static_methods:
            return FunctionValue(self.kind.static_methods[name])
        if name in self.kind.constants:
            return em.constant_sugar(self.kind.constants[name], place)
        if self.kind.find_method(name) is not None:
            return FunctionValue(self.kind.find_method(name))  # type: ignore[arg-type]
        for hook in (*self.kind.forward_pre_hooks, *self.kind.forward_hooks):
            if hook.name == name:  # archives call the hooks of submodules by the class
                return FunctionValue(hook)
        fail(
            place,
            f"Tried to lookup unknown attribute on class {self.kind.annotation_str}: {name}",
        )

    def has_attr(self, em: Emitter, name: str, place: Any) -> bool:
        return name in self.kind.static_methods or name in self.kind.constants


class NewMethod(Sugared):
    """`C.__new__(C)`: an object without a call of `__init__`."""

    def __init__(self, kind: ScriptClassType) -> None:
        self.kind = kind

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        node = em.graph.insert("prim::CreateObject")
        return SimpleValue(node._outputs[0].setType(self.kind))


class NamedTupleClass(Sugared):
    """A class of named tuples."""

    def __init__(self, kind: NamedTupleType) -> None:
        self.kind = kind

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        try:
            inputs = matching.match(em, named_tuple_schema(self.kind), args, kwargs).inputs
        except matching.Mismatch as reason:
            fail(place, f"\n{named_tuple_schema(self.kind)}:\n{reason}")
        node = em.graph.insert("prim::TupleConstruct", inputs)
        return SimpleValue(node._outputs[0].setType(self.kind))


def named_tuple_schema(kind: NamedTupleType) -> Any:
    """The signature of a named tuple's class."""
    from tritorch.schema.signature import Argument, FunctionSchema

    without = len(kind.fields) - len(kind.defaults)
    arguments = [
        Argument._make(
            name, part, part, None,
            Argument.NO_DEFAULT if at < without else kind.defaults[at - without], False, None,
        )
        for at, (name, part) in enumerate(zip(kind.fields, kind._contained))
    ]  # fmt: skip
    result = Argument._make("", kind, kind, None, Argument.NO_DEFAULT, False, None)
    return FunctionSchema(kind.name(), "", arguments, [result], False, False)


class EnumClass(Sugared):
    """A class of an enumeration."""

    def __init__(self, kind: ScriptEnumType) -> None:
        self.kind = kind

    def attr(self, em: Emitter, name: str, place: Any) -> Sugared:
        if name not in self.kind.values:
            fail(place, f"{self.kind.annotation_str}' has no attribute '{name}'")
        member = self.kind.python[name]
        return SimpleValue(em.graph.insertConstant(member, self.kind))

    def static_items(self, em: Emitter, place: Any) -> list[Sugared]:
        return [self.attr(em, name, place) for name in self.kind.values]

    def iterate(self, em: Emitter, place: Any) -> Sugared:
        members = [
            em.graph.insertConstant(self.kind.python[n], self.kind) for n in self.kind.values
        ]
        return SimpleValue(em.make_list(members, self.kind))

    def has_attr(self, em: Emitter, name: str, place: Any) -> bool:
        return name in self.kind.values


class TupleOf(Sugared):
    """Parts that are known one by one, some of which may be no values."""

    def __init__(self, parts: Sequence[Sugared]) -> None:
        self.parts = list(parts)

    def describe(self) -> str:
        """ "tuple"."""
        return "tuple"

    def items(self, em: Emitter, place: Any, count: int | None = None) -> list[Sugared]:
        return self.parts

    def static_items(self, em: Emitter, place: Any) -> list[Sugared]:
        return self.parts

    def iterate(self, em: Emitter, place: Any) -> Sugared:
        return self

    def as_value(self, em: Emitter, place: Any) -> Value:
        return em.pack_tuple([part.as_value(em, place) for part in self.parts])

    def length(self, em: Emitter, place: Any) -> Value:
        return em.const(len(self.parts))

    def item(self, em: Emitter, index: Value, place: Any) -> Sugared:
        at = index.toIValue()
        if not isinstance(at, int):
            fail(place, "Expected integer literal for index")
        if not -len(self.parts) <= at < len(self.parts):
            fail(place, "tuple index out of range")
        return self.parts[at]

    def attr(self, em: Emitter, name: str, place: Any) -> Sugared:
        return SimpleValue(self.as_value(em, place)).attr(em, name, place)


class RangeOf(Sugared):
    """`range(...)` in a loop."""

    def __init__(self, em: Emitter, args: Args, place: Any) -> None:
        if not 1 <= len(args) <= 3:
            bound = f"most 3 arguments, got {len(args)}" if args else "least 1 arguments, got 0"
            fail(place, f"range() expected at {bound}")
        for each in args:
            if not isinstance(each._type, types.IntType):
                fail(
                    place,
                    f"all inputs of range must be ints, found {each._type.annotation_str} in "
                    f"argument {list(args).index(each)}",
                )
        self.is_plain = len(args) == 1
        if self.is_plain:
            self.start, self.stop, self.step = None, args[0], None
        else:
            self.start, self.stop = args[0], args[1]
            self.step = args[2] if len(args) == 3 else None

    def iterate(self, em: Emitter, place: Any) -> Sugared:
        return self

    def length(self, em: Emitter, place: Any) -> Value:
        if self.is_plain:
            return self.stop
        step = self.step or em.const(1)
        return em.call_builtin("aten::__range_length", [self.start, self.stop, step], place)  # type: ignore[list-item]

    def item(self, em: Emitter, index: Value, place: Any) -> Sugared:
        if self.is_plain:
            return SimpleValue(index)
        step = self.step or em.const(1)
        found = em.call_builtin("aten::__derive_index", [index, self.start, step], place)  # type: ignore[list-item]
        return SimpleValue(found)

    def static_bounds(self) -> range | None:
        """The numbers, where all bounds are constants."""
        parts = [self.start, self.stop, self.step]
        found = [None if p is None else p.toIValue() for p in parts]
        if found[1] is None or (self.start is not None and found[0] is None):
            return None
        return range(found[0] or 0, found[1], 1 if found[2] is None else found[2])

    def as_value(self, em: Emitter, place: Any) -> Value:
        fail(place, "range cannot be used as a value")


class Zipped(Sugared):
    """`zip(...)` and `enumerate(...)`: several iterations side by side."""

    def __init__(self, parts: Sequence[Sugared]) -> None:
        self.parts = list(parts)

    def iterate(self, em: Emitter, place: Any) -> Sugared:
        return self

    def length(self, em: Emitter, place: Any) -> Value:
        counts = [p.length(em, place) for p in self.parts if not isinstance(p, Counting)]
        if len(counts) == 1:
            return counts[0]
        numbers = em.make_list(counts, types.IntType.get())
        return em.call_builtin("prim::min", [numbers], place)

    def item(self, em: Emitter, index: Value, place: Any) -> Sugared:
        return TupleOf([part.item(em, index, place) for part in self.parts])

    def static_items(self, em: Emitter, place: Any) -> list[Sugared] | None:
        columns = []
        for part in self.parts:
            found = part.static_items(em, place)
            if found is None and not isinstance(part, Counting):
                known = [p.static_items(em, place) for p in self.parts]
                if all(k is None for k in known):
                    return None
                if isinstance(part, RangeOf) and (bounds := part.static_bounds()) is not None:
                    found = [SimpleValue(em.const(number)) for number in bounds]
                else:
                    lengths = [len(k) for k in known if k is not None]
                    found = [part.item(em, em.const(at), place) for at in range(min(lengths))]
            columns.append(found)
        counts = [len(column) for column in columns if column is not None]
        if not counts:
            return None
        rows = []
        for at in range(min(counts)):
            row = [
                part.item(em, em.const(at), place) if column is None else column[at]
                for part, column in zip(self.parts, columns)
            ]
            rows.append(TupleOf(row))
        return list(rows)


class Counting(Sugared):
    """The numbers of `enumerate`."""

    def __init__(self, start: Value | None) -> None:
        self.start = start

    def item(self, em: Emitter, index: Value, place: Any) -> Sugared:
        if self.start is None:
            return SimpleValue(index)
        one = em.const(1)
        return SimpleValue(em.call_builtin("aten::__derive_index", [index, self.start, one], place))


class ExceptionClass(Sugared):
    """A class of exceptions, to be raised."""

    def __init__(self, name: str) -> None:
        self.name = name

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        if not args:
            message = em.const("")
        elif len(args) == 1:
            message = args[0]
        else:
            message = em.pack_tuple(args)
        if not isinstance(message._type, types.StringType):
            message = em.call_builtin("aten::str", [message], place)
        return ExceptionObject(self.name, message)


class ExceptionObject(Sugared):
    """An exception that is about to be raised."""

    def __init__(self, name: str, message: Value) -> None:
        self.name, self.message = name, message


class SpecialForm(Sugared):
    """A function that the compiler itself evaluates (`isinstance`, `annotate`, `zip`)."""

    def __init__(self, name: str) -> None:
        self.name = name

    def describe(self) -> str:
        """ "special form"."""
        return f"special form {self.name}"

    def as_value(self, em: Emitter, place: Any) -> Value:
        fail(place, f"{self.name} cannot be used as a value")


class CastFunction(Sugared):
    """`int`, `float`, `bool`, `complex`, `str`: a conversion, by the method of a class if it "
    "has one."""

    METHODS: ClassVar = {
        "aten::Int": "__int__",
        "aten::Float": "__float__",
        "aten::Bool": "__bool__",
        "aten::str": "__str__",
        "aten::Complex": "__complex__",
    }

    def __init__(self, operator: str, kind: Type) -> None:
        self.operator, self.kind = operator, kind

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        if len(args) == 1 and not kwargs:
            value = args[0]
            if value._type == self.kind:
                return SimpleValue(value)
            if isinstance(value._type, (ScriptClassType, InterfaceType)):
                method = self.METHODS[self.operator]
                return SimpleValue(value).attr(em, method, place).call(em, [], {}, place)
        return BuiltinFunction(self.operator).call(em, args, kwargs, place)


class MagicMethod(Sugared):
    """A builtin that classes may define by a method (`len`, `abs`, `hash`)."""

    def __init__(self, method: str, otherwise: Sugared) -> None:
        self.method, self.otherwise = method, otherwise

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        if args and isinstance(args[0]._type, (ScriptClassType, InterfaceType)):
            found = SimpleValue(args[0]).attr(em, self.method, place)
            return found.call(em, args[1:], kwargs, place)
        return self.otherwise.call(em, args, kwargs, place)
