"""Corresponding operations of two graphs."""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from tritorch.ao.ns.fx.mappings import (
    get_base_name_to_sets_of_related_ops,
    get_unmatchable_types_map,
)
from tritorch.ao.ns.fx.ns_types import NSNodeTargetType, NSSubgraph
from tritorch.ao.ns.fx.pattern_utils import (
    end_node_matches_reversed_fusion,
    get_reversed_fusions,
    get_type_a_related_to_b,
)
from tritorch.ao.quantization.fake_quantize import FakeQuantizeBase
from tritorch.ao.quantization.observer import ObserverBase
from tritorch.ao.quantization.utils import getattr_from_fqn
from tritorch.fx import GraphModule
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node


def _get_output_nodes(g: Graph) -> list[Node]:
    return [node for node in g.nodes if node.op == "output"]


class _NSGraphMatchableSubgraphsIterator:
    """Iterates over a graph's fusions and other operations, from its outputs on, but for those that
    cannot be matched and observers on their own."""

    def __init__(
        self,
        gm: GraphModule,
        non_matchable_functions: set[NSNodeTargetType],
        non_matchable_modules: set[NSNodeTargetType],
        non_matchable_methods: set[NSNodeTargetType],
    ) -> None:
        self.gm = gm
        self.non_matchable_functions = non_matchable_functions
        self.non_matchable_modules = non_matchable_modules
        self.non_matchable_methods = non_matchable_methods
        self.seen_nodes: set[Node] = set()
        self.stack = _get_output_nodes(gm.graph)
        self._fusions = get_reversed_fusions()

    def __iter__(self) -> Iterator[NSSubgraph]:
        return self

    def __next__(self) -> NSSubgraph:
        while self.stack:
            end = self.stack.pop()
            if end in self.seen_nodes:
                continue
            start, base = self._fused(end)
            self.seen_nodes.add(start)
            self.stack.extend(start.all_input_nodes)
            if not self._is_matchable(base):
                continue
            if start is end and end.op == "call_module":
                module = getattr_from_fqn(self.gm, str(end.target))
                if isinstance(module, (ObserverBase, FakeQuantizeBase)):
                    continue
            return NSSubgraph(start_node=start, end_node=end, base_op_node=base)
        raise StopIteration

    def _fused(self, end: Node) -> tuple[Node, Node]:
        """First and base node of the fusion that ends with a node, which may be it alone."""
        for fusion, base_index in self._fusions:
            if not end_node_matches_reversed_fusion(end, fusion, self.gm, self.seen_nodes):
                continue
            start = base = end
            for step in range(len(fusion) - 1):
                self.seen_nodes.add(start)
                start = start.args[0]
                if step == len(fusion) - 2 - base_index:
                    base = start
            return start, base
        return end, end

    def _is_matchable(self, node: Node) -> bool:
        if node.op == "call_function":
            return node.target not in self.non_matchable_functions
        if node.op == "call_module":
            module = getattr_from_fqn(self.gm, str(node.target))
            return not isinstance(module, tuple(self.non_matchable_modules))  # type: ignore[arg-type]
        return node.op == "call_method" and node.target not in self.non_matchable_methods


class GraphMatchingException(Exception):
    """Two graphs that do not correspond."""


class SubgraphTypeRelationship(enum.Enum):
    """Relations of two operations: the same, known or not, forms of one function, or others."""

    EQUAL = enum.auto()
    EQUAL_BUT_UKNOWN = enum.auto()
    RELATED_BUT_NOT_EQUAL = enum.auto()
    NOT_RELATED = enum.auto()


def _get_subgraph_relationship_type(
    subgraph_a: NSSubgraph,
    subgraph_b: NSSubgraph,
    gm_a: GraphModule,
    gm_b: GraphModule,
    type_a_related_to_b: set[tuple[NSNodeTargetType, NSNodeTargetType]],
) -> SubgraphTypeRelationship:
    """The relation of the base operations of two subgraphs; a function that has operations before
    it in one of them only is not the same."""
    a, b = subgraph_a.base_op_node, subgraph_b.base_op_node
    functions = ("call_function", "call_method")
    if a.op != b.op and not (a.op in functions and b.op in functions):
        return SubgraphTypeRelationship.NOT_RELATED
    if a.op not in (*functions, "call_module"):
        return SubgraphTypeRelationship.NOT_RELATED
    a_is_first, b_is_first = a == subgraph_a.start_node, b == subgraph_b.start_node
    if a.op == "call_module" and not (a_is_first and b_is_first):
        raise AssertionError(
            "Matching call_module patterns where base_op_node != start_node is not supported yet"
        )
    key: Any = (_get_node_target_type(a, gm_a), _get_node_target_type(b, gm_b))
    same = key[0] == key[1]
    if key not in type_a_related_to_b:
        relation = SubgraphTypeRelationship
        return relation.EQUAL_BUT_UKNOWN if same else relation.NOT_RELATED
    if same and a_is_first == b_is_first:
        return SubgraphTypeRelationship.EQUAL
    return SubgraphTypeRelationship.RELATED_BUT_NOT_EQUAL


