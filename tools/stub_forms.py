"""Typed forms of calls: the overloads of a function or method, from its operator's schemas.

`overloads` gives them where a function's parameters are those of the schemas; where it has others,
`typed` gives its own parameters the types that the schemas say of arguments by the same names.
`tools/make_stubs.py` writes them into .pyi files.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import keyword
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tritorch.schema import table
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import ListType, OptionalType, TupleType, Type, VarType

# Types of arguments by their names in schemas.  Capitalised ones are aliases of the stub.
ARGUMENTS = {
    "Tensor": "_Tensor", "Scalar": "_Number", "number": "_Number", "int": "_Int", "SymInt": "_Int",
    "float": "_b.float", "SymFloat": "_b.float", "complex": "_b.complex", "bool": "_b.bool",
    "SymBool": "_b.bool", "str": "_b.str", "Dimname": "_b.str", "ScalarType": "_Dtype",
    "Device": "_Device", "Layout": "_layout", "MemoryFormat": "_memory_format",
    "Generator": "_Generator",
}  # fmt: skip
RESULTS = ARGUMENTS | {
    "Scalar": "_Any", "number": "_Any", "int": "_b.int", "SymInt": "_b.int",
    "ScalarType": "_dtype", "Device": "_device",
}  # fmt: skip
NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims"}  # the gates see to that
STARRED = inspect.Parameter.VAR_POSITIONAL
LOOSE = (STARRED, inspect.Parameter.VAR_KEYWORD)
SCHEMA_NAMES = {"self": "input", **{numpy: name for name, numpy in NUMPY_NAMES.items()}}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a form; `kind` is one of inspect.Parameter's."""

    name: str
    types: tuple[str, ...]  # of which a value may be
    default: str | None = None
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD

    def __str__(self) -> str:
        star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        text = f"{star.get(self.kind, '')}{self.name}: {' | '.join(self.types)}"
        return text if self.default is None else f"{text} = {self.default}"


@dataclass(frozen=True)
class Form:
    """A call's parameters, without `self` of a method, and its result."""

    parameters: tuple[Parameter, ...]
    result: str

    def __str__(self) -> str:
        parts, starred = [], False
        for p in self.parameters:
            if p.kind is p.kind.KEYWORD_ONLY and not starred:
                parts.append("*")
            starred |= p.kind in (p.kind.KEYWORD_ONLY, p.kind.VAR_POSITIONAL)
            parts.append(str(p))
        return f"({', '.join(parts)}) -> {self.result}"


def _text(kind: Type, names: dict[str, str]) -> str:
    """A type that is no optional one."""
    if isinstance(kind, ListType):
        element = kind.containedTypes()[0]
        inner = _text(element, names)
        if isinstance(element, OptionalType):
            inner = f"{_text(element.getElementType(), names)} | None"
        return f"_b.tuple[{inner}, ...]" if names is RESULTS else f"_Sequence[{inner}]"
    if isinstance(kind, TupleType):
        return f"_b.tuple[{', '.join(_text(part, names) for part in kind.elements())}]"
    return names.get("Tensor" if isinstance(kind, TensorType) else kind.str(), "_Any")


def types_of(argument: Argument) -> tuple[str, ...]:
    """The types of an argument's values."""
    kind, none = argument.real_type, ()
    if isinstance(kind, OptionalType):
        kind, none = kind.getElementType(), ("None",)
    found = _text(kind, ARGUMENTS)
    if argument.name == "dtype" and found == "_Int":  # as TorchScript passes one
        found = "_Dtype"
    if isinstance(kind, ListType) and argument.N is not None:  # int[2] takes an int for both
        return (_text(kind.getElementType(), ARGUMENTS), found, *none)
    return (found, *none)


def literal(value: Any) -> str:
    """A default as a stub writes it."""
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    return repr(value) if type(value) is float and math.isfinite(value) else "..."


def _name(argument: Argument) -> str:
    """An argument's name in a call of the function."""
    if keyword.iskeyword(argument.name):  # nobody can write it: given by position
        return f"__{argument.name}"
    return "input" if argument.name == "self" else argument.name


