"""Fusion of modules in a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.ao.quantization.backend_config import BackendConfig, get_native_backend_config
from tritorch.ao.quantization.backend_config.utils import (
    get_fuser_method_mapping,
    get_fusion_pattern_to_extra_inputs_getter,
    get_fusion_pattern_to_root_node_getter,
)
from tritorch.ao.quantization.fx.custom_config import FuseCustomConfig, _from_dict_or_config
from tritorch.ao.quantization.fx.fuse_handler import (
    FuseHandler,
    _get_fusion_pattern_to_fuse_handler_cls,
)
from tritorch.ao.quantization.fx.match_utils import _is_match
from tritorch.ao.quantization.fx.pattern_utils import _sorted_patterns_dict
from tritorch.ao.quantization.utils import MatchAllNode, Pattern
from tritorch.fx import GraphModule
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node, map_arg

__all__ = ["FuseHandler", "fuse"]

_Match = tuple[Node, Pattern, Any, FuseHandler, dict[Node, Any]]


def _default_root(node_pattern: Any) -> Node:
    while not isinstance(node_pattern[-1], Node):
        node_pattern = node_pattern[-1]
    return node_pattern[-1]


def fuse(
    model: GraphModule,
    is_qat: bool,
    fuse_custom_config: FuseCustomConfig | dict[str, Any] | None = None,
    backend_config: BackendConfig | dict[str, Any] | None = None,
) -> GraphModule:
    """A graph in which what the backend fuses is one call each."""
    custom = _from_dict_or_config(
        fuse_custom_config, FuseCustomConfig, "fuse_custom_config_dict", "fuse"
    )
    if backend_config is None:
        backend_config = get_native_backend_config()
    backend = _from_dict_or_config(backend_config, BackendConfig, "backend_config_dict", "prepare")
    named_modules = dict(model.named_modules())
    handlers = _sorted_patterns_dict(_get_fusion_pattern_to_fuse_handler_cls(backend))
    fusers = get_fuser_method_mapping(backend)
    root_getters = get_fusion_pattern_to_root_node_getter(backend)
    extra_getters = get_fusion_pattern_to_extra_inputs_getter(backend)
    matches = _find_matches(model, model.graph, handlers)
    fused_graph = Graph()
    copied: dict[str, Any] = {}

    def load_arg(arg: Any) -> Any:
        return map_arg(arg, lambda node: copied[node.name])

    for node in model.graph.nodes:
        match = matches.get(node.name)
        if match is None:
            copied[node.name] = fused_graph.node_copy(node, load_arg)
            continue
        last_node, pattern, matched, handler, parts = match
        if last_node is node:
            root = root_getters.get(pattern, _default_root)(matched)
            extra = extra_getters[pattern](matched) if pattern in extra_getters else []
            copied[node.name] = handler.fuse(
                load_arg, named_modules, fused_graph, root, extra, matched, custom, fusers, is_qat
            )
        elif parts.get(node) is MatchAllNode:
            copied[node.name] = fused_graph.node_copy(node, load_arg)
    return GraphModule(model, fused_graph)


def _find_matches(
    root: GraphModule, graph: Graph, pattern_to_fuse_handler_cls: dict[Pattern, Callable[..., Any]]
) -> dict[str, _Match]:
    """Matches of fusion patterns by the names of nodes, from the last node on.

    Nodes that stand for `MatchAllNode`, a pattern's extra inputs, belong to the match's nodes but
    have no match themselves.
    """
    modules = dict(root.named_modules())
    matches: dict[str, _Match] = {}
    parts: dict[Node, Any] = {}

    def record(pattern: Any, node: Any, match: Any, entries: list[Any]) -> None:
        if isinstance(pattern, tuple):
            operation, *arguments = pattern
            inner: list[Any] = []
            record(operation, node, match, inner)
            for part, argument in zip(arguments, node.args):
                record(part, argument, match, inner)
            entries.append(tuple(inner))
        elif node.name not in matches:
            entries.append(node)
            if pattern is not MatchAllNode:
                parts[node] = pattern
                last_node, whole, handler = match
                matches[node.name] = (last_node, whole, entries, handler, parts)

    for node in reversed(graph.nodes):
        if node.name in matches:
            continue
        for pattern, handler_class in pattern_to_fuse_handler_cls.items():
            if _is_match(modules, node, pattern):
                record(pattern, node, (node, pattern, handler_class(node)), [])
                break
    return matches
