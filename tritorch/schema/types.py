"""Types of values as TorchScript and operators' schemas know them.

A type is written in two ways: as in Python (`List[int]`, what repr gives) and as in a schema
(`int[]`, what str() gives).
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

Self = TypeVar("Self", bound="Plain")


class Type:
    """A type; those that hold others have them in `containedTypes()`."""

    _contained: tuple[Type, ...] = ()

    def kind(self) -> builtins.str:
        """The name of the class."""
        return type(self).__name__

    @property
    def annotation_str(self) -> builtins.str:
        """The type as an annotation in Python."""
        raise NotImplementedError

    def str(self) -> builtins.str:
        """The type as schemas write it."""
        return self.annotation_str

    def _in_schema(self) -> builtins.str:
        """As `str`, except for what only its printed form in a schema abbreviates."""
        return self.str()

    def __repr__(self) -> builtins.str:
        return self.annotation_str

    def containedTypes(self) -> list[Type]:
        """The types that this one is made of."""
        return list(self._contained)

    def _key(self) -> Any:
        """What equal types have in common."""
        return self._contained

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Type):
            return NotImplemented
        return type(self) is type(other) and bool(self._key() == other._key())

    __hash__ = None  # type: ignore[assignment]

    def isSubtypeOf(self, other: Type) -> bool:
        """Whether a value of this type is one of the other too."""
        alternatives = self._alternatives()
        if self == other or isinstance(other, AnyType):
            return True
        if len(alternatives) > 1:
            return all(member.isSubtypeOf(other) for member in alternatives)
        wider = other._alternatives()
        if len(wider) > 1:
            return any(map(self.isSubtypeOf, wider)) or self._is_within(wider)
        return self._narrows(other)

    def _narrows(self, other: Type) -> bool:
        """`isSubtypeOf` for types that are neither equal nor unions."""
        return False

    def _is_within(self, members: Sequence[Type]) -> bool:
        """Whether a union of these has all of this type and none of them alone does."""
        return False

    def _alternatives(self) -> Sequence[Type]:
        """The members of a union; others are their own only one."""
        return (self,)

    def is_interface_type(self) -> bool:
        """False: interfaces are TorchScript's."""
        return False

    def requires_grad(self) -> bool:
        """Whether a value, or one of those in it, may need a gradient."""
        return any(part.requires_grad() for part in self._contained)

    def _only_of_tensors(self, *arguments: Any) -> Any:
        raise RuntimeError(f"expected a TensorType, but this type is {self.annotation_str}")

    dim = sizes = strides = symbolic_sizes = varyingSizes = contiguous = _only_of_tensors
    scalarType = device = dtype = undefined = _only_of_tensors
    with_sizes = with_device = with_dtype = _only_of_tensors


class Plain(Type):
    """A type without parts, of which there is one."""

    _annotation: ClassVar[builtins.str]
    _schema: ClassVar[builtins.str] = ""
    _only: ClassVar[Any] = None

    @classmethod
    def get(cls: type[Self]) -> Self:
        """The type."""
        if cls.__dict__.get("_only") is None:
            cls._only = object.__new__(cls)
        return cls._only

    def __init__(self) -> None:
        raise TypeError(f"{self.kind()}: No constructor defined! Use {self.kind()}.get()")

    @property
    def annotation_str(self) -> builtins.str:
        return self._annotation

    def str(self) -> builtins.str:
        """The type as schemas write it."""
        return self._schema or self._annotation

    def __reduce__(self) -> Any:
        return type(self).get, ()


class AnyType(Plain):
    """Whatever there is."""

    _annotation = "Any"


class NumberType(Plain):
    """An int, a float or a complex number."""

    _annotation, _schema = "number", "Scalar"

    def _is_within(self, members: Sequence[Type]) -> bool:
        return sum(isinstance(member, _Numeric) for member in members) == 3


class _Numeric(Plain):
    def _narrows(self, other: Type) -> bool:
        return isinstance(other, NumberType)


