"""Nodes of segments, and the runs that they belong to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any
from weakref import ref

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.autograd import engine
from tritorch.autograd.nodes import FREED, Node
from tritorch.compilation.backward import intact
from tritorch.compilation.backward.subgraph import (
    Arrivals,
    nodes_after,
    nodes_from,
    roots_by_edge,
    start_at,
)
from tritorch.compilation.follow.tape import Tape
from tritorch.compilation.plan import meta_execution
from tritorch.core.dispatching import noting
from tritorch.core.tensor import Tensor

if TYPE_CHECKING:
    from tritorch.compilation.backward.segments import Segment


class CompiledFunctionBackward(Node):
    """The gradient of a segment.

    asked: outputs that the last pass asked for; passed: outputs from which a pass has come and
    freed its nodes; freed: outputs whose gradients need some of those; inner: once it is expanded,
    the node that stands for each output; opaque: whether it is never expanded; outputs: weak
    references to those."""

    __slots__ = ("asked", "freed", "inner", "opaque", "outputs", "passed", "run")
    _hooks_see_none = False  # the engine asks: whether hooks of unused outputs are called
    asked: set[int]
    passed: set[int]
    freed: set[int]
    inner: Any  # [(node, output)]
    outputs: list[Any]
    run: Any
    opaque: bool

    def is_expanded(self) -> bool:
        """True if a graph is in this node's place."""
        return self.inner is not None

    def expand(self) -> bool:
        """Puts the graph of the segment's calls, run again, in this node's place, for the outputs
        whose gradients read what was not written since.  Then all is as without compile, as
        slowly."""
        if self.inner is None:
            if self.run is None or self.opaque:
                return False
            segment = self.run.segment
            unexpandable = segment.unexpandable(self.run)
            # An output on which others depend would only see gradients from expanded ones.
            if len(unexpandable) == self._node_n_outputs or any(
                segment.depends_on[i] for i in unexpandable
            ):
                return False
            self.inner = segment.expanded_graph(self.run, self)
            if unexpandable:
                rest = self._opaque()
                self.inner = [
                    (rest, i) if i in unexpandable else x for i, x in enumerate(self.inner)
                ]
            hooks = self._node_hooks
            for x, (node, nr), i in zip(self.outputs, self.inner, range(len(self.inner))):
                tensor = x()
                if tensor is not None and tensor._raw_node is self:
                    tensor._raw_node, tensor.output_nr = node, nr
                if node._node_hooks is not None and nr in node._node_hooks.retained:
                    node._node_hooks.retained[nr] = x  # a call of the segment asked for it
                if hooks is not None and i in hooks.tensor:
                    node._hooks().tensor[nr] = hooks.tensor[i]
                if hooks is not None and i in hooks.retained:
                    node._hooks().retained[nr] = hooks.retained[i]
        return True

    def _opaque(self) -> CompiledFunctionBackward:
        """Another node of the same run, which is never expanded."""
        made = CompiledFunctionBackward()
        for name in _FIELDS:
            setattr(made, name, getattr(self, name))
        made.inner, made.opaque = None, True
        made.asked, made.passed, made.freed = set(), {*self.passed}, {*self.freed}
        return made

    def expand_within(self, nr: int) -> tuple[Any, int]:
        """The node at which gradients of an output can be seen, those of outputs that depend on it
        too."""
        if self.inner is None:
            if self.run is None or nr not in self.run.segment.within:
                return self, nr
            if not self.expand():
                raise RuntimeError(self.run.segment.written)
        return self.inner[nr]

    def edges_of(self, nr: int) -> list[tuple[Any, int]]:
        """The edges to the inputs that an output depends on; all, once it is freed."""
        if self.inner is not None:
            return [self.inner[nr]]
        edges = super().edges_of(nr)
        if self.run is None:
            return edges
        return [
            edge
            for edge, roots in zip(edges, chain(*self.run.segment.roots_by_edge))
            if nr in roots
        ]

    def edges_from(self, outputs: Collection[int]) -> tuple[Any, ...]:
        """All edges, with None for those over which nothing can come from these outputs: the last
        ones to an input, as its gradients go over the first."""
        if self.inner is not None:
            return ()
        if self.run is None:
            return self._node_edges
        edges: list[Any] = []
        for by_edge in self.run.segment.roots_by_edge:
            found = sum(not roots.isdisjoint(outputs) for roots in by_edge)
            edges += self._node_edges[len(edges) : len(edges) + found]
            edges += [None] * (len(by_edge) - found)
        return tuple(edges)

    def _node_free(self) -> None:
        self.passed |= self.asked
        self.freed |= self.run.segment.freed_with(self.asked)
        if len(self.freed) == self._node_n_outputs:
            self.run = None
            self._node_freed = True


