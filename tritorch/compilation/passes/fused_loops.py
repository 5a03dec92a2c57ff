"""Chains: pointwise calls on arrays of one shape, computed together in pieces that stay in the
CPU's cache, over threads.

Each element is computed by the functions that compute it alone, so a chain has their bits; what
only the chain reads never reaches memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritorch.arrays.arrays import cast_number, ndarray
from tritorch.compilation.follow.tape import Form, Note, Value
from tritorch.compilation.plan.lowering import Lowered, twin_of
from tritorch.core.layout import contiguous_strides
from tritorch.core.promotion import result_type
from tritorch.host.chains.chains import Chain, Steps
from tritorch.host.chains.steps import Trace, Untraceable, require_cast, traced

LEAST = 1 << 11  # elements from which a chain pays
FEWEST = 2  # steps of a chain


class ChainOp:
    """What stands for a record at a chain's call."""

    is_view = False
    kind = "chain"

    def __init__(self, names: Sequence[str]) -> None:
        self.name = "+".join(names)


class PartOp:
    """What stands for a record where steps are computed that are part of a call of one."""

    is_view = False
    kind = "part"

    def __init__(self, name: str, trace: Trace, value: int) -> None:
        self.name, self.trace, self.value = name, trace, value

    def function(self, *arrays: Any) -> Any:
        """The part alone."""
        steps = Steps()
        given = [steps.input(kind, True) for kind in self.trace.kinds[: len(arrays)]]
        return Chain(steps, [steps.append(self.trace, self.value, given)])(*arrays)


def shape_of(call: Lowered, forms: Sequence[Form]) -> tuple[int, ...] | None:
    """The shape that a call is computed element by element in; None if it is no such call."""
    if call.note.form not in ("pointwise", "steps") or call.writes or len(call.results) != 1:
        return None
    shape = forms[call.results[0]].shape
    if math.prod(shape) < LEAST:
        return None
    for x in (*call.args, Value(call.results[0])):
        if type(x) is not Value:
            continue
        form = forms[x.number]
        if form.kind is not ndarray or (form.shape and form.shape != shape):
            return None
        if form.shape and form.strides != contiguous_strides(shape):
            return None
    return shape


def steps_of(note: Note, forms: Sequence[Form]) -> tuple[Trace, int]:
    """The steps of a pointwise record's call, of its arrays as they are; Untraceable if it is more
    than those."""
    op = note.op
    if note.form == "steps":
        return op.trace, op.value
    if "compute" in vars(op) or getattr(op.cpu, "__wrapped__", None) is not op.eager:
        raise Untraceable(f"{op.name} was replaced")
    twins = [twin_of(forms[x.number]) if type(x) is Value else x for x in note.inputs]
    compute = op.compute_dtype(result_type(*twins[op.masks : len(twins) - op.beside]))
    operands = [
        (forms[x.number].dtype if i < op.masks else compute.numpy) if type(x) is Value
        else x if i < op.masks else cast_number(x, compute)
        for i, x in enumerate(note.inputs)
    ]  # fmt: skip
    function: Any = op.function
    trace, value = traced(function, operands)
    return trace, trace.cast(value, op.result_dtype(compute).numpy)


class Group:
    """Calls that become a chain."""

    def __init__(self, shape: tuple[int, ...], place: int) -> None:
        self.shape = shape
        self.place = place  # before which of the other calls
        self.calls: list[Lowered] = []
        self.steps = Steps()
        self.values: dict[int, int] = {}  # of the tape, as the steps have them
        self.inputs: list[int] = []

    def touches(self, call: Lowered) -> bool:
        """Whether a call reads what the group reads or makes."""
        return any(type(x) is Value and x.number in self.values for x in call.args)

    def add(self, call: Lowered, forms: Sequence[Form]) -> bool:
        """Takes a call in, if it comes to steps."""
        numbers = [x.number for x in call.args if type(x) is Value]
        try:
            trace, result = steps_of(call.note, forms)
            require_cast(trace.kinds[result], forms[call.results[0]].dtype, same=True)
            for number, kind in zip(numbers, trace.kinds):
                require_cast(forms[number].dtype, kind)
        except Untraceable:
            return False
        for number in numbers:
            if number not in self.values:
                form = forms[number]
                self.values[number] = self.steps.input(form.dtype, bool(form.shape))
                self.inputs.append(number)
        operands = [self.steps.cast(self.values[n], k) for n, k in zip(numbers, trace.kinds)]
        self.values[call.results[0]] = self.steps.append(trace, result, operands)
        self.calls.append(call)
        return True

    def chained(self, read: set[int]) -> list[Lowered]:
        """The calls as one; read: values that others read."""
        made = [call.results[0] for call in self.calls]
        outputs = [number for number in made if number in read]
        values = [self.values[number] for number in outputs]
        if len(self.steps.live(values)) < FEWEST or not any(w for _, w in self.steps.inputs):
            return self.calls
        note = Note(
            "chain", ChainOp([call.note.op.name for call in self.calls]),
            tuple(map(Value, self.inputs)), (), tuple(outputs), len(outputs) > 1,
        )  # fmt: skip
        chain = Chain(self.steps, values)
        return [Lowered(chain, note.inputs, note.results, note, False)]


def fused(calls: Sequence[Lowered], forms: Sequence[Form], kept: set[int]) -> list[Lowered]:
    """The calls, with chains for pointwise ones.

    A call joins those right before it, or goes up to one with which it shares a value, if what it
    reads is there by then and nothing is written in between."""
    others: list[Lowered] = []
    groups: list[Group] = []
    made: dict[int, int] = {}  # values of others, by how many others there are then
    written = 0  # others until the last one that writes
    for call in calls:
        shape = shape_of(call, forms)
        if shape is not None and _joined(call, shape, groups, made, written, len(others), forms):
            continue
        if shape is not None:
            group = Group(shape, len(others))
            if group.add(call, forms):
                groups.append(group)
                continue
        others.append(call)
        made |= dict.fromkeys(call.results, len(others))
        if call.writes:
            written = len(others)
    return _assembled(others, groups, kept)


def _joined(
    call: Lowered, shape: tuple[int, ...], groups: list[Group], made: dict[int, int],
    written: int, here: int, forms: Sequence[Form],
) -> bool:  # fmt: skip
    """Whether a call became part of a group."""
    reads = {x.number for x in call.args if type(x) is Value}
    later = {number for group in groups for number in group.values if number in reads}
    for i in range(len(groups) - 1, -1, -1):
        group = groups[i]
        if group.place < written:
            return False
        ahead = {n for each in groups[: i + 1] for n in each.values}
        fits = (
            group.shape == shape
            and (group.place == here or group.touches(call))
            and later <= ahead
            and all(made.get(n, 0) <= group.place for n in reads - ahead)
        )
        if fits and group.add(call, forms):
            return True
    return False


def _assembled(others: Sequence[Lowered], groups: Sequence[Group], kept: set[int]) -> list[Lowered]:
    readers: dict[int, list[int]] = {}  # which group, or -1
    for call in others:
        for x in call.args:
            if type(x) is Value:
                readers.setdefault(x.number, []).append(-1)
    for i, group in enumerate(groups):
        for number in group.inputs:
            readers.setdefault(number, []).append(i)
    found: list[Lowered] = []
    at = 0
    for i, group in enumerate(groups):
        found += others[at : group.place]
        at = group.place
        made = {call.results[0] for call in group.calls}
        read = {n for n in made if n in kept or any(who != i for who in readers.get(n, ()))}
        found += group.chained(read)
    return found + list(others[at:])