class IntType(_Numeric):
    """Python's int."""

    _annotation = "int"


class FloatType(_Numeric):
    """Python's float."""

    _annotation = "float"


class ComplexType(_Numeric):
    """Python's complex."""

    _annotation = "complex"


class BoolType(Plain):
    """Python's bool, which is no int here."""

    _annotation = "bool"


class StringType(Plain):
    """Python's str."""

    _annotation = "str"


class NoneType(Plain):
    """None."""

    _annotation = "NoneType"


class DeviceObjType(Plain):
    """torch.device."""

    _annotation = "Device"


class StreamObjType(Plain):
    """torch.Stream."""

    _annotation = "Stream"


class PyObjectType(Plain):
    """An object that nothing is known of."""

    _annotation = "PyObject"


class SymIntType(Plain):
    """An int that a tracer may leave open."""

    _annotation, _schema = "int", "SymInt"


class SymBoolType(Plain):
    """A bool that a tracer may leave open."""

    _annotation, _schema = "bool", "SymBool"


class GeneratorType(Plain):
    """torch.Generator."""

    _annotation = "Generator"


class StorageType(Plain):
    """torch.UntypedStorage."""

    _annotation = "Storage"


class QSchemeType(Plain):
    """torch.qscheme."""

    _annotation = "QScheme"


class QuantizerType(Plain):
    """What quantises a tensor."""

    _annotation = "Quantizer"


class CapsuleType(Plain):
    """An object of C++."""

    _annotation = "Capsule"


class AnyClassType(Plain):
    """Any class."""

    _annotation = "AnyClassType"


class AnyEnumType(Plain):
    """Any enumeration."""

    _annotation = "AnyEnumType"


class ScalarTypeType(Plain):
    """torch.dtype, by its number."""

    _annotation = "ScalarType"


class LayoutType(Plain):
    """torch.layout, by its number."""

    _annotation = "Layout"


class MemoryFormatType(Plain):
    """torch.memory_format, by its number."""

    _annotation = "MemoryFormat"


class VarType(Type):
    """A type that is the same wherever its name stands in a schema, whichever it is."""

    def __init__(self, name: builtins.str) -> None:
        self._name = name

    def _key(self) -> Any:
        return self._name

    @property
    def annotation_str(self) -> builtins.str:
        return self._name


class ClassType(Type):
    """A class of C++ under `__torch__.torch.classes`, as schemas name it.

    TorchScript's own classes come with its compiler, which tritorch does not have.
    """

    _PREFIX = "__torch__.torch.classes."

    def __init__(self, name: builtins.str) -> None:
        if not name.startswith(self._PREFIX):
            raise RuntimeError(f"ClassType: there is no compiler that could know class {name!r}")
        self._name = name

    def name(self) -> builtins.str:
        """The name without its namespaces."""
        return self._name.rpartition(".")[2]

    def qualified_name(self) -> builtins.str:
        """The name with its namespaces."""
        return self._name

    def method_names(self) -> list[builtins.str]:
        """None are known."""
        return []

    def _key(self) -> Any:
        return self._name

    @property
    def annotation_str(self) -> builtins.str:
        return self._name

    def _narrows(self, other: Type) -> bool:
        return isinstance(other, AnyClassType)


class EnumType(Type):
    """An enumeration: its name, the type of its values, its members."""

    def __init__(self, name: builtins.str, value_type: Type, members: Iterable[Any]) -> None:
        self._name, self._members = name, list(members)
        self._contained = (value_type,)

    def _key(self) -> Any:
        return self._name, self._contained

    @property
    def annotation_str(self) -> builtins.str:
        return self._name

    def str(self) -> builtins.str:
        """The type as schemas write it."""
        return f"Enum<{self._name}>"

    def _narrows(self, other: Type) -> bool:
        return isinstance(other, AnyEnumType)


