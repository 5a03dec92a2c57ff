"""The tape: the records' calls that a segment makes, in terms of arrays.

# Note [Values]
A value is an array, wherever tensors hold it: tensors with the same array are the same value, so a
gradient that gets what was saved for it (a new tensor around the old array) finds it here.  The
tape keeps all arrays while it is written, so that none is taken for another.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.arrays import ndarray
from tritorch.core.tensor import Tensor
from tritorch.ops.random.random import Drawn


class Value(NamedTuple):
    """An array of a tape, by its number."""

    number: int


def renumbered(args: tuple[Any, ...], names: Mapping[int, int]) -> tuple[Any, ...]:
    """Arguments whose values have the numbers that names gives for them; others stay."""
    return tuple(Value(names.get(x.number, x.number)) if type(x) is Value else x for x in args)


class Form(NamedTuple):
    """The form of an array: its type, shape, strides and dtype."""

    kind: type
    shape: tuple[int, ...]
    dtype: Any
    strides: tuple[int, ...]


def form_of(array: Any) -> Form:
    """The form of an array; a number that was drawn has none."""
    if type(array) is Drawn:
        return Form(int, (), None, ())
    return Form(type(array), tuple(array.shape), array.dtype, arrays.strides_of(array))


class NoteForm(enum.StrEnum):
    """The forms of notes.  Those that `dispatching.noting` tells of have its words; plans and
    packages keep the values."""

    CALL = "call"
    POINTWISE = "pointwise"
    IN_PLACE = "in place"
    MAKE = "make"  # a factory
    DRAW = "draw"  # numbers of a generator
    CHECK = "check"  # a look at values, or a function that only its program has
    COPY = "copy"
    # What passes put in the place of calls of records:
    STEPS = "steps"  # a part of a pointwise call: `fused_loops.PartOp`
    LOOP = "chain"  # a fused loop of the CPU
    COMBINED = "joined"  # several records' functions as one
    KERNEL = "fused"  # a Triton kernel that was written
    STORE = "store"  # a value, left in another array's memory


_OF_NO_RECORD = frozenset(NoteForm) - {
    NoteForm.CALL, NoteForm.POINTWISE, NoteForm.IN_PLACE, NoteForm.MAKE,
}  # fmt: skip
_NEVER_WRITES = _OF_NO_RECORD | {NoteForm.POINTWISE}  # no schema has to be read to know


class Note(NamedTuple):
    """One call of a record; `Value`s in place of tensors."""

    form: NoteForm
    op: Any
    inputs: tuple[Any, ...]
    params: tuple[Any, ...]
    results: tuple[int, ...]  # -1 for None
    several: bool  # whether results come in a tuple
    source_line: Any = None  # where it is known

    def renumbered(self, names: Mapping[int, int]) -> Note:
        """The call with other numbers for its values: inputs, params and results."""
        return self._replace(
            inputs=renumbered(self.inputs, names),
            params=renumbered(self.params, names),
            results=tuple(names.get(n, n) for n in self.results),
        )

    @property
    def draws(self) -> bool:
        """True if it takes numbers from a generator."""
        if self.form in _NEVER_WRITES:
            return self.form is NoteForm.DRAW
        op = self.op
        return op.kind == "random" or any(a.name == "generator" for a in op.schema.arguments)

    @property
    def meets(self) -> bool:
        """True if other processes wait for it: Note [Collectives as records]."""
        return self.form is NoteForm.CALL and bool(self.op.meets)

    @property
    def writes(self) -> bool:
        """True if it writes memory that it is given."""
        if self.form is NoteForm.IN_PLACE:
            return True
        return self.form not in _NEVER_WRITES and bool(self.op.schema.is_mutable)


class Unfit(Exception):
    """A segment cannot be written down as records' calls; its text says why."""


class Tape:
    """Records' calls, as they are noted."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.forms: list[Form] = []
        self.unfit = ""
        self.stands_for: dict[int, int] = {}  # the numbers that values have on another tape
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []

    def number(self, array: Any) -> int:
        """The number of an array; a new one, if it was not seen."""
        found = self._numbers.get(id(array))
        if found is None:
            found = self._numbers[id(array)] = len(self.forms)
            self._kept.append(array)
            self.forms.append(form_of(array))
        return found

    def is_as(self, number: int, array: Any) -> None:
        """Takes an array that stands for one of another tape, which has that number there."""
        self.stands_for[self.number(array)] = number

    def memory(self) -> dict[int, Any]:
        """For each value, an identity of its memory, equal for all that lie in the same, on GPUs
        too."""
        found: dict[int, Any] = {}
        for number, array in enumerate(self._kept):
            if type(array) is _C.Array and array.storage_nbytes:
                start = array.data_ptr() - array.storage_offset() * array.itemsize
                found[number] = array.device_index, start
                continue
            while isinstance(array, ndarray) and array.base is not None:
                array = array.base
            found[number] = id(array)
        return found

    def forget(self, notes: int, values: int) -> None:
        """Lets go of all but the first notes and values; no number is given twice."""
        del self.notes[notes:]
        self._numbers = {key: number for key, number in self._numbers.items() if number < values}
        self._kept[values:] = [None] * (len(self._kept) - values)

    def close(self) -> None:
        """Lets go of the arrays: nothing more is noted."""
        self._kept.clear()
        self._numbers.clear()

    def known(self, array: Any) -> int | None:
        """The number of an array that was seen."""
        return self._numbers.get(id(array))

    def note(self, form: str, op: Any, tensors: Sequence[Any], params: Any, result: Any) -> None:
        """Takes down a call: the arguments are those of `dispatching.noting`."""
        if form == "look":
            self.unfit = self.unfit or "values decide what is called"
            return
        inputs = []
        for x in tensors:
            if not isinstance(x, Tensor):
                inputs.append(x)
                continue
            known = self.known(x._array)
            if known is None:
                self.unfit = self.unfit or f"{op.name} takes an array that no record gave"
                return
            inputs.append(Value(known))
        several = isinstance(result, (tuple, list))
        if several and type(result) is not tuple:
            self.unfit = self.unfit or f"{op.name} gives a list"
        results = []
        for x in result if several else (result,):
            if x is None:
                results.append(-1)
                continue
            if type(x) is Drawn:
                results.append(self.number(x))
                continue
            array = x._array
            if array.dtype is None or 0 in [getattr(n, "value", n) for n in array.shape]:
                self.unfit = self.unfit or f"{op.name} gives no elements"
            results.append(self.number(array))
        given = tuple(self.param(op, x) for x in params)
        self.notes.append(Note(NoteForm(form), op, tuple(inputs), given, tuple(results), several))

    def param(self, op: Any, x: Any) -> Any:
        """A param; the value of one that was drawn."""
        if type(x) is Drawn:
            known = self.known(x)
            if known is None:
                self.unfit = self.unfit or f"{op.name} takes a number that was not drawn here"
                return x
            return Value(known)
        if isinstance(x, (tuple, list)) and any(type(item) is Drawn for item in x):
            self.unfit = self.unfit or f"{op.name} takes numbers that were drawn, among others"
        return x

    def set_source_line(self, first: int, source_line: Any) -> None:
        """Sets the line of the user's program for the calls from one on."""
        self.notes[first:] = [note._replace(source_line=source_line) for note in self.notes[first:]]

    def calls(self) -> list[tuple[Any, ...]]:
        """The calls, with params and numbers: whatever values may have decided."""
        return [
            (n.form, n.op, _without_values(n.params), _without_values(n.inputs)) for n in self.notes
        ]


def _without_values(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(None if type(x) is Value else x for x in args)
