"""Models made quicker for inference: norms fused into what stands before, dropouts taken out."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from tritorch import nn
from tritorch.fx._symbolic_trace import Tracer, symbolic_trace
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.interpreter import Transformer
from tritorch.fx.node import Node
from tritorch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = [
    "UnionFind", "extract_subgraph", "fuse", "matches_module_pattern", "optimize_for_inference",
    "remove_dropout", "replace_node_module",
]  # fmt: skip

_FUSED: dict[tuple[type, type], Any] = {
    (nn.Conv1d, nn.BatchNorm1d): fuse_conv_bn_eval,
    (nn.Conv2d, nn.BatchNorm2d): fuse_conv_bn_eval,
    (nn.Conv3d, nn.BatchNorm3d): fuse_conv_bn_eval,
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn_eval,
}


def _parent_name(target: str) -> tuple[str, str]:
    """The dotted name of a module's parent, and its own name there."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Whether a node calls a module of the second type on what one of the first gives."""
    if not node.args:
        return False
    for kind, each in zip(pattern, (node.args[0], node)):
        if not isinstance(each, Node) or each.op != "call_module":
            return False
        if type(modules.get(str(each.target))) is not kind:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Any) -> None:
    """Puts a module in the place of the one that a node calls."""
    parent, name = _parent_name(str(node.target))
    modules[str(node.target)] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: Any, inplace: bool = False, no_trace: bool = False) -> Any:
    """A model, in inference, whose batch norms are part of the layers before them.

    no_trace: the model is a graph module, which is taken as it is."""
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for pattern, fused in _FUSED.items():
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules):
                continue
            before = node.args[0]
            norm = modules[node.target]
            if len(before.users) > 1 or not norm.track_running_stats:
                continue
            replace_node_module(before, modules, fused(modules[before.target], norm))
            node.replace_all_uses_with(before)
            graph.erase_node(node)
    return GraphModule(traced, graph)


class _DropoutRemover(Transformer):
    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A module's call in the new graph; a dropout's argument in its place."""
        if isinstance(self.submodules[target], nn.Dropout):
            if len(args) != 1:
                raise AssertionError(f"Expected 1 arg for Dropout, got {len(args)}")
            return args[0]
        return super().call_module(target, args, kwargs)


def remove_dropout(model: Any) -> Any:
    """A model without its dropouts."""
    return _DropoutRemover(symbolic_trace(model)).transform()


def extract_subgraph(
    orig_module: Any, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """The module that computes some nodes of a graph from others."""
    graph = Graph()
    copies: dict[Node, Node] = {each: graph.placeholder(each.name) for each in inputs}
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda n: copies[n])
    graph.output([copies[each] for each in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def use_mkl_length(graph: Any) -> bool:
    """Whether MKL-DNN's layout pays for a part of a graph: not here, there is none."""
    return False


class UnionFind:
    """Sets of numbers that are joined."""

    def __init__(self, n: int) -> None:
        self.parent: list[int | None] = [None] * n
        self.size = [0] * n

    def make_set(self, v: int) -> None:
        """Makes the set of one number."""
        self.parent[v], self.size[v] = v, 1

    def find(self, v: int) -> int:
        """The number that stands for a set."""
        parent = self.parent[v]
        if parent is None:
            raise AssertionError("Parent is None")
        if parent != v:
            parent = self.parent[v] = self.find(parent)
        return parent

    def join(self, a: int, b: int) -> int | None:
        """Makes two sets one; gives what stands for it if they were that before."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return a
        if self.size[a] < self.size[b]:
            a, b = b, a
        self.parent[b] = a
        self.size[a] += self.size[b]
        return None


def optimize_for_inference(
    model: Any, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> Any:
    """A model with norms fused and dropouts taken out.

    pass_config: `conv_bn_fuse` and `remove_dropout` can be False; `mkldnn_layout_optimize`, of a
    layout that PyTorch's CPU has, is without effect."""
    config = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    layout = config.get("mkldnn_layout_optimize", False)
    if layout is not False:
        if not isinstance(layout, dict):
            raise RuntimeError("mkldnn_layout_optimize config is not a dict")
        if "heuristic" not in layout:
            raise RuntimeError("Heuristic not found in mkldnn_layout_optimize config")
    if config["conv_bn_fuse"]:
        model = fuse(model)
    if config["remove_dropout"]:
        model = remove_dropout(model)
    traced = tracer().trace(copy.deepcopy(model))
    return GraphModule(model, traced)