def _parameter(argument: Argument) -> Parameter:
    kinds = inspect.Parameter
    kind = kinds.KEYWORD_ONLY if argument.kwarg_only else kinds.POSITIONAL_OR_KEYWORD
    types = types_of(argument)
    if not argument.has_default_value():
        return Parameter(_name(argument), types, None, kind)
    value = argument.default_value
    if value is None and "None" not in types:
        types += ("None",)
    shown = {
        "_Int": int,
        "_Number": (int, float),
        "_b.bool": bool,
        "_b.float": (int, float),
        "_b.str": str,
    }
    plain = value is None or any(isinstance(value, shown.get(t, ())) for t in types)
    return Parameter(_name(argument), types, literal(value) if plain else "...", kind)


@functools.cache
def _by_name_alone() -> dict[str, str]:
    """What an argument of a name is in every schema, for names that say it: dtype, device, ..."""
    found: dict[str, set[str]] = {}
    for operator in table.names():
        for overload in table.overloads(operator):
            for a in table.find(operator, overload).arguments:
                found.setdefault(a.name, set()).add(types_of(a)[0])
    known = ("_Dtype", "_Device", "_layout", "_memory_format", "_Generator")
    return {
        name: (kinds - {"_Int"}).pop()
        for name, kinds in found.items()
        if len(kinds - {"_Int"}) == 1 and kinds & set(known)
    }


def by_default(name: str, default: Any) -> tuple[str, ...]:
    """The types of a parameter of which only its name and its default are known."""
    known = _by_name_alone().get(name)
    if known is not None:
        return (known, "None") if default is None else (known,)
    if type(default) in (bool, str, float):
        return (f"_b.{type(default).__name__}",)
    return ("_Any",)


def schemas(operator: str) -> list[FunctionSchema]:
    """The schemas of an operator that a program may call: not TorchScript's on numbers."""
    found = [table.find(operator, overload) for overload in table.overloads(operator)]
    found = [schema for schema in found if _is_of_tensors(schema)]
    # What TorchScript says of data that may be anything is not what the function takes.
    return [] if any(_is_generic(a.real_type) for s in found for a in s.arguments) else found


def _is_generic(kind: Type) -> bool:
    return isinstance(kind, VarType) or any(map(_is_generic, kind.containedTypes()))


def _is_of_tensors(schema: FunctionSchema) -> bool:
    arguments = schema.arguments
    if any("Tensor" in types_of(a)[0] for a in arguments if not a.is_out):
        return bool(schema.returns) or not isinstance(arguments[0].real_type, ListType)
    return any(isinstance(r.type, TensorType) for r in schema.returns)


def result_of(schema: FunctionSchema, tuples: dict[str, str], is_method: bool) -> str:
    """The type of a call's result.  tuples: named tuples by the operators that give them."""
    returns = schema.returns
    if not returns:
        return "None"
    first = schema.arguments[0] if schema.arguments else None
    if is_method and first is not None and first.is_write and len(returns) == 1:
        return "_Self"
    if len(returns) > 1:
        name = schema.name.rpartition("::")[2]
        fields = [r.name for r in returns]
        return tuples.get(
            name if all(fields) else "", f"_b.tuple[{', '.join(_result(r.type) for r in returns)}]"
        )
    return _result(returns[0].type)


def _result(kind: Type) -> str:
    if isinstance(kind, OptionalType):
        return f"{_text(kind.getElementType(), RESULTS)} | None"
    return _text(kind, RESULTS)


def result_kind(result: Argument) -> str:
    """The type of one result."""
    return _result(result.type)


def overloads(
    operator: str,
    signature: inspect.Signature,
    tuples: dict[str, str],
    is_method: bool = False,
    is_functional: bool = False,
) -> list[Form]:
    """The forms of a call; none if the schemas are of other parameters than the function has.

    tuples: the named tuples that operators give, by operator.  is_functional: of nn.functional,
    whose functions have parameters of their own and take some of them by position that ATen lacks.
    """
    found = schemas(operator)
    plain = [s for s in found if not any(a.is_out for a in s.arguments)]
    of_lists = [s for s in plain if s.arguments and _is_list_of_tensors(s)]
    if is_method:
        plain = [s for s in plain if s.arguments[:1] and s.arguments[0].name == "self"]
    if len(of_lists) < len(plain):
        plain = [s for s in plain if s not in of_lists]
    own = [p for p in list(signature.parameters.values())[is_method:] if p.name != "out"]
    extra = _extra(own, plain, is_functional) if plain else None
    if extra is None:
        return []
    if "out" in signature.parameters and not is_method:
        extra.append(_out(found))
    star = _star(own)
    axes = set(NUMPY_NAMES.values()) <= set(signature.parameters)
    forms: list[Form] = []
    for schema in plain:
        parameters = [_parameter(a) for a in schema.arguments[is_method:]]
        if schema._is_vararg:
            parameters.append(Parameter("args", ("_Any",), None, STARRED))
        names = {p.name for p in parameters}
        parameters += [p for p in extra if p.name not in names]
        parameters.sort(key=lambda p: p.kind)  # stable: what is given by keyword comes last
        result = result_of(schema, tuples, is_method)
        forms.append(Form(tuple(parameters), result))
        forms += [
            Form(each, result)
            for each in (_starred(parameters, star), axes and _axes(parameters))
            if each
        ]
    return merged(forms)


