"""Slots of a frame: which value of a graph is kept where, and how long (Note [Frames])."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.core.device import device
from tritorch.jit.ir.graph import Block, Graph, Node, Value
from tritorch.jit.ir.types import FunctionType
from tritorch.schema import types
from tritorch.schema.tensor_type import TensorType

_HOLDS_NO_MEMORY = (
    types.IntType, types.FloatType, types.BoolType, types.NoneType, types.ComplexType,
    types.DeviceObjType, types.StringType, FunctionType,
)  # fmt: skip


class Slots:
    """The slots of one graph; its inputs are the first."""

    def __init__(self, graph: Graph) -> None:
        self._of: dict[int, int] = {}
        self._inputs = len(graph._param._outputs)
        self._values: list[Any] = []  # what is behind the inputs when a call begins
        self._constants: dict[tuple[type, Any], int] = {}
        self._known: dict[int, Any] = {}  # constants, by the slot
        self._free: list[int] = []
        # Values by the node of their own block that reads them last.
        self._ending: dict[int, list[Value]] = {}
        self._order: dict[int, int] = {}
        self._numbered = 0  # a graph that is inlined twice is numbered twice
        self._number(graph)
        for place, value in enumerate(graph._param._outputs):
            self._of[id(value)] = place
            self._note_end(value, graph)

    def _number(self, block: Block) -> None:
        for node in block.nodes():
            self._order[id(node)] = self._numbered
            self._numbered += 1
            for inner in node._blocks:
                self._number(inner)
        self._order[id(block._return)] = self._numbered
        self._numbered += 1

    def tail(self) -> list[Any]:
        """The part of a new frame behind the inputs: constants, and None for values."""
        return self._values

    def _append(self, value: Any = None) -> int:
        self._values.append(value)
        return self._inputs + len(self._values) - 1

    def new(self) -> int:
        """A slot that nothing uses."""
        return self._free.pop() if self._free else self._append()

    def enter(self, graph: Graph, arguments: Sequence[Value]) -> Any:
        """Begins with the values of a graph that is inlined; its inputs are in the arguments'
        slots.  Gives what `leave` takes."""
        outer = self._of, self._ending
        places = [self._of[id(value)] for value in arguments]
        self._of, self._ending = {}, {}
        self._number(graph)
        for value, place in zip(graph._param._outputs, places, strict=True):
            self._of[id(value)] = place
        return outer

    def leave(
        self, outer: Any, result: Value, output: Value, block: Block
    ) -> tuple[int, int] | None:
        """Ends with an inlined graph: its result becomes the output of the call.  Gives the slots
        between which it has to be copied, if it is in one of the caller's."""
        place = self._of[id(result)]
        is_own = result._node._kind != "prim::Param"
        self._of, self._ending = outer
        if place in self._known:
            self._of[id(output)] = place
            return None
        if is_own:
            self.alias(output, place, block)
            return None
        return place, self.define(output, block)

    def reserved(self) -> int:
        """A slot that is never given to another value."""
        return self._append()

    def kept(self, value: Any) -> int:
        """The slot of a constant."""
        if isinstance(value, (bool, int, float, str, device)) or value is None:
            key = (type(value), repr(value) if isinstance(value, float) else value)
            if key not in self._constants:
                self._constants[key] = self._known_slot(value)
            return self._constants[key]
        return self._known_slot(value)

    def _known_slot(self, value: Any) -> int:
        place = self._append(value)
        self._known[place] = value
        return place

    def of(self, value: Value) -> int:
        """The slot of a value that is computed."""
        return self._of[id(value)]

    def is_known(self, value: Value) -> bool:
        """Tells whether it is a constant."""
        return self._of[id(value)] in self._known

    def known(self, value: Value) -> Any:
        """The constant that it is."""
        return self._known[self._of[id(value)]]

    def set_known(self, value: Value, constant: Any) -> None:
        """Makes it a constant."""
        self._of[id(value)] = self.kept(constant)

    def place(self, value: Value, place: int) -> None:
        """Puts it into a slot that is not freed here: another value has the same."""
        self._of[id(value)] = place

    def define(self, value: Value, block: Block) -> int:
        """A slot for a value that a node of this block computes."""
        place = self._of.get(id(value))
        if place is None:
            place = self._of[id(value)] = self.new()
            self._note_end(value, block)
        return place

    def alias(self, value: Value, place: int, block: Block) -> None:
        """Puts it into a slot that is chosen already, and that is freed after its last use."""
        self._of[id(value)] = place
        self._note_end(value, block)

    def _note_end(self, value: Value, block: Block) -> None:
        last = value._node
        if last._kind == "prim::Param" and not value._uses:
            return
        for use in value._uses:
            node: Node | None = use.user
            while node is not None and node._owner is not block:
                owner = node._owner
                node = None if owner is None else owner._node
            if node is None or node._kind == "prim::Return":
                return  # read at the end of the block
            if last._kind == "prim::Param" or self._order[id(node)] > self._order[id(last)]:
                last = node
        self._ending.setdefault(id(last), []).append(value)

    def ends_at(self, value: Value, node: Node) -> bool:
        """Tells whether a node reads a value last, as an input and not inside of its blocks."""
        return (
            value in self._ending.get(id(node), ())
            and self._of[id(value)] not in self._known
            and all(self._order[id(use.user)] <= self._order[id(node)] for use in value._uses)
        )

    def end(self, node: Node) -> list[int]:
        """Frees the slots of values that no node after this one reads; gives those that may hold
        on to memory."""
        places = []
        for value in self._ending.pop(id(node), ()):
            place = self._of[id(value)]
            if place in self._known:
                continue
            self._free.append(place)
            if _holds_memory(value):
                places.append(place)
        return places

    def reuse(self, node: Node) -> None:
        """Lets outputs of a node have the slots of tensors that it reads last."""
        ending = self._ending.get(id(node))
        if not ending:
            return
        held = [v for v in ending if isinstance(v._type, TensorType) and _holds_memory(v)]
        for value in held[: len(node._outputs)]:
            place = self._of[id(value)]
            if place not in self._known:
                ending.remove(value)
                self._free.append(place)


def _holds_memory(value: Value) -> bool:
    """Tells whether memory may be free once the slot forgets the value: what an object has it
    keeps, what a caller gave the caller holds."""
    if value._node._kind in ("prim::GetAttr", "prim::Param"):
        return False
    return not isinstance(value._type, _HOLDS_NO_MEMORY)
