"""Statements: assignments, branches, loops, returns.

Each block of a graph computes its values once, so a name that branches or loops assign becomes an
output of the node (`merge`).  A `return`, `break` or `continue` inside a branch sets a flag, and
what
follows runs only while the flag is not set.
"""

from __future__ import annotations

import ast
import enum
import functools
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.jit.frontend import late, matching
from tritorch.jit.frontend.conditions import Condition, emit_condition, refine
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.environment import Environment, unshaped
from tritorch.jit.frontend.expressions import annotated_type, binary, emit, emit_sugared
from tritorch.jit.frontend.source import fail, unsupported
from tritorch.jit.frontend.special import NestedFunction
from tritorch.jit.frontend.subscripts import assign_subscript, augment_subscript
from tritorch.jit.frontend.sugared import (
    ExceptionClass,
    ExceptionObject,
    NoneValue,
    SimpleValue,
    Sugared,
    TupleOf,
)
from tritorch.jit.ir.graph import Block, Node, Value
from tritorch.jit.ir.types import InterfaceType, ScriptClassType
from tritorch.schema import types
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type
from tritorch.schema.unify import unify

FLAGS = ("return", "break", "continue")


class Flow(enum.Enum):
    """The end of a list of statements."""

    FALLS = "it goes on"
    EXITS = "it returns, breaks or continues"
    MAYBE = "it exits if a flag is set"
    THROWS = "it raises"


def emit_statements(em: Emitter, statements: Sequence[ast.stmt]) -> Flow:
    """Emits statements one after the other."""
    for at, statement in enumerate(statements):
        rest = statements[at + 1 :]
        if isinstance(statement, ast.If) and rest:
            flow = _if_with_rest(em, statement, rest)
            if flow is not None:
                return flow
        flow = emit_statement(em, statement)
        if flow in (Flow.EXITS, Flow.THROWS):
            return flow
        if flow is Flow.MAYBE:
            return _guarded(em, statement, rest) if rest else Flow.MAYBE
    return Flow.FALLS


