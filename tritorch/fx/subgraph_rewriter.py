"""Parts of a graph found by a pattern, and replaced by another graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tritorch.fx._symbolic_trace import symbolic_trace
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node
from tritorch.nn.modules.module import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A place where a pattern was found: its last node, and the graph's node for each of the
    pattern's."""

    anchor: Node
    nodes_map: dict[Node, Node]


class ReplacedPatterns(NamedTuple):
    """A match, and the nodes that took its place."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replaces every part of a graph that computes what `pattern` does by `replacement`."""
    found = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(each.anchor, each.nodes_map) for each in found]


def replace_pattern_with_filters(
    gm: GraphModule, pattern: Any, replacement: Any = None,
    match_filters: list[Callable[..., bool]] | None = None, ignore_literals: bool = False,
    replacement_callback: Callable[..., Graph] | None = None, node_name_match: str = "",
) -> list[ReplacedPatterns]:  # fmt: skip
    """The same for the matches that all filters accept.

    ignore_literals: numbers of the pattern match any others.  replacement_callback: makes the
    replacement for each match."""
    pattern_graph = _graph_of(pattern)
    other = replacement if isinstance(replacement, (Graph, GraphModule)) else None
    other_graph = _graph_of(other or replacement) if replacement_callback is None else None
    anchors = pattern_graph.output_node().all_input_nodes
    matches: list[_Match] = []
    taken: set[Node] = set()
    for node in gm.graph.nodes:
        match = _Match(pattern_graph, ignore_literals)
        if not match.begins_at(anchors, node, gm.graph):
            continue
        inside = [n for p, n in match.nodes.items() if p.op not in ("placeholder", "output")]
        if taken & set(inside) or not match.is_closed(set(inside), anchors):
            continue
        if all(accepts(match, gm.graph, pattern_graph) for accepts in match_filters or ()):
            taken |= set(inside)
            matches.append(match)
    done = []
    changed: dict[Node, Node] = {}
    for match in matches:
        graph = (
            replacement_callback(match, gm.graph, pattern_graph)
            if replacement_callback is not None
            else other_graph
        )
        assert graph is not None
        done.append(_replaced(gm, match, pattern_graph, anchors, graph, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_over(gm, replacement)
    return done


def _graph_of(source: Any) -> Graph:
    if isinstance(source, GraphModule):
        return source.graph
    return source if isinstance(source, Graph) else symbolic_trace(source).graph


class _Match:
    """A pattern's nodes beside the graph's."""

    def __init__(self, pattern: Graph, ignore_literals: bool) -> None:
        self.pattern, self.ignore_literals = pattern, ignore_literals
        self.nodes: dict[Node, Node] = {}
        self.others: dict[Node, Any] = {}  # placeholders that stand for no node

    @property
    def nodes_map(self) -> dict[Node, Node]:
        """The graph's node for each of the pattern's."""
        return self.nodes

    @property
    def placeholder_nodes(self) -> list[Any]:
        """What stands for the pattern's inputs."""
        return [self.nodes.get(n, self.others.get(n)) for n in self.pattern.nodes
                if n.op == "placeholder"]  # fmt: skip

    def begins_at(self, anchors: list[Node], node: Node, graph: Graph) -> bool:
        """Whether the pattern's first result is this node, and its others are somewhere."""
        if not anchors or not self._same(anchors[0], node):
            return False
        for anchor in anchors[1:]:
            if anchor in self.nodes:
                continue
            kept = dict(self.nodes)
            for candidate in graph.nodes:
                if self._same(anchor, candidate):
                    break
                self.nodes = dict(kept)
            else:
                return False
        return True

    def _same(self, pattern: Node, node: Any) -> bool:
        if pattern in self.nodes:
            return self.nodes[pattern] is node
        if pattern.op == "placeholder":
            if isinstance(node, Node):
                self.nodes[pattern] = node
            else:
                self.others[pattern] = node
            return True
        if not isinstance(node, Node) or pattern.op != node.op or node in self.nodes.values():
            return False
        if pattern.op in ("call_function", "call_method"):
            if pattern.target != node.target:
                return False
        elif pattern.op in ("call_module", "get_attr"):
            if not _same_target(pattern, node):
                return False
        self.nodes[pattern] = node
        if len(pattern.args) != len(node.args) or pattern.kwargs.keys() != node.kwargs.keys():
            from tritorch.fx.operator_schemas import aligned_arguments

            aligned = aligned_arguments(pattern, node)
            if aligned is None or not self._alike(*aligned):
                del self.nodes[pattern]
                return False
            return True
        if self._alike(pattern.args, node.args) and all(
            self._alike(pattern.kwargs[k], node.kwargs[k]) for k in pattern.kwargs
        ):
            return True
        del self.nodes[pattern]
        return False

    def _alike(self, a: Any, b: Any) -> bool:
        if isinstance(a, Node):
            return self._same(a, b)
        if isinstance(a, (list, tuple)):
            return (
                isinstance(b, (list, tuple))
                and len(a) == len(b)
                and all(self._alike(x, y) for x, y in zip(a, b))
            )
        if isinstance(a, dict):
            return (
                isinstance(b, dict)
                and a.keys() == b.keys()
                and all(self._alike(a[k], b[k]) for k in a)
            )
        if self.ignore_literals and isinstance(a, (int, float, bool, str)):
            return not isinstance(b, Node)
        return bool(type(a) is type(b) and a == b) or a is b

    def is_closed(self, inside: set[Node], anchors: list[Node]) -> bool:
        """Whether nobody outside uses what the pattern keeps to itself."""
        ends = {self.nodes[a] for a in anchors}
        return all(user in inside for node in inside if node not in ends for user in node.users)


def _same_target(pattern: Node, node: Node) -> bool:
    first, second = pattern.graph.owning_module, node.graph.owning_module
    if pattern.op == "get_attr" or first is None or second is None:
        return pattern.target == node.target
    return type(first.get_submodule(str(pattern.target))) is type(
        second.get_submodule(str(node.target))
    )


def _replaced(
    gm: GraphModule, match: _Match, pattern: Graph, anchors: list[Node], graph: Graph,
    changed: dict[Node, Node],
) -> ReplacedPatterns:  # fmt: skip
    inputs = [n for n in pattern.nodes if n.op == "placeholder"]
    targets = [n for n in graph.nodes if n.op == "placeholder"]
    if len(inputs) != len(targets):
        raise RuntimeError(f"The pattern has {len(inputs)} inputs, its replacement {len(targets)}")
    values: dict[Node, Any] = {}
    for mine, theirs in zip(inputs, targets):
        value = match.nodes.get(mine, match.others.get(mine))
        while isinstance(value, Node) and value in changed:
            value = changed[value]
        values[theirs] = value
    inside = [n for p, n in match.nodes.items() if p.op not in ("placeholder", "output")]
    last = max(inside, key=lambda n: list(gm.graph.nodes).index(n))
    before = set(gm.graph.nodes)
    first_user = last.next
    with gm.graph.inserting_before(first_user):
        result = gm.graph.graph_copy(graph, values)
    made = [n for n in gm.graph.nodes if n not in before]
    results = result if isinstance(result, (tuple, list)) else (result,)
    ends = [match.nodes[a] for a in anchors]
    if len(results) != len(ends):
        raise RuntimeError(f"The pattern has {len(ends)} results, its replacement {len(results)}")
    for old, new in zip(ends, results):
        if isinstance(new, Node):
            old.replace_all_uses_with(new, lambda user: user not in made)
            changed[old] = new
    for node in reversed([n for n in gm.graph.nodes if n in set(inside)]):
        if not node.users:
            gm.graph.erase_node(node)
    return ReplacedPatterns(ends[0], match.nodes, made)


def _take_over(gm: GraphModule, replacement: Module) -> None:
    """Modules and parameters that the replacement names, and the graph's module lacks."""
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        owner: Any = gm
        try:
            for part in str(node.target).split("."):
                owner = getattr(owner, part)
        except AttributeError:
            value: Any = replacement
            for part in str(node.target).split("."):
                value = getattr(value, part)
            if isinstance(value, Module):
                gm.add_submodule(str(node.target), value)
            else:
                setattr(gm, str(node.target), value)
    gm.graph.lint()