_FIELDS = (
    "_node_op", "_node_edges", "_node_outputs", "_node_divided", "_node_n_outputs", "_node_shape",
    "_node_dtype", "_node_saved", "_node_sequence", "run", "outputs",
)  # fmt: skip
RESERVED = 1 << 20  # for the nodes of a segment's graph


class _Op:
    """The engine's questions to a segment's node."""

    name = "compiled_function"
    inputs = ()
    params = ()

    @staticmethod
    def read(node: Any, name: str, raw: bool) -> None:
        """Nothing is shown."""

    @staticmethod
    def backward(node: Any, g: Any) -> Any:
        node.asked = {i for i, each in enumerate(g) if each is not None}
        if node.run is None or node.asked & node.freed:
            raise RuntimeError(FREED)
        results = node.run.backward(list(g))
        # As many as there are edges: one for each gradient that may come.
        counted = zip(results, node.run.arrivals)
        return [x for found, n in counted for x in (*found, *[None] * (n - len(found)))]


def new_node(run: Any, inputs: list[Tensor], held: Sequence[Tensor]) -> Any:
    """The node of tensors that are held, with as many edges to each input as gradients may come."""
    node = CompiledFunctionBackward()
    node._node_op = _Op
    node._node_edges, node._node_outputs = _C.gradient_edges(inputs, run.arrivals)
    node._node_divided = True
    node._node_n_outputs = len(held)
    node._node_shape = tuple(x._array.shape for x in held)
    node._node_dtype = tuple(x._array.dtype for x in held)
    node._node_saved = ()  # there is something to free
    node.run, node.inner, node.opaque = run, None, False
    node.asked, node.passed, node.freed = set(), set(), set()
    node.outputs = [ref(x) for x in held]
    _C.reserve_sequence_numbers(RESERVED)
    run.results = run.segment.read_results(held)
    for i, x in enumerate(held):
        x._raw_node, x.output_nr, x._leaf = node, i, False
    return node


# ---- runs ----------------------------------------------------------------------------------------


class Graph:
    """A run whose node has a subgraph below it; backward passes from different outputs are
    noted."""

    def __init__(
        self, segment: Segment, roots: list[tuple[Any, int]], leaves: list[Tensor],
        given: dict[int, Tensor], tensors: dict[int, Tensor], tape: Tape | None, drawn: list[Any],
        versions: dict[int, tuple[Any, int]], numbers: tuple[Any, ...],
    ) -> None:  # fmt: skip
        self.segment, self.roots, self.leaves, self.tensors = segment, roots, leaves, tensors
        self.given = given
        self.tape, self.drawn, self.versions, self.numbers = tape, drawn, versions, numbers
        self.copied: dict[int, Any] = {}
        self.forward = (0, 0) if tape is None else (len(tape.notes), len(tape.forms))
        segment.roots_by_edge = roots_by_edge(leaves, [node for node, _ in roots])
        self.arrivals = segment.arrivals = [len(by_edge) for by_edge in segment.roots_by_edge]

    def keeps_intact(self, i: int) -> bool:
        """True if an output's gradients can be followed whatever no node keeps: Note [Intact]."""
        return self.segment.draft is not None

    def run_intact(self, tensors: dict[int, Tensor]) -> None:
        """Runs the calls again on tensors; their nodes keep the values that the nodes of this run
        keep."""
        segment, first = self.segment, Node()._node_sequence
        meta_execution.run_again(segment.steps, tensors, self.numbers)
        if segment.draft is None:
            return
        roots = [node for node, _ in self.roots]
        nodes = sorted(nodes_from(roots), key=lambda node: node._node_sequence)
        others = nodes_after(first, [x._node for x in segment.outputs(tensors)])
        inputs = {id(self.given[slot]._shared) for slot in segment.slots}
        if not intact.put_kept(nodes, others, inputs):
            raise RuntimeError(segment.written)

    def backward(self, grads: list[Any]) -> list[list[Any]]:
        """The gradients that arrive at each input."""
        if _C.is_grad_enabled():
            return self.segment.gradients(self, grads)
        roots = [start_at(*root) for root, g in zip(self.roots, grads) if g is not None]
        given = [g for g in grads if g is not None]
        arrivals = Arrivals(self.leaves)
        tape = self.tape
        for slot, leaf in zip(self.segment.wanting, self.leaves):
            x = self.given[slot]
            if slot in self.versions and x._shared is not self.versions[slot][0]:
                leaf._a, leaf._shared = x._array, x._shared
                tape = None  # of a pass that reads this no program is made
        if tape is None or not self.segment.learns(grads, self.numbers):
            engine.run(roots, given, True, False, arrivals)
            return arrivals.results
        self.tape = None  # of one pass at a time
        given = [_apart(g, tape) for g in given]
        waiting = iter(given)
        numbers = [None if g is None else tape.number(next(waiting)._array) for g in grads]
        with noting(tape.note):
            engine.run(roots, given, True, False, arrivals)
        found, (split, seen) = arrivals.results, self.forward
        self.segment.learn(tape, split, seen, numbers, found, self.tensors, self.numbers)
        if self.segment.draft is None or tape.unfit:
            tape.close()
        else:  # another pass may ask for other outputs: it is noted as if it were the only one
            tape.forget(split, seen)
            self.tape = tape
        return arrivals.results


