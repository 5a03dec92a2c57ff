"""A graph of both passes, divided in two."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tritorch.fx._lazy_graph_module import _make_graph_module
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_arg


def default_partition(
    joint_module: GraphModule, _joint_inputs: Any, *, num_fwd_outputs: int, **options: Any
) -> tuple[GraphModule, GraphModule]:
    """The graphs of the forward and of the backward pass.

    The backward pass is what needs gradients of results, the inputs that are called tangents; what
    it uses of the rest is computed in the forward pass, which gives it behind its results."""
    nodes = list(joint_module.graph.nodes)
    (output,) = (node for node in nodes if node.op == "output")
    results = list(output.args[0])
    forward_results, gradients = results[:num_fwd_outputs], results[num_fwd_outputs:]
    inputs = [node for node in nodes if node.op == "placeholder"]
    tangents = [node for node in inputs if str(node.target).startswith("tangents")]
    late = _dependents(nodes, tangents)
    primals = [node for node in inputs if node not in late]
    used: dict[Node, None] = {}
    for node in nodes:
        if node in late and node.op != "placeholder" and node is not output:
            used.update(dict.fromkeys(x for x in node.all_input_nodes if x not in late))
    used.update(dict.fromkeys(x for x in gradients if isinstance(x, Node) and x not in late))
    saved = [node for node in used if node.op != "get_attr"]
    first = _extracted(joint_module, nodes, primals, [*forward_results, *saved], "forward")
    second = _extracted(joint_module, nodes, [*saved, *tangents], gradients, "backward")
    return first, second


def _dependents(nodes: Iterable[Node], roots: Iterable[Node]) -> set[Node]:
    found = set(roots)
    for node in nodes:
        if node.op != "output" and any(x in found for x in node.all_input_nodes):
            found.add(node)
    return found


def _extracted(
    module: GraphModule, nodes: list[Node], inputs: list[Node], outputs: list[Any], name: str
) -> GraphModule:
    """The part of a graph that computes some nodes from others."""
    graph, copies = Graph(), dict[Node, Node]()
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta.update(node.meta)
    needed, pending = set(), [x for x in outputs if isinstance(x, Node)]
    while pending:
        node = pending.pop()
        if node not in needed and node not in copies:
            needed.add(node)
            pending += node.all_input_nodes
    for node in nodes:
        if node in needed:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(map_arg(list(outputs), copies.__getitem__))
    return _make_graph_module(module, graph, name)
