"""split_const_subgraphs: what of a graph does not depend on inputs is computed once."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.fx._symbolic_trace import symbolic_trace
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_arg
from tritorch.fx.passes.split_module import split_module
from tritorch.nn.modules.container import ParameterList
from tritorch.nn.parameter import Parameter
from tritorch.ops.shape.factory import tensor

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A graph module that computes its constants at its first call, or at `run_folding()`."""

    def __init__(
        self, root: Any, graph: Graph, const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None, device_for_folded_attrs: Any = "cuda",
    ) -> None:  # fmt: skip
        super().__init__(root, graph)
        self.const_subgraph_module = (
            None if const_subgraph is None else GraphModule(root, const_subgraph)
        )
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Computes the constants, which become parameters."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        found = self.const_subgraph_module()
        made = (
            ParameterList([self._parameter(each) for each in found])
            if isinstance(found, tuple)
            else self._parameter(found)
        )
        setattr(self, self.fx_const_folded_attrs_name, made)

    def _parameter(self, value: Any) -> Parameter:
        if not isinstance(value, Tensor):
            value = tensor([float(value)], device=self.device_for_folded_attrs)
        return Parameter(value.detach().clone(), requires_grad=value.requires_grad)


def _inline_module(gm: GraphModule, inline_mod_name: str, run_dce: bool = True) -> dict[Node, Node]:
    """Puts the nodes of a graph module that is called in the place of the call."""
    inner = dict(gm.named_modules())[inline_mod_name]
    if not isinstance(inner, GraphModule):
        raise AssertionError(f"Expected GraphModule, got {type(inner)}")
    call = next(
        (n for n in gm.graph.nodes if n.op == "call_module" and n.target == inline_mod_name), None
    )
    if call is None:
        raise AssertionError(f"Could not find call_module node for {inline_mod_name}")
    values: dict[Node, Any] = {}

    def value(node: Node) -> Any:
        if isinstance(values[node], Node):
            values[node].meta = node.meta.copy()
        return values[node]

    places = iter(range(len(call.args)))
    for node in inner.graph.nodes:
        if node.op == "placeholder":
            named = node.name in call.kwargs
            values[node] = call.kwargs[node.name] if named else call.args[next(places)]
        elif node.op == "output":
            results = map_arg(node.args[0], value)
            if isinstance(results, (list, tuple)):
                for user in list(call.users):
                    if user.target is operator.getitem and isinstance(user.args[1], int):
                        values[user] = results[user.args[1]]
                        user.replace_all_uses_with(values[user])
                        gm.graph.erase_node(user)
            if call.users:
                call.replace_all_uses_with(results)
        else:
            with gm.graph.inserting_before(call):
                values[node] = gm.graph.node_copy(node, value)
    gm.graph.erase_node(call)
    if run_dce:
        gm.graph.eliminate_dead_code()
    return values


def get_unique_attr_name_in_module(mod_traced: Any, name: str) -> str:
    """A name like this one that a module has no attribute of."""
    name = re.sub("[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        match = re.match(r"(.*)_(\d+)$", name)
        name = f"{name}_1" if match is None else f"{match[1]}_{int(match[2]) + 1}"
    return name


def _is_impure(module: Any) -> bool:
    """Whether a graph module, or one that it calls, does what may not be done once for all."""
    if not isinstance(module, GraphModule):
        return False
    return any(
        node.is_impure()
        if node.op == "call_function"
        else node.op == "call_module" and _is_impure(module.get_submodule(str(node.target)))
        for node in module.graph.nodes
    )


def _constant_nodes(gm: GraphModule, skip: Callable[[Node], bool] | None) -> tuple[set[Node], bool]:
    """The nodes that do not depend on inputs, and whether one of them computes something."""
    found: set[Node] = set()
    computes = False
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op != "get_attr" and not set(node.all_input_nodes) <= found:
            continue
        if (skip is not None and skip(node)) or node.is_impure():
            continue
        if node.op == "call_module" and _is_impure(gm.get_submodule(str(node.target))):
            continue
        found.add(node)
        computes = computes or node.op != "get_attr"
    return found, computes


def split_const_subgraphs(
    module: Any, skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: Any = "cpu",
) -> FoldedGraphModule:  # fmt: skip
    """The module whose constant parts are computed at its first call, once.

    skip_folding_node_fn: nodes that are left where they are."""
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constants, computes = _constant_nodes(traced, skip_folding_node_fn)
    if not computes:
        return FoldedGraphModule(traced, traced.graph)
    split = split_module(traced, module, lambda node: 0 if node in constants else 1)
    const_name, rest_name = "submod_0", "submod_1"
    const_gm = getattr(split, const_name)
    for part in (getattr(split, rest_name, None), const_gm):
        for node in part.graph.nodes if part is not None else ():
            if node.op == "call_module":
                setattr(split, node.target, getattr(part, node.target))
    call = next(n for n in split.graph.nodes if n.target == const_name)
    root = GraphModule(split, const_gm.graph)
    inputs = [n for n in root.graph.nodes if n.op == "placeholder"]
    for node, given in zip(inputs, call.args, strict=True):
        if given.op != "get_attr":
            raise AssertionError(f"Expected get_attr, got {given.op}")
        with root.graph.inserting_before(node):
            read = root.graph.get_attr(given.target)
        read.meta = node.meta.copy()
        node.replace_all_uses_with(read)
        root.graph.erase_node(node)
    many = isinstance(root.graph.output_node().args[0], tuple)
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    setattr(split, name, ParameterList() if many else Parameter())
    with split.graph.inserting_before(call):
        folded = split.graph.get_attr(name)
    folded.meta = call.meta.copy()
    call.replace_all_uses_with(folded)
    if hasattr(split, rest_name):
        _inline_module(split, rest_name)
    split.graph.eliminate_dead_code()
    return FoldedGraphModule(split, split.graph, root.graph, name, device_for_folded_attrs)
