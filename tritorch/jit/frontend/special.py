"""Functions that the compiler itself evaluates, because their arguments are no plain values."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tritorch.jit.frontend import conditions, late, matching
from tritorch.jit.frontend.annotations import type_of
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.environment import Environment
from tritorch.jit.frontend.matching import unified
from tritorch.jit.frontend.source import fail
from tritorch.jit.frontend.sugared import (
    Args,
    Counting,
    FunctionValue,
    Kwargs,
    MethodValue,
    NoneValue,
    RangeOf,
    SimpleValue,
    Sugared,
    TupleOf,
    Zipped,
)
from tritorch.jit.ir.graph import Graph, Value
from tritorch.schema import types
from tritorch.schema.types import Type

_CONSTRUCTED = ("prim::ListConstruct", "prim::DictConstruct", "prim::TupleConstruct")
Form = Callable[[Emitter, ast.Call, Any, "Type | None"], Sugared]


def call(em: Emitter, name: str, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    """The result of a call of the special form of a name."""
    return _FORMS[name](em, node, place, hint)


def _exactly(node: ast.Call, count: int, place: Any, name: str) -> None:
    if len(node.args) != count or node.keywords:
        fail(place, f"{name} expected exactly {count} arguments but found {len(node.args)}")


def _sugared(em: Emitter, node: ast.expr, hint: Type | None = None) -> Sugared:
    return late.emit_sugared(em, node, hint)


def _emit(em: Emitter, node: ast.expr, hint: Type | None = None) -> Value:
    return late.emit(em, node, hint)


def _annotate(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    if len(arguments) != 2:
        fail(place, f"annotate expected exactly 2 arguments but found {len(arguments)}")
    kind = type_of(arguments[0], em.resolver, em.source)
    value = matching.convert(em, _emit(em, arguments[1], kind), kind, True)
    if not value._type.isSubtypeOf(kind):
        fail(
            place,
            f"expected an expression of type {kind.annotation_str} but found "
            f"{value._type.annotation_str}",
        )
    if isinstance(kind, types.OptionalType) and isinstance(value._type, types.NoneType):
        value = em.const(None)
        value._type = kind
    elif value._type != kind and value._node._kind in _CONSTRUCTED:
        value._type = kind.getElementType() if isinstance(kind, types.OptionalType) else kind
    elif value._type != kind:
        value = em.graph.insert("prim::unchecked_cast", [value])._outputs[0].setType(kind)
    return SimpleValue(value)


def _unchecked_cast(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    _exactly(node, 2, place, "unchecked_cast")
    kind = type_of(node.args[0], em.resolver, em.source)
    value = _emit(em, node.args[1])
    made = em.graph.insert("prim::unchecked_cast", [value])._outputs[0]
    return SimpleValue(made.setType(kind))


def _uninitialized(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    _exactly(node, 1, place, "uninitialized")
    return SimpleValue(em.uninitialized(type_of(node.args[0], em.resolver, em.source)))


def _condition(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    return SimpleValue(conditions.emit_condition(em, node).as_value(em))


def _getattr(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    if len(node.args) not in (2, 3) or node.keywords:
        fail(place, f"getattr expected 2 or 3 arguments but found {len(node.args)}")
    owner, name = _sugared(em, node.args[0]), _known_text(em, node.args[1])
    if name is None:
        fail(place, "getattr's second argument must be a string literal")
    if len(node.args) == 3 and not owner.has_attr(em, name, place):
        return _sugared(em, node.args[2])
    return owner.attr(em, name, place)


def _known_text(em: Emitter, node: ast.expr) -> str | None:
    """A text that the compiler knows: a literal, or one of literals and constants."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            known = part.value
        else:
            known = _emit(em, part.value).toIValue()  # type: ignore[attr-defined]
        if known is None:
            return None
        parts.append(str(known))
    return "".join(parts)