def _is_list_of_tensors(schema: FunctionSchema) -> bool:
    first = schema.arguments[0]
    return first.name == "self" and isinstance(first.real_type, ListType)


def _out(found: Iterable[FunctionSchema]) -> Parameter:
    """`out=`: of one tensor, of several, or either if overloads differ in that."""
    counts = {sum(a.is_out for a in s.arguments) for s in found} - {0} or {1}
    types = ("_Tensor",) * (1 in counts) + ("_Sequence[_Tensor]",) * (counts != {1}) + ("None",)
    return Parameter("out", types, "None", inspect.Parameter.KEYWORD_ONLY)


def _star(own: Sequence[inspect.Parameter]) -> int | None:
    """Where a function takes the items of a list one by one: behind how many others."""
    kinds = [p.kind for p in own]
    return kinds.index(STARRED) if STARRED in kinds else None


def _starred(parameters: Sequence[Parameter], at: int | None) -> tuple[Parameter, ...]:
    """The parameters with a list's items one by one, as in `x.view(2, 3)`; () if none is one."""
    if at is None or at >= len(parameters):
        return ()
    last = sum(q.kind is q.kind.POSITIONAL_OR_KEYWORD for q in parameters) - 1
    if "_Sequence[" not in parameters[at].types[0] and last > at:  # all come starred
        at = last if parameters[last].types == ("_Sequence[_Tensor]",) else at
    p = parameters[at]
    if (
        len(p.types) > 1
        or not p.types[0].startswith("_Sequence[")
        or p.kind is not p.kind.POSITIONAL_OR_KEYWORD
    ):
        return ()
    inner = p.types[0].removeprefix("_Sequence[").removesuffix("]")
    rest = [replace(q, kind=inspect.Parameter.KEYWORD_ONLY) for q in parameters[at + 1 :]]
    return (*parameters[:at], Parameter(p.name, (inner,), None, STARRED), *rest)


