"""Steps of nodes with blocks: prim::If and prim::Loop."""

from __future__ import annotations

from typing import Any

from tritorch.jit.ir.graph import Block, Node
from tritorch.jit.run import limits
from tritorch.jit.run.errors import mark
from tritorch.jit.run.steps import Frame, Step, move_step
from tritorch.jit.run.unit import Steps, Unit


def if_steps(unit: Unit, node: Node) -> list[Step] | Steps:
    """A branch is chosen by the only input; its outputs become those of the node."""
    assert node._owner is not None
    slots = unit.slots
    if slots.is_known(node._inputs[0]):
        chosen = node._blocks[0 if slots.known(node._inputs[0]) else 1]
        return _branch(unit, chosen, [slots.define(v, node._owner) for v in node._outputs])
    condition = slots.of(node._inputs[0])
    outputs = [slots.define(value, node._owner) for value in node._outputs]
    yes, no = (_branch(unit, block, outputs) for block in node._blocks)
    then, otherwise = yes.steps, no.steps

    def choose(frame: Frame) -> None:
        steps = then if frame[condition] else otherwise
        try:
            for step in steps:
                step(frame)
        except Exception as error:
            marks = (yes if steps is then else no).places
            mark(error, marks[steps.index(step)])
            raise

    return [choose]


def _branch(unit: Unit, block: Block, outputs: list[int]) -> Steps:
    slots = unit.slots
    taken: set[int] = set()
    for value, place in zip(block._return._inputs, outputs):
        # What the branch computes itself is put where the node's output is.
        if value._node._owner is block and value._node._kind not in _HELD_ELSEWHERE:
            if id(value) not in taken:
                slots.place(value, place)
                taken.add(id(value))
    made = unit.steps_of(block)
    moved = move_step([(slots.of(v), o) for v, o in zip(block._return._inputs, outputs)])
    if moved is not None:
        made.add(moved, unit.place(block._return))
    return made


# Nodes whose outputs may be in slots that are chosen otherwise.
_HELD_ELSEWHERE = (
    "prim::Param", "prim::Constant", "prim::ListConstruct", "prim::Loop", "prim::CallMethod",
    "prim::CallFunction",
)  # fmt: skip


def loop_steps(unit: Unit, node: Node) -> list[Step]:
    """The body runs as long as its first output is true, as often as the first input says."""
    assert node._owner is not None
    slots = unit.slots
    (body,) = node._blocks
    most, condition, *initial = (slots.of(value) for value in node._inputs)
    counter, *carried = body._param._outputs
    # Slots of what is carried stay the body's: what it is given, what it gives, what comes out.
    places = [slots.reserved() for _ in carried]
    count_place = slots.reserved()
    slots.place(counter, count_place)
    for value, place in zip(carried, places):
        slots.place(value, place)
    ending = [
        slots.of(value)
        for value in node._inputs[2:]
        if slots.ends_at(value, node) and value not in node._inputs[:2]
    ]
    begin = move_step(list(zip(initial, places)), ending)
    made = unit.steps_of(body)
    goes_on, *results = body._return._inputs
    moves = [(slots.of(value), place) for value, place in zip(results, places)]
    own = {
        slots.of(value)
        for value in results
        if value._node._owner is body and not slots.is_known(value)
    }
    again = slots.of(goes_on)
    if again in own or again in places:  # it is moved, too
        kept = slots.reserved()
        moves.append((again, kept))
        again = kept
    moved = move_step(moves, sorted(own - set(places)))
    if moved is not None:
        made.add(moved, unit.place(body._return))
    for value, place in zip(node._outputs, places):
        slots.alias(value, place, node._owner)
    always = slots.is_known(goes_on) and slots.known(goes_on) is True
    run = _loop(made, most, condition, again, count_place, always)
    return [run] if begin is None else [begin, run]


def _loop(
    body: Steps,
    most: int,
    condition: int,
    goes_on: int,
    counter: int,
    always: bool,
) -> Step:
    steps, marks = body
    cost = len(steps) + 1

    def loop(frame: Frame) -> None:
        if not frame[condition]:
            return
        charge: Any = limits.charge if limits.had_budgets else None
        step = None
        try:
            for index in range(frame[most]):
                frame[counter] = index
                if charge is not None:
                    charge(cost)
                for step in steps:
                    step(frame)
                if not always and not frame[goes_on]:
                    break
        except Exception as error:
            if step is not None:
                mark(error, marks[steps.index(step)])
            raise

    return loop
