"""Conditions: what they compute, what the compiler knows of them, and what they say of names.

`x is not None`, `isinstance(x, T)` and their combinations narrow the types of names in the branches
that they guard.  Where a condition is known, only the branch that runs is compiled.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tritorch.jit.frontend import late, matching
from tritorch.jit.frontend.annotations import types_of
from tritorch.jit.frontend.source import fail
from tritorch.jit.frontend.sugared import NoneValue, SimpleValue, SpecialForm
from tritorch.jit.ir.graph import Value
from tritorch.jit.ir.types import InterfaceType, ScriptClassType
from tritorch.schema import types
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type
from tritorch.schema.unify import unify

if TYPE_CHECKING:
    from tritorch.jit.frontend.emitter import Emitter

Refinements = dict[str, Type]


class Condition:
    """A condition: its value or the bool that it always is, and the types of names in its "
    "branches."""

    def __init__(
        self,
        value: Value | None,
        static: bool | None,
        if_true: Refinements | None = None,
        if_false: Refinements | None = None,
    ) -> None:
        self.value, self.static = value, static
        self.if_true, self.if_false = if_true or {}, if_false or {}

    def as_value(self, em: Emitter) -> Value:
        """The value of the graph."""
        if self.value is None:
            self.value = em.const(bool(self.static))
        return self.value


def refine(em: Emitter, refinements: Refinements) -> None:
    """Narrows names in the current block."""
    for name, kind in refinements.items():
        found = em.env.find(name)
        if isinstance(found, SimpleValue) and found.value._type != kind:
            if kind.isSubtypeOf(found.value._type):
                em.env.refine(name, SimpleValue(em.cast(found.value, kind)))


def emit_condition(em: Emitter, node: ast.expr) -> Condition:
    """Emits an expression whose truth is asked for."""
    before = em.graph._source
    em.graph._source = place = em.source.range(node)
    try:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return _negated(em, emit_condition(em, node.operand), place)
        if isinstance(node, ast.BoolOp):
            return _combined(em, node, place)
        if isinstance(node, ast.Compare):
            return _comparison(em, node, place)
        if isinstance(node, ast.Call):
            found = _call(em, node, place)
            if found is not None:
                return found
        return _of_value(em, _emit(em, node), place)
    finally:
        em.graph._source = before


def _emit(em: Emitter, node: ast.expr) -> Value:
    return late.emit(em, node)


def _of_value(em: Emitter, value: Value, place: Any) -> Condition:
    value = to_bool(em, value, place)
    static = value.toIValue() if value.is_constant() else None
    if value._node._kind == "aten::is_scripting":
        static = True
    return Condition(value, static if isinstance(static, bool) else None)


def to_bool(em: Emitter, value: Value, place: Any) -> Value:
    """The truth of a value."""
    kind = value._type
    if isinstance(kind, types.BoolType):
        return value
    if isinstance(kind, (ScriptClassType, InterfaceType)):
        method = SimpleValue(value).attr(em, "__bool__", place)
        found = method.call(em, [], {}, place).as_value(em, place)
        if not isinstance(found._type, types.BoolType):
            fail(
                place,
                f"expected a bool expression for condition but found {found._type.annotation_str}",
            )
        return found
    truth = matching.call_operator(em, "aten::Bool", [value], {}, place, attempt=True)
    if truth is None:
        fail(place, f"Could not cast value of type {kind.annotation_str} to bool")
    return truth


def _negated(em: Emitter, inner: Condition, place: Any) -> Condition:
    static = None if inner.static is None else not inner.static
    value = None
    if static is None:
        value = em.call_builtin("aten::__not__", [inner.as_value(em)], place)
    return Condition(value, static, inner.if_false, inner.if_true)


def _combined(em: Emitter, node: ast.BoolOp, place: Any) -> Condition:
    is_or = isinstance(node.op, ast.Or)
    found = emit_condition(em, node.values[0])
    for each in node.values[1:]:
        found = _short_circuit(em, found, each, is_or, place)
    return found


