"""Targets replaced, and sizes of values."""

from __future__ import annotations

from typing import Any, NamedTuple

from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_arg
from tritorch.fx.passes.shape_prop import ShapeProp, TensorMetadata

__all__ = [
    "get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with",
    "size_bytes",
]  # fmt: skip


@compatibility(is_backward_compatible=False)
def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Any, new_op: str, new_target: Any
) -> None:
    """Makes nodes that call one thing call another."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args = map_arg(node.args, lambda n: copies[n])
            kwargs = map_arg(node.kwargs, lambda n: copies[n])
            copies[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    fx_module.graph = graph


@compatibility(is_backward_compatible=False)
class size_bytes(NamedTuple):
    """Bytes of a node's value, and with the parameters of what it calls."""

    output_size: int
    total_size: int


@compatibility(is_backward_compatible=False)
def get_size_of_all_nodes(fx_module: GraphModule, args: list[Any] | None = None) -> None:
    """Gives each node its `size_bytes`; args: inputs, from which ShapeProp runs first."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


@compatibility(is_backward_compatible=False)
def get_tensor_meta(node: Node) -> TensorMetadata:
    """What ShapeProp noted of a node."""
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation "
            "has run."
        )
    return meta


@compatibility(is_backward_compatible=False)
def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """The bytes of a node's value, and with those of the parameters of what it calls."""
    meta = get_tensor_meta(node)
    own = meta.shape.numel()
    total = own
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[str(node.target)]
        total += sum(parameter.numel() for parameter in module.parameters())
    return size_bytes(meta.dtype.itemsize * own, meta.dtype.itemsize * total)