def _axes(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """The parameters by NumPy's names; () if there is no dim."""
    at = next((i for i, p in enumerate(parameters) if p.name == "dim"), None)
    if at is None:
        return ()
    named = [
        replace(p, name=NUMPY_NAMES.get(p.name, p.name), kind=inspect.Parameter.KEYWORD_ONLY,
                default=None if p.name == "dim" else p.default)
        for p in parameters[at:]
    ]  # fmt: skip
    return (*parameters[:at], *named)


def _extra(
    own: Sequence[inspect.Parameter], found: Sequence[FunctionSchema], is_functional: bool
) -> list[Parameter] | None:
    """The parameters that a function has besides its schemas'; None if it has others than they."""
    types = {_name(a): types_of(a) for s in found for a in s.arguments}
    names = set(types)
    # A word where ATen has a number is what the function makes the number of.
    if any(type(p.default) is str and "_b.str" not in types.get(p.name, "_b.str") for p in own):
        return None
    loose = any(p.kind in LOOSE for p in own)
    if is_functional and not loose and names - {p.name for p in own}:
        return None
    extra = []
    for p in own:
        if p.kind in LOOSE or p.name in names or p.name[0] == "_":
            continue
        if p.name in ("input", "self") or p.name in NUMPY_NAMES.values():
            continue
        if p.default is p.empty or p.kind is not p.KEYWORD_ONLY:
            return None
        kind = p.POSITIONAL_OR_KEYWORD if is_functional else p.KEYWORD_ONLY
        extra.append(Parameter(p.name, by_default(p.name, p.default), literal(p.default), kind))
    order = [p.name for p in own if p.kind is p.POSITIONAL_OR_KEYWORD]
    for schema in found if not loose else ():
        places = [order.index(n) for n in map(_name, schema.arguments) if n in order]
        if places != sorted(places) and not any(a.kwarg_only for a in schema.arguments):
            return None
    return extra


def within(forms: Iterable[Form], own: Sequence[inspect.Parameter]) -> bool:
    """Whether a function's own parameters stand where all its forms have theirs."""
    order = [p.name for p in own if p.kind is p.POSITIONAL_OR_KEYWORD]
    given = [
        [p.name for p in f.parameters if p.kind is p.kind.POSITIONAL_OR_KEYWORD] for f in forms
    ]
    strict = not any(p.kind in LOOSE for p in own)
    return strict and all(names == order[: len(names)] for names in given)


def merged(forms: Sequence[Form]) -> list[Form]:
    """Forms that differ in the types of one parameter become one."""
    out: list[Form] = []
    for form in forms:
        for k, other in enumerate(out):
            both = _joined(other, form)
            if both is not None:
                out[k] = both
                break
        else:
            out.append(form)
    return out if len(out) == len(forms) else merged(out)


def _covers(wide: Form, narrow: Form) -> Form | None:
    """A form that takes every call of both, if one has what the other has and more by keyword."""
    if wide.result != narrow.result:
        return None
    more = [p for p in wide.parameters if p not in narrow.parameters]
    if [p for p in wide.parameters if p not in more] != list(narrow.parameters):
        return None
    optional = {
        p: replace(p, default="None")
        for p in more
        if "None" in p.types and p.kind is p.kind.KEYWORD_ONLY
    }
    if all(p.default is not None or p in optional for p in more):
        loosened = (optional.get(p, p) if p.default is None else p for p in wide.parameters)
        return replace(wide, parameters=tuple(loosened))
    return None


def _joined(a: Form, b: Form) -> Form | None:
    covering = _covers(a, b) or _covers(b, a)
    if covering is not None:
        return covering
    if a.result != b.result or len(a.parameters) != len(b.parameters):
        return None
    different = [k for k, (p, q) in enumerate(zip(a.parameters, b.parameters)) if p != q]
    if not different:
        return a
    k = different[0]
    p, q = a.parameters[k], b.parameters[k]
    same = (p.name, p.kind, p.default) == (q.name, q.kind, q.default)
    if len(different) > 1 or not same:
        return None
    types = tuple(dict.fromkeys((*p.types, *q.types)))
    parameters = (*a.parameters[:k], replace(p, types=types), *a.parameters[k + 1 :])
    return Form(parameters, a.result)


def by_flags(parameters: tuple[Parameter, ...], flags: Sequence[str]) -> list[Form]:
    """The forms of a function to whose one result each flag that is set adds another."""
    forms = []
    places = [i for i, p in enumerate(parameters) if p.name in flags]
    for settings in itertools.product((False, True), repeat=len(places)):
        chosen = list(parameters)
        for place, setting in zip(places, settings):
            default = None if setting else "False"
            chosen[place] = replace(chosen[place], types=(f"_Literal[{setting}]",), default=default)
        count = 1 + sum(settings)
        result = f"_b.tuple[{', '.join(['_Tensor'] * count)}]" if count > 1 else "_Tensor"
        if count == 1:
            forms.append(Form(tuple(chosen), result))
            continue
        first = places[settings.index(True)]
        named = [replace(p, kind=p.kind.KEYWORD_ONLY) for p in chosen[first:]]
        forms.append(Form((*chosen[:first], *named), result))
        last = places[len(settings) - 1 - settings[::-1].index(True)]
        given = [replace(p, default=None) for p in chosen[:last]]  # all by position
        forms.append(Form((*given, *chosen[last:]), result))
    return forms


def by_name(operator: str) -> dict[str, tuple[str, ...]]:
    """The types of arguments by their names, over all schemas of an operator."""
    found: dict[str, tuple[str, ...]] = {}
    for schema in schemas(operator):
        for a in schema.arguments:
            if not a.is_out:
                name = "input" if a.name == "self" else a.name
                found[name] = tuple(dict.fromkeys((*found.get(name, ()), *types_of(a))))
    return found


def common_result(operator: str, tuples: dict[str, str], is_method: bool) -> str | None:
    """The result of an operator, if all its schemas have the same."""
    plain = [s for s in schemas(operator) if not any(a.is_out for a in s.arguments)]
    found = {result_of(s, tuples, is_method) for s in plain}
    return found.pop() if len(found) == 1 else None