def _short_circuit(
    em: Emitter, first: Condition, second: ast.expr, is_or: bool, place: Any
) -> Condition:
    """`first or second` and `first and second`; the second is emitted where it is evaluated."""
    if first.static is not None:
        if first.static is is_or:
            return first
        refine(em, first.if_false if is_or else first.if_true)
        return emit_condition(em, second)
    value = first.as_value(em)
    node = em.graph.insert("prim::If", [value])
    output = node._outputs[0].setType(types.BoolType.get())
    known, other = node.addBlock(), node.addBlock()
    if not is_or:
        known, other = other, known
    with em.scope(known):
        known.registerOutput(em.const(is_or))
    with em.scope(other):
        refine(em, first.if_false if is_or else first.if_true)
        then = emit_condition(em, second)
        other.registerOutput(then.as_value(em))
    both = {**(first.if_false if is_or else first.if_true)}
    both.update(then.if_false if is_or else then.if_true)
    either = _union(
        first.if_true if is_or else first.if_false, then.if_true if is_or else then.if_false
    )
    if then.static is is_or:  # `x or True`
        return Condition(output, is_or)
    return Condition(output, None, *((either, both) if is_or else (both, either)))


def _union(a: Refinements, b: Refinements) -> Refinements:
    """The refinements that hold when one of two conditions does."""
    found: Refinements = {}
    for name in a:
        if name in b:
            kind = unify(a[name], b[name])
            if kind is None:
                kind = types.UnionType([a[name], b[name]])
            found[name] = kind
    return found


# ---- comparisons ---------------------------------------------------------------------------------


def _comparison(em: Emitter, node: ast.Compare, place: Any) -> Condition:
    if len(node.ops) > 1:
        return _chain(em, node, place)
    op, right = node.ops[0], node.comparators[0]
    if isinstance(op, (ast.Is, ast.IsNot)):
        return _identity(em, node.left, right, isinstance(op, ast.Is), place)
    return _of_value(em, late.comparison(em, node.left, op, right, place), place)


def _chain(em: Emitter, node: ast.Compare, place: Any) -> Condition:
    """`a < b < c`, as `a < b and b < c`."""
    pairs = []
    left = node.left
    for op, right in zip(node.ops, node.comparators):
        pair = ast.Compare(left=left, ops=[op], comparators=[right])
        pairs.append(ast.copy_location(pair, node))
        left = right
    return _combined(
        em, ast.copy_location(ast.BoolOp(op=ast.And(), values=list(pairs)), node), place
    )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _identity(em: Emitter, left: ast.expr, right: ast.expr, is_same: bool, place: Any) -> Condition:
    a, b = late.emit_sugared(em, left), late.emit_sugared(em, right)
    for node, value, other in ((left, a, b), (right, b, a)):
        other_node = right if node is left else left
        if _is_none(other_node):
            return _against_none(em, node, value, other, is_same, place)
    name = "aten::__is__" if is_same else "aten::__isnot__"
    values = [a.as_value(em, place), b.as_value(em, place)]
    return _of_value(em, em.call_builtin(name, values, place), place)


def _against_none(
    em: Emitter, node: ast.expr, sugared: Any, none: Any, is_same: bool, place: Any
) -> Condition:
    if not isinstance(sugared, SimpleValue):
        return Condition(None, isinstance(sugared, NoneValue) is is_same)
    kind = sugared.value._type
    if isinstance(kind, types.NoneType):
        return Condition(None, is_same)
    members = kind._alternatives()
    has_none = any(isinstance(member, types.NoneType) for member in members)
    if not has_none and not isinstance(kind, (types.AnyType, types.VarType)):
        return Condition(None, not is_same)
    name = "aten::__is__" if is_same else "aten::__isnot__"
    value = em.call_builtin(name, [sugared.value, none.as_value(em, place)], place)
    present: Refinements = {}
    absent: Refinements = {}
    if isinstance(node, ast.Name) and has_none:
        rest = [member for member in members if not isinstance(member, types.NoneType)]
        if isinstance(kind, types.OptionalType):
            present[node.id] = kind.getElementType()
        else:
            present[node.id] = rest[0] if len(rest) == 1 else types.UnionType(rest)

    return Condition(value, None, *((absent, present) if is_same else (present, absent)))


# ---- isinstance, hasattr -------------------------------------------------------------------------


def _call(em: Emitter, node: ast.Call, place: Any) -> Condition | None:
    """The condition of `isinstance` and `hasattr`; None for other calls."""
    if not isinstance(node.func, (ast.Name, ast.Attribute)):
        return None
    callee = late.emit_sugared(em, node.func)
    if not isinstance(callee, SpecialForm):
        return None
    if callee.name == "isinstance":
        return _isinstance(em, node, place)
    if callee.name == "hasattr":
        return _hasattr(em, node, place)
    if callee.name == "is_scripting":
        return Condition(None, True)
    return None


