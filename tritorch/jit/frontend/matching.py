"""Matching of a call's arguments to an operator's or a function's signature.

Arguments are converted as TorchScript converts them: tuples to lists, one number to a list of a
fixed size, tensors to the numbers in them, text to devices.  Of several overloads the first that
fits without such a change of type is taken, then the first that fits with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tritorch.jit.frontend.source import fail
from tritorch.jit.ir.graph import Value
from tritorch.jit.ir.operators import schemas
from tritorch.schema import types
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type
from tritorch.schema.unify import unify

if TYPE_CHECKING:
    from tritorch.jit.frontend.emitter import Emitter

Bindings = dict[str, Type]


class Mismatch(Exception):
    """The reason why arguments do not fit a signature."""


# ---- type variables ------------------------------------------------------------------------------


def bind_variables(formal: Type, actual: Type, bound: Bindings) -> str | None:
    """Binds the type variables of a formal type; gives the reason if that cannot be done."""
    if isinstance(formal, types.VarType):
        known = bound.get(formal.annotation_str)
        if known is None:
            bound[formal.annotation_str] = actual
            return None
        if actual.isSubtypeOf(known):
            return None
        both = unify(known, actual)
        if both is None:
            return (
                f"Type variable '{formal.annotation_str}' previously matched to type "
                f"{known.annotation_str} is matched to type {actual.annotation_str}"
            )
        bound[formal.annotation_str] = both
        return None
    if not has_variables(formal):
        return None
    if isinstance(formal, types.OptionalType):
        if isinstance(actual, types.OptionalType):
            return bind_variables(formal.getElementType(), actual.getElementType(), bound)
        if isinstance(actual, types.NoneType):
            return None
        return bind_variables(formal.getElementType(), actual, bound)
    if isinstance(formal, types.ListType) and isinstance(actual, types.TupleType):
        elements = actual.elements()
        if not elements or any(each != elements[0] for each in elements[1:]):
            return "Cannot match a list to a tuple of several types"
        return bind_variables(formal.getElementType(), elements[0], bound)
    if type(formal) is not type(actual) and formal.kind() != actual.kind():
        return f"Cannot match {formal.annotation_str} to {actual.annotation_str}"
    inside, given = formal.containedTypes(), actual.containedTypes()
    if len(inside) != len(given):
        return f"Cannot match {formal.annotation_str} to {actual.annotation_str}"
    for a, b in zip(inside, given):
        if (reason := bind_variables(a, b, bound)) is not None:
            return reason
    return None


def has_variables(kind: Type) -> bool:
    """True if a type has type variables in it."""
    return isinstance(kind, types.VarType) or any(map(has_variables, kind._contained))


def substitute(kind: Type, bound: Bindings) -> Type:
    """The type with its variables replaced by what they are bound to."""
    if not has_variables(kind):
        return kind
    if isinstance(kind, types.VarType):
        if kind.annotation_str not in bound:
            raise Mismatch(f"Type variable '{kind.annotation_str}' is not bound")
        return bound[kind.annotation_str]
    parts = [substitute(part, bound) for part in kind._contained]
    if isinstance(kind, types.TupleType):
        return types.TupleType(parts)
    return type(kind)(*parts)


def unified(em: Emitter, kinds: list[Type], place: Any) -> Type:
    """The type of a list with elements of these types: one for all, or a union."""
    found: Type | None = kinds[0]
    for kind in kinds[1:]:
        found = None if found is None else unify(found, kind)
    return types.UnionType(kinds) if found is None else found


# ---- conversions ---------------------------------------------------------------------------------


def convert(em: Emitter, value: Value, wanted: Type, implicit: bool) -> Value:
    """The value as the wanted type, converted where TorchScript does so; it may still not fit."""
    kind = value._type
    if isinstance(wanted, types.OptionalType) and not isinstance(
        kind, (types.OptionalType, types.NoneType)
    ):
        return convert(em, value, wanted.getElementType(), implicit)
    if isinstance(kind, types.TupleType):
        if isinstance(wanted, types.ListType):
            return _tuple_to_list(em, value, kind, wanted, implicit)
        if isinstance(wanted, types.TupleType) and kind != wanted:
            if len(kind.elements()) == len(wanted.elements()) and not kind.isSubtypeOf(wanted):
                parts = [
                    convert(em, part, element, implicit)
                    for part, element in zip(em.unpack_tuple(value), wanted.elements())
                ]
                return em.pack_tuple(parts)
    if isinstance(kind, types.NoneType) and not isinstance(wanted, (types.NoneType, types.AnyType)):
        if value.is_constant() and kind.isSubtypeOf(wanted):
            return em.graph.insertConstant(None, types.NoneType.get())
        return value
    if implicit:
        return _implicit(em, value, kind, wanted)
    return value


def _tuple_to_list(
    em: Emitter, value: Value, kind: types.TupleType, wanted: types.ListType, implicit: bool
) -> Value:
    element = wanted.getElementType()
    if isinstance(element, types.VarType):
        parts = kind.elements()
        if not parts or any(part != parts[0] for part in parts[1:]):
            return value
        element = parts[0]
    unpacked = [convert(em, part, element, implicit) for part in em.unpack_tuple(value)]
    if all(part._type.isSubtypeOf(element) for part in unpacked):
        return em.make_list(unpacked, element)
    return value


_FROM_TENSOR = {
    "FloatType": "aten::FloatImplicit",
    "ComplexType": "aten::ComplexImplicit",
    "IntType": "aten::IntImplicit",
    "NumberType": "aten::ScalarImplicit",
}
_FROM_NUMBER = {"FloatType": "aten::Float", "ComplexType": "aten::Complex", "IntType": "aten::Int"}
_FROM_BOOL = {"FloatType": "aten::Float", "IntType": "aten::Int", "NumberType": "aten::Int"}


def _implicit(em: Emitter, value: Value, kind: Type, wanted: Type) -> Value:
    target = wanted.kind()
    operator = None
    if isinstance(kind, types.AwaitType) and target not in ("AwaitType", "AnyType"):
        return em.operator("prim::awaitable_wait", [value])
    if isinstance(kind, TensorType):
        operator = _FROM_TENSOR.get(target)
    elif isinstance(kind, types.NumberType):
        operator = _FROM_NUMBER.get(target)
    elif isinstance(kind, types.BoolType):
        operator = _FROM_BOOL.get(target)
    elif isinstance(kind, types.StringType) and target == "DeviceObjType":
        operator = "aten::device"
    if operator is None:
        return value
    return em.operator(operator, [value])


# ---- one signature -------------------------------------------------------------------------------


class Match:
    """Arguments that fit a signature: the values in its order, and the types of the results."""

    def __init__(self, schema: FunctionSchema, inputs: list[Value], results: list[Type]) -> None:
        self.schema, self.inputs, self.results = schema, inputs, results


def _fixed_list(em: Emitter, value: Value, argument: Argument) -> Value | None:
    """A list of one value for all places of an `int[2]`; None where the argument is none."""
    kind = argument.type
    if isinstance(kind, types.OptionalType):
        kind = kind.getElementType()
    if argument.N is None or not isinstance(kind, types.ListType):
        return None
    element = kind.getElementType()
    if isinstance(element, types.IntType) and value._type.isSubtypeOf(types.FloatType.get()):
        return None
    if value._type.isSubtypeOf(_plain(element)) or (
        isinstance(element, types.FloatType) and isinstance(value._type, types.IntType)
    ):
        if isinstance(value._type, types.IntType) and isinstance(element, types.FloatType):
            value = em.operator("aten::Float", [value])
        return em.make_list([value] * argument.N, _plain(element))
    return None


_PLAIN: dict[str, Any] = {
    "SymIntType": types.IntType, "SymBoolType": types.BoolType, "ScalarTypeType": types.IntType,
    "LayoutType": types.IntType, "MemoryFormatType": types.IntType,
    "StorageType": types.StorageType,
}  # fmt: skip


def _plain(kind: Type) -> Type:
    """The type that programs see for one that only schemas have."""
    found = _PLAIN.get(kind.kind())
    return kind if found is None else found.get()


def _match_argument(
    em: Emitter, argument: Argument, value: Value, implicit: bool, bound: Bindings
) -> Value:
    repeated = _fixed_list(em, value, argument)
    if repeated is not None:
        value = repeated
    formal = argument.type
    if has_variables(formal):
        reason = bind_variables(formal, value._type, bound)
        if reason is not None:
            raise Mismatch(
                f"Could not match type {value._type.annotation_str} to {formal.annotation_str} in "
                f"argument '{argument.name}': {reason}"
            )
        formal = substitute(formal, bound)
    value = convert(em, value, formal, implicit)
    if not value._type.isSubtypeOf(formal):
        raise Mismatch(
            f"Expected a value of type '{formal.annotation_str}' for argument '{argument.name}' "
            f"but instead found type '{value._type.annotation_str}'." + _hint(value._type, formal)
        )
    return value


def _hint(given: Type, wanted: Type) -> str:
    """The sentence that explains a frequent mistake; empty for others."""
    if isinstance(wanted, types.ListType) and isinstance(given, types.ListType):
        if isinstance(given.getElementType(), TensorType):
            return (
                "\nEmpty lists default to List[Tensor]. Add a variable annotation to the "
                "assignment to create an empty list of another type (torch.jit.annotate(List[T, "
                "[]]) where T is the type of elements in the list for Python 2)"
            )
    if isinstance(given, types.NumberType) and isinstance(wanted, (types.IntType, types.FloatType)):
        return (
            "\nUse int(tensor) or float(tensor) to retrieve item() from a tensor with the "
            "appropriate type"
        )
    return ""


def _rest_as_list(argument: Argument, is_last: bool, given: Sequence[Value]) -> bool:
    """True if all further positional arguments form this argument's list."""
    kind = argument.type
    if not is_last or not isinstance(kind, types.ListType) or argument.N is not None:
        return False
    if isinstance(kind.getElementType(), types.VarType):
        return False
    return not given or not isinstance(given[0]._type, types.ListType)