class _OfOne(Type):
    """A type around another one."""

    _python: ClassVar[builtins.str]

    def __init__(self, element: Type, /) -> None:
        if element is None:
            raise RuntimeError(f"Can not create {self.kind()} with None type")
        if not isinstance(element, Type):
            raise TypeError(
                f"{self.kind()}: expected a torch.Type, got {type(element).__name__} ({element!r})"
            )
        self._contained = (element,)

    def getElementType(self) -> Type:
        """The type inside."""
        return self._contained[0]

    @property
    def annotation_str(self) -> builtins.str:
        return f"{self._python}[{self._contained[0].annotation_str}]"


class ListType(_OfOne):
    """A list; one of ints is no list of numbers, because a number could be put into that."""

    _python = "List"

    def str(self) -> builtins.str:
        """The type as schemas write it."""
        return f"{self._contained[0].str()}[]"

    def _in_schema(self) -> builtins.str:
        return f"{self._contained[0]._in_schema()}[]"

    @staticmethod
    def ofInts() -> ListType:
        """List[int]"""
        return ListType(IntType.get())

    @staticmethod
    def ofFloats() -> ListType:
        """List[float]"""
        return ListType(FloatType.get())

    @staticmethod
    def ofComplexDoubles() -> ListType:
        """List[complex]"""
        return ListType(ComplexType.get())

    @staticmethod
    def ofBools() -> ListType:
        """List[bool]"""
        return ListType(BoolType.get())

    @staticmethod
    def ofStrings() -> ListType:
        """List[str]"""
        return ListType(StringType.get())

    @staticmethod
    def ofTensors() -> ListType:
        """List[Tensor]"""
        from tritorch.schema.tensor_type import TensorType

        return ListType(TensorType.get())


class OptionalType(_OfOne):
    """A value or None."""

    _python = "Optional"

    def __init__(self, element: Type, /) -> None:
        if isinstance(element, OptionalType):
            element = element.getElementType()
        super().__init__(element)

    def str(self) -> builtins.str:
        """The type as schemas write it."""
        return f"{self._contained[0].str()}?"

    def _in_schema(self) -> builtins.str:
        return f"{self._contained[0]._in_schema()}?"

    def _alternatives(self) -> Sequence[Type]:
        return (*self._contained[0]._alternatives(), NoneType.get())

    @staticmethod
    def ofTensor() -> OptionalType:
        """Optional[Tensor]"""
        from tritorch.schema.tensor_type import TensorType

        return OptionalType(TensorType.get())


class _Later(_OfOne):
    """Something that gives a value later."""

    def str(self) -> builtins.str:
        """The type as schemas write it."""
        return f"{self._python}[{self._contained[0].str()}]"

    def _in_schema(self) -> builtins.str:
        return f"{self._python}({self._contained[0]._in_schema()})"


class _Covariant(_Later):
    """What it gives may be narrower."""

    def _narrows(self, other: Type) -> bool:
        return type(self) is type(other) and self._contained[0].isSubtypeOf(other._contained[0])


class FutureType(_Covariant):
    """torch.futures.Future"""

    _python = "Future"


class AwaitType(_Covariant):
    """A value that is computed when it is asked for."""

    _python = "Await"

    def str(self) -> builtins.str:
        """The type as schemas write it."""
        return f"Await({self._contained[0].str()})"


class RRefType(_Later):
    """A value in another process."""

    _python = "RRef"


class DictType(Type):
    """A dict."""

    _KEYS = (
        "AnyType", "BoolType", "ComplexType", "DeviceObjType", "FloatType", "IntType", "StringType",
        "TensorType", "VarType",
    )  # fmt: skip

    def __init__(self, key: Type, value: Type, /) -> None:
        if key.kind() not in self._KEYS:
            raise RuntimeError(
                f"Cannot create dict for key type '{key.str()}', only int, float, complex, Tensor, "
                "device and string keys are supported"
            )
        self._contained = (key, value)

    def getKeyType(self) -> Type:
        """The type of the keys."""
        return self._contained[0]

    def getValueType(self) -> Type:
        """The type of the values."""
        return self._contained[1]

    @property
    def annotation_str(self) -> builtins.str:
        return "Dict[{}, {}]".format(*(part.annotation_str for part in self._contained))

    def str(self) -> builtins.str:
        """The type as schemas write it."""
        return "Dict({}, {})".format(*(part.str() for part in self._contained))

    def _in_schema(self) -> builtins.str:
        return "Dict({}, {})".format(*(part._in_schema() for part in self._contained))