def _hasattr(em: Emitter, node: ast.Call, place: Any) -> Condition:
    if len(node.args) != 2 or node.keywords:
        fail(place, f"hasattr expected exactly 2 arguments but found {len(node.args)}")
    name = node.args[1]
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        fail(em.source.range(name), "hasattr's second argument must be a string literal")
    return Condition(None, late.emit_sugared(em, node.args[0]).has_attr(em, name.value, place))


def _isinstance(em: Emitter, node: ast.Call, place: Any) -> Condition:
    if len(node.args) != 2 or node.keywords:
        fail(place, f"isinstance expected exactly 2 arguments but found {len(node.args)}")
    sugared = late.emit_sugared(em, node.args[0])
    wanted = types_of(node.args[1], em.resolver, em.source)
    kind = sugared.as_value(em, place)._type
    name = node.args[0].id if isinstance(node.args[0], ast.Name) else None
    members = kind._alternatives()
    inside: list[Type] = []
    outside: list[Type] = []
    is_open = False  # whether a member may or may not be one of the wanted types
    for member in members:
        if any(_is_one(member, each) for each in wanted):
            inside.append(member)
        elif any(_may_be(member, each) for each in wanted):
            is_open = True
            narrower = [
                each for each in wanted if isinstance(each, Type) and each.isSubtypeOf(member)
            ]
            inside += narrower
            outside.append(member)
        else:
            outside.append(member)
    if not is_open and not outside:
        return Condition(None, True)
    if not is_open and not inside:
        return Condition(None, False)
    value = sugared.as_value(em, place)
    check = em.graph.insert("prim::isinstance", [value])
    check.set(
        "types", [each for each in wanted if isinstance(each, Type)] + _loose(wanted, members)
    )
    output = check._outputs[0].setType(types.BoolType.get())
    if name is None:
        return Condition(output, None)
    if_true = {name: _one_or_union(inside)} if inside else {}
    if_false = {name: _one_or_union(outside)} if outside and not is_open else {}
    return Condition(output, None, if_true, if_false)


def _loose(wanted: list[Any], members: Any) -> list[Type]:
    """The types of the union that bare `list`, `tuple` or `dict` stand for."""
    return [
        member
        for member in members
        if any(isinstance(each, str) and _is_one(member, each) for each in wanted)
    ]


def _one_or_union(kinds: list[Type]) -> Type:
    return kinds[0] if len(kinds) == 1 else types.UnionType(kinds)


def _is_one(kind: Type, wanted: Any) -> bool:
    """Tells if every value of a type is one of the wanted; "list" and "tuple" are any of those."""
    if isinstance(wanted, str):
        return kind.kind() == wanted
    return kind.isSubtypeOf(wanted)


def _may_be(kind: Type, wanted: Any) -> bool:
    """Tells if a value of a type may be one of the wanted."""
    if isinstance(wanted, str):
        return isinstance(kind, types.AnyType)
    return wanted.isSubtypeOf(kind) or (
        isinstance(kind, (types.NumberType, InterfaceType)) and (wanted.isSubtypeOf(kind))
    )


# ---- a value of two branches ---------------------------------------------------------------------


def choose_value(
    em: Emitter,
    condition: Condition,
    then: Callable[[], Value],
    otherwise: Callable[[], Value],
    place: Any,
    hint: Type | None,
    what: str,
) -> Value:
    """The value of `a if c else b`."""
    if condition.static is not None:
        refine(em, condition.if_true if condition.static else condition.if_false)
        return then() if condition.static else otherwise()
    node = em.graph.insert("prim::If", [condition.as_value(em)])
    values = []
    for function, refinements in ((then, condition.if_true), (otherwise, condition.if_false)):
        block = node.addBlock()
        with em.scope(block):
            refine(em, refinements)
            values.append(function())
            block.registerOutput(values[-1])
    kinds = [value._type for value in values]
    both = unify(*kinds)
    if hint is not None and all(kind.isSubtypeOf(hint) for kind in kinds):
        both = hint
    if both is None:
        both = types.UnionType(kinds)
        if not isinstance(hint, types.UnionType):
            fail(
                place,
                f"if-expression's true branch has type {kinds[0].annotation_str} but false branch "
                f"has type {kinds[1].annotation_str}",
            )
    return node._outputs[0].setType(TensorType.get() if isinstance(both, TensorType) else both)