def _apart(g: Tensor, tape: Tape) -> Tensor:
    """A gradient as a value of its own, numbered: the next pass may get two where this one got the
    same twice, or something that the forward pass made."""
    array = g._array
    if tape.known(array) is not None:
        array = arrays.strided(array, array.shape, arrays.strides_of(array), 0)
        g = _C.alias(g, array)
    tape.number(array)
    return g


class Run:
    """A run of a segment's program: what its gradient needs."""

    def __init__(
        self, segment: Segment, values: list[Any], tensors: dict[int, Tensor],
        before: dict[int, Tensor], held: list[Tensor], numbers: tuple[Any, ...],
    ) -> None:  # fmt: skip
        """tensors: the inputs; before: as they were, where the segment writes them; numbers: the
        dynamic ones."""
        self.segment, self.given, self.tensors, self.numbers = segment, tensors, before, numbers
        self.saved = [[values[number] for number in each.saved] for each in segment.backwards]
        draft = segment.draft
        self.intact = {*segment.intact}
        self.further = {} if draft is None else {n: values[n] for n in draft.intact}
        copies = {} if draft is None else draft.intact_copies
        self.copied = {slot: values[number] for slot, number in copies.items()}
        drawn = segment.draft.drawn if segment.draft is not None else -1
        self.drawn = values[drawn] if drawn >= 0 else []
        self.arrivals = segment.arrivals
        self.versions = segment.versions(tensors | dict(zip(segment.held, held)))

    def keeps_intact(self, i: int) -> bool:
        """True if an output's gradients can be followed whatever no node keeps: Note [Intact]."""
        return i in self.intact

    def run_intact(self, tensors: dict[int, Tensor]) -> None:
        """Runs the calls again on tensors, with the values that this run has saved."""
        segment = self.segment
        for slot, array in self.copied.items():
            like = _C.wrap(array)
            if slot in segment.wanting:
                tensors[slot]._a, tensors[slot]._shared = array, like._shared
            else:
                tensors[slot] = like
        if not self.further:
            meta_execution.run_again(segment.steps, tensors, self.numbers)
            return
        assert segment.calls is not None  # it has chosen the saved values
        replay = intact.Replay(segment.calls, self.further)
        for slot in segment.slots:
            replay.number(tensors[slot]._array)
        with noting(replay.note):
            meta_execution.run_again(segment.steps, tensors, self.numbers)
        if replay.other:
            raise RuntimeError(segment.written)

    def backward(self, grads: list[Any]) -> list[list[Any]]:
        """The gradients that arrive at each input."""
        index = -1 if _C.is_grad_enabled() else self.segment.backward_for(grads, self.numbers)
        if index < 0:
            return self.segment.gradients(self, grads)
        saved, backward = self.saved[index], self.segment.backwards[index]
        replaced = self.segment.require_unwritten(self, grads)
        if replaced:
            saved = backward.with_other(saved, {i: self.given[i]._array for i in replaced})
        given = [g._array for g in grads if g is not None]
        return backward(saved, given, self.numbers)
