"""Rematerialisation: values that the backward pass computes again from saved ones, in place of
saving them.

# Note [Rematerialisation]
A backward pass reads values that need not be saved themselves: a call of the forward pass can be
computed again there, from values that are.  The choice is a minimum cut between the values that
there are and those that are read (`partition.py`): a saved value costs its bytes, a rematerialised
one costs none.  A rematerialised call is the same function of the same arrays, so it gives the same
bits.

It may not read what was written since.  Memory that only the program of the forward pass knows is
not written; that of inputs and of tensors that are held is safe where the segment refuses the pass
if it was written (`Segment.watched`), as the pass without compile refuses it.  Of any other input
(a bias, whose values no gradient needs) a copy can be saved, which costs its bytes.  Memory that a
call writes is left out, on both sides.

`torch._functorch.config.activation_memory_budget` says how many bytes there may be, as a part of
what is saved at 1.  At 1 only calls that cost nothing are rematerialised: views, and copies of
arrays of at most half the size (casts to a wider type).  Below, cheap ones are (at most CHEAP
operations for each element of a result, by the record's cost), the cheapest first and early ones
before late ones, until the saved values fit, or nothing is left to rematerialise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tritorch.arrays.arrays import dtype_of_kind
from tritorch.arrays.meta import MetaArray
from tritorch.compilation.backward.partition import Choice, minimum_cut, within_budget
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.core.layout import contiguous_strides

CHEAP = 16  # operations for each element of a result


@dataclass
class Forward:
    """A forward pass and its memory.

    memory: by value, the memory it lies in; inputs: values from outside; safe: memory from outside,
    or held, that is not written before the backward pass; shared: all such memory; fixed: forms, as
    far as sizes are static."""

    notes: Sequence[Note]
    forms: Sequence[Form]
    fixed: Sequence[Form]
    memory: Mapping[int, Any]
    inputs: set[int]
    shared: set[Any]
    safe: set[Any]

    def __post_init__(self) -> None:
        self.maker: dict[int, int] = {}  # a call may give what it got
        for i, note in enumerate(self.notes):
            for number in note.results:
                if number >= 0 and number not in self.inputs:
                    self.maker.setdefault(number, i)
        self.written = {
            self.memory[x.number]
            for note in self.notes
            if note.writes
            for x in note.inputs
            if type(x) is Value
        }
        self.sizes: dict[Any, int] = {}
        for number, memory in self.memory.items():
            size = _extent(self.forms[number])
            self.sizes[memory] = max(size, self.sizes.get(memory, 0))
        self.outside = {self.memory[number] for number in self.inputs}

    def bytes(self, numbers: Iterable[int]) -> int:
        """The bytes that values keep from being freed, except those of inputs."""
        kept = {self.memory[number] for number in numbers} - self.outside
        return sum(self.sizes[memory] for memory in kept)


class Chosen(NamedTuple):
    """Values to save, inputs to copy, and the notes to rematerialise."""

    saved: set[int]
    copied: set[int]
    rematerialised: list[int]


def chosen(forward: Forward, needed: set[int], pinned: set[int], budget: float) -> Chosen:
    """The values to save for a backward pass; needed: those it reads; pinned: those it has to be
    given."""
    prices = _prices(forward.notes, forward.forms)
    order = sorted(prices, key=lambda i: prices[i])
    free = sum(x == 0 for x in prices.values())
    cheap = sum(x <= CHEAP for x in prices.values())
    found = within_budget(
        budget, order, free, cheap,
        lambda allowed: _with(forward, needed, pinned, allowed), lambda each: _total(forward, each),
    )  # fmt: skip
    if _total(forward, found) >= forward.bytes(needed):
        return Chosen(set(needed), set(), [])
    return found


def _total(forward: Forward, choice: Chosen) -> int:
    return forward.bytes(choice.saved) + sum(_extent(forward.forms[n]) for n in choice.copied)


def _with(forward: Forward, needed: set[int], pinned: set[int], allowed: set[int]) -> Chosen:
    """The best choice where some notes may be rematerialised."""
    read = {n for n in needed if _readable(forward, n)} - pinned
    choices = _choices(forward, needed, allowed)
    partition = minimum_cut(choices, read)
    copied = {n for n in partition if n in forward.inputs and not _readable(forward, n)}
    saved = (partition - copied) | (needed - read)
    kept = {forward.memory[n] for n in saved}
    saved |= {n for n in needed if forward.memory[n] in kept}  # memory that lives anyway
    rematerialised, pending = set[int](), list(needed - saved)
    while pending:
        number = pending.pop()
        if number in saved or number in copied or forward.maker[number] in rematerialised:
            continue
        i = forward.maker[number]
        rematerialised.add(i)
        pending += _read(forward.notes[i])
    made = {n for i in rematerialised for n in forward.notes[i].results}
    unread = {x for i in rematerialised for x in _read(forward.notes[i])} | needed
    return Chosen({n for n in saved if n in unread}, copied - made, sorted(rematerialised))


def _read(note: Note) -> list[int]:
    return [x.number for x in (*note.inputs, *note.params) if type(x) is Value]


def _readable(forward: Forward, number: int) -> bool:
    """True if a value is in the backward pass what it is in the forward pass."""
    memory = forward.memory[number]
    return memory not in forward.written and (
        memory not in forward.shared or memory in forward.safe
    )


def _choices(forward: Forward, needed: set[int], allowed: set[int]) -> dict[int, Choice]:
    found = {}
    for number, memory in forward.memory.items():
        size: int | None = forward.sizes[memory]
        if memory in forward.outside:
            size = 0
        if forward.forms[number].dtype is None:  # a number that was drawn
            size = 0
        elif not _readable(forward, number):
            size = _copy_of(forward, number)
        i = forward.maker.get(number)
        sources = None
        if i in allowed and memory not in forward.written:
            read = _read(forward.notes[i])
            if not any(forward.memory[n] in forward.written for n in read):
                sources = tuple(read)
        found[number] = Choice(size, sources)
    return found


def _copy_of(forward: Forward, number: int) -> int | None:
    """The bytes of a copy of an input that may be written before it is read."""
    form = forward.fixed[number]
    plain = form.kind is not object and form.strides == contiguous_strides(form.shape)
    if number not in forward.inputs or forward.memory[number] in forward.written or not plain:
        return None
    return _extent(form)


def _extent(form: Form) -> int:
    """The bytes from an array's first to its last element."""
    if form.dtype is None or 0 in form.shape:
        return 0
    elements = 1 + sum((n - 1) * abs(step) for n, step in zip(form.shape, form.strides))
    return elements * dtype_of_kind(form.dtype).itemsize