class TupleType(Type):
    """A tuple, each of whose places has a type."""

    def __init__(self, elements: Iterable[Type], /) -> None:
        self._contained = tuple(elements)

    def elements(self) -> list[Type]:
        """The types of its places."""
        return list(self._contained)

    @property
    def annotation_str(self) -> builtins.str:
        inside = ", ".join(part.annotation_str for part in self._contained)
        return f"Tuple[{inside or '()'}]"

    def str(self) -> builtins.str:
        """The type as schemas write it."""
        return f"({', '.join(part.str() for part in self._contained)})"

    def _in_schema(self) -> builtins.str:
        return f"({', '.join(part._in_schema() for part in self._contained)})"

    def _narrows(self, other: Type) -> bool:
        return (
            isinstance(other, TupleType)
            and len(self._contained) == len(other._contained)
            and all(a.isSubtypeOf(b) for a, b in zip(self._contained, other._contained))
        )


# The order of a union's members.
_ORDER = """
    AnyType EnumType AnyEnumType TensorType StorageType TupleType ListType DictType NumberType
    FloatType ComplexType FutureType AwaitType RRefType IntType NoneType StringType GeneratorType
    QuantizerType BoolType OptionalType VarType DeviceObjType StreamObjType ClassType PyObjectType
    CapsuleType QSchemeType ScalarTypeType LayoutType MemoryFormatType AnyClassType SymIntType
    SymBoolType UnionType
"""


class UnionType(Type):
    """One of several types; of one type and None it is an `OptionalType`."""

    def __new__(cls, members: Iterable[Type], /) -> Any:
        """The union, or the optional type that it amounts to."""
        members = list(members)
        if not members:
            raise RuntimeError("Cannot create an empty Union")
        kept = _distinct(members)
        if len(kept) == 1:
            written = " ".join(member.annotation_str for member in members)
            raise RuntimeError(
                f"After type unification was performed, the Union with the original types "
                f"{{{written}, }} has the single type {kept[0]}. Use the common supertype instead "
                "of creating a Uniontype"
            )
        if len(kept) == 2 and any(isinstance(member, NoneType) for member in kept):
            return OptionalType(next(m for m in kept if not isinstance(m, NoneType)))
        self = object.__new__(cls)
        self._contained = tuple(kept)
        return self

    def __reduce__(self) -> Any:
        return UnionType, (list(self._contained),)

    def _alternatives(self) -> Sequence[Type]:
        return self._contained

    def _written(self) -> list[Type]:
        """The members, with number for its three."""
        others = [m for m in self._contained if not isinstance(m, _Numeric)]
        has_all = len(self._contained) - len(others) == 3
        return [*others, NumberType.get()] if has_all else list(self._contained)

    @property
    def annotation_str(self) -> builtins.str:
        return f"Union[{', '.join(part.annotation_str for part in self._written())}]"

    def str(self) -> builtins.str:
        """The type as schemas write it."""
        return f"Union({', '.join(part.str() for part in self._written())})"


def _distinct(members: Iterable[Type]) -> list[Type]:
    """The members of unions and optionals among them, none of which is a subtype of another."""
    flat: list[Type] = []
    for member in members:
        for part in member._alternatives():
            is_number = isinstance(part, NumberType)
            numbers = (FloatType, ComplexType, IntType)
            flat += [kind.get() for kind in numbers] if is_number else [part]
    kept: list[Type] = []
    for part in flat:
        if not any(part.isSubtypeOf(other) for other in kept):
            kept = [other for other in kept if not other.isSubtypeOf(part)] + [part]
    return sorted(kept, key=lambda part: (_ORDER.index(f" {part.kind()}"), part.str()))
