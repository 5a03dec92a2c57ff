"""Parts of a graph as modules of their own."""

from __future__ import annotations

from typing import Any

from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.passes.utils.matcher_utils import SubgraphMatcher
from tritorch.nn.modules.module import Module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


@compatibility(is_backward_compatible=False)
class HolderModule(Module):
    """A module that only has others."""

    def __init__(self, d: dict[str, Any]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


@compatibility(is_backward_compatible=False)
def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """The module of a graph of copies of another module's nodes, with what they call; and the new
    dotted names of that."""
    holder: Any = HolderModule({})
    names: dict[str, str] = {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        *path, last = node.target.split(".")
        source: Any = gm
        place = holder
        for name in path:
            if not hasattr(place, name):
                place.add_module(name, HolderModule({}))
            place, source = getattr(place, name), getattr(source, name)
        names[node.target] = f"{comp_name}.{node.target}"
        setattr(place, last, getattr(source, last))
    return GraphModule(holder, subgraph, class_name), names


@compatibility(is_backward_compatible=False)
def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs compute the same in the same way."""
    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return len(matcher.match(right)) > 0
