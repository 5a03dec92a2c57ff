"""Saved values of a segment: Note [Rematerialisation], in terms of its two notations.

The notes of the forward pass (`joint.Draft`) and of the backward pass (`segments.Backward`) give
values that one tape knows the same numbers, and further ones numbers of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tritorch.compilation.backward.rematerialisation import Forward, chosen, with_rematerialised
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Tape, Value
from tritorch.compilation.plan.symbolic_arguments import SymbolicArguments
from tritorch.core.dispatching import COPY

if TYPE_CHECKING:
    from tritorch.compilation.backward.joint import Draft


class Late(NamedTuple):
    """A backward pass: its notes, their dynamic arguments, and notes that are to be hoisted."""

    notes: list[Note]
    args: list[dict[int, Any]]
    early: list[Note]


class Saved(NamedTuple):
    """A backward pass that rematerialises values, and its inputs from the forward pass: by the
    numbers there, and by its own."""

    late: Late
    theirs: list[int]
    own: list[int]


def budget() -> float:
    """The part of the memory for saved values that may be used, as programs have set it."""
    from tritorch.compat.torch_private._functorch import config

    found: float = config.activation_memory_budget
    if not 0 <= found <= 1:
        raise RuntimeError(
            f"The valid ranges for memory budget are 0 <= m <= 1. The provided value is {found}"
        )
    return found


def saved(
    draft: Draft, tape: Tape, late: Late, needed: set[int], pinned: set[int],
    forms: list[Form], symbolic: SymbolicArguments, watched: Iterable[int], part: float,
) -> Saved:  # fmt: skip
    """A backward pass whose inputs are as few as a budget allows, if they may be fewer.

    needed: values of the forward pass that it reads or gives; pinned: those that it gives; forms
    and symbolic are its own, and get further values; watched: slots of tensors that are not written
    before."""
    plain = Saved(late, sorted(needed), sorted(needed))
    memory = tape.memory()
    parts = {note.results[0] for note in late.early}
    forward = _forward(draft, tape, late.early, memory, forms, symbolic, set(watched))
    written = {
        memory.get(x.number) for note in late.notes if note.writes for x in note.inputs
        if type(x) is Value
    }  # fmt: skip
    if written.intersection(forward.memory.values()):
        return plain
    found = chosen(forward, needed | parts, pinned, part)
    if not found.rematerialised:
        return plain

    def new_like(number: int) -> int:
        return _further(number, forms[number], symbolic.layouts.get(number), forms, symbolic)

    copies = {n: new_like(n) for n in sorted(found.copied)}
    args = [*draft.symbolic.args[: len(draft.notes)]] or [{} for _ in draft.notes]
    args += [{} for _ in late.early]
    notes, dynamic_args = with_rematerialised(
        late.notes, late.args, forward, args, found, copies, new_like
    )
    early = [note for note in late.early if note.results[0] in found.saved]
    early += [
        Note(NoteForm.COPY, COPY, (Value(n),), (), (own,), False) for n, own in copies.items()
    ]
    own = sorted(found.saved - parts)
    theirs = {mine: number for number, mine in forward.renamed.items()}
    return Saved(Late(notes, dynamic_args, early), [theirs.get(n, n) for n in own], own)


class _Renamed(Forward):
    """A forward pass in the backward pass's numbers; renamed: those that were others."""

    renamed: dict[int, int]


def _further(
    number: int, form: Form, layout: Any, forms: list[Form], symbolic: SymbolicArguments
) -> int:
    """A new value that looks like this."""
    own = len(forms)
    forms.append(form)
    if layout is not None:
        symbolic.layouts[own] = layout
    return own


def _forward(
    draft: Draft, tape: Tape, early: Sequence[Note], memory: dict[int, Any],
    forms: list[Form], symbolic: SymbolicArguments, watched: set[int],
) -> _Renamed:  # fmt: skip
    names = {
        number: _further(
            number, draft.forms[number], draft.symbolic.layouts.get(number), forms, symbolic
        )
        for number in sorted(draft.names)
    }
    notes = [*(note.renumbered(names) for note in draft.notes), *early]
    inputs = {number for _, number in draft.inputs}
    of_forward = inputs | {n for note in notes for n in note.results if n >= 0}
    mine = {n: memory.get(n, ("own", n)) for n in of_forward}
    for number in (*names.values(), *(n for note in early for n in note.results)):
        mine[number] = "own", number
    slots: dict[Any, set[int]] = {}
    for slot, number in draft.inputs:
        slots.setdefault(mine[number], set()).add(slot)
    alone = {memory for memory, each in slots.items() if len(each) == 1}
    given = set(slots)
    for each in draft.held:
        numbers = [each.value] if each.base_value is None else [each.value, each.base_value]
        for number in numbers:
            slots.setdefault(mine[number], set()).add(each.slot)
    safe = {p for p, each in slots.items() if each & watched and (p in alone or p not in given)}
    found = _Renamed(notes, forms, symbolic.fixed(forms), mine, inputs, set(slots), safe)
    found.renamed = names
    return found
