"""Fused loops: pointwise calls on arrays of one shape, computed together in pieces that stay in the
CPU's cache, over threads.

Each element is computed by the functions that compute it alone, so a fused loop, a chain of NumPy's
loops, has their bits; values that only the loop reads never reach memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritorch.arrays.arrays import cast_number, ndarray
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.compilation.plan.lowering import Lowered, meta_tensor
from tritorch.core.layout import contiguous_strides
from tritorch.core.promotion import result_type
from tritorch.host.chains.chains import Chain, Steps
from tritorch.host.chains.steps import Trace, Untraceable, require_cast, traced

LEAST = 1 << 11  # elements from which a fused loop pays
FEWEST = 2  # steps of a fused loop


class CombinedOp:
    """The stand-in for a record at the call of several records' functions."""

    is_view = False
    kind = "combined"

    def __init__(self, names: Sequence[str]) -> None:
        self.name = "+".join(names)


class PartOp:
    """The stand-in for a record at the call of steps that are a part of a record's call."""

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
    if (
        call.note.form not in (NoteForm.POINTWISE, NoteForm.STEPS)
        or call.writes
        or len(call.results) != 1
    ):
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
    if note.form == NoteForm.STEPS:
        return op.trace, op.value
    if "compute" in vars(op) or getattr(op.cpu, "__wrapped__", None) is not op.eager:
        raise Untraceable(f"{op.name} was replaced")
    metas = [meta_tensor(forms[x.number]) if type(x) is Value else x for x in note.inputs]
    compute = op.compute_dtype(result_type(*metas[op.masks : len(metas) - op.beside]))
    operands = [
        (forms[x.number].dtype if i < op.masks else compute.numpy) if type(x) is Value
        else x if i < op.masks else cast_number(x, compute)
        for i, x in enumerate(note.inputs)
    ]  # fmt: skip
    function: Any = op.function
    trace, value = traced(function, operands)
    return trace, trace.cast(value, op.result_dtype(compute).numpy)


class Group:
    """Calls that become a fused loop."""

    def __init__(self, shape: tuple[int, ...], position: int) -> None:
        self.shape = shape
        self.position = position  # before which of the other calls
        self.calls: list[Lowered] = []
        self.steps = Steps()
        self.values: dict[int, int] = {}  # of the tape, as the steps have them
        self.inputs: list[int] = []

    def touches(self, call: Lowered) -> bool:
        """True if a call reads what the group reads or makes."""
        return any(type(x) is Value and x.number in self.values for x in call.args)

    def add(self, call: Lowered, forms: Sequence[Form]) -> bool:
        """Takes a call in, if it consists of steps."""
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

    def as_loop(self, read: set[int]) -> list[Lowered]:
        """The calls as one; read: values that others read."""
        made = [call.results[0] for call in self.calls]
        outputs = [number for number in made if number in read]
        values = [self.values[number] for number in outputs]
        if len(self.steps.live(values)) < FEWEST or not any(w for _, w in self.steps.inputs):
            return self.calls
        note = Note(
            NoteForm.LOOP, CombinedOp([call.note.op.name for call in self.calls]),
            tuple(map(Value, self.inputs)), (), tuple(outputs), len(outputs) > 1,
        )  # fmt: skip
        loop = Chain(self.steps, values)
        return [Lowered(loop, note.inputs, note.results, note, False)]


def fuse_loops(calls: Sequence[Lowered], forms: Sequence[Form], kept: set[int]) -> list[Lowered]:
    """The calls, with fused loops for pointwise ones.

    A call joins those right before it, or goes up to one with which it shares a value, if what it
    reads is there by then and nothing is written in between."""
    others: list[Lowered] = []
    groups: list[Group] = []
    made: dict[int, int] = {}  # values of others, by how many others there are then
    written = 0  # others until the last one that writes
    for call in calls:
        shape = shape_of(call, forms)
        if shape is not None and _joins_a_group(
            call, shape, groups, made, written, len(others), forms
        ):
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


def _joins_a_group(
    call: Lowered, shape: tuple[int, ...], groups: list[Group], made: dict[int, int],
    written: int, here: int, forms: Sequence[Form],
) -> bool:  # fmt: skip
    """True if a call became part of a group."""
    reads = {x.number for x in call.args if type(x) is Value}
    later = {number for group in groups for number in group.values if number in reads}
    for i in range(len(groups) - 1, -1, -1):
        group = groups[i]
        if group.position < written:
            return False
        ahead = {n for each in groups[: i + 1] for n in each.values}
        fits = (
            group.shape == shape
            and (group.position == here or group.touches(call))
            and later <= ahead
            and all(made.get(n, 0) <= group.position for n in reads - ahead)
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
        found += others[at : group.position]
        at = group.position
        made = {call.results[0] for call in group.calls}
        read = {n for n in made if n in kept or any(who != i for who in readers.get(n, ()))}
        found += group.as_loop(read)
    return found + list(others[at:])