def match(
    em: Emitter,
    schema: FunctionSchema,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    implicit: bool = True,
    self_value: Value | None = None,
) -> Match:
    """The inputs of a call of this signature; Mismatch if the arguments do not fit."""
    positional = list(args) if self_value is None else [self_value, *args]
    used: set[str] = set()
    bound: Bindings = {}
    inputs: list[Value] = []
    at = 0
    arguments = schema._arguments
    if "input" in kwargs and schema.name.startswith("aten::"):
        if arguments and arguments[0].name == "self":  # functions call it input
            kwargs = {"self" if key == "input" else key: value for key, value in kwargs.items()}
    for place, argument in enumerate(arguments):
        if argument.kwarg_only and at < len(positional) and argument.name not in kwargs:
            pass
        if at < len(positional) and not argument.kwarg_only:
            is_last = place + 1 == len(arguments) or arguments[place + 1].kwarg_only
            rest = positional[at:]
            if _rest_as_list(argument, is_last, rest) and not isinstance(
                rest[0]._type, types.TupleType
            ):
                element = argument.type.getElementType()
                parts = [convert(em, each, element, implicit) for each in rest]
                if all(part._type.isSubtypeOf(element) for part in parts):
                    inputs.append(em.make_list(parts, element))
                    at = len(positional)
                    continue
            if argument.name in kwargs:
                raise Mismatch(f"Argument {argument.name} specified both positionally and by name")
            inputs.append(_match_argument(em, argument, positional[at], implicit, bound))
            at += 1
        elif argument.name in kwargs:
            used.add(argument.name)
            inputs.append(_match_argument(em, argument, kwargs[argument.name], implicit, bound))
        elif argument.has_default_value() or (
            argument.default_value is None and _is_optional(argument)
        ):
            inputs.append(em.default(argument))
        else:
            raise Mismatch(f"Argument {argument.name} not provided.")
    if schema._is_vararg:
        inputs += positional[at:]
        at = len(positional)
    if at < len(positional):
        taken = len([a for a in arguments if not a.kwarg_only])
        raise Mismatch(
            f"Expected at most {taken} arguments but found {len(positional)} positional arguments."
        )
    for name in kwargs:
        if name not in used:
            raise Mismatch(
                f"Keyword argument {name} unknown."
                if any(a.name != name for a in arguments) or not arguments
                else f"Keyword argument {name} specified twice."
            )
    results = [_plain(substitute(result.type, bound)) for result in schema._returns]
    return Match(schema, inputs, results)


