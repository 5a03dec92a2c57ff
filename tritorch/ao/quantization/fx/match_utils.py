"""Matching of patterns of modules and functions, last operation first, with a graph's nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from tritorch.ao.quantization.fx.graph_module import _is_observed_standalone_module
from tritorch.ao.quantization.fx.quantize_handler import QuantizeHandler
from tritorch.ao.quantization.qconfig import QConfigAny
from tritorch.ao.quantization.utils import MatchAllNode, Pattern
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node
from tritorch.nn import Module
from tritorch.nn.utils.parametrize import type_before_parametrizations

__all__: list[str] = []

_MatchResult = tuple[Node, list[Node], Pattern | None, QuantizeHandler]
_MatchResultWithQConfig = tuple[Node, list[Node], Pattern | None, QuantizeHandler, QConfigAny]


def _is_match(
    modules: dict[str, Module], node: Any, pattern: Any, max_uses: int = sys.maxsize
) -> bool:
    """True if a node and what it reads match a pattern: an operation, or a tuple of one with the
    patterns of its arguments. What is read has no other use."""
    operation, arguments = pattern, []
    if isinstance(pattern, tuple):
        operation, *arguments = pattern
        if operation is getattr:
            if len(pattern) != 2:
                raise AssertionError("Expecting getattr pattern to have two elements")
            arguments = []
    if isinstance(operation, type) and issubclass(operation, MatchAllNode):
        return True
    if node == pattern:
        return True
    if not isinstance(node, Node) or len(node.users) > max_uses:
        return False
    if not _is_operation(modules, node, operation):
        return False
    if node.op == "call_function" and node.target is getattr and node.args[1] != pattern[1]:
        return False
    if not arguments:
        return True
    return len(arguments) == len(node.args) and all(
        _is_match(modules, argument, part, max_uses=1)
        for argument, part in zip(node.args, arguments)
    )


def _is_operation(modules: dict[str, Module], node: Node, operation: Any) -> bool:
    """True if a node calls this module type, function or method."""
    if isinstance(operation, type) and issubclass(operation, Module):
        return node.op == "call_module" and (
            type_before_parametrizations(modules[str(node.target)]) == operation
        )
    if callable(operation):
        return node.op == "call_function" and node.target is operation
    if isinstance(operation, str):
        return node.op == "call_method" and node.target == operation
    return bool(node.target == operation)


def _matched_nodes(pattern: Any, node: Any) -> list[Any]:
    """The nodes of a match in the pattern's structure, as entries of a list.

    A pattern with one argument gives the operation and a tuple for the argument; with more, the
    entries of the arguments follow flat.
    """
    if not isinstance(pattern, tuple):
        return [node]
    operation, *arguments = pattern
    entries = _matched_nodes(operation, node)
    inner: list[Any] = []
    if operation is not getattr:
        for part, argument in zip(arguments, node.args):
            inner += _matched_nodes(part, argument)
    if len(inner) > 1 and len(arguments) == 1:
        return [*entries, tuple(inner)]
    return entries + inner


def _nodes_in(entries: Any) -> Iterable[Node]:
    if isinstance(entries, Node):
        yield entries
    elif isinstance(entries, Iterable) and not isinstance(entries, str):
        for entry in entries:
            yield from _nodes_in(entry)


def _find_matches(
    graph: Graph,
    modules: dict[str, Module],
    patterns: dict[Pattern, Any],
    root_node_getter_mapping: dict[Pattern, Callable[..., Any]],
    standalone_module_names: list[str] | None = None,
    standalone_module_classes: list[type] | None = None,
    custom_module_classes: list[Any] | None = None,
) -> dict[str, _MatchResult]:
    """Matches by the names of nodes: last node, matched nodes, pattern and a quantize handler.

    Nodes are visited from the last on, and belong to the first pattern that matches. Custom and
    standalone modules match by their class or name alone.
    """
    matches: dict[str, _MatchResult] = {}
    for node in reversed(graph.nodes):
        if node.name in matches:
            continue
        for pattern, handler_class in patterns.items():
            if _is_match(modules, node, pattern):
                entries = _matched_nodes(pattern, node)
                getter = root_node_getter_mapping.get(pattern)
                handler = handler_class(entries, modules, getter)
                for matched in _nodes_in(entries):
                    matches[matched.name] = (node, entries, pattern, handler)
                break
    for node in graph.nodes:
        if node.op != "call_module":
            continue
        module = modules[node.target]
        if type(module) in (custom_module_classes or ()):
            handler = QuantizeHandler(node, modules, is_custom_module=True)
            matches[node.name] = (node, node, None, handler)  # type: ignore[assignment]
    for node in graph.nodes:
        if node.op != "call_module":
            continue
        module = modules[node.target]
        if (
            node.target in (standalone_module_names or ())
            or type(module) in (standalone_module_classes or ())
            or _is_observed_standalone_module(module)
        ):
            handler = QuantizeHandler(node, modules, is_standalone_module=True)
            matches[node.name] = (node, node, None, handler)  # type: ignore[assignment]
    return matches
