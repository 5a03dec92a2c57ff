"""The subgraph below a segment's node: its nodes, the tensors they keep, the gradients of its
leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.arrays import ndarray
from tritorch.arrays.meta import MetaArray, meta_of
from tritorch.autograd import engine
from tritorch.autograd.nodes import Node
from tritorch.compilation.follow.tape import Tape, Value
from tritorch.core.tensor import Tensor


class Arrivals(engine.Captures):
    """The gradients that arrive at leaves, one by one."""

    def __init__(self, leaves: Sequence[Tensor]) -> None:
        super().__init__(leaves)
        self.results: Any = [[] for _ in leaves]

    def add(self, i: int, g: Tensor) -> None:
        self.results[i].append(g)


def traced_leaf(x: Tensor) -> Tensor:
    """A leaf on the same storage, at which gradients end."""
    traced = _C.alias(x)
    traced._leaf, traced._inference = True, x._inference
    return traced


def start_at(node: Any, nr: int, like: Tensor | None = None) -> Tensor:
    """The tensor at which a pass starts: an output of a node; like: on the storage of that."""
    start = _C.wrap(_EMPTY) if like is None else _C.alias(like)
    start._raw_node, start.output_nr = node, nr
    return start


_EMPTY = ndarray(0)


def nodes_from(roots: Iterable[Any]) -> list[Any]:
    """The nodes that a pass from some of them reaches, those too."""
    found: dict[int, Any] = {}
    stack = [node for node in roots if node is not None]
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found[id(node)] = node
            stack += [edge for edge in node._node_edges if isinstance(edge, Node)]
    return list(found.values())


def nodes_after(first: int, roots: Iterable[Any]) -> list[Any]:
    """The nodes that a pass from some of them reaches and that are younger than that, by age."""
    found: dict[int, Any] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if isinstance(node, Node) and node._node_sequence > first and id(node) not in found:
            found[id(node)] = node
            stack += node._node_edges
    return sorted(found.values(), key=lambda node: node._node_sequence)


def roots_reached(roots: Sequence[Any]) -> list[set[int]]:
    """For each root, the others that are in the subgraph below it."""
    reached = [{id(node) for node in nodes_from([root])} for root in roots]
    return [
        {i for i, other in enumerate(roots) if id(other) in each and other is not root}
        for each, root in zip(reached, roots)
    ]


def shared_nodes(roots: Sequence[Any]) -> list[set[int]]:
    """For each root, the roots that need nodes that a pass from it frees."""
    freed = [{id(node) for node in nodes_from([each]) if node._node_runs_once} for each in roots]
    return [{j for j, other in enumerate(freed) if mine & other} for mine in freed]


def roots_by_edge(leaves: Sequence[Tensor], roots: Sequence[Any]) -> list[list[set[int]]]:
    """For each leaf, and each edge of the graph that leads to it: the roots that lead there."""
    reached = [{id(node) for node in nodes_from([root])} for root in roots]
    found: dict[int, list[set[int]]] = {id(leaf): [] for leaf in leaves}
    for node in nodes_from(roots):
        here = {i for i, each in enumerate(reached) if id(node) in each}
        for edge in node._node_edges:
            if id(edge) in found:
                found[id(edge)].append(here)
    return [found[id(leaf)] for leaf in leaves]


class Kept(NamedTuple):
    """A tensor that a node keeps of its call."""

    array: Any  # None: it is only kept an eye on
    shared: Any
    like: MetaArray


def kept_of(node: Any) -> list[Kept]:
    """The tensors that a node keeps of its call."""
    pairs = [(x._array, x._shared) for x in node._node_saved or () if isinstance(x, Tensor)]
    out, shared = node._node_out, node._node_out_shared
    pairs += zip(out, shared) if isinstance(out, tuple) else ((out, shared),)
    found = [Kept(x, shared, meta_of(x)) for x, shared in pairs if shared is not None]
    where = arrays.CPU if node._node_stream is None else arrays.cuda_device(node._node_stream[0])
    for each in node._node_kept or ():
        if type(each) is tuple:
            like = MetaArray(each[3], arrays.dtype_of_kind(each[4]), None, where)
            found.append(Kept(None, each[1], like))
    return found


def kept_in_subgraph(root: Any) -> list[Kept]:
    """The tensors that the nodes below one keep, in the order in which a pass runs them."""
    nodes = sorted(nodes_from([root]), key=lambda node: -node._node_sequence)
    return [each for node in nodes for each in kept_of(node)]


class Sources:
    """The inputs from which the values of a tape are computed."""

    def __init__(self, tape: Tape, numbers: dict[int, int], writes_unseen: bool) -> None:
        """numbers: of the inputs' arrays, with their slots; writes_unseen: the tape lacks some."""
        self._tape, self._all = tape, set(numbers.values())
        self._masks = {} if writes_unseen else _sources(tape, numbers)
        self._seen = not writes_unseen

    def of(self, kept: list[Kept]) -> set[int]:
        """The slots of the inputs that decide the values that are kept."""
        known = [self._tape.known(x.array) for x in kept if x.array is not None]
        if not self._seen or None in known:
            return set(self._all)
        mask = 0
        for number in known:
            assert number is not None
            mask |= self._masks.get(number, 0)
        return {slot for slot in self._all if mask >> slot & 1}


def _sources(tape: Tape, numbers: dict[int, int]) -> dict[int, int]:
    """For each value, a mask of the slots of the inputs from which it is computed."""
    found = {number: 1 << slot for number, slot in numbers.items()}
    memory = tape.memory()
    showing: dict[Any, list[int]] = {}
    for number, owner in memory.items():
        showing.setdefault(owner, []).append(number)
    for note in tape.notes:
        read = [x.number for x in note.inputs if type(x) is Value]
        mask = 0
        for number in read:
            mask |= found.get(number, 0)
        written = {memory[number] for number in read} if note.writes else ()
        for number in (*note.results, *(n for owner in written for n in showing[owner])):
            found[number] = found.get(number, 0) | mask
    return found