def _is_optional(argument: Argument) -> bool:
    return argument.has_default_value()


# ---- overloads -----------------------------------------------------------------------------------


def call_operator(
    em: Emitter,
    name: str,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    place: Any,
    self_value: Value | None = None,
    attempt: bool = False,
) -> Value | None:
    """Emits the call of an operator by its name.  attempt: None instead of an error."""
    candidates = schemas(name)
    reasons: list[str] = []
    for implicit in (False, True):
        reasons = []
        if implicit:
            reversed_call = _number_first(em, name, args, kwargs, place, self_value)
            if reversed_call is not None:
                return reversed_call
        for schema in candidates:
            mark = em.mark()
            try:
                found = match(em, schema, args, kwargs, implicit, self_value)
            except Mismatch as reason:
                em.rewind(mark)
                reasons.append(f"{schema}:\n{reason}\n")
                continue
            return emit_match(em, name, found)
    if attempt:
        return None
    if not candidates:
        fail(
            place,
            f"Unknown builtin op: {name}.\nCould not find any similar ops to {name}. This op may "
            "not exist or may not be currently supported in TorchScript.\n",
        )
    if len(candidates) == 1:
        fail(place, f"\n{reasons[0].replace(':' + chr(10), ':' + chr(10), 1)}")
    fail(
        place,
        "\nArguments for call are not valid.\nThe following variants are available:\n  \n  "
        + "\n  ".join(
            "\n".join("  " + line for line in r.splitlines()).strip() + "\n" for r in reasons
        )
        + "\nThe original call is",
    )