def _get_name_for_subgraph(
    subgraph_a: NSSubgraph,
    gm_a: GraphModule,
    base_name_to_sets_of_related_ops: dict[str, set[NSNodeTargetType]],
    existing_names: set[str],
) -> str:
    """A name that both of two corresponding graphs give: the function and how often it came
    before."""
    kind: Any = _get_node_target_type(subgraph_a.base_op_node, gm_a)
    base = None
    for name, related in base_name_to_sets_of_related_ops.items():
        if kind in related:
            base = name
    count = 0
    while f"base_op_{base}_{count}" in existing_names:
        count += 1
    existing_names.add(f"base_op_{base}_{count}")
    return f"base_op_{base}_{count}"


def _get_node_target_type(node: Node, gm: GraphModule) -> Any:
    if node.op in ("call_function", "call_method"):
        return node.target
    if node.op == "call_module":
        return type(getattr_from_fqn(gm, str(node.target)))
    return None


def get_matching_subgraph_pairs(
    gm_a: GraphModule,
    gm_b: GraphModule,
    base_name_to_sets_of_related_ops: dict[str, set[NSNodeTargetType]] | None = None,
    unmatchable_types_map: dict[str, set[NSNodeTargetType]] | None = None,
) -> dict[str, tuple[NSSubgraph, NSSubgraph]]:
    """Pairs of corresponding subgraphs, in the order in which they run.

    Both graphs have to have as many subgraphs that can be matched, each with a base operation that
    is related to the other's; else `GraphMatchingException` is raised. Operations that are the same
    but unknown are left out.
    """
    unmatchable = unmatchable_types_map or get_unmatchable_types_map()
    kinds = ("funs_unmatchable", "mods_unmatchable", "meths_unmatchable")
    of_a, of_b = (
        _NSGraphMatchableSubgraphsIterator(gm, *(unmatchable[kind] for kind in kinds))
        for gm in (gm_a, gm_b)
    )
    sets = base_name_to_sets_of_related_ops
    if sets is None:
        sets = get_base_name_to_sets_of_related_ops()
    related = get_type_a_related_to_b(sets)
    names_a: set[str] = set()
    names_b: set[str] = set()
    pairs: list[tuple[str, tuple[NSSubgraph, NSSubgraph]]] = []
    while True:
        a, b = next(of_a, None), next(of_b, None)
        if a is None and b is None:
            return OrderedDict(reversed(pairs))
        type_a = None if a is None else _get_node_target_type(a.start_node, gm_a)
        type_b = None if b is None else _get_node_target_type(b.start_node, gm_b)
        if a is None or b is None:
            raise GraphMatchingException(
                f"\nAttempting to match\n({a}, {type_a}) and\n({b}, {type_b}),\n"
                "one of which is empty. Please ensure that the two models you pass in have the "
                "same number\nof subgraphs."
            )
        relation = _get_subgraph_relationship_type(a, b, gm_a, gm_b, related)
        if relation == SubgraphTypeRelationship.NOT_RELATED:
            raise GraphMatchingException(
                f"\nThe subgraphs\n({a}, {type_a}) and\n({b}, {type_b})\n"
                "are not related. Please ensure that the two models you pass in have the same "
                "number\nof subgraphs, and each pair of subgraphs is related to each other."
            )
        if relation == SubgraphTypeRelationship.EQUAL_BUT_UKNOWN:
            continue
        name = _get_name_for_subgraph(a, gm_a, sets, names_a)
        other = _get_name_for_subgraph(b, gm_b, sets, names_b)
        if name != other:
            raise AssertionError(f"Subgraph names {name} and {other} do not match")
        pairs.append((name, (a, b)))
