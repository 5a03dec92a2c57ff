"""Patterns with names for some of their nodes."""

from __future__ import annotations

from tritorch.fx._codegen import _PyTreeInfo
from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node
from tritorch.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from tritorch.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _split_to_graph_and_name_node_map(gm: GraphModule) -> tuple[GraphModule, dict[str, Node]]:
    """A pattern whose last result is a dict of names, without that, and the dict."""
    names: dict[str, Node] = {}
    for node in gm.graph.nodes:
        if node.op != "output":
            continue
        if gm._out_spec is None:
            raise AssertionError("gm._out_spec is None")
        output = tree_unflatten(node.args[0], gm._out_spec)
        if not isinstance(output, tuple):
            raise AssertionError("Expecting the pattern graph to return a tuple")
        if len(output) < 2:
            raise AssertionError("Expecting the pattern graph to have at least two outputs")
        *out, names = output
        if not isinstance(names, dict):
            raise AssertionError(
                "Expecting the input graph to have a dict output as the last element"
            )
        leaves, spec = tree_flatten(out)
        node.args = (leaves,)
        info = gm._graph._codegen.pytree_info  # type: ignore[attr-defined]
        gm._graph._codegen.pytree_info = _PyTreeInfo(info.orig_args, info.in_spec, spec)  # type: ignore[attr-defined]
    gm.recompile()
    return gm, names


@compatibility(is_backward_compatible=False)
class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """Finds a pattern that gives a dict of nodes by name as its last result; a match has the
    graph's nodes by these names, in `name_node_map`."""

    def __init__(
        self, pattern_gm: GraphModule, match_output: bool = False, match_placeholder: bool = False,
        remove_overlapping_matches: bool = True, ignore_literals: bool = False,
    ) -> None:  # fmt: skip
        pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        super().__init__(
            pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches,
            ignore_literals,
        )  # fmt: skip

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The matches of the pattern in a graph."""
        found = super().match(graph, node_name_match)
        for match in found:
            for name, node in self.name_node_map.items():
                match.name_node_map[name] = match.nodes_map[node]
        return found
