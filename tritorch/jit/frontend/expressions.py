"""Expressions: each kind of syntax node with the function that emits it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tritorch.jit.frontend import conditions, late, matching, special
from tritorch.jit.frontend.annotations import type_of
from tritorch.jit.frontend.comprehensions import dict_comprehension, list_comprehension
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.matching import unified
from tritorch.jit.frontend.source import NotSupportedError, fail, unsupported
from tritorch.jit.frontend.subscripts import emit_subscript
from tritorch.jit.frontend.sugared import (
    FunctionValue,
    NewMethod,
    SimpleValue,
    SpecialForm,
    Sugared,
    TupleOf,
)
from tritorch.jit.ir.graph import Value
from tritorch.jit.ir.types import InterfaceType, ScriptClassType
from tritorch.schema import types
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type

Emit = Callable[[Emitter, Any, Any, "Type | None"], Sugared]
_EMITTERS: dict[type, Emit] = {}


def emits(*kinds: type) -> Callable[[Emit], Emit]:
    """Registers the function that emits expressions of these kinds of syntax."""

    def register(function: Emit) -> Emit:
        for kind in kinds:
            _EMITTERS[kind] = function
        return function

    return register


def emit_sugared(em: Emitter, node: ast.expr, hint: Type | None = None) -> Sugared:
    """The meaning of an expression.  hint: the type that is wanted of it, if one is."""
    function = _EMITTERS.get(type(node))
    if function is None:
        unsupported(em.source, node)
    before = em.graph._source
    em.graph._source = place = em.source.range(node)
    try:
        return function(em, node, place, hint)
    finally:
        em.graph._source = before


def emit(em: Emitter, node: ast.expr, hint: Type | None = None) -> Value:
    """The value of an expression."""
    return emit_sugared(em, node, hint).as_value(em, em.source.range(node))


# ---- literals and names --------------------------------------------------------------------------


@emits(ast.Constant)
def _constant(em: Emitter, node: ast.Constant, place: Any, hint: Type | None) -> Sugared:
    value = node.value
    if value is Ellipsis:
        fail(place, "Ellipsis is only supported in subscripts")
    if isinstance(value, bytes):
        fail(place, "bytes are not supported")
    if type(value) is int and not -(2**63) <= value < 2**63:
        fail(place, "integral constant exceeds storage range")
    return SimpleValue(em.const(value))


@emits(ast.Name)
def _name(em: Emitter, node: ast.Name, place: Any, hint: Type | None) -> Sugared:
    found = em.lookup(node.id, place)
    assert found is not None
    return found


@emits(ast.Attribute)
def _attribute(em: Emitter, node: ast.Attribute, place: Any, hint: Type | None) -> Sugared:
    dotted = _dotted(node)
    if dotted is not None and em.env.find(dotted.partition(".")[0]) is None:
        found = em.resolver.resolve_dotted(em, dotted, place)
        if found is not None:
            return found
    return emit_sugared(em, node.value).attr(em, node.attr, place)


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


@emits(ast.JoinedStr)
def _joined(em: Emitter, node: ast.JoinedStr, place: Any, hint: Type | None) -> Sugared:
    text, values = "", []
    for part in node.values:
        if isinstance(part, ast.Constant):
            text += str(part.value).replace("{", "{{").replace("}", "}}")
            continue
        assert isinstance(part, ast.FormattedValue)
        if part.conversion != -1 or part.format_spec is not None:
            raise NotSupportedError(
                place, "Format specifiers and conversions are not supported in JoinedStr"
            )
        text += "{}"
        values.append(emit(em, part.value))
    return SimpleValue(em.call_builtin("aten::format", [em.const(text), *values], place))


@emits(ast.Starred)
def _starred(em: Emitter, node: ast.Starred, place: Any, hint: Type | None) -> Sugared:
    fail(place, "Unexpected starred expression")


# ---- containers ----------------------------------------------------------------------------------


@emits(ast.Tuple)
def _tuple(em: Emitter, node: ast.Tuple, place: Any, hint: Type | None) -> Sugared:
    hints: list[Type | None] = [None] * len(node.elts)
    wanted = hint.getElementType() if isinstance(hint, types.OptionalType) else hint
    if isinstance(wanted, types.TupleType) and len(wanted.elements()) == len(node.elts):
        hints = list(wanted.elements())
    parts: list[Sugared] = []
    for each, part in zip(node.elts, hints):
        if isinstance(each, ast.Starred):
            parts += emit_sugared(em, each.value).items(em, place)
        else:
            parts.append(emit_sugared(em, each, part))
    if all(isinstance(part, SimpleValue) for part in parts):
        values = [part.as_value(em, place) for part in parts]
        if isinstance(wanted, types.TupleType) and len(wanted.elements()) == len(values):
            values = [matching.convert(em, v, t, False) for v, t in zip(values, wanted.elements())]
            made = em.pack_tuple(values)
            if made._type.isSubtypeOf(wanted):
                made._type = types.TupleType(wanted.elements())
            return SimpleValue(made)
        return SimpleValue(em.pack_tuple(values))
    return TupleOf(parts)


def _element_hint(hint: Type | None, container: type) -> Type | None:
    """The type of the container among those that the hint allows."""
    if hint is None:
        return None
    for member in hint._alternatives():
        if isinstance(member, container):
            return member
    return None


@emits(ast.List)
def _list(em: Emitter, node: ast.List, place: Any, hint: Type | None) -> Sugared:
    wanted = _element_hint(hint, types.ListType)
    element = wanted.getElementType() if wanted is not None else None  # type: ignore[attr-defined]
    values: list[Value] = []
    for each in node.elts:
        if isinstance(each, ast.Starred):
            values += [
                part.as_value(em, place) for part in emit_sugared(em, each.value).items(em, place)
            ]
        else:
            values.append(emit(em, each, element))
    if element is None:
        element = unified(em, [v._type for v in values], place) if values else TensorType.get()
    elif values:
        values = [matching.convert(em, value, element, True) for value in values]
        for value in values:
            if not value._type.isSubtypeOf(element):
                fail(
                    place,
                    f"List type annotation `{types.ListType(element).annotation_str}` did not "
                    "match the types of the given list elements: Expected type of "
                    f"list element to be {element.annotation_str} but instead found type "
                    f"{value._type.annotation_str}",
                )
    return SimpleValue(em.make_list(values, element))


@emits(ast.Dict)
def _dict(em: Emitter, node: ast.Dict, place: Any, hint: Type | None) -> Sugared:
    wanted = _element_hint(hint, types.DictType)
    key_kind = value_kind = None
    if wanted is not None:
        key_kind, value_kind = wanted._contained
    keys: list[Value] = []
    values: list[Value] = []
    for key, value in zip(node.keys, node.values):
        if key is None:
            from tritorch.jit.frontend.source import NotSupportedError

            raise NotSupportedError(place, "Dict expansion (e.g. `{**dict}`) is not supported")
        keys.append(emit(em, key, key_kind))
        values.append(emit(em, value, value_kind))
    if key_kind is None or value_kind is None:
        key_kind = unified(em, [k._type for k in keys], place) if keys else types.StringType.get()
        value_kind = unified(em, [v._type for v in values], place) if values else TensorType.get()
    kind = types.DictType(key_kind, value_kind)
    keys = [matching.convert(em, key, key_kind, True) for key in keys]
    values = [matching.convert(em, value, value_kind, True) for value in values]
    for given, part in [(k, key_kind) for k in keys] + [(v, value_kind) for v in values]:
        if not given._type.isSubtypeOf(part):
            fail(
                place,
                f"Dict type annotation `{kind.annotation_str}` did not match the type of an actual "
                f"{'key' if part is key_kind else 'value'} type `{given._type.annotation_str}`",
            )
    flat = [value for pair in zip(keys, values) for value in pair]
    made = em.graph.insert("prim::DictConstruct", flat)._outputs[0]
    return SimpleValue(made.setType(kind))


@emits(ast.ListComp, ast.GeneratorExp)
def _list_comprehension(em: Emitter, node: ast.ListComp, place: Any, hint: Type | None) -> Sugared:
    return list_comprehension(em, node, place, _element_hint(hint, types.ListType))


@emits(ast.DictComp)
def _dict_comprehension(em: Emitter, node: ast.DictComp, place: Any, hint: Type | None) -> Sugared:
    return dict_comprehension(em, node, place, _element_hint(hint, types.DictType))


# ---- operators -----------------------------------------------------------------------------------

_BINARY: dict[type, tuple[str, str]] = {
    ast.Add: ("aten::add", "__add__"), ast.Sub: ("aten::sub", "__sub__"),
    ast.Mult: ("aten::mul", "__mul__"), ast.Div: ("aten::div", "__truediv__"),
    ast.FloorDiv: ("aten::floordiv", "__floordiv__"), ast.Mod: ("aten::remainder", "__mod__"),
    ast.Pow: ("aten::pow", "__pow__"), ast.MatMult: ("aten::matmul", "__matmul__"),
    ast.BitAnd: ("aten::__and__", "__and__"), ast.BitOr: ("aten::__or__", "__or__"),
    ast.BitXor: ("aten::__xor__", "__xor__"), ast.LShift: ("aten::__lshift__", "__lshift__"),
    ast.RShift: ("aten::__rshift__", "__rshift__"),
}  # fmt: skip
_COMPARE: dict[type, tuple[str, str]] = {
    ast.Lt: ("aten::lt", "__lt__"), ast.LtE: ("aten::le", "__le__"),
    ast.Gt: ("aten::gt", "__gt__"), ast.GtE: ("aten::ge", "__ge__"),
    ast.Eq: ("aten::eq", "__eq__"), ast.NotEq: ("aten::ne", "__ne__"),
    ast.Is: ("aten::__is__", ""), ast.IsNot: ("aten::__isnot__", ""),
}  # fmt: skip


def binary(em: Emitter, kind: type, a: Value, b: Value, place: Any) -> Value:
    """The result of a binary operator, by the method of a class if the left operand has one."""
    operator, method = {**_BINARY, **_COMPARE}[kind]
    if method and isinstance(a._type, (ScriptClassType, InterfaceType)):
        return SimpleValue(a).attr(em, method, place).call(em, [b], {}, place).as_value(em, place)
    if kind is ast.Mod and isinstance(a._type, types.StringType):
        parts = em.unpack_tuple(b) if isinstance(b._type, types.TupleType) else [b]
        return em.call_builtin("aten::percentFormat", [a, *parts], place)
    if kind is ast.FloorDiv and isinstance(a._type, TensorType):
        return em.call_builtin("aten::floor_divide", [a, b], place)
    if kind in (ast.Add, ast.Mult) and isinstance(a._type, types.TupleType):
        if kind is ast.Add and isinstance(b._type, types.TupleType):
            return em.pack_tuple([*em.unpack_tuple(a), *em.unpack_tuple(b)])
        if kind is ast.Mult and isinstance(count := b.toIValue(), int):
            return em.pack_tuple(em.unpack_tuple(a) * count)
    if kind in (ast.Eq, ast.NotEq) and isinstance(a._type, types.EnumType):
        node = em.graph.insert(operator, [a, b])
        return node._outputs[0].setType(types.BoolType.get())
    return em.call_builtin(operator, [a, b], place)


@emits(ast.BinOp)
def _binary(em: Emitter, node: ast.BinOp, place: Any, hint: Type | None) -> Sugared:
    if isinstance(node.op, ast.BitOr) and _is_type_union(em, node):
        fail(place, "types cannot be used as values")
    left_hint = hint if isinstance(node.op, (ast.Add, ast.Mult)) else None
    if not isinstance(left_hint, types.ListType):
        left_hint = None
    a = emit(em, node.left, left_hint)
    b = emit(em, node.right, left_hint if isinstance(node.op, ast.Add) else None)
    folded = _fold(em, node.op, a, b)
    return SimpleValue(binary(em, type(node.op), a, b, place) if folded is None else folded)


def _is_type_union(em: Emitter, node: ast.BinOp) -> bool:
    return False


def _fold(em: Emitter, op: ast.operator, a: Value, b: Value) -> Value | None:
    return None


@emits(ast.UnaryOp)
def _unary(em: Emitter, node: ast.UnaryOp, place: Any, hint: Type | None) -> Sugared:
    if isinstance(node.op, ast.Not):
        return SimpleValue(conditions.emit_condition(em, node).as_value(em))
    operand = node.operand
    if isinstance(node.op, ast.USub) and isinstance(operand, ast.Constant):
        if isinstance(operand.value, (int, float, complex)) and type(operand.value) is not bool:
            return SimpleValue(em.const(-operand.value))
    value = emit(em, operand)
    operator, method = {
        ast.USub: ("aten::neg", "__neg__"),
        ast.UAdd: ("aten::positive", "__pos__"),
        ast.Invert: ("aten::bitwise_not", "__invert__"),
    }[type(node.op)]
    if isinstance(value._type, (ScriptClassType, InterfaceType)):
        return SimpleValue(value).attr(em, method, place).call(em, [], {}, place)
    if isinstance(node.op, ast.UAdd) and not isinstance(value._type, TensorType):
        return SimpleValue(value)
    return SimpleValue(em.call_builtin(operator, [value], place))


@emits(ast.BoolOp)
def _bool(em: Emitter, node: ast.BoolOp, place: Any, hint: Type | None) -> Sugared:
    return SimpleValue(conditions.emit_condition(em, node).as_value(em))


@emits(ast.Compare)
def _compare(em: Emitter, node: ast.Compare, place: Any, hint: Type | None) -> Sugared:
    if len(node.ops) > 1 or isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        return SimpleValue(conditions.emit_condition(em, node).as_value(em))
    return SimpleValue(comparison(em, node.left, node.ops[0], node.comparators[0], place))


def comparison(em: Emitter, left: ast.expr, op: ast.cmpop, right: ast.expr, place: Any) -> Value:
    """The result of one comparison."""
    if isinstance(op, (ast.In, ast.NotIn)):
        item, container = emit(em, left), emit(em, right)
        has_method = SimpleValue(container)._overrides(em, "__contains__")
        if not has_method and (parts := SimpleValue(container)._parts(em)) is not None:
            known = [part.as_value(em, place).toIValue() for part in parts]
            found = em.const(item.toIValue() in known)
        elif isinstance(container._type, (ScriptClassType, InterfaceType)):
            method = SimpleValue(container).attr(em, "__contains__", place)
            found = method.call(em, [item], {}, place).as_value(em, place)
        elif isinstance(container._type, types.TupleType):
            element = unified(em, container._type.elements(), place)
            packed = em.make_list(em.unpack_tuple(container), element)
            found = em.call_builtin("aten::__contains__", [packed, item], place)
        elif isinstance(container._type, types.StringType):
            found = em.call_builtin("aten::__contains__", [container, item], place)
        else:
            found = em.call_builtin("aten::__contains__", [container, item], place)
        if isinstance(op, ast.NotIn):
            found = em.call_builtin("aten::__not__", [found], place)
        return found
    return binary(em, type(op), emit(em, left), emit(em, right), place)


@emits(ast.IfExp)
def _ternary(em: Emitter, node: ast.IfExp, place: Any, hint: Type | None) -> Sugared:
    condition = conditions.emit_condition(em, node.test)
    return SimpleValue(
        conditions.choose_value(
            em,
            condition,
            lambda: emit(em, node.body, hint),
            lambda: emit(em, node.orelse, hint),
            place,
            hint,
            "ternary",
        )
    )


# ---- calls ---------------------------------------------------------------------------------------


@emits(ast.Call)
def _call(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    callee = emit_sugared(em, node.func)
    if isinstance(callee, SpecialForm):
        return special.call(em, callee.name, node, place, hint)
    if isinstance(callee, NewMethod):
        return callee.call(em, [], {}, place)
    args, kwargs = arguments(em, node, _argument_hints(em, callee, place))
    return callee.call(em, args, kwargs, place)


def _argument_hints(em: Emitter, callee: Sugared, place: Any) -> list[Type]:
    """The types that a function declares, for literals such as `[]` in its calls."""
    if isinstance(callee, FunctionValue) and len(callee.functions) == 1:
        with em.calling(callee.functions[0], place):
            callee.functions[0].ensure_defined()
        return [argument.type for argument in callee.functions[0].schema._arguments]
    return []


def arguments(
    em: Emitter, node: ast.Call, hints: list[Type] | None = None
) -> tuple[list[Value], dict[str, Value]]:
    """The values of a call's arguments."""
    args: list[Value] = []
    for each in node.args:
        if isinstance(each, ast.Starred):
            place = em.source.range(each)
            parts = emit_sugared(em, each.value).items(em, place)
            args += [part.as_value(em, place) for part in parts]
        else:
            hint = hints[len(args)] if hints and len(args) < len(hints) else None
            if not isinstance(each, (ast.List, ast.Dict, ast.Tuple)):
                hint = None
            args.append(emit(em, each, hint))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            fail(em.source.range(keyword.value), "keyword-arg expansion is not supported")
        kwargs[keyword.arg] = emit(em, keyword.value)
    return args, kwargs


def annotated_type(em: Emitter, node: ast.expr) -> Type:
    """The type that an annotation of the function names."""
    return type_of(node, em.resolver, em.source)


# ---- subscripts ----------------------------------------------------------------------------------


@emits(ast.Subscript)
def _subscript(em: Emitter, node: ast.Subscript, place: Any, hint: Type | None) -> Sugared:
    before = em.interface_hint
    em.interface_hint = hint if isinstance(hint, InterfaceType) else None
    try:
        return emit_subscript(em, node, place)
    finally:
        em.interface_hint = before


for _function in (emit, emit_sugared, arguments, comparison):
    late.provides(_function)