def _leaves(statements: Sequence[ast.stmt]) -> bool:
    """Tells if statements end in a return, break or continue on every path."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return _leaves(last.body) and _leaves(last.orelse)
    return isinstance(last, (ast.Return, ast.Break, ast.Continue))


def _if_with_rest(em: Emitter, node: ast.If, rest: Sequence[ast.stmt]) -> Flow | None:
    """An `if` of which one branch leaves: what follows belongs to the other.  None for others."""
    leaves = _leaves(node.body), _leaves(node.orelse)
    if leaves == (True, False):
        return _emit_if(em, node, node.body, [*node.orelse, *rest])
    if leaves == (False, True):
        return _emit_if(em, node, [*node.body, *rest], node.orelse)
    return None


def _guarded(em: Emitter, statement: ast.stmt, rest: Sequence[ast.stmt]) -> Flow:
    """Emits statements that run only if no flag is set."""
    place = em.source.range(statement)
    flags = [em.env.flag(flag) for flag in FLAGS]
    left = [flag for flag in flags if isinstance(flag, Value)]
    condition = left[0]
    for flag in left[1:]:
        condition = em.call_builtin("aten::__or__", [condition, flag], place)
    before = dict(em.env.flags)
    result = em.env.find("$result")

    def keep() -> Flow:
        em.env.flags.update(before)
        if result is not None:
            em.env.names["$result"] = result
        return Flow.EXITS

    def go_on() -> Flow:
        for flag in before:
            em.env.flags[flag] = False
        return emit_statements(em, rest)

    flow = _branches(em, Condition(condition, None), keep, go_on, place)
    return Flow.EXITS if flow is Flow.EXITS else Flow.MAYBE


def emit_statement(em: Emitter, statement: ast.stmt) -> Flow:
    """Emits one statement."""
    function = _EMITTERS.get(type(statement))
    if function is None:
        unsupported(em.source, statement)
    before = em.graph._source
    em.graph._source = place = em.source.range(statement)
    try:
        return function(em, statement, place) or Flow.FALLS
    finally:
        em.graph._source = before


# ---- branches ------------------------------------------------------------------------------------


def _emit_if(
    em: Emitter, node: ast.If, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]
) -> Flow:
    place = em.source.range(node.test)
    before = em.graph._source
    em.graph._source = em.source.range(node)
    try:
        condition = emit_condition(em, node.test)
        if condition.static is not None:
            refine(em, condition.if_true if condition.static else condition.if_false)
            return emit_statements(em, body if condition.static else orelse)
        return _branches(
            em,
            condition,
            lambda: emit_statements(em, body),
            lambda: emit_statements(em, orelse),
            place,
        )
    finally:
        em.graph._source = before


def _branches(
    em: Emitter,
    condition: Condition,
    then: Callable[[], Flow],
    otherwise: Callable[[], Flow],
    place: Any,
) -> Flow:
    """Emits both branches, and merges the names that they assigned."""
    node = em.graph.insert("prim::If", [condition.as_value(em)], 0)
    scopes: list[Environment] = []
    flows: list[Flow] = []
    for function, refinements in ((then, condition.if_true), (otherwise, condition.if_false)):
        block = node.addBlock()
        with em.scope(block) as scope:
            refine(em, refinements)
            flows.append(function())
            scopes.append(scope)
    _merge(em, node, scopes, flows, place)
    for flow, refinements in zip(flows, (condition.if_false, condition.if_true)):
        if flow is Flow.THROWS:
            assigned = {name for scope in scopes for name in scope.assigned}
            refine(em, {n: kind for n, kind in refinements.items() if n not in assigned})
    living = [flow for flow in flows if flow is not Flow.THROWS]
    if not living:
        return Flow.THROWS
    if all(flow is Flow.EXITS for flow in living):
        return Flow.EXITS
    return Flow.FALLS if all(flow is Flow.FALLS for flow in living) else Flow.MAYBE


def _merge(
    em: Emitter, node: Node, scopes: list[Environment], flows: list[Flow], place: Any
) -> None:
    names: dict[str, None] = {}
    for scope in scopes:
        for name in scope.names:
            if name in scope.assigned:
                names[name] = None
    goes_on = [flow in (Flow.FALLS, Flow.MAYBE) for flow in flows]
    for name in names:
        if any(goes_on):
            _merge_name(em, node, scopes, goes_on, name)
    if not any(goes_on):  # an iteration ends in both, with what they assigned
        for name in names:
            _merge_left(em, node, scopes, name)
    _merge_flags(em, node, scopes, flows)


def _merge_name(
    em: Emitter, node: Node, scopes: list[Environment], goes_on: list[bool], name: str
) -> None:
    found: list[Sugared | None] = [
        scope.find(name) if alive else None for scope, alive in zip(scopes, goes_on)
    ]
    living = [value for value, alive in zip(found, goes_on) if alive]
    for value, alive, branch in zip(found, goes_on, ("true", "false")):
        if alive and value is None:
            em.env.missing[name] = f"{name} is not defined in the {branch} branch"
            em.env.names.pop(name, None)
            return
    if all(value is living[0] for value in living) and not isinstance(living[0], SimpleValue):
        em.env.names[name] = living[0]
        return
    if not all(isinstance(value, SimpleValue) for value in living):
        em.env.missing[name] = f"{name} is not a first-class value in both branches"
        return
    kinds = [value.value._type for value in living]  # type: ignore[union-attr]
    declared = em.env.declared(name)
    for scope in scopes:
        declared = declared or scope.types.get(name)
    kind = _merged_type(kinds, declared)
    if kind is None:
        em.env.missing[name] = (
            f"Type mismatch: {name} is set to type {kinds[0].annotation_str} in the true branch "
            f"and type {kinds[1].annotation_str} in the false branch"
        )
        em.env.names.pop(name, None)
        return
    values = [
        value.value if isinstance(value, SimpleValue) else _left_with(scope, name, kind)
        for value, scope in zip(found, scopes)
    ]
    if declared is not None:
        em.env.types.setdefault(name, declared)
    _bind_output(em, name, _output(em, node, values, kind))


def _bind_output(em: Emitter, name: str, output: Value) -> None:
    output.setDebugName(name)
    em.env.names[name] = SimpleValue(output)
    em.env.assigned.add(name)


def _left_with(scope: Environment, name: str, kind: Type) -> Value | None:
    """The value of a name where a branch breaks or continues, which the loop carries on; None
    where the function returns or raises."""
    leaves = any(scope.flag(flag) is not False for flag in ("break", "continue"))
    found = scope.find(name) if leaves else None
    if isinstance(found, SimpleValue) and found.value._type.isSubtypeOf(kind):
        return found.value
    return None


def _merge_left(em: Emitter, node: Node, scopes: list[Environment], name: str) -> None:
    """Merges a name of which a loop has a value, where both branches leave the iteration."""
    before = em.env.find(name)
    if not isinstance(before, SimpleValue):
        return
    kind = before.value._type
    values = [_left_with(scope, name, kind) for scope in scopes]
    if any(value is not None for value in values):
        _bind_output(em, name, _output(em, node, values, kind))


def _merged_type(kinds: list[Type], declared: Type | None) -> Type | None:
    if len(kinds) == 1:
        return kinds[0]
    found = unify(*kinds)
    if found is None and declared is not None:
        return declared if all(kind.isSubtypeOf(declared) for kind in kinds) else None
    return TensorType.get() if isinstance(found, TensorType) else found


def _output(em: Emitter, node: Node, values: Sequence[Value | None], kind: Type) -> Value:
    """Adds an output to a node with two branches; None in one that does not go on."""
    for block, value in zip(node._blocks, values):
        if value is None:
            point = em.graph._insert
            em.graph.setInsertPoint(block)
            value = em.uninitialized(kind)
            em.graph._insert = point
        block.registerOutput(value)
    return node.addOutput().setType(kind)


def _constant_in(em: Emitter, block: Block, value: Any) -> Value:
    point = em.graph._insert
    em.graph.setInsertPoint(block)
    made = em.const(value)
    em.graph._insert = point
    return made


def _merge_flags(em: Emitter, node: Node, scopes: list[Environment], flows: list[Flow]) -> None:
    for flag in FLAGS:
        states = [
            None if flow is Flow.THROWS else scope.flag(flag) for scope, flow in zip(scopes, flows)
        ]
        known = [state for state in states if state is not None]
        if not known or all(state is False for state in known):
            continue
        if all(state is True for state in known):
            em.env.flags[flag] = True
            continue
        values = [
            state if isinstance(state, Value) else _constant_in(em, block, bool(state))
            for state, block in zip(states, node._blocks)
        ]
        em.env.flags[flag] = _output(em, node, values, types.BoolType.get())
    if any(scope.flags.get("return") for scope in scopes):
        results = [
            scope.find("$result") if scope.flag("return") is not False else None for scope in scopes
        ]
        found: list[Any] = [
            None if r is None or f is Flow.THROWS else r.value for r, f in zip(results, flows)
        ]
        assert em.returned is not None
        em.env.names["$result"] = SimpleValue(_output(em, node, found, em.returned))


def _if(em: Emitter, node: ast.If, place: Any) -> Flow:
    return _emit_if(em, node, node.body, node.orelse)


# ---- loops ---------------------------------------------------------------------------------------


def assigned_names(statements: Sequence[ast.stmt]) -> list[str]:
    """The names that statements assign, in order."""
    names: dict[str, None] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
                names[node.id] = None
    return list(names)


def emit_loop(
    em: Emitter,
    limit: Value,
    test: Callable[[], Value] | None,
    before_body: Callable[[Value], None],
    body: Sequence[ast.stmt],
    targets: Sequence[str],
    place: Any,
) -> Flow:
    """A loop that runs `limit` times, or until `test` is false."""
    carried = [
        name
        for name in dict.fromkeys([*targets, *assigned_names(body)])
        if isinstance(em.env.find(name), SimpleValue)
    ]
    start = test() if test is not None else em.const(True)
    initial = [em.env.find(name).value for name in carried]
    node = em.graph.insert("prim::Loop", [limit, start, *initial], 0)
    block = node.addBlock()
    index = block.addInput().setType(types.IntType.get())
    with em.scope(block) as scope:
        for name, value in zip(carried, initial):
            kind = em.env.declared(name) or value._type
            inside = block.addInput(name).setType(unshaped(kind))
            scope.names[name] = SimpleValue(inside)
        em.loops += 1
        unrolled, em.is_unrolled = em.is_unrolled, False
        before_body(index)
        flow = emit_statements(em, body)
        em.loops -= 1
        em.is_unrolled = unrolled
        left = [state for flag in ("return", "break") if (state := scope.flags.get(flag))]
        returned = scope.flags.get("return")
        scope.flags.clear()
        if flow is Flow.THROWS:
            again = em.const(False)
        else:
            again = _goes_on(em, left, test, place)
        block.registerOutput(again)
        for name in carried:
            final = scope.find(name)
            if not isinstance(final, SimpleValue):
                fail(place, f"{name} is not a first-class value at the end of the loop")
            block.registerOutput(final.value)
        if returned:
            result = scope.find("$result")
            for value, kind in (
                (returned if isinstance(returned, Value) else em.const(True), types.BoolType.get()),
                (result.value, em.returned),
            ):
                block.registerOutput(value)
                block.addInput().setType(kind)  # type: ignore[arg-type]
    for name in assigned_names(body):
        if name not in carried and em.env.find(name) is None:
            em.env.missing[name] = f"{name} is not defined before the loop that assigns it"
    for name, value in zip(carried, initial):
        kind = em.env.declared(name) or value._type
        output = node.addOutput().setType(unshaped(kind)).setDebugName(name)
        em.env.names[name] = SimpleValue(output)
        em.env.assigned.add(name)
    if not returned:
        return Flow.FALLS
    point = em.graph._insert
    em.graph._insert = node
    assert em.returned is not None
    node.addInput(em.const(False))
    node.addInput(em.uninitialized(em.returned))
    em.graph._insert = point
    em.env.flags["return"] = node.addOutput().setType(types.BoolType.get())
    em.env.names["$result"] = SimpleValue(node.addOutput().setType(em.returned))
    return Flow.MAYBE


def _goes_on(em: Emitter, left: list[Any], test: Callable[[], Value] | None, place: Any) -> Value:
    """The condition of the next iteration; the test is not evaluated once the loop was left."""
    if any(state is True for state in left):
        return em.const(False)
    if not left:
        return test() if test is not None else em.const(True)
    stopped = left[0]
    for state in left[1:]:
        stopped = em.call_builtin("aten::__or__", [stopped, state], place)
    node = em.graph.insert("prim::If", [stopped])
    first, second = node.addBlock(), node.addBlock()
    with em.scope(first):
        first.registerOutput(em.const(False))
    with em.scope(second):
        second.registerOutput(test() if test is not None else em.const(True))
    return node._outputs[0].setType(types.BoolType.get())


_MAX = 2**63 - 1


def _while(em: Emitter, node: ast.While, place: Any) -> Flow:
    if node.orelse:
        fail(place, "else branches of while loops aren't supported")
    return emit_loop(
        em,
        em.const(_MAX),
        lambda: emit_condition(em, node.test).as_value(em),
        lambda index: None,
        node.body,
        assigned_names([ast.copy_location(ast.Expr(node.test), node)]),
        place,
    )


def _for(em: Emitter, node: ast.For, place: Any) -> Flow:
    if node.orelse:
        fail(place, "else branches of for loops aren't supported")
    iterable = emit_sugared(em, node.iter).iterate(em, place)
    static = iterable.static_items(em, place)
    if static is not None:
        return _unrolled(em, node, static, place)
    targets = [
        each.id
        for each in ast.walk(node.target)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    ]
    return emit_loop(
        em,
        iterable.length(em, place),
        None,
        lambda index: assign_target(em, node.target, iterable.item(em, index, place), place),
        node.body,
        targets,
        place,
    )


def _unrolled(em: Emitter, node: ast.For, items: Sequence[Sugared], place: Any) -> Flow:
    """A loop over parts that the compiler knows: its body is emitted for each."""
    loops, unrolled = em.loops, em.is_unrolled
    em.is_unrolled = True

    def from_item(at: int) -> Flow:
        for index in range(at, len(items)):
            assign_target(em, node.target, items[index], place)
            flow = emit_statements(em, node.body)
            if flow in (Flow.EXITS, Flow.THROWS):
                return flow
            if flow is Flow.MAYBE:
                if index + 1 == len(items):
                    return Flow.MAYBE
                return _guarded_by(em, place, functools.partial(from_item, index + 1))
        return Flow.FALLS

    try:
        return from_item(0)
    finally:
        em.loops, em.is_unrolled = loops, unrolled


def _guarded_by(em: Emitter, place: Any, rest: Callable[[], Flow]) -> Flow:
    """Emits what runs only if nothing has returned."""
    before, result = dict(em.env.flags), em.env.find("$result")

    def keep() -> Flow:
        em.env.flags.update(before)
        em.env.names["$result"] = result
        return Flow.EXITS

    def go_on() -> Flow:
        em.env.flags["return"] = False
        return rest()

    flow = _branches(em, Condition(em.env.flag("return"), None), keep, go_on, place)
    return Flow.EXITS if flow is Flow.EXITS else Flow.MAYBE


def _break(em: Emitter, node: ast.stmt, place: Any) -> Flow:
    word = "break" if isinstance(node, ast.Break) else "continue"
    if em.is_unrolled:
        fail(
            place,
            "Because we emit iteration over Modulelists or Tuples as unrolled loops, we do not "
            "support break or continue inside the body of these loops",
        )
    if not em.loops:
        fail(place, f"{word} statement outside of a loop")
        unsupported(em.source, node)
    em.env.flags[word] = True
    return Flow.EXITS


# ---- return, raise, assert -----------------------------------------------------------------------


def _return(em: Emitter, node: ast.Return, place: Any) -> Flow:
    declared = em.return_type
    value = em.const(None) if node.value is None else emit(em, node.value, declared)
    if declared is not None:
        value = matching.convert(em, value, declared, False)
        if not value._type.isSubtypeOf(declared):
            fail(
                place,
                f"Return value was annotated as having type {declared.annotation_str} but is "
                f"actually of type {value._type.annotation_str}",
            )
        em.returned = declared
    else:
        kind = unshaped(value._type)
        both = kind if em.returned is None else unify(em.returned, kind)
        if both is None:
            assert em.returned is not None
            fail(
                place,
                f"Previous return statement returned a value of type {em.returned.annotation_str} "
                f"but this return statement returns a value of type {kind.annotation_str}",
            )
        em.returned = unshaped(both)
    em.env.flags["return"] = True
    em.env.names["$result"] = SimpleValue(value)
    return Flow.EXITS


def _raise(em: Emitter, node: ast.Raise, place: Any) -> Flow:
    if node.exc is None:
        fail(place, "raise must be followed by an exception")
    raised = emit_sugared(em, node.exc)
    if isinstance(raised, ExceptionClass):
        raised = raised.call(em, [], {}, place)
    if not isinstance(raised, ExceptionObject):
        raised = _exception_of(em, raised, place)
    name = raised.name
    inputs = [raised.message, em.const(name)]
    em.graph.insert("prim::RaiseException", inputs, 0)
    return Flow.THROWS


def _exception_of(em: Emitter, value: Sugared, place: Any) -> ExceptionObject:
    made = value.as_value(em, place)
    if isinstance(made._type, types.StringType):
        return ExceptionObject("Exception", made)
    if isinstance(made._type, ScriptClassType):
        message = em.call_builtin("aten::str", [made], place)
        return ExceptionObject(made._type.annotation_str, message)
    fail(place, "exceptions must derive from BaseException")


def _assert(em: Emitter, node: ast.Assert, place: Any) -> Flow:
    condition = emit_condition(em, node.test)
    if condition.static is True:
        refine(em, condition.if_true)
        return Flow.FALLS

    def raises() -> Flow:
        message = em.const("AssertionError: " if node.msg is None else "")
        if node.msg is not None:
            given = emit(em, node.msg)
            if not isinstance(given._type, types.StringType):
                given = em.call_builtin("aten::str", [given], place)
            message = em.call_builtin("aten::add", [em.const("AssertionError: "), given], place)
        em.graph.insert("prim::RaiseException", [message, em.const("AssertionError")], 0)
        return Flow.THROWS

    if condition.static is False:
        return raises()
    return _branches(em, condition, lambda: Flow.FALLS, raises, place)


# ---- assignments ---------------------------------------------------------------------------------


def assign_target(
    em: Emitter, target: ast.expr, value: Sugared, place: Any, kind: Type | None = None
) -> None:
    """Assigns a value to a name, an attribute, a part, or several of them."""
    if isinstance(target, ast.Name):
        if isinstance(value, SimpleValue):
            if kind is not None:
                converted = matching.convert(em, value.value, kind, False)
                if not converted._type.isSubtypeOf(kind):
                    fail(
                        place,
                        f"Variable '{target.id}' is annotated with type {kind.annotation_str} but "
                        f"is being assigned to a value of type {converted._type.annotation_str}",
                    )
                value = SimpleValue(converted)
            if not value.value.hasDebugName() and target.id.isidentifier():
                value.value.setDebugName(target.id)
        elif not isinstance(value, (SimpleValue,)) and _is_result(value):
            value = SimpleValue(value.as_value(em, place))
        em.env.assign(target.id, value, place, kind)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _assign_parts(em, target, value, place)
    elif isinstance(target, ast.Attribute):
        owner = emit_sugared(em, target.value)
        if kind is not None:
            em.attribute_hint = (target.attr, kind)
        owner.set_attr(em, target.attr, value.as_value(em, place), place)
        em.attribute_hint = None
    elif isinstance(target, ast.Subscript):
        assign_subscript(em, target, value.as_value(em, place), place)
    elif isinstance(target, ast.Starred):
        fail(place, "Only one starred expression is allowed on the lhs")
    else:
        fail(place, "unexpected expression on left-hand side of assignment")


def _is_result(value: Sugared) -> bool:
    """Tells if a sugared value is that of a call, not a meaning that a name may keep."""
    return isinstance(value, NoneValue)


def _assign_parts(em: Emitter, target: Any, value: Sugared, place: Any) -> None:
    elements = target.elts
    starred = [at for at, each in enumerate(elements) if isinstance(each, ast.Starred)]
    parts = value.items(em, place, None if starred else len(elements))
    if not starred and len(parts) != len(elements):
        more = "need more" if len(parts) < len(elements) else "too many"
        if len(parts) < len(elements):
            fail(place, f"need {len(elements)} values to unpack but found only {len(parts)}")
        fail(place, f"{more} values to unpack: need {len(elements)} but found {len(parts)}")
    if starred:
        at = starred[0]
        after = len(elements) - at - 1
        middle = parts[at : len(parts) - after]
        packed: Sugared = TupleOf(middle)
        if all(isinstance(part, SimpleValue) for part in middle):
            packed = SimpleValue(em.pack_tuple([part.as_value(em, place) for part in middle]))
        assign_target(em, elements[at].value, packed, place)
        parts = [*parts[:at], *parts[len(parts) - after :]]
        elements = [*elements[:at], *elements[at + 1 :]]
    for each, part in zip(elements, parts):
        assign_target(em, each, part, place)


def _assign(em: Emitter, node: ast.Assign, place: Any) -> None:
    hint = None
    first = node.targets[0]
    if isinstance(first, ast.Name):
        hint = em.env.declared(first.id) if em.env.parent is not None else None
        if hint is None and isinstance(node.value, (ast.List, ast.Dict, ast.ListComp)):
            before = em.env.find(first.id)
            if isinstance(before, SimpleValue):
                hint = before.value._type if em.env.parent is not None else None
    elif isinstance(first, ast.Attribute) and isinstance(
        node.value, (ast.List, ast.Dict, ast.Tuple)
    ):
        hint = _attribute_type(em, first)
    value = emit_sugared(em, node.value, hint)
    for target in node.targets:
        assign_target(em, target, value, place)


def _attribute_type(em: Emitter, target: ast.Attribute) -> Type | None:
    """The declared type of an attribute that is assigned."""
    if not isinstance(target.value, ast.Name):
        return None
    owner = em.env.find(target.value.id)
    if isinstance(owner, SimpleValue) and isinstance(owner.value._type, ScriptClassType):
        return owner.value._type.find_attribute(target.attr)
    return None


def _check_literal(value: ast.expr, kind: Type, place: Any) -> None:
    """Refuses an annotation of a list or dict that allows neither."""
    members = kind._alternatives()
    for name, literals, wanted in (
        ("List", (ast.List, ast.ListComp), types.ListType),
        ("Dict", (ast.Dict, ast.DictComp), types.DictType),
    ):
        if isinstance(value, literals) and not any(
            isinstance(each, (wanted, types.AnyType)) for each in members
        ):
            if isinstance(kind, types.UnionType):
                fail(
                    place,
                    f"Expected an Union type annotation with an inner {name} type, but got "
                    f"{kind.annotation_str}",
                )
            fail(place, f"Expected an annotation of type {name} but got {kind.annotation_str}")


def _annotated(em: Emitter, node: ast.AnnAssign, place: Any) -> None:
    kind = annotated_type(em, node.annotation)
    if node.value is None:
        fail(place, "Type annotations without a value are not supported")
    target = node.target
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        # In graphs of archives the annotations of attributes are those of the class.
        if target.value.id == "self" and em.self_type is not None and not em.is_init:
            raise ValueError(
                "Type annotations on instance attributes must be declared in __init__, not "
                f"'{em.function.name}': {place.highlight()}"
            )
    _check_literal(node.value, kind, place)
    value = emit_sugared(em, node.value, kind)
    if isinstance(value, SimpleValue):
        converted = matching.convert(em, value.value, kind, False)
        value = SimpleValue(converted)
    assign_target(em, node.target, value, place, kind)


_IN_PLACE = {
    ast.Add: ("aten::add_", "__iadd__"), ast.Sub: ("aten::sub_", "__isub__"),
    ast.Mult: ("aten::mul_", "__imul__"), ast.Div: ("aten::div_", "__itruediv__"),
    ast.Mod: ("aten::fmod_", "__imod__"), ast.BitOr: ("aten::__ior__", "__ior__"),
    ast.BitAnd: ("aten::__iand__", "__iand__"), ast.BitXor: ("aten::__ixor__", "__ixor__"),
    ast.LShift: ("aten::__ilshift__", "__ilshift__"), ast.Pow: ("aten::pow_", "__ipow__"),
    ast.RShift: ("aten::__irshift__", "__irshift__"),
    ast.FloorDiv: ("aten::floor_divide_", "__ifloordiv__"),
    ast.MatMult: ("aten::matmul", "__imatmul__"),
}  # fmt: skip


def _augmented_value(em: Emitter, op: ast.operator, old: Value, new: Value, place: Any) -> Value:
    """The result of `old op= new`: in place for tensors and lists."""
    operator, method = _IN_PLACE[type(op)]
    kind = old._type
    if isinstance(kind, TensorType) and not isinstance(op, (ast.MatMult,)):
        return em.call_builtin(operator, [old, new], place)
    if isinstance(kind, types.ListType) and isinstance(op, ast.Add):
        return em.call_builtin("aten::add_", [old, new], place)
    if isinstance(kind, types.ListType) and isinstance(op, ast.Mult):
        return em.call_builtin("aten::mul_", [old, new], place)
    if isinstance(kind, ScriptClassType) and kind.find_method(method) is not None:
        return (
            SimpleValue(old).attr(em, method, place).call(em, [new], {}, place).as_value(em, place)
        )
    return binary(em, type(op), old, new, place)


def _augmented(em: Emitter, node: ast.AugAssign, place: Any) -> None:
    target = node.target
    if isinstance(target, ast.Subscript):
        augment_subscript(
            em, target, node.value, place,
            lambda old, new: _augmented_value(em, node.op, old, new, place),
        )  # fmt: skip
        return
    load = ast.copy_location(
        ast.Name(target.id, ast.Load())
        if isinstance(target, ast.Name)
        else ast.Attribute(target.value, target.attr, ast.Load()),
        target,
    )
    old = emit(em, load)
    new = emit(em, node.value, old._type if isinstance(old._type, types.ListType) else None)
    result = _augmented_value(em, node.op, old, new, place)
    assign_target(em, target, SimpleValue(result), place)


# ---- others --------------------------------------------------------------------------------------


def _expression(em: Emitter, node: ast.Expr, place: Any) -> None:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return
    found = emit_sugared(em, node.value)
    if isinstance(found, SimpleValue):
        found.as_value(em, place)


def _delete(em: Emitter, node: ast.Delete, place: Any) -> None:
    for target in node.targets:
        if isinstance(target, ast.Subscript):
            container = emit(em, target.value)
            if isinstance(target.slice, ast.Slice):
                fail(
                    place,
                    "del statements only support deletion at a single index, slicing is not "
                    "supported",
                )
            if isinstance(container._type, (ScriptClassType, InterfaceType)):
                method = SimpleValue(container).attr(em, "__delitem__", place)
                method.call(em, [emit(em, target.slice)], {}, place)
            else:
                em.call_builtin("aten::Delete", [container, emit(em, target.slice)], place)
        elif isinstance(target, ast.Name):
            em.env.names.pop(target.id, None)
            em.env.missing[target.id] = f"undefined value {target.id}"
        else:
            fail(place, "del statements are only supported for deleting list and dict items")


def _with(em: Emitter, node: ast.With, place: Any) -> Flow:
    managers: list[Value] = []
    for item in node.items:
        where = em.source.range(item.context_expr)
        manager = emit_sugared(em, item.context_expr).as_value(em, where)
        kind = manager._type
        if not isinstance(kind, ScriptClassType):
            fail(
                where,
                "With item expression must return an object",
            )
        enter = kind.find_method("__enter__") or em.compile_method(kind, "__enter__")
        leave = kind.find_method("__exit__") or em.compile_method(kind, "__exit__")
        if enter is None or leave is None:
            fail(
                where,
                "Object returned by with item expression does not define __enter__ and __exit__ "
                "methods",
            )
        if len(enter.schema._arguments) != 1:
            fail(where, "__enter__ must have only one argument and one return value")
        if len(leave.schema._arguments) != 4:
            fail(where, "__exit__ must have four arguments")
        entered = em.graph.insert("prim::Enter", [manager])
        result = entered._outputs[0].setType(enter.schema._returns[0].type)
        if item.optional_vars is not None:
            assign_target(em, item.optional_vars, SimpleValue(result), where)
        managers.append(manager)
    flow = emit_statements(em, node.body)
    for manager in reversed(managers):
        leaving = em.graph.insert("prim::Exit", [manager])
        leaving._outputs[0].setType(types.NoneType.get())
    return flow


def _function(em: Emitter, node: ast.FunctionDef, place: Any) -> None:
    em.env.assign(node.name, NestedFunction(node, em.env), place)


def _pass(em: Emitter, node: ast.stmt, place: Any) -> None:
    return


_EMITTERS: dict[type, Callable[[Emitter, Any, Any], Flow | None]] = {
    ast.If: _if, ast.While: _while, ast.For: _for, ast.Break: _break, ast.Continue: _break,
    ast.Return: _return, ast.Raise: _raise, ast.Assert: _assert, ast.Assign: _assign,
    ast.AnnAssign: _annotated, ast.AugAssign: _augmented, ast.Expr: _expression,
    ast.Delete: _delete, ast.With: _with, ast.FunctionDef: _function, ast.Pass: _pass,
}  # fmt: skip


late.provides(assign_target)
