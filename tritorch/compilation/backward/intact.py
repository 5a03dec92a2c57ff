"""Calls that run again after an input was written, with the values that eager's nodes would have
kept.

# Note [Intact]
Gradients that no program gives are computed by running the calls of a segment again, on its inputs.
A program may have written one of those since, which eager allows where no node keeps that input: a
bias, or a weight of which autocast made a copy.  So the values that nodes keep must not be computed
from it.

While a run has eager's nodes (`nodes.Graph`), the values that they keep are copied over the results
of the calls.  A run of a program has none.  For outputs of which no backward pass was noted, and
for those of which passes came that no program does, it saves a partition between the inputs that no
node keeps and the values that nodes do: copies of the former, or values that are computed on the
way, whichever has fewer bytes in addition to what is saved already.  When the calls run again, each
such value replaces their result before later calls read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.arrays.arrays import dtype_of_kind, ndarray
from tritorch.compilation.backward.partition import ALL, Choice, minimum_cut
from tritorch.compilation.backward.subgraph import Kept, kept_of
from tritorch.compilation.follow.tape import Form, Note, Tape, Value, form_of
from tritorch.core.dispatching import unnoted
from tritorch.core.layout import contiguous_strides
from tritorch.core.scopes import unrecorded


def put(array: Any, saved: Any) -> None:
    """Copies an array over another one of its shape, of which elements may lie in one place."""
    own, other = _C.wrap(array), _C.wrap(saved)
    for d, step in enumerate(own.stride()):
        if step == 0 and own.shape[d] > 1:
            own, other = own.narrow(d, 0, 1), other.narrow(d, 0, 1)
    own.copy_(other)


def put_kept(nodes: Sequence[Any], others: Sequence[Any], inputs: set[int]) -> bool:
    """Copies the values that nodes keep over those that others keep, of the same calls run again;
    true if those keep as much. inputs: the ids of the inputs' memory, which is not written."""
    if len(nodes) != len(others):
        return False
    with unnoted(), unrecorded:
        for node, other in zip(nodes, others):
            mine = kept_of(node)
            if not mine:  # a pass has freed it, and is refused
                continue
            theirs = kept_of(other)
            if [_look(x) for x in mine] != [_look(x) for x in theirs]:
                return False
            for a, b in zip(mine, theirs):
                if a.array is not None and id(a.shared) not in inputs:
                    put(b.array, a.array)
    return True


def _look(x: Kept) -> Any:
    return None if x.array is None else form_of(x.array)


class Partition(NamedTuple):
    """The values that a run saves, from which calls that run again give what nodes of some outputs
    keep."""

    values: set[int]  # by their numbers on the tape
    copies: set[int]  # of inputs


class Calls:
    """The calls of a segment as they were noted, for partitions of them."""

    def __init__(
        self, tape: Tape, count: int, inputs: Iterable[tuple[int, int]], held: Iterable[int]
    ) -> None:
        """count: of the tape's notes; inputs: slots and values; held: values that are held."""
        self.notes, self.forms, self.memory = tape.notes[:count], tape.forms, tape.memory()
        self.slots: dict[int, list[int]] = {}
        for slot, number in inputs:
            self.slots.setdefault(number, []).append(slot)
        outside = {self.memory[number] for number in (*self.slots, *held)}
        written = {
            self.memory[x.number] for note in self.notes if note.writes for x in note.inputs
            if type(x) is Value
        }  # fmt: skip
        self.fixed = outside | written  # memory of which no value may be saved
        self._sources: dict[Any, set[int]] = {}
        for note in self.notes:
            read = set(_read(note))
            for number in (*note.results, *(read if note.writes else ())):
                if number >= 0 and number not in self.slots:
                    self._sources.setdefault(self._key(number), set()).update(read)

    def _key(self, number: int) -> Any:
        """A value, or all values in memory that is written: those depend on each other."""
        memory = self.memory[number]
        return ("memory", memory) if memory in self.fixed and number not in self.slots else number

    def partition(
        self, kept: Iterable[int], safe: set[int], held: set[int], saved: set[int]
    ) -> Partition | None:
        """The values to save; None where they cannot be saved.

        kept: values that nodes keep; safe: slots of inputs that are not written before, and held:
        such values that a program holds; saved: values that are saved already."""
        needed = {n if n in held else self._key(n) for n in kept}
        choices: dict[Any, Choice] = {}
        pending = list(needed)
        while pending:
            key = pending.pop()
            if key in choices:
                continue
            choices[key] = self._choice(key, safe, held, saved)
            pending += choices[key].sources or ()
        found = minimum_cut(choices, needed)
        if any(choices[key].bytes is None for key in found):
            return None
        copies = {key for key in found if key in self.slots}
        return Partition(found - copies, copies)

    def _choice(self, key: Any, safe: set[int], held: set[int], saved: set[int]) -> Choice:
        if key in held:
            return Choice(0, None)
        slots = self.slots.get(key)
        if slots is not None:
            if safe.issuperset(slots):
                return Choice(None, ())
            return Choice(_bytes(self.forms[key]) if len(slots) == 1 else None, None)
        sources = {n if n in held else self._key(n) for n in self._sources.get(key, ())} - {key}
        if type(key) is tuple:
            return Choice(None, tuple(sources))
        return Choice(0 if key in saved else _bytes(self.forms[key]), tuple(sources))


def _bytes(form: Form) -> int | None:
    if form.kind not in (ndarray, _C.Array) or form.strides != contiguous_strides(form.shape):
        return None
    found = dtype_of_kind(form.dtype).itemsize
    for n in form.shape:
        found *= n
    return min(found, ALL - 1)


def _read(note: Note) -> list[int]:
    return [x.number for x in (*note.inputs, *note.params) if type(x) is Value]


class Replay(Tape):
    """The same calls, noted again; the values that a run has saved replace their results."""

    def __init__(self, like: Calls, saved: dict[int, Any]) -> None:
        super().__init__()
        self.like, self.saved, self.other = like, saved, False

    def note(self, form: str, op: Any, tensors: Sequence[Any], params: Any, result: Any) -> None:
        super().note(form, op, tensors, params, result)
        position = len(self.notes) - 1
        if self.unfit or position >= len(self.like.notes):
            self.other = True
            return
        mine, theirs = self.notes[position], self.like.notes[position]
        if mine.op is not theirs.op or mine.results != theirs.results:
            self.other = True
            return
        with unnoted(), unrecorded:
            for number, x in zip(mine.results, result if mine.several else (result,)):
                if number in self.saved:
                    put(x._array, self.saved[number])
