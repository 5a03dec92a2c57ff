"""Parts of a graph by what the program called: the nodes that a module or a function became."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from tritorch.fx._compatibility import compatibility
from tritorch.fx._naming import qualified_name
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@compatibility(is_backward_compatible=False)
@dataclasses.dataclass
class SourcePartition:
    """The nodes of one call."""

    nodes: list[Node]
    # The module's type, or the function, that was called.
    source: Any
    # Nodes outside whose values they take.
    input_nodes: list[Node] = dataclasses.field(default_factory=list)
    # Nodes among them whose values others take.
    output_nodes: list[Node] = dataclasses.field(default_factory=list)
    # Nodes among them that read parameters.
    params: list[Node] = dataclasses.field(default_factory=list)


def _sources(node: Node, wanted: list[Any]) -> Iterator[tuple[Any, str]]:
    """What a node comes from, among what is wanted, and a name for the call."""
    stack = node.meta.get("source_fn_stack")
    if stack is not None:
        name, source = stack[-1]
        if source in wanted:
            yield source, name
        return
    torch_fn = node.meta.get("torch_fn")
    if torch_fn is not None:
        source = torch_fn[1].split(".")[1]
        if source in wanted:
            yield source, torch_fn[0]
            return
    modules = node.meta.get("nn_module_stack")
    if node.op != "call_function" or not modules:
        return
    name, kind = list(modules.values())[-1]
    for source in wanted:
        if isinstance(source, type) and isinstance(kind, type):
            same = issubclass(kind, source)
        elif isinstance(source, type) and isinstance(kind, str):
            same = kind in (f"{source.__module__}.{source.__qualname__}", qualified_name(source))
        else:
            same = kind == source
        if same:
            yield source, name
            return


def _partition(nodes: list[Node], source: Any) -> SourcePartition:
    inside = set(nodes)
    inputs: dict[Node, None] = {}
    outputs: dict[Node, None] = {}
    params: dict[Node, None] = {}
    for node in nodes:
        for arg in node.args:
            if isinstance(arg, Node) and arg not in inside and arg.op != "get_attr":
                inputs.setdefault(arg)
        if node.op == "get_attr":
            params.setdefault(node)
        elif any(user not in inside for user in node.users):
            outputs.setdefault(node)
    return SourcePartition(nodes, source, list(inputs), list(outputs), list(params))


@compatibility(is_backward_compatible=False)
def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """The nodes of each call of modules and functions; filter_fn: what must hold of all of them."""
    found: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        for source, name in _sources(node, wanted_sources):
            found.setdefault(source, {}).setdefault(name, []).append(node)
    return {
        source: [
            _partition(nodes, source)
            for nodes in calls.values()
            if filter_fn is None or all(map(filter_fn, nodes))
        ]
        for source, calls in found.items()
    }


@compatibility(is_backward_compatible=False)
def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether the second takes a value of the first."""
    return any(user in subgraph2.nodes for node in subgraph1.nodes for user in node.users)
