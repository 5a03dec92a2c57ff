"""SubgraphMatcher: the parts of a graph that compute what a pattern does."""

from __future__ import annotations

import copy
import dataclasses
import logging
import os
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import _get_attr
from tritorch.fx.node import Node
from tritorch.fx.operator_schemas import aligned_arguments
from tritorch.ops.record.overloads import OpOverload

__all__ = ["InternalMatch", "SubgraphMatcher"]


def _init_logger() -> logging.Logger:
    made = logging.getLogger(__name__)
    made.setLevel(os.environ.get("PYTORCH_MATCHER_LOGLEVEL", "WARNING").upper())
    return made


logger = _init_logger()


@compatibility(is_backward_compatible=False)
@dataclasses.dataclass
class InternalMatch:
    """Where a pattern was found."""

    # The last nodes of the pattern.
    anchors: list[Node]
    # The graph's node, or value, for each of the pattern's.
    nodes_map: dict[Node, Any] = dataclasses.field(default_factory=dict)
    # What stands for the pattern's inputs, and for its results.
    placeholder_nodes: list[Any] = dataclasses.field(default_factory=list)
    returning_nodes: list[Node] = dataclasses.field(default_factory=list)
    # The nodes that the pattern has names for.
    name_node_map: dict[str, Node] = dataclasses.field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            self.anchors, self.nodes_map.copy(), self.placeholder_nodes.copy(),
            self.returning_nodes.copy(),
        )  # fmt: skip


def _computes(node: Node) -> bool:
    return node.op not in ("placeholder", "output")


@compatibility(is_backward_compatible=False)
class SubgraphMatcher:
    """Finds a pattern in graphs: from its results, and nodes like those, backwards.

    match_output, match_placeholder: the pattern's output and inputs stand for the graph's own.
    remove_overlapping_matches: of two matches with a node in common the first counts.
    ignore_literals: numbers of the pattern match any others."""

    def __init__(
        self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False,
        remove_overlapping_matches: bool = True, ignore_literals: bool = False,
    ) -> None:  # fmt: skip
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op != "output" and not node.is_impure() and not node.users:
                raise AssertionError(
                    "SubgraphMatcher cannot be initialized with an pattern with dead code"
                )
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = (
            [output] if match_output else [n for n in output.all_input_nodes if len(n.users) == 1]
        )

    # ---- two nodes ------------------------------------------------------------------------------

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        for node in (pn, gn):
            if node.graph.owning_module is None:
                raise AssertionError("an attribute is matched in a graph without a module")
        mine = _get_attr(pn.graph.owning_module, str(pn.target))
        theirs = _get_attr(gn.graph.owning_module, str(gn.target))
        if type(mine) is not type(theirs):
            return False
        if not isinstance(mine, Tensor):
            raise RuntimeError(f"Unsupported type {mine} when matching attributes")
        return True

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        if pn.op == "placeholder" and not self.match_placeholder:
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op == "get_attr":
            return self._match_attributes(pn, gn)
        return pn.op in ("placeholder", "output") or pn.target == gn.target

    def _match_literals(self, pn: Any, gn: Any, match: InternalMatch) -> bool:
        if isinstance(pn, Node):  # an input that is no node in the graph
            if pn.op != "placeholder":
                return False
            return match.nodes_map.setdefault(pn, gn) == gn
        return not isinstance(gn, Node) and type(gn) is type(pn) and gn == pn

    def _match_args(self, mine: Any, theirs: Any, match: InternalMatch) -> bool:
        if len(mine) != len(theirs):
            return False
        for a, b in zip(mine, theirs):
            if isinstance(a, Node) and isinstance(b, Node):
                same = self._match_nodes(a, b, match)
            elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
                same = self._match_args(a, b, match)
            else:
                same = self._match_literals(a, b, match) or self.ignore_literals
            if not same:
                return False
        return True

    def _match_nodes(
        self, pn: Node, gn: Node, match: InternalMatch, node_name_match: str = ""
    ) -> bool:
        """Whether a node, with all that it is computed from, is what the pattern's is; if so the
        match has them."""
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if any(gn is each for each in match.nodes_map.values()):
            return False
        if not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        arguments = _arguments(pn, gn)
        return arguments is not None and self._match_args(*arguments, match)

    # ---- the whole ------------------------------------------------------------------------------

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        """Whether nobody outside uses what the pattern keeps to itself."""
        inside = {gn: pn for pn, gn in nodes_map.items() if pn.op != "placeholder"}
        return all(
            pn in self.pattern_returning_nodes or all(user in inside for user in gn.users)
            for gn, pn in inside.items()
        )

    def _remove_overlapping_matches(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        taken: set[Node] = set()
        kept = []
        for match in matches:
            nodes = {gn for pn, gn in match.nodes_map.items() if _computes(pn)}
            if not nodes & taken:
                kept.append(match)
                taken |= nodes
        return kept

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The matches of the pattern in a graph.

        node_name_match: nodes whose names have this in them match whatever they are."""
        from tritorch.fx.passes.utils.fuser_utils import validate_partition

        candidates = [
            (anchor, [n for n in graph.nodes if self._nodes_are_equal(anchor, n, node_name_match)])
            for anchor in self.pattern_anchors
        ]
        if not candidates or not any(nodes for _, nodes in candidates):
            return []
        matches: list[InternalMatch] = []

        def search(place: int, match: InternalMatch) -> None:
            if place == len(candidates):
                match.placeholder_nodes = [
                    match.nodes_map[pn] for pn in self.pattern_placeholder_nodes
                ]
                match.returning_nodes = [match.nodes_map[pn] for pn in self.pattern_returning_nodes]
                matches.append(match)
                return
            anchor, nodes = candidates[place]
            for node in nodes:
                trial = copy.copy(match)
                if self._match_nodes(anchor, node, trial, node_name_match):
                    search(place + 1, trial)

        search(0, InternalMatch(anchors=self.pattern_anchors))
        matches = [m for m in matches if self._is_contained(m.nodes_map)]
        matches = [
            m
            for m in matches
            if validate_partition([gn for pn, gn in m.nodes_map.items() if _computes(pn)])
        ]
        if self.remove_overlapping_matches:
            matches = self._remove_overlapping_matches(matches)
        logger.info("Matches returned: %s", matches)
        return matches


def _arguments(pn: Node, gn: Node) -> tuple[list[Any], list[Any]] | None:
    """The arguments of two calls side by side; None where they are not of the same parameters."""
    if len(pn.args) == len(gn.args) and list(pn.kwargs) == list(gn.kwargs):
        return [*pn.args, *pn.kwargs.values()], [*gn.args, *gn.kwargs.values()]
    if pn.op != "call_function" or pn.target is not gn.target:
        return None
    if isinstance(pn.target, OpOverload):
        return _by_schema(pn), _by_schema(gn)
    aligned = aligned_arguments(pn, gn)
    if aligned is None:
        return None
    return list(aligned[0].values()), list(aligned[1].values())


def _by_schema(node: Any) -> list[Any]:
    """All arguments of an overload's call, defaults too."""
    found = []
    for place, argument in enumerate(node.target._schema.arguments):
        if argument.name in node.kwargs:
            found.append(node.kwargs[argument.name])
        elif not argument.kwarg_only and place < len(node.args):
            found.append(node.args[place])
        else:
            found.append(argument.default_value)
    return found