# ---- notes of a backward pass --------------------------------------------------------------------


def with_rematerialised(
    late: Sequence[Note], late_args: Sequence[dict[int, Any]], forward: Forward,
    args: Sequence[dict[int, Any]], choice: Chosen, copies: Mapping[int, int],
    new_like: Callable[[int], int],
) -> tuple[list[Note], list[dict[int, Any]]]:  # fmt: skip
    """The notes of a backward pass, each rematerialised call before the first that reads it; and
    their dynamic arguments.

    copies: of inputs, the values that have their copies; new_like: gives a new value like
    another."""
    rematerialised = set(choice.rematerialised)
    notes: list[Note] = []
    dynamic_args: list[dict[int, Any]] = []
    done: set[int] = set()

    def move(x: Any) -> Any:
        return Value(copies.get(x.number, x.number)) if type(x) is Value else x

    def make(numbers: Iterable[int]) -> None:
        for number in numbers:
            i = forward.maker.get(number, -1)
            if number in choice.saved or i not in rematerialised or i in done:
                continue
            done.add(i)
            note = forward.notes[i]
            make(_read(note))
            results = tuple(
                new_like(n) if n in choice.saved or forward.maker.get(n, i) != i else n
                for n in note.results
            )
            inputs, params = tuple(map(move, note.inputs)), tuple(map(move, note.params))
            notes.append(note._replace(inputs=inputs, params=params, results=results))
            dynamic_args.append(args[i])

    for note, own_args in zip(late, late_args, strict=True):
        make(_read(note))
        notes.append(note)
        dynamic_args.append(own_args)
    return notes, dynamic_args


# ---- prices --------------------------------------------------------------------------------------


def _prices(notes: Sequence[Note], forms: Sequence[Form]) -> dict[int, float]:
    """The prices of calls, by their indices; those of equal layers are found once."""
    known: dict[Any, float] = {}
    found = {}
    for i, note in enumerate(notes):
        seen = tuple(forms[x.number] if type(x) is Value else x for x in note.inputs)
        made = tuple(None if n < 0 else forms[n] for n in note.results)
        key = note.form, id(note.op), seen, note.params, made
        try:
            cost = known.get(key)
        except TypeError:  # a constant that nothing can be told of
            found[i] = price(note, forms)
            continue
        if cost is None:
            cost = known[key] = price(note, forms)
        found[i] = cost
    return found


def price(note: Note, forms: Sequence[Form]) -> float:
    """Operations for each element of a call's results; 0 if rematerialising it costs nothing,
    infinity if it must not be."""
    if note.form == NoteForm.STEPS:
        return len(note.op.trace.steps)
    if (
        note.form not in (NoteForm.CALL, NoteForm.POINTWISE)
        or note.draws
        or note.writes
        or note.meets
    ):
        return math.inf
    if note.op.flushes or any(forms[n].dtype is None for n in note.results if n >= 0):
        return math.inf
    if note.op.is_view:
        return 0
    made = sum(math.prod(forms[n].shape) for n in note.results if n >= 0)
    flops = _flops(note, forms)
    if flops == 0:
        read = sum(_extent(forms[n]) for n in _read(note))
        return 0 if 0 < 2 * read <= sum(_extent(forms[n]) for n in note.results if n >= 0) else 1
    return flops / max(made, 1)


def _flops(note: Note, forms: Sequence[Form]) -> float:
    specs = [_spec(forms[x.number]) if type(x) is Value else x for x in note.inputs]
    if note.form == NoteForm.POINTWISE:
        return math.prod(forms[note.results[0]].shape)
    try:
        return float(note.op.cost(specs, note.params).flops)
    except (NotImplementedError, TypeError, ValueError, RuntimeError):
        return math.inf  # a record that says nothing about itself


def _spec(form: Form) -> Any:
    return MetaArray(form.shape, dtype_of_kind(form.dtype), form.strides)
