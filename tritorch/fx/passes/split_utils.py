"""split_by_tags: a graph as modules, each of the nodes with one tag."""

from __future__ import annotations

import copy
import dataclasses
import functools
from typing import Any

from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_arg
from tritorch.fx.passes.tools_common import CALLABLE_NODE_OPS, NodeList, is_node_output_tensor
from tritorch.fx.passes.utils.common import HolderModule, lift_subgraph_as_module
from tritorch.fx.proxy import Proxy
from tritorch.nn.modules.container import ModuleList

__all__ = [
    "Component", "getattr_recursive", "move_non_tensor_nodes_on_boundary", "setattr_recursive",
    "split_by_tags",
]  # fmt: skip


@compatibility(is_backward_compatible=False)
def getattr_recursive(obj: Any, name: str) -> Any:
    """An attribute by a dotted name; None where there is none."""
    for layer in name.split("."):
        if isinstance(obj, ModuleList):
            obj = obj._modules.get(layer)
        else:
            obj = getattr(obj, layer, None)
        if obj is None:
            return None
    return obj


@compatibility(is_backward_compatible=False)
def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Sets an attribute by a dotted name."""
    *path, last = attr.split(".")
    for layer in path:
        obj = getattr(obj, layer)
    setattr(obj, last, value)


@compatibility(is_backward_compatible=False)
@dataclasses.dataclass
class Component:
    """A part that is being made."""

    graph: Graph
    order: int
    name: str
    # Inputs of its graph, and the nodes of the whole graph that they stand for.
    input_placeholders: list[Node] = dataclasses.field(default_factory=list)
    orig_inputs: list[Node] = dataclasses.field(default_factory=list)
    # Nodes of the whole graph that others take of it.
    orig_outputs: list[Node] = dataclasses.field(default_factory=list)
    getattr_maps: dict[Node, Node] = dataclasses.field(default_factory=dict)
    constructor_args: list[str] = dataclasses.field(default_factory=list)
    gm: GraphModule | None = None


@compatibility(is_backward_compatible=False)
def split_by_tags(
    gm: GraphModule, tags: list[str], return_fqn_mapping: bool = False,
    return_tuple: bool = False, GraphModuleCls: Any = GraphModule,
) -> Any:  # fmt: skip
    """A module whose graph calls one for each tag, in this order; nodes have it as `node.tag`.

    return_fqn_mapping: with the new dotted names of what the parts call.  return_tuple: parts with
    one result give a tuple too."""
    parts = {tag: Component(Graph(), place, tag) for place, tag in enumerate(tags)}
    home: dict[Node, Component] = {}
    copies: dict[Node, Node] = {}
    main = Graph()
    values: dict[Node, Node] = {}
    used: dict[Node, None] = {}  # what goes from a part to another, or out
    output: Node | None = None

    def taken(part: Component, node: Node) -> Node:
        """What stands in a part for a node of the whole graph."""
        if node.op == "get_attr":
            if node not in part.getattr_maps:
                made = part.graph.get_attr(str(node.target), type_expr=node.type)
                made.meta = copy.copy(node.meta)
                part.getattr_maps[node] = made
            return part.getattr_maps[node]
        if node.op != "placeholder" and home[node] is part:
            return copies[node]
        if node not in part.orig_inputs:
            part.orig_inputs.append(node)
            made = part.graph.placeholder(node.name, type_expr=node.type)
            made.meta = copy.copy(node.meta)
            part.input_placeholders.append(made)
            used[node] = None
        return part.input_placeholders[part.orig_inputs.index(node)]

    for node in gm.graph.nodes:
        if node.op == "output":
            if output is not None:
                raise RuntimeError("Multiple output nodes in graph!")
            output = node
        elif node.op == "placeholder":
            values[node] = main.placeholder(node.name, type_expr=node.type)
            values[node].meta = copy.copy(node.meta)
        elif node.op != "get_attr":
            if not hasattr(node, "tag"):
                raise AssertionError(f"Node does not have tag: {node.format_node()}")
            part = parts[node.tag]
            before = [
                home[n].order
                for n in node.all_input_nodes
                if n.op not in ("placeholder", "get_attr")
            ]
            if part.order < max(before, default=0):
                raise AssertionError(
                    f"Component {part.name} order must be >= max of its upstream components, "
                    f"order={part.order} and max={max(before)}"
                )
            home[node] = part
            copies[node] = part.graph.node_copy(node, functools.partial(taken, part))
            copies[node].tag = node.tag
    if output is None:
        raise RuntimeError("Graph had no output node!")
    attributes = [n for n in output.all_input_nodes if n.op == "get_attr"]
    for node in output.all_input_nodes:
        if node.op == "get_attr":
            values[node] = main.get_attr(node.name, type_expr=node.type)
        else:
            used[node] = None
    for node in used:
        if node.op != "placeholder":
            home[node].orig_outputs.append(node)
    names: dict[str, str] = {}
    for part in parts.values():
        results = tuple(copies[node] for node in part.orig_outputs)
        single = len(results) == 1 and not return_tuple
        part.graph.output(results[0] if single else results)
        part.gm, inner = lift_subgraph_as_module(gm, subgraph=part.graph, comp_name=part.name)
        names.update(inner)
        call = main.call_module(part.name, tuple(values[n] for n in part.orig_inputs), None)
        for place, node in enumerate(part.orig_outputs):
            values[node] = call if single else Proxy(call)[place].node  # type: ignore[index]
    main.output(map_arg(output.args[0], lambda n: values[n]))
    root = HolderModule({part.name: part.gm for part in parts.values()})
    main._codegen = gm.graph._codegen
    for node in attributes:
        setattr(root, node.name, getattr_recursive(gm, str(node.target)))
    made = GraphModuleCls(root, main)
    return (made, names) if return_fqn_mapping else made


@compatibility(is_backward_compatible=False)
def move_non_tensor_nodes_on_boundary(subgraphs: list[Any]) -> None:
    """Moves nodes whose values are no tensors out of an accelerator's subgraphs into those that
    use them, with what depends on them, where all of that goes to one other subgraph."""
    place: dict[Node, int] = {n: i for i, part in enumerate(subgraphs) for n in part.nodes}

    def users(node: Node) -> NodeList:
        return [n for n in node.users if n.op in CALLABLE_NODE_OPS and n in place]

    def crosses(node: Node, current: int) -> bool:
        return any(place[n] != current for n in users(node))

    def movable(node: Node, source: int, target: int) -> list[Node] | None:
        """What has to move with a node; None where that leads elsewhere."""
        found: dict[Node, None] = {}
        waiting, seen = [node], set()
        while waiting:
            each = waiting.pop()
            if each in seen or place[each] == target:
                continue
            seen.add(each)
            if place[each] != source:
                return None
            found[each] = None
            waiting += users(each)
        return list(found)

    for number, part in enumerate(subgraphs):
        if not part.is_acc:
            continue
        waiting = [n for n in part.nodes if not is_node_output_tensor(n) and crosses(n, number)]
        done: set[Node] = set()
        while waiting:
            node = waiting.pop(0)
            if node in done or place.get(node) != number:
                continue
            done.add(node)
            targets = {place[n] for n in users(node)} - {number}
            if len(targets) != 1:
                print(
                    f"Cannot move non-tensor node {node.name} on boundary because it has children "
                    "in multiple subgraphs"
                )
                continue
            target = targets.pop()
            for moved in movable(node, number, target) or ():
                part.nodes.remove(moved)
                subgraphs[target].nodes.append(moved)
                place[moved] = target
            if place[node] == target:
                waiting += [
                    n
                    for n in node.all_input_nodes
                    if place.get(n) == number and n not in done and not is_node_output_tensor(n)
                ]
