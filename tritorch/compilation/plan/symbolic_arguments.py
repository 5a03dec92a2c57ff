"""What of a program differs from run to run: sizes and numbers that are left open.

A program has a value for each argument of its functions that is computed of a region's numbers, and
knows how each result has to lie.  A function that gives it otherwise (which it did not do when it
was compared, with other sizes) is left for the record's own call, in that run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tritorch.compilation.dynamic_shapes.symbols import Path, computed, is_open, opened, places_of
from tritorch.compilation.follow.tape import Form, Note, Tape, Value
from tritorch.compilation.plan.lowering import Lowered, arguments, lowered, whole


@dataclass
class Varying:
    """What is open in a program.

    args: for each note, by the place of an argument; layouts: sizes and strides, by value;
    numbers: what is computed, by value."""

    args: list[dict[int, Any]] = field(default_factory=list)
    layouts: dict[int, Any] = field(default_factory=dict)
    numbers: dict[int, Any] = field(default_factory=dict)

    def lowered(self, notes: Sequence[Note], forms: list[Form]) -> list[Lowered]:
        """The functions behind calls; what is open among their arguments becomes values."""
        calls = [lowered(note, forms) for note in notes]
        for i, (call, places) in enumerate(zip(calls, self.args)):
            args = list(call.args)
            for place, what in places.items():
                number = next((n for n, x in self.numbers.items() if x == what), len(forms))
                if number == len(forms):
                    self.numbers[number] = what
                    forms.append(Form(int, (), None, ()))
                args[place] = Value(number)
            calls[i] = call._replace(args=tuple(args))
        return calls

    def begin(
        self, values: list[Any], forms: Sequence[Form], numbers: Sequence[Any]
    ) -> Sequence[Form]:
        """Puts what is computed of a run's numbers among the values; what arrays look like then."""
        for number, what in self.numbers.items():
            values[number] = computed(what, numbers)
        if not self.layouts:
            return forms
        return [self.form(number, forms, numbers) for number in range(len(forms))]

    def form(self, number: int, forms: Sequence[Form], numbers: Sequence[Any]) -> Form:
        """What an array looks like in a run."""
        layout = self.layouts.get(number)
        if layout is None:
            return forms[number]
        shape, strides = computed(layout, numbers)
        return forms[number]._replace(shape=shape, strides=strides)

    def fixed(self, forms: Sequence[Form]) -> Sequence[Form]:
        """What arrays look like, for those who ask for arrays of one size."""
        if not self.layouts:
            return forms
        return [
            form._replace(kind=object) if i in self.layouts else form
            for i, form in enumerate(forms)
        ]

    def expected(self, call: Lowered) -> tuple[Any, ...]:
        """How a call's results have to lie, and what is called where they do not."""
        if call.writes or not any(number in self.layouts for number in call.results):
            return ()
        return tuple(self.layouts.get(number) for number in call.results), whole(call.note)

    def named(self, names: dict[int, int], below: int) -> Varying:
        """The same for the values below a number, and for new names of some of them."""
        layouts = {i: layout for i, layout in self.layouts.items() if i < below}
        layouts |= {new: layouts[old] for new, old in names.items() if old in layouts}
        return Varying(list(self.args), layouts)

    def moved(self, places: dict[int, int]) -> Varying:
        """The same, where values have other numbers."""
        return Varying(
            [],
            {places[i]: layout for i, layout in self.layouts.items() if i in places},
            {places[i]: what for i, what in self.numbers.items() if i in places},
        )


def varying(tape: Tape, other: Tape, path: Path) -> Varying:
    """What is open in a tape, as another one of the same calls says, that was made with symbols."""
    if not path.symbols:
        return Varying([{} for _ in tape.notes])
    places = places_of(path.symbols)
    found = Varying()
    pairs = [(number, twin) for twin, number in other.stands_for.items()]
    for mine, theirs in zip(tape.notes, other.notes, strict=True):
        given = arguments(theirs)
        found.args.append({
            i: opened(x, places) for i, x in enumerate(given) if type(x) is not Value and is_open(x)
        })  # fmt: skip
        pairs += [
            (x.number, y.number) for x, y in zip(mine.inputs, theirs.inputs) if type(x) is Value
        ]
        pairs += zip(mine.results, theirs.results)
    for number, twin in pairs:
        if number < 0 or number in found.layouts:
            continue
        form = other.forms[twin]
        if is_open((form.shape, form.strides)):
            found.layouts[number] = opened((tuple(form.shape), tuple(form.strides)), places)
    return found
