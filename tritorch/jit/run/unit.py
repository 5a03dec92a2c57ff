"""Functions of TorchScript as closures.

# Note [Frames]
A call has a frame: a list with the arguments, the constants and a slot for each value that is
computed.  Every node becomes a step, a closure that reads slots and writes slots; a block is a list
of steps.  A slot is given to another value after the last node that reads it, so that a tensor
lives no longer than in eager code; `slots` decides this.

Calls of functions that are known are inlined: their nodes work on the caller's frame, and a branch
whose condition is thereby a constant is decided when the graph is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Block, Graph, Node, Value
from tritorch.jit.run.errors import Place
from tritorch.jit.run.slots import Slots
from tritorch.jit.run.steps import Step, clear_step, move_step

# The functions that make the steps of a node, by its kind; "" is for operators (`nodes`).
HANDLERS: dict[str, Callable[[Unit, Node], list[Step] | Steps]] = {}
_MOST_INLINED = 2000  # nodes that calls may add to one function
_DEEPEST = 32


class Steps(NamedTuple):
    """Steps, and where each comes from."""

    steps: list[Step]
    places: list[Place]

    def extend(self, other: Steps) -> None:
        """Adds other steps."""
        self.steps.extend(other.steps)
        self.places.extend(other.places)

    def add(self, step: Step, place: Place) -> None:
        """Adds a step."""
        self.steps.append(step)
        self.places.append(place)


def _left_of(block: Block, most: int) -> int:
    """Subtracts the nodes of a block from a number; stops below 0."""
    for node in block.nodes():
        most -= 1
        for inner in node._blocks:
            if most >= 0:
                most = _left_of(inner, most)
        if most < 0:
            break
    return most


class Unit:
    """The state of the compilation of one function's graph."""

    def __init__(self, graph: Graph, name: str, function: GraphFunction | None = None) -> None:
        self.slots = Slots(graph)
        self.entered: int | None = None  # the slot of objects whose `with` statement is open
        self._name, self._function = name, function
        self._calls: list[tuple[GraphFunction, Place]] = []  # that are being inlined
        self._inlined = 0

    def place(self, node: Node) -> Place:
        """Where a node is, for errors."""
        outer = self._calls[-1][1] if self._calls else None
        name = self._calls[-1][0].name if self._calls else self._name
        return Place(node, name, outer)

    def steps_of(self, block: Block) -> Steps:
        """The steps of a block."""
        made = Steps([], [])
        for node in block.nodes():
            handler = HANDLERS.get(node._kind) or HANDLERS[""]
            found = handler(self, node)
            ended = self.slots.end(node)
            if isinstance(found, list):
                place = self.place(node)
                made.extend(Steps(found, [place] * len(found)))
            else:
                made.extend(found)
            if ended:
                made.add(clear_step(ended), self.place(node))
        return made

    def inlined(
        self, node: Node, function: GraphFunction, arguments: Sequence[Value]
    ) -> Steps | None:
        """The steps of a called function, on the caller's frame; None if it has to be called."""
        graph = function.graph
        if (
            len(self._calls) >= _DEEPEST
            or len(graph._return._inputs) != 1
            or len(node._outputs) != 1
            or len(graph._param._outputs) != len(arguments)
            or any(active is function for active, _ in self._calls)
        ):
            return None
        left = _left_of(graph, _MOST_INLINED - self._inlined)
        if left < 0:
            return None
        self._inlined = _MOST_INLINED - left
        assert node._owner is not None
        if self._function is not None:
            function.inlined_in.add(self._function)
        self._calls.append((function, self.place(node)))
        outer = self.slots.enter(graph, arguments)
        made = self.steps_of(graph)
        self._calls.pop()
        (result,) = graph._return._inputs
        moved = self.slots.leave(outer, result, node._outputs[0], node._owner)
        step = move_step([] if moved is None else [moved])
        if step is not None:
            made.add(step, self.place(node))
        return made
