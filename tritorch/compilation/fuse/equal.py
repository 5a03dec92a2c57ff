"""Blocks that differ in nothing but the numbers of their values, as equal layers do: kernels that
were found for one serve the others, in later processes too (Note [Kept])."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tritorch.compilation.follow.tape import Form, NoteForm, Value
from tritorch.compilation.fuse import kept as kept_on_disk
from tritorch.compilation.fuse.kept import Found, Known
from tritorch.compilation.plan.coding import name_of
from tritorch.compilation.plan.lowering import Lowered
from tritorch.core.defaults import get_default_dtype
from tritorch.core.generator import Generator
from tritorch.ops.record.replacing import is_replaced

MOST = 256  # blocks that are remembered
_BY_VALUE = (bool, int, str, bytes, type(None), type(...))
# Notes whose calls have functions of their own: they only look equal.
_OWN_FUNCTIONS = (NoteForm.STEPS, NoteForm.LOOP, NoteForm.KERNEL)


_known: dict[Any, Known] = {}


def forget() -> None:
    """Drops all known blocks."""
    _known.clear()


class Block:
    """A run of calls without the numbers of their values."""

    def __init__(
        self, calls: Sequence[Lowered], forms: list[Form], kept: Collection[int], *options: Any
    ) -> None:
        self.calls, self.forms, self._first = calls, forms, len(forms)
        self._numbers: dict[int, int] = {}
        self._file: kept_on_disk.File | None = None
        try:
            rows = tuple(map(self._row, calls))
            wanted = tuple(number in kept for number in self._numbers)
            seen = tuple(None if n < 0 else forms[n] for n in self._numbers)
            self.key: Any = rows, wanted, seen, options, get_default_dtype()
            hash(self.key)
        except TypeError:  # a constant that nothing can be told of
            self.key = None

    def known(self) -> tuple[list[Lowered], set[int]] | None:
        """The kernels that were found for an equal block, in the numbers of this one."""
        if self.key is None:
            return None
        found = _known.get(self.key)
        if found is None:
            self._file = kept_on_disk.file_of(self.key, len(self.calls))
            if self._file is not None:
                found = self._file.read(self.calls, self.forms, self._numbers)
            if found is None:
                return None
            self._remember(found)
        new = dict(zip(found.numbers, self._numbers))
        new |= {found.first + i: self._first + i for i in range(len(found.added))}
        self.forms.extend(found.added)
        calls = [self._as_own(each, new) for each in found.calls]
        return calls, {new[number] for number in found.lone}

    def _as_own(self, replacement: Found, new: dict[int, int]) -> Lowered:
        if replacement.own is not None:
            return self.calls[replacement.own]
        call = replacement.call.renumbered(new)
        if replacement.computed_by is None:
            return call
        return call._replace(function=self.calls[replacement.computed_by].function)

    def keep(self, calls: Sequence[Lowered], lone: Collection[int]) -> None:
        """Takes down the kernels that were found."""
        if self.key is None:
            return
        own = {id(call.note): i for i, call in enumerate(self.calls)}
        functions = {id(call.function): i for i, call in enumerate(self.calls)}
        found = Known(
            tuple(self._numbers), self._first, tuple(self.forms[self._first :]),
            tuple(self._found(x, own.get(id(x.note)), functions.get(id(x.function)))
                  for x in calls),
            frozenset(lone),
        )  # fmt: skip
        self._remember(found)
        if self._file is not None:
            self._file.write(found, self.calls)

    def _found(self, call: Lowered, own: int | None, computed_by: int | None) -> Found:
        mine = None if own is None else self.calls[own]
        if mine is None or mine.function is not call.function:
            return Found(call, None, computed_by)
        return Found(call, own if mine == call else None, own)

    def _remember(self, known: Known) -> None:
        if len(_known) >= MOST:
            _known.clear()
        _known[self.key] = known

    def _row(self, call: Lowered) -> Any:
        note = call.note
        if note.form in _OWN_FUNCTIONS:
            raise TypeError
        results = tuple(self._number(number) for number in (*note.results, *call.results))
        given = tuple(self._exact(x) for x in (note.inputs, note.params, call.args))
        replaced = note.form in (NoteForm.CALL, NoteForm.POINTWISE) and is_replaced(note.op, "gpu")
        op = name_of(note) or (None if note.op is None else _Same(note.op))
        return note.form, op, replaced, note.several, call.writes, given, results

    def _number(self, number: int) -> int:
        return self._numbers.setdefault(number, len(self._numbers))

    def _exact(self, value: Any) -> Any:
        """A key that equals another only if nothing tells the values apart: 1 is not True, nor
        1.0."""
        kind = type(value)
        if kind is Value:
            return kind, self._number(value.number)
        if kind is float:
            return kind, value.hex()
        if isinstance(value, (tuple, list)):
            return kind, *map(self._exact, value)
        if kind is slice:
            return kind, *map(self._exact, (value.start, value.stop, value.step))
        by_value = kind in _BY_VALUE or getattr(kind, "_told_by_value", False)
        by_value = by_value and kind is not Generator
        return (kind, value) if by_value else _Same(value)


class _Same:
    """A value that equals itself alone, and lives as long as its id is in a key."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        raise TypeError  # another process cannot tell
