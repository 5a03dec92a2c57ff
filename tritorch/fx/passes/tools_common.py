"""What passes share: names of targets, orders of nodes, groups of nodes that belong together."""

from __future__ import annotations

import collections
import dataclasses
import heapq
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.fx._compatibility import compatibility
from tritorch.fx._naming import pytorch_name
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node

__all__ = [
    "FxNetAccFusionsFinder", "get_acc_ops_name", "get_node_target", "is_node_output_tensor",
    "legalize_graph", "stable_topological_sort",
]  # fmt: skip

Tensors = Any
TensorOrTensors = Any
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


@compatibility(is_backward_compatible=False)
def get_acc_ops_name(k: Any) -> str:
    """The name of a function or type, short where it is an accelerator's."""
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    return pytorch_name(k)


@compatibility(is_backward_compatible=False)
def get_node_target(submodules: Mapping[str, Any], node: Node) -> str:
    """The name of what a node calls: a function's, a module's type's, or a method's."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(
            f"Expect op types of {', '.join(CALLABLE_NODE_OPS)}, but found {node.op}"
        )
    if node.op == "call_method":
        return str(node.target)
    if node.op == "call_function":
        return get_acc_ops_name(node.target)
    module = submodules[str(node.target)]
    return get_acc_ops_name(getattr(module, "_base_class_origin", type(module)))


@compatibility(is_backward_compatible=False)
def is_node_output_tensor(node: Node) -> bool:
    """Whether a node's value is a tensor, as ShapeProp noted."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, Tensor)


@compatibility(is_backward_compatible=False)
class FxNetAccFusionsFinder:
    """Finds groups of an accelerator's nodes among which something goes that is no tensor."""

    @dataclasses.dataclass
    class FusionGroup:
        """Nodes that belong together, what they take from others, and which are still to be
        looked at."""

        top_node_idx: int
        nodes: NodeSet
        inputs: NodeSet
        nodes_need_process: NodeSet

        def add_node(self, node: Node) -> None:
            """Takes a node in."""
            if node in self.nodes:
                return
            self.nodes_need_process.add(node)
            self.nodes.add(node)
            self.inputs.discard(node)
            self.inputs |= {
                n for n in node.all_input_nodes if n.op in CALLABLE_NODE_OPS and n not in self.nodes
            }

    def __init__(self, module: GraphModule, acc_nodes: NodeSet) -> None:
        self.module = module
        self.nodes = list(module.graph.nodes)
        self.acc_nodes = acc_nodes
        self.node_index = {node: place for place, node in enumerate(self.nodes)}

    def recursive_add_node(
        self, fusion_group: FusionGroup, inputs: Iterable[Node], visited: NodeSet | None = None
    ) -> bool:
        """Takes in all nodes on the ways from a group to itself; gives whether there are any."""
        for arg in list(inputs):
            if visited is not None:
                if arg in visited:
                    continue
                visited.add(arg)
            if arg.op not in CALLABLE_NODE_OPS:
                continue
            if self.node_index[arg] < fusion_group.top_node_idx:
                continue
            if arg in fusion_group.nodes:
                return True
            if self.recursive_add_node(fusion_group, arg.all_input_nodes, visited):
                fusion_group.add_node(arg)
                return True
        return False

    def __call__(self) -> dict[Node, NodeSet]:
        """The group of each node that is in one."""
        found: dict[Node, NodeSet] = {}
        for node in list(self.acc_nodes):
            wanted = node.op in CALLABLE_NODE_OPS and node in self.acc_nodes
            if not wanted or node in found or "tensor_meta" in node.meta:
                continue
            group = self._group_of(node)
            if group.nodes <= self.acc_nodes:
                found.update(dict.fromkeys(group.nodes, group.nodes))
            else:  # one of them does not run there, so none does
                self.acc_nodes -= group.nodes
        return found

    def _group_of(self, first: Node) -> FusionGroup:
        group = self.FusionGroup(
            self.node_index[first], {first}, set(first.all_input_nodes), {first}
        )
        while group.nodes_need_process:
            node = group.nodes_need_process.pop()
            self.recursive_add_node(group, group.inputs, visited=set())
            more = list(node.users) if "tensor_meta" not in node.meta else []
            for user in more:
                if user.op in CALLABLE_NODE_OPS and user not in group.nodes:
                    group.add_node(user)
                    self.recursive_add_node(group, group.inputs, visited=set())
            for arg in node.all_input_nodes:
                plain = arg.op in CALLABLE_NODE_OPS and "tensor_meta" not in arg.meta
                if plain and arg not in group.nodes:
                    group.add_node(arg)
                    group.top_node_idx = min(group.top_node_idx, self.node_index[arg])
                    self.recursive_add_node(group, group.inputs, visited=set())
        return group


def _arithmetic() -> set[Any]:
    """Functions of sizes, which `legalize_graph` puts right after what they are of."""
    names = ("add", "mul", "sub", "floordiv", "truediv", "mod", "le", "lt", "ge", "gt", "eq", "ne")
    return {getattr(operator, name) for name in names}


def _put_in_order(gm: GraphModule, graph: Graph) -> GraphModule:
    if len(graph.nodes) < len(gm.graph.nodes):
        raise RuntimeError("Input graph has cycles, unable to add all nodes")
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


@compatibility(is_backward_compatible=False)
def legalize_graph(gm: GraphModule) -> GraphModule:
    """Puts a graph's nodes in an order in which each comes after its arguments."""
    missing = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    first = _arithmetic()
    ready = collections.deque(node for node, count in missing.items() if not count)
    graph = Graph()
    copies: dict[Node, Node] = {}
    while ready:
        node = ready.popleft()
        copies[node] = graph.node_copy(node, lambda n: copies[n])
        for user in node.users:
            missing[user] -= 1
            if missing[user]:
                continue
            if user.op == "call_function" and user.target in first:
                ready.appendleft(user)
            else:
                ready.append(user)
    return _put_in_order(gm, graph)


@compatibility(is_backward_compatible=False)
def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """The same, with the order as it is wherever it may be."""
    place = {node: i for i, node in enumerate(gm.graph.nodes)}
    missing = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    ready = [(place[node], node) for node, count in missing.items() if not count]
    heapq.heapify(ready)
    graph = Graph()
    copies: dict[Node, Node] = {}
    while ready:
        _, node = heapq.heappop(ready)
        copies[node] = graph.node_copy(node, lambda n: copies[n])
        for user in node.users:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (place[user], user))
    return _put_in_order(gm, graph)
