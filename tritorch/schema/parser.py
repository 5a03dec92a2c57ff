"""`parse_schema`: the text of a signature into a `FunctionSchema`."""

from __future__ import annotations

import ast
from typing import Any

from tritorch.core.device import device as Device
from tritorch.schema import types
from tritorch.schema.signature import AliasInfo, Argument, FunctionSchema
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.tokens import Token, Tokens
from tritorch.schema.types import Type

_NAMED: dict[str, Type] = {
    "Any": types.AnyType.get(),
    "AnyClassType": types.AnyClassType.get(),
    "AnyEnumType": types.AnyEnumType.get(),
    "Capsule": types.CapsuleType.get(),
    "Device": types.DeviceObjType.get(),
    "DeviceIndex": types.IntType.get(),
    "Generator": types.GeneratorType.get(),
    "Layout": types.LayoutType.get(),
    "MemoryFormat": types.MemoryFormatType.get(),
    "NoneType": types.NoneType.get(),
    "QScheme": types.QSchemeType.get(),
    "Quantizer": types.QuantizerType.get(),
    "Scalar": types.NumberType.get(),
    "ScalarType": types.ScalarTypeType.get(),
    "Storage": types.StorageType.get(),
    "Stream": types.StreamObjType.get(),
    "SymBool": types.SymBoolType.get(),
    "SymInt": types.SymIntType.get(),
    "Tensor": TensorType.get(),
    "bool": types.BoolType.get(),
    "complex": types.ComplexType.get(),
    "float": types.FloatType.get(),
    "int": types.IntType.get(),
    "str": types.StringType.get(),
}
# Defaults that are written as names and stand for numbers.
_DTYPES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool "
    "qint8 quint8 qint32 bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 "
    "float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64 uint1 uint2 "
    "uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 int7 float8_e8m0fnu "
    "float4_e2m1fn_x2"
)
DTYPES = _DTYPES.split()  # at their numbers
_CONSTANTS = {name: number for number, name in enumerate(DTYPES)} | {
    "Mean": 1, "strided": 0, "contiguous_format": 0, "short": 2, "int": 3, "long": 4, "half": 5,
    "float": 6, "double": 7, "chalf": 8, "cfloat": 9, "complex": 9, "cdouble": 10, "bit": 30,
}  # fmt: skip
# C++'s names of types, which are not a schema's.
_OF_CPP = {
    "int64_t": "Use `SymInt` or `int` instead of `int64_t` in an operator's schema string. "
    "`SymInt` corresponds to c10::SymInt in C++ while `int` in schema corresponds to the int64_t "
    "type in C++.",
    "double": "Use `float` instead of `double` in an operator's schema string. `float` in schema "
    "corresponds to the double type in C++",
}
_AROUND: dict[str, Any] = {
    "Future": types.FutureType,
    "Await": types.AwaitType,
    "RRef": types.RRefType,
}
# What a tracer may leave open, and what is given by its number, is an int to a program.
_AS_INT = (types.SymIntType, types.ScalarTypeType, types.LayoutType, types.MemoryFormatType)

Typed = tuple[Type, "AliasInfo | None"]


def parse_schema(schema: str, /, allow_typevars: bool = True) -> FunctionSchema:
    """The signature that a text such as `aten::abs(Tensor self) -> Tensor` describes.

    allow_typevars: whether a name in small letters that is no type stands for any."""
    if not isinstance(schema, str):
        raise TypeError(f"parse_schema(): expected a str, got {type(schema).__name__}")
    return _Parser(schema, allow_typevars).schema()


