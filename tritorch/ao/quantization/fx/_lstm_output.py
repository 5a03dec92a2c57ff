"""Outputs of quantized LSTMs in graphs: a nested tuple whose tensors are dequantized one by one."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tritorch.ao.quantization.fx._nodes import (
    _get_module,
    _is_custom_module_lstm,
    get_new_attr_name_with_prefix,
)
from tritorch.ao.quantization.stubs import DeQuantStub
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node
from tritorch.nn import Module


def _insert_dequant_stub(
    node: Node, model: Module, named_modules: dict[str, Module], graph: Graph
) -> Node:
    """A call of a new `DeQuantStub` of the model after a node."""
    name = get_new_attr_name_with_prefix("dequant_stub_")(model)
    stub = DeQuantStub()
    setattr(model, name, stub)
    named_modules[name] = stub
    with graph.inserting_after(node):
        return graph.call_module(name, (node,))


def _insert_dequant_stubs_for_custom_module_lstm_output(
    node: Node, model: Module, named_modules: dict[str, Module], graph: Graph
) -> Node:
    """Takes (output, (hidden, cell)) of an LSTM apart, dequantizes each and puts them together
    again; users read the result, or the dequantized part that they select. Returns the result."""

    def after(previous: Node, function: Callable[..., Any], *args: Any) -> Node:
        with graph.inserting_after(previous):
            return graph.call_function(function, args)

    def dequantized(part: Node) -> Node:
        return _insert_dequant_stub(part, model, named_modules, graph)

    output = after(node, operator.getitem, node, 0)
    output_stub = dequantized(output)
    hidden = after(output_stub, operator.getitem, node, 1)
    hidden_stub = dequantized(after(hidden, operator.getitem, hidden, 0))
    cell_stub = dequantized(after(hidden_stub, operator.getitem, hidden, 1))
    states = after(cell_stub, tuple, [hidden_stub, cell_stub])
    result = after(states, tuple, [output_stub, states])
    for user in list(node.users):
        if user is not output and user is not hidden:
            user.replace_input_with(node, result)
    _reroute_tuple_getitem_pattern(graph)
    return result


def _maybe_get_custom_module_lstm_from_node_arg(
    arg: Node, named_modules: dict[str, Module]
) -> Node | None:
    """The LSTM whose dequantized output, or part of it, an argument is."""

    def is_stub(node: Node) -> bool:
        return isinstance(_get_module(node, named_modules), DeQuantStub)

    def is_getitem(node: Node) -> bool:
        return node.op == "call_function" and node.target is operator.getitem

    def is_tuple(node: Node) -> bool:
        return node.op == "call_function" and node.target is tuple

    def is_lstm(node: Node) -> bool:
        return _is_custom_module_lstm(node, named_modules)

    def source(steps: list[Callable[[Node], bool]]) -> Node | None:
        node: Any = arg
        for position, matches in enumerate(steps):
            if not matches(node):
                return None
            if position < len(steps) - 1:
                node = node.args[0][0] if matches is is_tuple else node.args[0]
        return node

    ways: list[list[Callable[[Node], bool]]] = [
        [is_stub, is_getitem, is_lstm],
        [is_tuple, is_stub, is_getitem, is_getitem, is_lstm],
        [is_stub, is_getitem, is_getitem, is_lstm],
        [is_tuple, is_stub, is_getitem, is_lstm],
    ]
    return next((node for node in map(source, ways) if node is not None), None)


def _reroute_tuple_getitem_pattern(graph: Graph) -> None:
    """Makes users of an entry of a tuple that was just put together read the entry itself, through
    any depth: `tuple`s are followed by as many `getitem`s with the indices in reverse."""
    matched: list[list[Node]] = []
    seen: set[tuple[Node, tuple[int, ...]]] = set()

    def follow(node: Node, indices: list[int], path: list[Node]) -> None:
        if not indices and path:
            matched.append(list(path))
            path.clear()
        state = (node, tuple(indices))
        if state in seen:
            return
        seen.add(state)
        for user in node.users:
            if user.op != "call_function":
                continue
            if user.target is tuple:
                entries: Any = user.args[0]
                for index, entry in enumerate(entries):
                    if entry == node:
                        indices.append(index)
                        path.append(user)
                        follow(user, indices, path)
            elif user.target is operator.getitem and indices and user.args[1] == indices[-1]:
                indices.pop()
                path.append(user)
                follow(user, indices, path)

    for node in graph.nodes:
        follow(node, [], [])
    for path in matched:
        first, last = path[0], path[-1]
        if first.target is not tuple:
            raise AssertionError("first tuple node must be a call_function with target tuple")
        if last.target is not operator.getitem:
            raise AssertionError(
                "last getitem node must be a call_function with target operator.getitem"
            )
        entries: Any = first.args[0]
        entry = entries[last.args[1]]
        for user in list(last.users):
            user.replace_input_with(last, entry)
