"""What the backward pass makes again of what is saved, in place of saving it.

# Note [Made again]
A backward pass reads values that need not be saved themselves: a call of the forward pass can be
made again there, of values that are.  Which ones is a minimum cut between what there is and what is
read (`cut.py`): a value that is saved costs its bytes, one that is made again costs none.  A call
that is made again is the same function of the same arrays, so it gives the same bits.

It may not read what was written since.  Memory that only the program of the forward pass knows is
not written; that of inputs and of tensors that are held is safe where the segment refuses the pass
if it was written (`Segment.watched`), as the pass without compile refuses it.  Of any other input
(a bias, whose values no gradient needs) a copy can be saved, which costs its bytes.  Memory that a
call writes is left out, on both sides.

`torch._functorch.config.activation_memory_budget` says how many bytes there may be, as a part of
what is saved at 1.  At 1 only calls that cost nothing are made again: views, and copies of arrays
of at most half the size (casts to a wider type).  Below, cheap ones are (at most CHEAP operations
for each element of a result, by the record's cost), the cheapest first and early ones before late
ones, until what is saved fits, or nothing is left to be made again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tritorch.arrays.arrays import dtype_of_kind
from tritorch.arrays.meta import MetaArray
from tritorch.compilation.backward.partition import Choice, least, within
from tritorch.compilation.follow.tape import Form, Note, Value
from tritorch.core.layout import contiguous_strides

CHEAP = 16  # operations for each element of a result


@dataclass
class Forward:
    """What is known of a forward pass.

    places: by value, which memory it lies in; inputs: values from outside; safe: memory from
    outside, or held, that is not written before the backward pass; shared: all such memory;
    fixed: forms, as far as sizes are known."""

    notes: Sequence[Note]
    forms: Sequence[Form]
    fixed: Sequence[Form]
    places: Mapping[int, Any]
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
            self.places[x.number]
            for note in self.notes
            if note.writes
            for x in note.inputs
            if type(x) is Value
        }
        self.sizes: dict[Any, int] = {}
        for number, place in self.places.items():
            size = _extent(self.forms[number])
            self.sizes[place] = max(size, self.sizes.get(place, 0))
        self.outside = {self.places[number] for number in self.inputs}

    def bytes(self, numbers: Iterable[int]) -> int:
        """The bytes that values keep from being freed, beside those of inputs."""
        places = {self.places[number] for number in numbers} - self.outside
        return sum(self.sizes[place] for place in places)


class Chosen(NamedTuple):
    """Values to save, of which there are copies to make; and the notes to make again."""

    saved: set[int]
    copied: set[int]
    again: list[int]


def chosen(forward: Forward, needed: set[int], pinned: set[int], budget: float) -> Chosen:
    """What to save, so that a backward pass has what it needs; pinned: what it has to be given."""
    prices = _prices(forward.notes, forward.forms)
    order = sorted(prices, key=lambda i: prices[i])
    free = sum(x == 0 for x in prices.values())
    cheap = sum(x <= CHEAP for x in prices.values())
    found = within(
        budget, order, free, cheap,
        lambda allowed: _with(forward, needed, pinned, allowed), lambda each: _total(forward, each),
    )  # fmt: skip
    if _total(forward, found) >= forward.bytes(needed):
        return Chosen(set(needed), set(), [])
    return found


def _total(forward: Forward, found: Chosen) -> int:
    return forward.bytes(found.saved) + sum(_extent(forward.forms[n]) for n in found.copied)


def _with(forward: Forward, needed: set[int], pinned: set[int], allowed: set[int]) -> Chosen:
    """The best choice where some notes may be made again."""
    read = {n for n in needed if _readable(forward, n)} - pinned
    choices = _choices(forward, needed, allowed)
    cut = least(choices, read)
    copied = {n for n in cut if n in forward.inputs and not _readable(forward, n)}
    saved = (cut - copied) | (needed - read)
    kept = {forward.places[n] for n in saved}
    saved |= {n for n in needed if forward.places[n] in kept}  # memory that lives anyway
    again, pending = set[int](), list(needed - saved)
    while pending:
        number = pending.pop()
        if number in saved or number in copied or forward.maker[number] in again:
            continue
        i = forward.maker[number]
        again.add(i)
        pending += _read(forward.notes[i])
    made = {n for i in again for n in forward.notes[i].results}
    unread = {x for i in again for x in _read(forward.notes[i])} | needed
    return Chosen({n for n in saved if n in unread}, copied - made, sorted(again))


def _read(note: Note) -> list[int]:
    return [x.number for x in (*note.inputs, *note.params) if type(x) is Value]


def _readable(forward: Forward, number: int) -> bool:
    """Whether what a value has in the forward pass it has in the backward pass, too."""
    place = forward.places[number]
    return place not in forward.written and (place not in forward.shared or place in forward.safe)


def _choices(forward: Forward, needed: set[int], allowed: set[int]) -> dict[int, Choice]:
    found = {}
    for number, place in forward.places.items():
        size: int | None = forward.sizes[place]
        if place in forward.outside:
            size = 0
        if forward.forms[number].dtype is None:  # a number that was drawn
            size = 0
        elif not _readable(forward, number):
            size = _copy_of(forward, number)
        i = forward.maker.get(number)
        sources = None
        if i in allowed and place not in forward.written:
            read = _read(forward.notes[i])
            if not any(forward.places[n] in forward.written for n in read):
                sources = tuple(read)
        found[number] = Choice(size, sources)
    return found


def _copy_of(forward: Forward, number: int) -> int | None:
    """The bytes of a copy of an input that may be written before it is read."""
    form = forward.fixed[number]
    plain = form.kind is not object and form.strides == contiguous_strides(form.shape)
    if number not in forward.inputs or forward.places[number] in forward.written or not plain:
        return None
    return _extent(form)


def _extent(form: Form) -> int:
    """The bytes from an array's first to its last element."""
    if form.dtype is None or 0 in form.shape:
        return 0
    elements = 1 + sum((n - 1) * abs(step) for n, step in zip(form.shape, form.strides))
    return elements * dtype_of_kind(form.dtype).itemsize