def _zip(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    if not node.args:
        fail(place, "zip expected at least 1 arguments, got 0")
    return Zipped([_sugared(em, each).iterate(em, place) for each in node.args])


def _enumerate(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    given = {k.arg: k.value for k in node.keywords}
    start = node.args[1] if len(node.args) > 1 else given.get("start")
    if not node.args or len(node.args) > 2:
        fail(place, f"enumerate expected at most 2 arguments, got {len(node.args)}")
    value = None if start is None else _emit(em, start)
    if value is not None and value.toIValue() == 0:
        value = None
    return Zipped([Counting(value), _sugared(em, node.args[0]).iterate(em, place)])


def _reversed(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    _exactly(node, 1, place, "reversed")
    owner = _sugared(em, node.args[0])
    if isinstance(owner, RangeOf):
        bounds = owner.static_bounds()
        if bounds is not None:
            return TupleOf([SimpleValue(em.const(number)) for number in reversed(bounds)])
    if isinstance(owner, TupleOf):
        return TupleOf(owner.parts[::-1])
    if isinstance(owner, SimpleValue) and isinstance(owner.value._type, types.ListType):
        copied = em.call_builtin("aten::list", [owner.value], place)
        em.call_builtin("aten::reverse", [copied], place)
        return SimpleValue(copied)
    return TupleOf(owner.items(em, place)[::-1])


def _range(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    return RangeOf(em, late.arguments(em, node)[0], place)


def _list(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    if not node.args:
        return _sugared(em, ast.copy_location(ast.List(elts=[], ctx=ast.Load()), node), hint)
    source = _sugared(em, node.args[0])
    if isinstance(source, SimpleValue):
        kind = source.value._type
        if isinstance(kind, types.TupleType):
            parts = em.unpack_tuple(source.value)
            element = unified(em, [part._type for part in parts], place)
            return SimpleValue(em.make_list(parts, element))
        if isinstance(kind, (types.ListType, types.StringType)):
            return SimpleValue(em.call_builtin("aten::list", [source.value], place))
        if isinstance(kind, types.DictType):
            return SimpleValue(em.call_builtin("aten::keys", [source.value], place))
    element_hint = None
    if isinstance(hint, types.ListType):
        element_hint = hint
    return _through_loop(em, node, source, place, element_hint)


def _through_loop(
    em: Emitter, node: ast.Call, source: Sugared, place: Any, hint: Type | None
) -> Sugared:
    """`list(iterable)`, as a comprehension over it."""
    target = ast.Name("$each", ast.Store())
    body = ast.ListComp(
        elt=ast.Name("$each", ast.Load()),
        generators=[ast.comprehension(target, node.args[0], [], 0)],
    )
    for each in (target, body, body.elt):
        ast.copy_location(each, node)
    return _sugared(em, body, hint)


def _tuple(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    if not node.args:
        return SimpleValue(em.pack_tuple([]))
    source = _sugared(em, node.args[0])
    if isinstance(source, SimpleValue) and isinstance(source.value._type, types.TupleType):
        return source
    parts = source.items(em, place)
    if all(isinstance(part, SimpleValue) for part in parts):
        return SimpleValue(em.pack_tuple([part.as_value(em, place) for part in parts]))
    return TupleOf(parts)


def _dict(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    keywords = [(ast.copy_location(ast.Constant(k.arg), k.value), k.value) for k in node.keywords]
    if not node.args:
        made = ast.Dict(keys=[k for k, _ in keywords], values=[v for _, v in keywords])
        return _sugared(em, ast.copy_location(made, node), hint)
    first = node.args[0]
    if isinstance(first, (ast.List, ast.Tuple)):
        pairs = [each for each in first.elts if isinstance(each, ast.Tuple)]
        keys: list[ast.expr | None] = [p.elts[0] for p in pairs]
        made = ast.Dict(
            keys=keys + [k for k, _ in keywords],
            values=[p.elts[1] for p in pairs] + [v for _, v in keywords],
        )
        return _sugared(em, ast.copy_location(made, node), hint)
    if isinstance(first, ast.DictComp):
        copied = _emit(em, first, hint)
    elif isinstance(first, (ast.ListComp, ast.GeneratorExp)) and isinstance(first.elt, ast.Tuple):
        pair = first.elt.elts
        made_comp = ast.DictComp(key=pair[0], value=pair[1], generators=first.generators)
        copied = _emit(em, ast.copy_location(made_comp, node), hint)
    else:
        value = _emit(em, first)
        if not isinstance(value._type, (types.DictType, types.ListType)):
            source = _sugared(em, first)
            value = _emit(em, node.args[0]) if source is None else value
        copied = em.call_builtin("aten::dict", [value], place)
    for key, value_node in keywords:
        pair_values = [_emit(em, key), _emit(em, value_node)]
        em.call_builtin("aten::_set_item", [copied, *pair_values], place)
    return SimpleValue(copied)


def _print(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    em.graph.insert("prim::Print", late.arguments(em, node)[0], 0)
    return NoneValue()


def _cast(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    _exactly(node, 2, place, "cast")
    kind = type_of(node.args[0], em.resolver, em.source)
    return SimpleValue(em.cast(_emit(em, node.args[1]), kind))


def _first(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    """`_unwrap_optional(x)`."""
    _exactly(node, 1, place, "_unwrap_optional")
    value = _emit(em, node.args[0])
    if not isinstance(value._type, types.OptionalType):
        return SimpleValue(value)
    made = em.graph.insert("aten::_unwrap_optional", [value])._outputs[0]
    return SimpleValue(made.setType(value._type.getElementType()))


# ---- functions inside functions, fork ------------------------------------------------------------


class NestedFunction(Sugared):
    """A function that is defined inside another: it is compiled where it is used."""

    def __init__(self, node: ast.FunctionDef, env: Environment) -> None:
        self.node, self.env = node, env

    def describe(self) -> str:
        """ "closure"."""
        return "closure"

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        fail(place, "functions that are defined inside functions can only be forked")

    def _captured(self, em: Emitter, own: set[str]) -> dict[str, Value]:
        """The values of the function around that the body reads."""
        found: dict[str, Value] = {}
        for each in ast.walk(self.node):
            if isinstance(each, ast.Name) and each.id not in own:
                value = em.env.find(each.id) or self.env.find(each.id)
                if isinstance(value, SimpleValue):
                    found[each.id] = value.value
        return found

    def graph(self, em: Emitter, args: list[Value], place: Any) -> tuple[Graph, Type, list[Value]]:
        """The function's body as a graph, its result's type, and the values that it is given:
        the arguments, and what it reads of the function around."""
        inner = Emitter(em.unit, em.function, em.source, em.resolver)
        formal = late.parameters(self.node, em.resolver, em.source)
        if len(formal) != len(args):
            fail(place, f"fork needs {len(formal)} arguments, {len(args)} were given")
        for (name, kind), value in zip(formal, args):
            given = inner.graph.addInput(name).setType(kind or value._type)
            inner.env.names[name] = SimpleValue(given)
        captured = self._captured(em, {name for name, _ in formal})
        for name, value in captured.items():
            given = inner.graph.addInput(name).setType(value._type)
            inner.env.names[name] = SimpleValue(given)
        returns = self.node.returns
        inner.return_type = None if returns is None else type_of(returns, em.resolver, em.source)
        result = late.compile_body(inner, self.node)
        return inner.graph, result, [*args, *captured.values()]


def _fork(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    return _later(em, node, place, "prim::fork", types.FutureType)


def _awaitable(em: Emitter, node: ast.Call, place: Any, hint: Type | None) -> Sugared:
    return _later(em, node, place, "prim::awaitable", types.AwaitType)


def _later(em: Emitter, node: ast.Call, place: Any, kind: str, wrapper: Any) -> Sugared:
    """A call that runs beside this function, or when its result is asked for."""
    if not node.args:
        fail(place, "Expected at least one argument to fork()")
    callee = _sugared(em, node.args[0])
    rest = ast.copy_location(ast.Call(node.func, node.args[1:], node.keywords), node)
    args, kwargs = late.arguments(em, rest)
    if isinstance(callee, NestedFunction):
        graph, result, args = callee.graph(em, args, place)
    else:
        owner = callee.self_value if isinstance(callee, MethodValue) else None
        if isinstance(callee, SimpleValue):
            owner = callee.value
        graph, result = _call_graph(em, callee, owner, args, kwargs, place)
        args = [*([] if owner is None else [owner]), *args, *kwargs.values()]
    made = em.graph.insert(kind, args)
    made.set("Subgraph", graph)
    return SimpleValue(made._outputs[0].setType(wrapper(result)))


def _call_graph(
    em: Emitter, callee: Sugared, owner: Value | None, args: list[Value],
    kwargs: dict[str, Value], place: Any,
) -> tuple[Graph, Type]:  # fmt: skip
    """A graph that only calls a function or method with its inputs."""
    inner = Emitter(em.unit, em.function, em.source, em.resolver)
    inner.graph._source = em.graph._source

    def given(value: Value) -> Value:
        return inner.graph.addInput().copyMetadata(value)

    target: Sugared = callee
    if owner is not None:
        bound = given(owner)
        if isinstance(callee, MethodValue):
            target = MethodValue(bound, callee.kind, *callee.names)
        else:
            target = SimpleValue(bound)
    elif not isinstance(callee, FunctionValue):
        fail(place, f"{callee.describe()} cannot be forked")
    inside = [given(value) for value in args]
    named = {name: given(value) for name, value in kwargs.items()}
    result = target.call(inner, inside, named, place).as_value(inner, place)
    inner.graph.registerOutput(result)
    return inner.graph, result._type


_FORMS: dict[str, Form] = {
    "annotate": _annotate, "unchecked_cast": _unchecked_cast, "uninitialized": _uninitialized,
    "isinstance": _condition, "hasattr": _condition, "is_scripting": _condition,
    "getattr": _getattr, "zip": _zip, "enumerate": _enumerate, "reversed": _reversed,
    "range": _range, "list": _list, "tuple": _tuple, "dict": _dict, "print": _print,
    "cast": _cast, "fork": _fork, "awaitable": _awaitable, "_unwrap_optional": _first,
}  # fmt: skip
