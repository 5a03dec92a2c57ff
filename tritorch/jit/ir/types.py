"""Types that a program declares: classes, modules, interfaces, named tuples, enumerations.

Types without a declaration (`List[int]`, `Tensor`) are those of `tritorch.schema`.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tritorch.schema import types
from tritorch.schema.signature import FunctionSchema
from tritorch.schema.types import Type

if TYPE_CHECKING:
    from tritorch.jit.ir.function import GraphFunction


@dataclass
class Attribute:
    """An attribute of a class: its type, and whether it is a parameter or a buffer of a module."""

    type: Type
    is_parameter: bool = False
    is_buffer: bool = False


class Declared(Type):
    """A type with a qualified name; two are the same only when they are one object."""

    def __init__(self, qualified_name: builtins.str) -> None:
        self._qualified_name = qualified_name

    def qualified_name(self) -> builtins.str:
        """The name with its namespaces: `__torch__.module.Class`."""
        return self._qualified_name

    def name(self) -> builtins.str:
        """The name without its namespaces."""
        return self._qualified_name.rpartition(".")[2]

    @property
    def annotation_str(self) -> builtins.str:
        return self._qualified_name

    def repr_str(self) -> builtins.str:
        """The name, and which of the types of this name it is."""
        return f"{self._qualified_name} (of Python compilation unit at: {id(self):#x})"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


class ScriptClassType(Declared):
    """A class or module: attributes, methods and constants by name."""

    def __init__(self, qualified_name: builtins.str, is_module: bool = False) -> None:
        super().__init__(qualified_name)
        self.is_module_type = is_module
        self.attributes: dict[builtins.str, Attribute] = {}
        self.methods: dict[builtins.str, GraphFunction] = {}
        self.static_methods: dict[builtins.str, GraphFunction] = {}
        self.constants: dict[builtins.str, Any] = {}
        # Getter and setter of each property; the setter may be None.
        self.properties: dict[builtins.str, tuple[GraphFunction, GraphFunction | None]] = {}
        self.forward_hooks: list[GraphFunction] = []
        self.forward_pre_hooks: list[GraphFunction] = []
        self.unresolved: set[builtins.str] = set()  # values of the class in Python
        self.bases: tuple[ScriptClassType, ...] = ()
        self.doc = ""
        # The compiler's knowledge of the class of Python, `jit.frontend.modules.ModuleInfo`.
        self.python_info: Any = None

    def kind(self) -> builtins.str:
        """ "ClassType", for modules too."""
        return "ClassType"

    def is_module(self) -> bool:
        """Tells whether its objects are modules."""
        return self.is_module_type

    def method_names(self) -> list[builtins.str]:
        """The names of the methods, in the order of their definition."""
        return list(self.methods)

    def add_attribute(
        self,
        name: builtins.str,
        kind: Type,
        is_parameter: bool = False,
        is_buffer: bool = False,
    ) -> None:
        """Declares an attribute; RuntimeError if the name is taken."""
        if name in self.attributes:
            raise RuntimeError(f"Attribute '{name}' already exists on {self._qualified_name}")
        self.attributes[name] = Attribute(kind, is_parameter, is_buffer)

    def find_attribute(self, name: builtins.str) -> Type | None:
        """The type of an attribute; None if there is none of this name."""
        found = self.attributes.get(name)
        return None if found is None else found.type

    def find_method(self, name: builtins.str) -> GraphFunction | None:
        """The method of this name, static or not; None if there is none."""
        return self.methods.get(name) or self.static_methods.get(name)

    def _narrows(self, other: Type) -> bool:
        if isinstance(other, types.AnyClassType):
            return True
        if isinstance(other, InterfaceType):
            return other.is_implemented_by(self)
        return any(base is other or base._narrows(other) for base in self.bases)


class InterfaceType(Declared):
    """An interface: the signatures that a class or module must have."""

    def __init__(self, qualified_name: builtins.str, is_module: bool = False) -> None:
        super().__init__(qualified_name)
        self.is_module_type = is_module
        self.schemas: dict[builtins.str, FunctionSchema] = {}

    def str(self) -> builtins.str:
        """As IR writes it."""
        return f"InterfaceType<{self.name()}>"

    def is_interface_type(self) -> bool:
        """True."""
        return True

    def is_module(self) -> bool:
        """Tells whether it describes modules."""
        return self.is_module_type

    def is_implemented_by(self, other: ScriptClassType | InterfaceType) -> bool:
        """Tells whether a class, or another interface, has all of its methods."""
        return self.why_not_implemented_by(other) is None

    def why_not_implemented_by(self, other: ScriptClassType | InterfaceType) -> builtins.str | None:
        """The reason why a class is not one of this interface; None if it is."""
        if self.is_module_type and not other.is_module_type:
            return (
                f"Class '{other.qualified_name()}' is not a subtype of the module interface "
                f"'{self._qualified_name}' , only ScriptModule class can be subtype of module "
                "interface.\n"
            )
        for name, wanted in self.schemas.items():
            if isinstance(other, InterfaceType):
                given = other.schemas.get(name)
            else:
                method = other.methods.get(name)
                given = None if method is None else method.schema
            if given is None:
                return (
                    f"Class '{other.qualified_name()}' does not have method '{name}' but "
                    f"interface '{self._qualified_name}' does."
                )
            if not _schema_fits(given, wanted):
                return (
                    f"Method on class '{other.qualified_name()}' (1) is not compatible with "
                    f"interface '{self._qualified_name}' (2)\n  (1) {given}\n  (2) {wanted}"
                )
        return None

    def _narrows(self, other: Type) -> bool:
        return isinstance(other, InterfaceType) and other.is_implemented_by(self)


def _schema_fits(given: FunctionSchema, wanted: FunctionSchema) -> bool:
    """Tells whether a method can be called wherever one of the wanted signature is expected."""
    ours, theirs = given._arguments[1:], wanted._arguments[1:]
    return (
        len(ours) == len(theirs)
        and all(a.name == b.name and b.type.isSubtypeOf(a.type) for a, b in zip(ours, theirs))
        and given._returns[0].type.isSubtypeOf(wanted._returns[0].type)
    )


class NamedTupleType(types.TupleType):
    """A tuple whose places have names; `python` is the class of its values at run time."""

    def __init__(
        self,
        qualified_name: builtins.str,
        fields: Iterable[builtins.str],
        elements: Iterable[Type],
        defaults: Iterable[Any] = (),
    ) -> None:
        super().__init__(elements)
        self._qualified_name = qualified_name
        self.fields, self.defaults = tuple(fields), tuple(defaults)
        self._python: Any = None

    def kind(self) -> builtins.str:
        """ "TupleType"."""
        return "TupleType"

    def qualified_name(self) -> builtins.str:
        """The name with its namespaces."""
        return self._qualified_name

    def name(self) -> builtins.str:
        """The name without its namespaces."""
        return self._qualified_name.rpartition(".")[2]

    @property
    def python(self) -> Any:
        """The class of namedtuples of this type."""
        if self._python is None:
            import collections

            self._python = collections.namedtuple(  # type: ignore[misc]
                self.name(), self.fields, defaults=self.defaults or None
            )
        return self._python

    @property
    def annotation_str(self) -> builtins.str:
        return self._qualified_name

    def str(self) -> builtins.str:
        """As IR writes it: the name, then names and types of the places."""
        inside = ", ".join(
            f"{name} : {part.str()}" for name, part in zip(self.fields, self._contained)
        )
        return f"NamedTuple({inside})"

    def _in_schema(self) -> builtins.str:
        return self._qualified_name

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NamedTupleType):
            return (
                self._qualified_name == other._qualified_name
                and self.fields == other.fields
                and self._contained == other._contained
            )
        return False if isinstance(other, Type) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


class FieldsType(types.TupleType):
    """The results of an operator that names them: a tuple whose places can be read by name."""

    def __init__(self, fields: Iterable[builtins.str], elements: Iterable[Type]) -> None:
        super().__init__(elements)
        self.fields = tuple(fields)

    def kind(self) -> builtins.str:
        """ "TupleType"."""
        return "TupleType"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, types.TupleType) and not isinstance(other, NamedTupleType):
            return self._contained == other._contained
        return False if isinstance(other, Type) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


class ScriptEnumType(types.EnumType):
    """An enumeration; `python` is the class of its members at run time."""

    def __init__(
        self,
        qualified_name: builtins.str,
        value_type: Type,
        members: dict[builtins.str, Any],
        python: Any = None,
    ) -> None:
        self.values, self._python = dict(members), python
        super().__init__(qualified_name, value_type, list(members))

    def kind(self) -> builtins.str:
        """ "EnumType"."""
        return "EnumType"

    def qualified_name(self) -> builtins.str:
        """The name with its namespaces."""
        return self._name

    def name(self) -> builtins.str:
        """The name without its namespaces."""
        return self._name.rpartition(".")[2]

    def getValueType(self) -> Type:
        """The type of the members' values."""
        return self._contained[0]

    @property
    def python(self) -> Any:
        """The class whose members are the values of this type."""
        if self._python is None:
            import enum

            self._python = enum.Enum(  # type: ignore[misc]
                self.name(), list(self.values.items())
            )
        return self._python


class FunctionType(Type):
    """The type of one function, which a constant of this type stands for."""

    def __init__(self, function: GraphFunction) -> None:
        self.function = function

    def _key(self) -> Any:
        return id(self.function)

    @property
    def annotation_str(self) -> builtins.str:
        return "Function"
