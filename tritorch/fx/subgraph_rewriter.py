"""Parts of a graph found by a pattern, and replaced by another graph."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from tritorch.fx._compatibility import compatibility
from tritorch.fx._symbolic_trace import symbolic_trace
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node
from tritorch.nn.modules.module import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


@compatibility(is_backward_compatible=True)
class Match(NamedTuple):
    """A place where a pattern was found: its last node, and the graph's node for each of the
    pattern's."""

    anchor: Node
    nodes_map: dict[Node, Node]


@compatibility(is_backward_compatible=False)
@dataclasses.dataclass
class ReplacedPatterns:
    """A match, and the nodes that took its place."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


@compatibility(is_backward_compatible=True)
def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replaces every part of a graph that computes what `pattern` does by `replacement`.

    Both are functions, modules or graphs, with the same number of inputs."""
    found = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(each.anchor, each.nodes_map) for each in found]


@compatibility(is_backward_compatible=False)
def replace_pattern_with_filters(
    gm: GraphModule, pattern: Any, replacement: Any = None,
    match_filters: list[Callable[..., bool]] | None = None, ignore_literals: bool = False,
    replacement_callback: Callable[..., Graph] | None = None, node_name_match: str = "",
) -> list[ReplacedPatterns]:  # fmt: skip
    """The same for the matches that all filters accept.

    ignore_literals: numbers of the pattern match any others.  replacement_callback: makes the
    replacement for each match.  node_name_match: nodes with this in their names match."""
    from tritorch.fx.passes.utils.matcher_utils import SubgraphMatcher

    graph, pattern_graph = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    matches = [
        match
        for match in matcher.match(graph, node_name_match=node_name_match)
        if all(accepts(match, graph, pattern_graph) for accepts in match_filters or ())
    ]
    if replacement is None and replacement_callback is None:
        raise AssertionError(
            "Must provide either a replacement GraphModule or a replacement callback"
        )
    common = None if replacement is None else _graph_of(replacement)
    changed: dict[Node, Node] = {}  # nodes of later matches that earlier ones replaced
    done = []
    for match in matches:
        other: Any = common
        if replacement_callback is not None:
            other = replacement_callback(match, graph, pattern_graph)
        done.append(_replaced(gm, match, pattern_graph, other, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_over(gm, replacement)
    return done


def _graph_of(source: Any) -> Graph:
    if isinstance(source, GraphModule):
        return source.graph
    return source if isinstance(source, Graph) else symbolic_trace(source).graph


def _place(graph: Graph, match: Any) -> Node:
    """The node before which a replacement is put: the first that uses a result."""
    users = {user for node in match.returning_nodes for user in node.users}
    if users:
        return min(users)
    return max(match.returning_nodes).next


def _replaced(
    gm: GraphModule, match: Any, pattern: Graph, graph: Graph, changed: dict[Node, Node]
) -> ReplacedPatterns:
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError(
            f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(inputs)}"
        )
    current = lambda value: changed.get(value, value) if isinstance(value, Node) else value
    match.placeholder_nodes = [current(value) for value in match.placeholder_nodes]
    for mine, theirs in match.nodes_map.items():
        if mine.op == "placeholder":
            match.nodes_map[mine] = current(theirs)
    values: dict[Node, Any] = dict(zip(inputs, match.placeholder_nodes))
    with gm.graph.inserting_before(_place(gm.graph, match)):
        results = gm.graph.graph_copy(graph, values)
    results = (results,) if isinstance(results, Node) else results
    made = [v for v in values.values() if not any(v is each for each in match.placeholder_nodes)]
    if len(match.returning_nodes) != len(results):
        raise AssertionError(
            f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}"
        )
    for old, new in zip(match.returning_nodes, results):
        old.replace_all_uses_with(new)
        changed[old] = new
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output"):
            gm.graph.erase_node(match.nodes_map[node])
    return ReplacedPatterns(match.anchors[0], match.nodes_map, made)


def _attribute(module: Module, target: str) -> Any:
    path, _, name = target.rpartition(".")
    try:
        return getattr(module.get_submodule(path), name, None)
    except AttributeError:
        return None


def _take_over(gm: GraphModule, replacement: Module) -> None:
    """Copies of the modules and parameters that the replacement has, and the graph's module
    lacks."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = str(node.target)
        if _attribute(gm, target) is not None:
            continue
        value = copy.deepcopy(_attribute(replacement, target))
        if value is None:
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target '
                f"{target}, but the referenced attribute does not exist in the replacement "
                "GraphModule"
            )
        if isinstance(value, Module):
            gm.add_submodule(target, value)
        else:
            setattr(gm, target, value)
    gm.graph.lint()
