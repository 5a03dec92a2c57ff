"""Chains of steps: what several pointwise calls come to, as one native function.

Steps of which nobody needs the result are left out, and of two equal ones the second (`Steps`).
Each value is then given its place: an array of the caller's, or a buffer, which is taken again
where its value is not read any more (`Chain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.host.chains.steps import Kind, Step, Trace, named


class Steps(Trace):
    """The steps of several functions, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[tuple[int, bool]] = []  # value; whether it is an array, or a number's
        self._known: dict[Any, int] = {}

    def input(self, kind: Kind, whole: bool) -> int:
        """One more array of the caller's."""
        value = self.new(kind)
        self.inputs.append((value, whole))
        return value

    def add(self, kind: str, what: Any, operands: tuple[Any, ...], result: Kind) -> int:
        """A step, or the value of one that is the same."""
        key = (kind, what, tuple(map(_key, operands)))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = super().add(kind, what, operands, result)
        return found

    def append(self, trace: Trace, result: int, given: Sequence[int]) -> int:
        """Adds a function's steps, of values that are given; its result's value."""
        values = dict(enumerate(given))
        changed = {step.result for step in trace.steps if step.kind == "guard"}
        for step in trace.steps:
            if step.kind == "guard":
                self.steps.append(self._guarded(step, trace, values))
            elif step.result in changed:  # by the guard that follows
                operands = _moved(step.operands, values)
                kind = trace.kinds[step.result]
                values[step.result] = super().add(step.kind, step.what, operands, kind)
            else:
                operands = _moved(step.operands, values)
                kind = trace.kinds[step.result]
                values[step.result] = self.add(step.kind, step.what, operands, kind)
        return values[result]

    def _guarded(self, step: Step, trace: Trace, values: dict[int, int]) -> Step:
        """A guard and its steps, which may be left out: others do not read what they give."""
        outside = values[step.result]
        known, steps = dict(self._known), len(self.steps)
        inner = dict(values)
        *nested, last = step.what
        for each in nested:
            operands = _moved(each.operands, inner)
            kind = trace.kinds[each.result]
            inner[each.result] = self.add(each.kind, each.what, operands, kind)
        choice = Step(last.kind, last.what, _moved(last.operands, inner), outside)
        given = (*self.steps[steps:], choice)
        del self.steps[steps:]
        self._known = known
        return Step("guard", given, (outside,), outside)

    def live(self, wanted: Sequence[int]) -> list[Step]:
        """The steps that values need which are wanted."""
        needed, found = set(wanted), []
        for step in reversed(self.steps):
            if step.result not in needed:
                continue
            found.append(step)
            for each in (step, *(step.what if step.kind == "guard" else ())):
                needed.update(x for x in each.operands if type(x) is int)
        return found[::-1]


def _key(x: Any) -> Any:
    return x if type(x) is int else (x.dtype, x.tobytes())


def _moved(operands: Sequence[Any], values: dict[int, int]) -> tuple[Any, ...]:
    return tuple(values[x] if type(x) is int else x for x in operands)


def _flat(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        if step.kind == "guard":
            yield step._replace(what=len(step.what))
            yield from step.what
        else:
            yield step


class _Places:
    """Where values are, while steps are gone through."""

    def __init__(self, kinds: Sequence[Kind], columns: set[int]) -> None:
        self.kinds, self.columns = kinds, columns  # values of one number a row
        self.rows: list[tuple[Any, ...]] = []  # as `_C.Chain` takes them
        self.where: dict[int, int] = {}  # of values
        self.buffers: list[int] = []  # what each has room for, in bytes an element
        self.free: tuple[list[int], list[int]] = ([], [])  # of arrays, and of columns: rows are
        # computed one after the other, while a column is needed whole
        self.owned: dict[int, int] = {}  # the buffers of values

    def array(self, value: int, i: int, whole: bool) -> None:
        """A value in the caller's array i."""
        size = self.kinds[value].itemsize
        self.where[value] = self._row(i, -1, None, size if whole else 0, size)

    def number(self, array: Any) -> int:
        """A number's place."""
        return self._row(-1, -1, array, 0, array.dtype.itemsize)

    def buffer(self, value: int) -> None:
        """A value in a buffer; best in the one that became free last."""
        size = self.kinds[value].itemsize
        free = self.free[value in self.columns]
        i = free.pop() if free else len(self.buffers)
        if i == len(self.buffers):
            self.buffers.append(size)
        self.owned[value] = i
        self.where[value] = self._row(-1, i, None, 0 if value in self.columns else size, size)

    def release(self, value: int) -> None:
        """A value is not read any more."""
        if value in self.owned:
            self.free[value in self.columns].append(self.owned.pop(value))

    def _row(self, *row: Any) -> int:
        self.rows.append(row)
        return len(self.rows) - 1


def native(steps: Steps, outputs: Sequence[int]) -> Any:
    """A `_C.Chain` of steps."""
    live = steps.live(outputs)
    columns = _columns(steps, live)
    places = _Places(steps.kinds, columns)
    for i, (value, whole) in enumerate(steps.inputs):
        places.array(value, i, whole)
    copies = []
    for i, value in enumerate(outputs, len(steps.inputs)):
        if value in places.where:  # two calls that are the same: each has its own result
            copy = steps.new(steps.kinds[value])
            copies.append(Step("cast", 2 * named(steps.kinds[value]), (value,), copy))
            if value in columns:
                columns.add(copy)
            value = copy
        places.array(value, i, value not in columns)
    flat = [*_flat(live), *copies]
    last = {x: i for i, step in enumerate(flat) for x in (*step.operands, step.result)
            if type(x) is int}  # fmt: skip
    rows = []
    for i, step in enumerate(flat):
        result, size = step.result, steps.kinds[step.result].itemsize
        read = {x for x in step.operands if type(x) is int and x != result}
        given = [places.number(x) if type(x) is not int else places.where[x] for x in step.operands]
        over = {x for x in read if last[x] == i}
        for x in over:  # an element is read before it is written
            if steps.kinds[x].itemsize == size:
                places.release(x)
        if result not in places.where:
            places.buffer(result)
        for x in over:
            places.release(x)
        if last[result] == i:
            places.release(result)
        if step.kind != "guard":
            given.append(places.where[result])
        rows.append((step.kind, _detail(step), tuple(given)))
    return _C.Chain(tuple(places.rows), tuple(rows))


def _columns(steps: Steps, live: Sequence[Step]) -> set[int]:
    """The values of one number a row, where steps make such."""
    if not any(step.kind == "reduce" for step in live):
        return set()
    columns = {value for value, whole in steps.inputs if not whole}
    for step in live:
        operands = [x for x in step.operands if type(x) is int]
        if step.kind == "reduce" or (step.kind != "guard" and columns.issuperset(operands)):
            columns.add(step.result)
    return columns


def _detail(step: Step) -> Any:
    return step.what.native if step.kind == "loop" else step.what


class Chain:
    """Several pointwise functions of dense arrays of one shape, and of numbers' arrays."""

    def __init__(self, steps: Steps, outputs: Sequence[int]) -> None:
        self.run: Callable[..., None] = native(steps, outputs)
        self.kinds = [steps.kinds[value] for value in outputs]
        self.first = [whole for _, whole in steps.inputs].index(True)

    def __call__(self, *inputs: Any) -> Any:
        first = inputs[self.first]
        made = [np.empty(first.shape, kind) for kind in self.kinds]
        self.run(0, first.size, *inputs, *made)
        return made[0] if len(made) == 1 else tuple(made)