# ---- notes of a backward pass --------------------------------------------------------------------


def with_calls(
    late: Sequence[Note], late_args: Sequence[dict[int, Any]], forward: Forward,
    args: Sequence[dict[int, Any]], found: Chosen, copies: Mapping[int, int],
    twin: Callable[[int], int],
) -> tuple[list[Note], list[dict[int, Any]]]:  # fmt: skip
    """The notes of a backward pass, each call that is made again before the first that reads it;
    and what is open in them.

    copies: of inputs, the values that have their copies; twin: gives a new value like another."""
    again = set(found.again)
    notes: list[Note] = []
    open_args: list[dict[int, Any]] = []
    done: set[int] = set()

    def move(x: Any) -> Any:
        return Value(copies.get(x.number, x.number)) if type(x) is Value else x

    def make(numbers: Iterable[int]) -> None:
        for number in numbers:
            i = forward.maker.get(number, -1)
            if number in found.saved or i not in again or i in done:
                continue
            done.add(i)
            note = forward.notes[i]
            make(_read(note))
            results = tuple(
                twin(n) if n in found.saved or forward.maker.get(n, i) != i else n
                for n in note.results
            )
            inputs, params = tuple(map(move, note.inputs)), tuple(map(move, note.params))
            notes.append(note._replace(inputs=inputs, params=params, results=results))
            open_args.append(args[i])

    for note, places in zip(late, late_args, strict=True):
        make(_read(note))
        notes.append(note)
        open_args.append(places)
    return notes, open_args


# ---- prices --------------------------------------------------------------------------------------


def _prices(notes: Sequence[Note], forms: Sequence[Form]) -> dict[int, float]:
    """What calls cost, by their places; of equal layers, that is found once."""
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
    """Operations for each element of what a call gives; 0 if making it again costs nothing,
    infinity if it may not be made again."""
    if note.form == "steps":
        return len(note.op.trace.steps)
    if note.form not in ("call", "pointwise") or note.draws or note.writes or note.meets:
        return math.inf
    if note.op.settles or any(forms[n].dtype is None for n in note.results if n >= 0):
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
    if note.form == "pointwise":
        return math.prod(forms[note.results[0]].shape)
    try:
        return float(note.op.cost(specs, note.params).flops)
    except (NotImplementedError, TypeError, ValueError, RuntimeError):
        return math.inf  # a record that says nothing about itself


def _spec(form: Form) -> Any:
    return MetaArray(form.shape, dtype_of_kind(form.dtype), form.strides)
