"""List and dict comprehensions: loops that append to a container."""

from __future__ import annotations

import ast
from typing import Any

from tritorch.jit.frontend import late
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.environment import Environment
from tritorch.jit.frontend.matching import unified
from tritorch.jit.frontend.source import NotSupportedError, fail
from tritorch.jit.frontend.sugared import SimpleValue, Sugared
from tritorch.jit.ir.graph import Value
from tritorch.schema import types
from tritorch.schema.types import Type


def _generator(node: Any, place: Any) -> ast.comprehension:
    if len(node.generators) != 1:
        raise NotSupportedError(place, "Only a single generator is currently supported")
    return node.generators[0]


def _each(em: Emitter, node: Any, place: Any, fill: Any) -> None:
    """Runs `fill` for each item that the conditions let through."""
    generator = _generator(node, place)
    if generator.ifs:
        raise NotSupportedError(place, "Comprehension ifs are not supported yet")
    iterable = late.emit_sugared(em, generator.iter).iterate(em, place)
    loop = em.graph.insert("prim::Loop", [iterable.length(em, place), em.const(True)], 0)
    block = loop.addBlock()
    index = block.addInput().setType(types.IntType.get())
    with em.scope(block):
        late.assign_target(em, generator.target, iterable.item(em, index, place), place)
        fill()
        block.registerOutput(em.const(True))


def list_comprehension(em: Emitter, node: Any, place: Any, hint: Type | None) -> Sugared:
    """`[f(x) for x in xs]`; over parts that the compiler knows, a list of their values."""
    generator = _generator(node, place)
    if not generator.ifs:
        iterable = late.emit_sugared(em, generator.iter).iterate(em, place)
        static = iterable.static_items(em, place)
        if static is not None:
            return _unrolled(em, node, generator, static, place, hint)
    element = None if hint is None else hint.getElementType()  # type: ignore[attr-defined]
    made = em.make_list([], element or types.AnyType.get())

    def fill() -> None:
        value: Value = late.emit(em, node.elt, element)
        if element is None:
            kind = types.ListType(value._type)
            made._type = kind
        elif not value._type.isSubtypeOf(element):
            fail(
                place,
                f"List type annotation `{types.ListType(element).annotation_str}` did not match "
                "the types of the given list elements: Expected type of list element to be "
                f"{element.annotation_str} but instead found type {value._type.annotation_str}",
            )
        em.call_builtin("aten::append", [made, value], place)

    _each(em, node, place, fill)
    return SimpleValue(made)


def _unrolled(
    em: Emitter, node: Any, generator: Any, items: Any, place: Any, hint: Type | None
) -> Sugared:
    values = []
    before = em.env
    for item in items:
        em.env = Environment(before)
        late.assign_target(em, generator.target, item, place)
        values.append(late.emit(em, node.elt))
    em.env = before
    element = (
        hint.getElementType()  # type: ignore[attr-defined]
        if hint is not None
        else unified(em, [value._type for value in values], place)
    )
    return SimpleValue(em.make_list(values, element))


def dict_comprehension(em: Emitter, node: Any, place: Any, hint: Type | None) -> Sugared:
    """`{key(x): value(x) for x in xs}`."""
    made = em.graph.insert("prim::DictConstruct")._outputs[0]
    made._type = hint or types.DictType(types.StringType.get(), types.AnyType.get())

    def fill() -> None:
        parts = (None, None) if hint is None else hint._contained
        key, value = late.emit(em, node.key, parts[0]), late.emit(em, node.value, parts[1])
        if hint is None:
            made._type = types.DictType(key._type, value._type)
        em.call_builtin("aten::_set_item", [made, key, value], place)

    generator = _generator(node, place)
    static = late.emit_sugared(em, generator.iter).iterate(em, place).static_items(em, place)
    if static is not None and not generator.ifs:
        before = em.env
        for item in static:
            em.env = Environment(before)
            late.assign_target(em, generator.target, item, place)
            fill()
        em.env = before
    else:
        _each(em, node, place, fill)
    return SimpleValue(made)
