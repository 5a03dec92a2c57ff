"""Symbolic arguments: sizes and numbers of a program that differ from run to run.

A program has a value for each argument of its functions that is computed from a region's dynamic
numbers, and knows the layout of each result.  A function that gives another one (which it did not
do when it was compared, with other sizes) is replaced by the record's own call, in that run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tritorch.compilation.dynamic_shapes.symbols import (
    Path,
    computed,
    indices_of,
    is_dynamic,
    make_dynamic,
)
from tritorch.compilation.follow.tape import Form, Note, Tape, Value
from tritorch.compilation.plan.lowering import Lowered, arguments, lowered, whole


@dataclass
class SymbolicArguments:
    """The dynamic parts of a program.

    args: for each note, by the position of an argument; layouts: sizes and strides, by value;
    numbers: expressions, by value."""

    args: list[dict[int, Any]] = field(default_factory=list)
    layouts: dict[int, Any] = field(default_factory=dict)
    numbers: dict[int, Any] = field(default_factory=dict)

    def lowered(self, notes: Sequence[Note], forms: list[Form]) -> list[Lowered]:
        """The functions behind calls; their dynamic arguments become values."""
        calls = [lowered(note, forms) for note in notes]
        for i, (call, expressions) in enumerate(zip(calls, self.args)):
            args = list(call.args)
            for position, what in expressions.items():
                number = next((n for n, x in self.numbers.items() if x == what), len(forms))
                if number == len(forms):
                    self.numbers[number] = what
                    forms.append(Form(int, (), None, ()))
                args[position] = Value(number)
            calls[i] = call._replace(args=tuple(args))
        return calls

    def begin(
        self, values: list[Any], forms: Sequence[Form], numbers: Sequence[Any]
    ) -> Sequence[Form]:
        """Puts a run's dynamic numbers among the values; gives the forms of arrays in that run."""
        for number, what in self.numbers.items():
            values[number] = computed(what, numbers)
        if not self.layouts:
            return forms
        return [self.form(number, forms, numbers) for number in range(len(forms))]

    def form(self, number: int, forms: Sequence[Form], numbers: Sequence[Any]) -> Form:
        """The form of an array in a run."""
        layout = self.layouts.get(number)
        if layout is None:
            return forms[number]
        shape, strides = computed(layout, numbers)
        return forms[number]._replace(shape=shape, strides=strides)

    def fixed(self, forms: Sequence[Form]) -> Sequence[Form]:
        """The forms of arrays, for passes that ask for arrays of static sizes."""
        if not self.layouts:
            return forms
        return [
            form._replace(kind=object) if i in self.layouts else form
            for i, form in enumerate(forms)
        ]

    def expected(self, call: Lowered) -> tuple[Any, ...]:
        """The layouts of a call's results, and the function that is called where they are
        others."""
        if call.writes or not any(number in self.layouts for number in call.results):
            return ()
        return tuple(self.layouts.get(number) for number in call.results), whole(call.note)

    def named(self, names: dict[int, int], count: int) -> SymbolicArguments:
        """The same for the first so many values, and for new names of some of them."""
        layouts = {i: layout for i, layout in self.layouts.items() if i < count}
        layouts |= {new: layouts[old] for new, old in names.items() if old in layouts}
        return SymbolicArguments(list(self.args), layouts)

    def moved(self, indices: dict[int, int]) -> SymbolicArguments:
        """The same, where values have other numbers."""
        return SymbolicArguments(
            [],
            {indices[i]: layout for i, layout in self.layouts.items() if i in indices},
            {indices[i]: what for i, what in self.numbers.items() if i in indices},
        )


def symbolic_arguments(tape: Tape, other: Tape, path: Path) -> SymbolicArguments:
    """The dynamic parts of a tape, from another one of the same calls, that ran with symbols."""
    if not path.symbols:
        return SymbolicArguments([{} for _ in tape.notes])
    indices = indices_of(path.symbols)
    found = SymbolicArguments()
    pairs = [(number, like) for like, number in other.stands_for.items()]
    for mine, theirs in zip(tape.notes, other.notes, strict=True):
        given = arguments(theirs)
        found.args.append({
            i: make_dynamic(x, indices)
            for i, x in enumerate(given) if type(x) is not Value and is_dynamic(x)
        })  # fmt: skip
        pairs += [
            (x.number, y.number) for x, y in zip(mine.inputs, theirs.inputs) if type(x) is Value
        ]
        pairs += zip(mine.results, theirs.results)
    for number, like in pairs:
        if number < 0 or number in found.layouts:
            continue
        form = other.forms[like]
        if is_dynamic((form.shape, form.strides)):
            found.layouts[number] = make_dynamic((tuple(form.shape), tuple(form.strides)), indices)
    return found
