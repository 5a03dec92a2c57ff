"""Nodes of a graph made into a module that the graph calls."""

from __future__ import annotations

import copy
import heapq
from typing import Any

from tritorch.fx._compatibility import compatibility as compatibility
from tritorch.fx.graph import Graph as Graph
from tritorch.fx.graph_module import GraphModule as GraphModule
from tritorch.fx.node import Node as Node
from tritorch.fx.passes.tools_common import (
    NodeList,
    NodeSet,
    legalize_graph as legalize_graph,
    stable_topological_sort,
)
from tritorch.fx.passes.utils.common import lift_subgraph_as_module as lift_subgraph_as_module
from tritorch.fx.proxy import Proxy


@compatibility(is_backward_compatible=False)
def topo_sort(nodes: NodeList) -> NodeList:
    """Nodes in an order in which each comes after its arguments, else as they are."""
    place = {node: i for i, node in enumerate(nodes)}
    missing = {node: sum(n in place for n in node.all_input_nodes) for node in nodes}
    ready = [(place[node], node) for node, count in missing.items() if not count]
    heapq.heapify(ready)
    done: NodeList = []
    while ready:
        _, node = heapq.heappop(ready)
        done.append(node)
        for user in node.users:
            if user in missing:
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, (place[user], user))
    if len(done) != len(nodes):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return done


@compatibility(is_backward_compatible=False)
def validate_partition(partition: NodeList) -> bool:
    """Whether nodes can be one: no way leads out of them and back."""
    inside = set(partition)
    waiting = [user for node in inside for user in node.users if user not in inside]
    seen: NodeSet = set()
    while waiting:
        node = waiting.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            waiting += node.users
    return True


@compatibility(is_backward_compatible=False)
def fuse_as_graphmodule(
    gm: GraphModule, nodes: NodeList, module_name: str, partition_lookup_table: Any = None,
    *, always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:  # fmt: skip
    """The module that computes what nodes do, in their order; and the nodes whose values it takes,
    and those for which its results stand."""
    there = set(gm.graph.nodes)
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(
                f"{node} doesn't belong to passed in graph module {gm._get_name()}"
            )
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
        if node not in there:
            raise AssertionError(f"{node} is not found in graph module {gm._get_name()}")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    inside = dict.fromkeys(nodes) if partition_lookup_table is None else partition_lookup_table
    graph = Graph()
    inputs: dict[Node, Node] = {}
    copies: dict[Node, Node] = {}

    def value(node: Node) -> Node:
        if node in inside:
            return copies[node]
        if node not in inputs:
            inputs[node] = graph.placeholder(node.name, type_expr=node.type)
            inputs[node].meta = copy.copy(node.meta)
        return inputs[node]

    for node in nodes:
        copies[node] = graph.node_copy(node, value)
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    results = tuple(copies[node] for node in outputs)
    graph.output(results[0] if len(results) == 1 and not always_return_tuple else results)
    graph.lint()
    made, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return made, tuple(inputs), tuple(outputs)


@compatibility(is_backward_compatible=False)
def insert_subgm(
    gm: GraphModule, sub_gm: GraphModule, orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...], insertion_point: Node | None = None,
) -> GraphModule:  # fmt: skip
    """Puts the call of a module in the place of nodes that computed the same.

    insertion_point: the node after which; the last of `orig_outputs` if it is not said."""
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    if insertion_point is None:
        ends = set(orig_outputs)
        insertion_point = next((n for n in reversed(gm.graph.nodes) if n in ends), None)
    if insertion_point is None:
        raise AssertionError(
            "Cannot determine insertion point: no insertion_point provided and orig_outputs is "
            "empty. Pass the last partition node as insertion_point."
        )
    with gm.graph.inserting_after(insertion_point):
        call = gm.graph.call_module(name, args=orig_inputs, kwargs=None)
    result = sub_gm.graph.output_node().args[0]
    if not orig_outputs:
        return gm
    with gm.graph.inserting_before(call.next):
        if len(orig_outputs) == 1 and not isinstance(result, tuple):
            orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
            return gm
        for place, node in enumerate(orig_outputs):
            item = Proxy(call)[place].node  # type: ignore[index]
            node.replace_all_uses_with(item, propagate_meta=True)
        call.meta["val"] = tuple(node.meta.get("val") for node in orig_outputs)
    return gm


@compatibility(is_backward_compatible=False)
def erase_nodes(gm: GraphModule, nodes: NodeList) -> None:
    """Takes nodes out, the last one first."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


@compatibility(is_backward_compatible=False)
def fuse_by_partitions(
    gm: GraphModule, partitions: list[dict[Node, int | None]], prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:  # fmt: skip
    """Makes a module of each of these groups of nodes, and calls of them in the graph."""
    for number, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        inner, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{number}", partition, always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, inner, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    return gm