_SWAPPED = {
    "aten::add": "aten::add", "aten::mul": "aten::mul", "aten::ne": "aten::ne",
    "aten::eq": "aten::eq", "aten::lt": "aten::gt", "aten::le": "aten::ge",
    "aten::gt": "aten::lt", "aten::ge": "aten::le",
}  # fmt: skip


def _number_first(
    em: Emitter, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], place: Any,
    self_value: Value | None,
) -> Value | None:  # fmt: skip
    """`2 * x` and its like, for which there are no overloads, by those with the tensor first."""
    operands = list(args) if self_value is None else [self_value, *args]
    if kwargs or len(operands) != 2:
        return None
    a, b = operands
    if not a._type.isSubtypeOf(types.NumberType.get()) or not isinstance(b._type, TensorType):
        return None
    if name in _SWAPPED:
        return call_operator(em, _SWAPPED[name], [b, a], {}, place)
    if name == "aten::sub":
        negated = em.operator("aten::neg", [b])
        return call_operator(em, "aten::add", [negated, a], {}, place)
    if name == "aten::div":
        inverse = em.operator("aten::reciprocal", [b])
        return call_operator(em, "aten::mul", [inverse, a], {}, place)
    return None


def emit_match(em: Emitter, name: str, found: Match) -> Value:
    """The node of a call whose arguments fit; several results are packed into a tuple."""
    node = em.graph.insert(name, found.inputs, len(found.results))
    node._schema = found.schema
    for value, kind in zip(node._outputs, found.results):
        value._type = kind
    if len(node._outputs) == 1:
        return node._outputs[0]
    if not node._outputs:
        return em.graph.insertConstant(None)
    names = [result.name for result in found.schema._returns]
    if all(names) and len(set(names)) == len(names):
        return em.pack_named(names, node._outputs)
    return em.pack_tuple(node._outputs)