class _Parser:
    def __init__(self, text: str, allow_typevars: bool = True) -> None:
        self.allow_typevars = allow_typevars
        self.tokens = Tokens(text)
        self.unnamed = 0  # alias sets so far that were written as a mere "!"

    def schema(self) -> FunctionSchema:
        """The whole text."""
        name, overload = self._name()
        if self.tokens.next.kind != "(":
            self.tokens.take("eof")
            raise RuntimeError(
                "Tried to parse a function schema but only the operator name was given"
            )
        arguments, is_vararg = self._arguments()
        self.tokens.take("->")
        returns, is_varret = self._returns()
        self.tokens.take("eof")
        return FunctionSchema(name, overload, arguments, returns, is_vararg, is_varret)

    def _name(self) -> tuple[str, str]:
        name = self.tokens.take("ident").text
        if self.tokens.next.kind == ":" and self.tokens.look(1).kind == ":":
            self.tokens.take()
            self.tokens.take()
            name += "::" + self.tokens.take("ident").text
        overload = ""
        if self.tokens.next.kind == "." and self.tokens.look(1).kind == "ident":
            self.tokens.take()
            overload = self.tokens.take().text
            if overload == "default":
                raise RuntimeError("default is not a legal overload name for aten operators")
        return name, overload

    def _arguments(self) -> tuple[list[Argument], bool]:
        arguments: list[Argument] = []
        is_vararg = is_keyword = False
        self.tokens.take("(")
        if not self.tokens.took(")"):
            while True:
                if is_vararg:
                    raise RuntimeError("... must be the last element of the argument list")
                if self.tokens.took("*"):
                    is_keyword = True
                elif self.tokens.took("..."):
                    is_vararg = True
                else:
                    arguments.append(self._argument(is_return=False, is_keyword=is_keyword))
                if not self.tokens.took(","):
                    break
            self.tokens.take(")")
        return arguments, is_vararg

    def _returns(self) -> tuple[list[Argument], bool]:
        if self.tokens.took("..."):
            return [], True
        if self.tokens.next.kind != "(":
            return [self._argument(is_return=True, is_keyword=False)], False
        returns: list[Argument] = []
        is_varret = False
        self.tokens.take()
        if not self.tokens.took(")"):
            while True:
                if self.tokens.took("..."):
                    is_varret = True
                    break
                returns.append(self._argument(is_return=True, is_keyword=False))
                if not self.tokens.took(","):
                    break
            self.tokens.take(")")
        return returns, is_varret

    def _argument(self, is_return: bool, is_keyword: bool) -> Argument:
        (real, alias), size = self._type(), None
        if self.tokens.next.kind == "[":  # of a fixed size: int[3]
            self.tokens.take()
            size = int(self.tokens.take("number").text)
            self.tokens.take("]")
            real, alias = types.ListType(real), self._around(alias, self._alias())
            if self.tokens.took("?"):
                real = types.OptionalType(real)
        default: Any = Argument.NO_DEFAULT
        if is_return:
            name = self.tokens.take().text if self.tokens.next.kind == "ident" else ""
        else:
            name = self.tokens.take("ident").text
            if self.tokens.took("="):
                default = self._default(real, size)
        return Argument._make(name, real, program_type(real), size, default, is_keyword, alias)

    # ---- types -----------------------------------------------------------------------------------

    def _type(self) -> Typed:
        """A type with its alias annotation, up to an `[n]`, if that follows."""
        kind, alias = self._simple()
        while True:
            if self.tokens.next.kind == "[" and self.tokens.look(1).kind == "]":
                self.tokens.take()
                self.tokens.take()
                kind, alias = types.ListType(kind), self._around(alias, self._alias())
            elif self.tokens.took("?"):
                kind = types.OptionalType(kind)
            else:
                return kind, alias

    def _simple(self) -> Typed:
        if self.tokens.took("("):
            return types.TupleType(self._types()), None
        token = self.tokens.take("ident", "None")
        if token.text in _AROUND:
            (inside,) = self._inside(1)
            return _AROUND[token.text](inside), None
        if token.text == "Dict":
            return types.DictType(*self._inside(2)), self._alias()
        if token.text == "Union":
            self.tokens.take("(")
            return types.UnionType(self._types()), self._alias()
        if token.text == "__torch__":
            return self._class(token), self._alias()
        found = _NAMED.get(token.text)
        if found is None:
            if not self.allow_typevars and token.text in _OF_CPP:
                self.tokens.refuse(_OF_CPP[token.text], token)
            if not self.allow_typevars or not token.text[0].islower():
                self.tokens.refuse(
                    "unknown type specifier. Common valid schema types include Tensor, SymInt, "
                    f"int, float, bool, Scalar; those there are: {', '.join(_NAMED)}",
                    token,
                )
            found = types.VarType(token.text)
        return found, self._alias()

    def _types(self) -> list[Type]:
        """Types up to a closing parenthesis; the opening one is taken."""
        found: list[Type] = []
        if not self.tokens.took(")"):
            found.append(self._type()[0])
            while self.tokens.took(","):
                found.append(self._type()[0])
            self.tokens.take(")")
        return found

    def _inside(self, count: int) -> list[Type]:
        self.tokens.take("(")
        found = [self._type()[0]]
        for _ in range(count - 1):
            self.tokens.take(",")
            found.append(self._type()[0])
        self.tokens.take(")")
        return found

    def _class(self, first: Token) -> Type:
        name = first.text
        for expected in ("torch", "classes"):
            self.tokens.take(".")
            word = self.tokens.take("ident")
            name += "." + word.text
            if word.text != expected:
                self.tokens.refuse(f"Expected classes namespace but got {word.text}", word)
        for _ in range(2):
            self.tokens.take(".")
            name += "." + self.tokens.take("ident").text
        return types.ClassType(name)

    # ---- aliases ---------------------------------------------------------------------------------

    def _alias(self) -> AliasInfo | None:
        """`(a)`, `(a!)`, `(a -> b)`, `(a|b)`, `!`, or nothing."""
        if self.tokens.took("!"):
            self.unnamed += 1
            return AliasInfo(True, (f"${self.unnamed - 1}",), ())
        if self.tokens.next.kind != "(":
            return None
        self.tokens.take()
        before = self._set()
        is_write = self.tokens.took("!")
        after = self._set() if self.tokens.took("->") else before
        self.tokens.take(")")
        return AliasInfo(is_write, before, after)

    def _set(self) -> tuple[str, ...]:
        if self.tokens.took("*"):
            return ("*",)
        names = [self.tokens.take("ident").text]
        while self.tokens.took("|"):
            names.append(self.tokens.take("*", "ident").text)
        return ("*",) if "*" in names else tuple(dict.fromkeys(names))

    @staticmethod
    def _around(element: AliasInfo | None, own: AliasInfo | None) -> AliasInfo | None:
        """The annotation of a list whose elements have one."""
        if element is None:
            return own
        own = own or AliasInfo(element.is_write, (), ())
        return own.containing(element)

    # ---- defaults --------------------------------------------------------------------------------

    def _default(self, kind: Type, size: int | None) -> Any:
        if isinstance(kind, TensorType):
            self.tokens.take("None")
            return None
        if isinstance(kind, types.OptionalType):
            if self.tokens.took("None"):
                return None
            element = kind.getElementType()
            if isinstance(element, types.FloatType):  # which then stays as it is written
                return self._constant(kind)
            return self._default(element, None)
        if isinstance(kind, types.ListType):
            return self._list(kind.getElementType(), size)
        if isinstance(kind, types.DeviceObjType):
            return Device(ast.literal_eval(self.tokens.take("string_literal").text))
        scalars = (types.NumberType, types.BoolType, types.StringType, types.NoneType)
        numbers = (types.IntType, types.FloatType, types.ComplexType)
        if not isinstance(kind, (*scalars, *numbers, *_AS_INT, types.SymBoolType, types.AnyType)):
            self.tokens.refuse("unexpected type, file a bug report")
        return self._constant(kind)

    def _list(self, element: Type, size: int | None) -> Any:
        first = self.tokens.next
        if size is not None and first.kind != "[":  # one for all
            return [self._constant(element)] * size
        numbers = (types.IntType, types.SymIntType, types.FloatType, types.BoolType)
        if not isinstance(element, (*numbers, types.ComplexType, types.NumberType)):
            self.tokens.refuse("lists are only supported for float, int and complex types", first)
        self.tokens.take("[")
        values: list[Any] = []
        if not self.tokens.took("]"):
            values.append(self._constant(element))
            while self.tokens.took(","):
                values.append(self._constant(element))
            self.tokens.take("]")
        return values

    def _constant(self, kind: Type) -> Any:
        token = self.tokens.next
        if token.kind in ("True", "False", "None"):
            return {"True": True, "False": False, "None": None}[self.tokens.take().kind]
        if token.kind == "string_literal":
            return ast.literal_eval(self.tokens.take().text)
        if token.kind == "ident":
            if token.text not in _CONSTANTS:
                self.tokens.refuse("invalid numeric default value", token)
            return _CONSTANTS[self.tokens.take().text]
        sign = -1 if self.tokens.took("-") else 1
        token = self.tokens.take("number")
        if token.text.endswith("j"):
            return sign * complex(token.text)
        if isinstance(kind, types.ComplexType):
            return complex(sign * float(token.text))
        if isinstance(kind, types.FloatType) or not token.text.isdigit():
            return sign * float(token.text)
        return sign * int(token.text)


def program_type(kind: Type) -> Type:
    """The type that a program sees: int for SymInt, ScalarType, Layout and MemoryFormat."""
    if isinstance(kind, _AS_INT):
        return types.IntType.get()
    if isinstance(kind, types.ListType):
        return types.ListType(program_type(kind.getElementType()))
    if isinstance(kind, types.OptionalType):
        return types.OptionalType(program_type(kind.getElementType()))
    return kind
