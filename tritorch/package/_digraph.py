"""A directed graph of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


class DiGraph:
    """Nodes with attributes, in the order in which they came, and edges between them."""

    def __init__(self) -> None:
        self._node: dict[Any, dict[str, Any]] = {}
        # By node: those that edges lead to, and come from, as keys.
        self._succ: dict[Any, dict[Any, bool]] = {}
        self._pred: dict[Any, dict[Any, bool]] = {}

    def add_node(self, n: Any, **kwargs: Any) -> None:
        """Adds a node, or attributes to it."""
        self._node.setdefault(n, {}).update(kwargs)
        self._succ.setdefault(n, {})
        self._pred.setdefault(n, {})

    def add_edge(self, u: Any, v: Any) -> None:
        """Adds an edge, and its nodes if they are not there."""
        self.add_node(u)
        self.add_node(v)
        self._succ[u][v] = self._pred[v][u] = True

    def successors(self, n: Any) -> Iterator[Any]:
        """The nodes that edges lead to from a node."""
        return iter(_known(self._succ, n))

    def predecessors(self, n: Any) -> Iterator[Any]:
        """The nodes that edges lead from to a node."""
        return iter(_known(self._pred, n))

    @property
    def edges(self) -> Iterator[tuple[Any, Any]]:
        """All edges (from, to)."""
        return ((u, v) for u, after in self._succ.items() for v in after)

    @property
    def nodes(self) -> dict[Any, dict[str, Any]]:
        """The attributes of all nodes, by node."""
        return self._node

    def __iter__(self) -> Iterator[Any]:
        return iter(self._node)

    def __contains__(self, n: object) -> bool:
        try:
            return n in self._node
        except TypeError:  # no key
            return False

    def forward_transitive_closure(self, src: str) -> set[str]:
        """A node and all that can be reached from it."""
        return _reached(src, self.successors)

    def backward_transitive_closure(self, src: str) -> set[str]:
        """A node and all from which it can be reached."""
        return _reached(src, self.predecessors)

    def all_paths(self, src: str, dst: str) -> str:
        """The part of the graph that lies on ways from one node to another, in dot's language."""
        between = self.forward_transitive_closure(src)
        found = DiGraph()
        if dst in between:
            between &= self.backward_transitive_closure(dst)
            for u, v in self.edges:
                if u in between and v in between:
                    found.add_edge(u, v)
        return found.to_dot()

    def first_path(self, dst: str) -> list[str]:
        """The nodes by which a node was first met, up to it."""
        order = {node: i for i, node in enumerate(self._node)}
        path, node = [dst], dst
        while before := [each for each in self._pred[node] if each not in path]:
            node = min(before, key=order.__getitem__)
            path.insert(0, node)
        return path

    def to_dot(self) -> str:
        """The graph in dot's language."""
        edges = "\n".join(f'"{u}" -> "{v}";' for u, v in self.edges)
        return f"digraph G {{\nrankdir = LR;\nnode [shape=box];\n{edges}\n}}\n"


def _known(table: dict[Any, dict[Any, bool]], n: Any) -> Iterable[Any]:
    try:
        return table[n]
    except KeyError as error:
        raise ValueError(f"The node {n} is not in the digraph.") from error


def _reached(start: str, steps: Callable[[str], Iterable[str]]) -> set[str]:
    found, waiting = {start}, [start]
    while waiting:
        for each in steps(waiting.pop()):
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found
