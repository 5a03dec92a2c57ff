"""Hoisting: parts of a backward pass that depend on the forward pass alone, computed there.

The gradient of an activation is a product with its derivative, which is a function of the forward
pass's values.  Where that shares steps with the activation (silu's sigmoid, the tanh of one kind of
gelu), it is computed in the same loop, and saved in place of its operands; the backward pass has
but the product left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.compilation.passes.fused_loops import Group, PartOp, shape_of, steps_of
from tritorch.compilation.plan.lowering import Lowered, arguments
from tritorch.host.chains.steps import Step, Trace, Untraceable

FEWEST = 3  # steps of arithmetic that are shared, from which an array more is worth it


def hoisted(
    notes: Sequence[Note], forms: list[Form], fixed: Sequence[Form], before: set[int],
    forward: Sequence[Note],
) -> tuple[list[Note], list[Note]]:  # fmt: skip
    """The notes of a backward pass without hoisted ones, and the notes that are hoisted.

    before: values of the forward pass, whose notes are `forward`; fixed: forms, as far as sizes are
    static."""
    late, found = [], []
    written = {n for note in notes if note.writes for n in note.results}
    for note in notes:
        parts = _parts(note, forms, fixed, before - written)
        if parts is None or _shared(parts[0], forward, fixed) < FEWEST:
            late.append(note)
            continue
        kind = parts[0].op.trace.kinds[parts[0].op.value]
        made = len(forms)
        forms.append(forms[note.results[0]]._replace(dtype=kind))
        *given, _ = parts[1].inputs
        found.append(parts[0]._replace(results=(made,)))
        late.append(parts[1]._replace(inputs=(*given, Value(made))))
    return late, found


def _parts(
    note: Note, forms: list[Form], fixed: Sequence[Form], before: set[int]
) -> tuple[Note, Note] | None:
    numbers = [x.number for x in note.inputs if type(x) is Value]
    known = [i for i, n in enumerate(numbers) if n in before]
    if note.form != NoteForm.POINTWISE or not known or len(known) == len(numbers):
        return None
    if shape_of(Lowered(None, arguments(note), note.results, note, False), fixed) is None:  # type: ignore[arg-type]
        return None
    try:
        trace, result = steps_of(note, fixed)
    except Untraceable:
        return None
    kinds = [trace.kinds[i] for i in range(len(numbers))]
    if any(forms[n].dtype != kind for n, kind in zip(numbers, kinds)):
        return None
    first, rest, between = divided(trace, known, result)
    if between is None:
        return None
    made = len(fixed)
    given = [i for i in range(len(numbers)) if i not in known]
    name = note.op.name
    return (
        _part(name + "'", trace, first, known, between, numbers, made),
        _part(name, trace, rest, [*given, between], result, [*numbers, made], note.results[0]),
    )


def _shared(part: Note, forward: Sequence[Note], fixed: Sequence[Form]) -> int:
    """The number of steps of a part that the forward pass computes, too, from values that the part
    reads."""
    read = {x.number for x in part.inputs if type(x) is Value}
    group = Group((), 0)
    for note in forward:
        mine = {x.number for x in note.inputs if type(x) is Value}
        call = Lowered(None, arguments(note), note.results, note, False)  # type: ignore[arg-type]
        if mine and mine <= read and shape_of(call, fixed) is not None:
            group.add(call, fixed)
    if not group.calls:
        return 0
    before = len(group.steps.steps)
    group.add(Lowered(None, part.inputs, part.results, part, False), [*fixed, *_made(part)])  # type: ignore[arg-type]
    return _cost(part.op.trace.steps) - _cost(group.steps.steps[before:])


def _cost(steps: Sequence[Step]) -> int:
    """The number of steps of arithmetic that take as long."""
    dear = [x for x in steps if x.kind == "loop" and hasattr(_C, x.what.name)]
    return len(steps) + (FEWEST - 1) * len(dear)


def _made(part: Note) -> list[Form]:
    kind = part.op.trace.kinds[part.op.value]
    return [Form(object, (), kind, ())]


def divided(
    trace: Trace, known: Sequence[int], result: int
) -> tuple[list[Step], list[Step], int | None]:
    """The steps that are functions of known values, the others, and the value that those need of
    the first ones: None if it is not a single one."""
    early = set(known)
    first, rest = [], []
    needed: set[int] = set()
    for step in trace.steps:
        every = (step, *step.what) if step.kind == "guard" else (step,)
        inner = {each.result for each in every}
        read = {x for each in every for x in each.operands if type(x) is int} - inner
        if read <= early and (step.kind != "guard" or step.result in early):
            first.append(step)
            early.add(step.result)
        else:
            rest.append(step)
            needed |= (read | ({step.result} if step.kind == "guard" else set())) & early
    if result in early or len(needed) != 1 or needed & set(known):
        return first, rest, None
    return first, rest, needed.pop()


def _part(
    name: str, trace: Trace, steps: Sequence[Step], trace_values: Sequence[int], result: int,
    numbers: Sequence[int], result_number: int,
) -> Note:  # fmt: skip
    """A call of some of the steps; trace_values: values of the trace, the last one of which may be
    computed."""
    own = Trace()
    values = {value: own.new(trace.kinds[value]) for value in trace_values}

    def moved(step: Step) -> Step:
        for each in step.what if step.kind == "guard" else ():
            if each.result not in values:
                values[each.result] = own.new(trace.kinds[each.result])
        if step.result not in values:
            values[step.result] = own.new(trace.kinds[step.result])
        what = tuple(map(moved, step.what)) if step.kind == "guard" else step.what
        operands = tuple(values[x] if type(x) is int else x for x in step.operands)
        return Step(step.kind, what, operands, values[step.result])

    own.steps = [moved(step) for step in steps]
    last = len(numbers) - 1
    inputs = tuple(Value(numbers[min(value, last)]) for value in trace_values)
    return Note(
        NoteForm.STEPS, PartOp(name, own, values[result]), inputs, (), (result_number,), False
    )


def position_of(notes: list[Note], part: Note) -> int:
    """The number of notes after which a part can be computed: those that give, or write, its
    operands."""
    read = {x.number for x in part.inputs if type(x) is Value}
    return max(
        (i + 1 for i, note in enumerate(notes) if read.intersection(note.results)), default=0
    )


def with_parts(
    notes: list[Note], args: list[dict[int, Any]], forms: list[Form], parts: Sequence[Note],
    like: Sequence[Form],
) -> list[int]:  # fmt: skip
    """Adds parts to the notes of a forward pass, and to their dynamic arguments; the numbers that
    their results have there."""
    found = []
    for part in parts:
        made = len(forms)
        forms.append(like[part.results[0]])
        position = position_of(notes, part)
        notes.insert(position, part._replace(results=(made,)))
        if args:
            args.insert(position, {})
        found.append(made)
    return found
