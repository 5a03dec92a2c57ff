"""The partition of a computation, as a minimum cut: values to save, from which the others are
computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")
ALL = 1 << 62  # more than anything has bytes


class Choice(NamedTuple):
    """The two ways to have a value: saved, or computed again."""

    bytes: int | None  # that saving it takes; None: it may not be saved
    sources: tuple[Any, ...] | None  # the values it is computed from; None: it may not be again


def minimum_cut(choices: Mapping[Key, Choice], needed: Iterable[Key]) -> set[Key]:
    """The values to save, from which all that are needed can be computed, with the fewest bytes.

    Of several such sets it is the one of which the fewest calls run again."""
    flow = _Flow()
    pending = list(needed)
    for key in pending:
        flow.add((key, True), _SINK, ALL)
    seen = set(pending)
    while pending:
        key = pending.pop()
        size, sources = choices[key]
        flow.add((key, False), (key, True), ALL if size is None else size)
        if sources is None:
            flow.add(_SOURCE, (key, False), ALL)
        for source in sources or ():
            flow.add((source, True), (key, False), ALL)
            if source not in seen:
                seen.add(source)
                pending.append(source)
    flow.fill()
    near = flow.leading_to_sink()
    return {key for key in seen if (key, True) in near and (key, False) not in near}


def within_budget(
    part: float, order: Sequence[Any], free: int, most: int,
    choose: Callable[[set[Any]], Found], bytes_of: Callable[[Found], int],
) -> Found:  # fmt: skip
    """The choice that takes at most a part of the bytes that are taken where only free calls run
    again; where none does, one that takes the fewest.

    order: calls, the cheapest first; free: how many of them cost nothing; most: how many may run
    again at all.  As few of them are allowed as are enough."""
    found = choose(set(order[:free]))
    limit = part * bytes_of(found)
    if part == 1 or bytes_of(found) <= limit:
        return found
    low, high = free, most
    found = choose(set(order[:most]))
    limit = max(limit, bytes_of(found))
    while low < high:
        middle = (low + high) // 2
        fewer = choose(set(order[:middle]))
        if bytes_of(fewer) <= limit:
            high, found = middle, fewer
        else:
            low = middle + 1
    return found


_SOURCE, _SINK = ("source",), ("sink",)


class _Flow:
    """A network, and the greatest flow through it (Dinic's algorithm)."""

    def __init__(self) -> None:
        self.indices: dict[Hashable, int] = {}
        self.edges: list[list[int]] = []  # of each node, the numbers of its edges
        self.ends: list[int] = []  # of each edge; the next odd number is its reverse
        self.left: list[int] = []
        self._index(_SOURCE)
        self._index(_SINK)

    def _index(self, node: Hashable) -> int:
        if node not in self.indices:
            self.indices[node] = len(self.edges)
            self.edges.append([])
        return self.indices[node]

    def add(self, start: Hashable, end: Hashable, most: int) -> None:
        """An edge that so much may flow through."""
        for a, b, room in ((start, end, most), (end, start, 0)):
            self.edges[self._index(a)].append(len(self.ends))
            self.ends.append(self._index(b))
            self.left.append(room)

    def fill(self) -> None:
        """Sends as much as fits."""
        while (levels := self._levels())[1] >= 0:
            first_unused = [0] * len(self.edges)
            while self._send(levels, first_unused):
                pass

    def _levels(self) -> list[int]:
        levels = [-1] * len(self.edges)
        levels[0] = 0
        queue = deque([0])
        while queue:
            node = queue.popleft()
            for edge in self.edges[node]:
                end = self.ends[edge]
                if self.left[edge] and levels[end] < 0:
                    levels[end] = levels[node] + 1
                    queue.append(end)
        return levels

    def _send(self, levels: list[int], first_unused: list[int]) -> int:
        """Sends along one shortest path; first_unused: for each node, its first edge that is not
        used up."""
        path: list[int] = []
        node = 0
        while node != 1:
            edges = self.edges[node]
            while first_unused[node] < len(edges):
                edge = edges[first_unused[node]]
                if self.left[edge] and levels[self.ends[edge]] == levels[node] + 1:
                    break
                first_unused[node] += 1
            else:
                if not path:
                    return 0
                node = self.ends[path.pop() ^ 1]
                first_unused[node] += 1
                continue
            path.append(edge)
            node = self.ends[edge]
        sent = min(self.left[edge] for edge in path)
        for edge in path:
            self.left[edge] -= sent
            self.left[edge ^ 1] += sent
        return sent

    def leading_to_sink(self) -> set[Hashable]:
        """The nodes from which more could flow to the sink."""
        found, pending = {1}, [1]
        while pending:
            for edge in self.edges[pending.pop()]:
                start = self.ends[edge]
                if self.left[edge ^ 1] and start not in found:
                    found.add(start)
                    pending.append(start)
        return {node for node, index in self.indices.items() if index in found}
