"""Calls that write arrays, for written kernels: their plain calls, and the stores of the results.

# Note [Stores]
`x.mul_(y)` is `x * y` under a new name, which later calls read, and a *store* of the last such name
at the end of the block: calls that read x itself read what it was before.  A store comes after all
those, or is in their kernel, if each element of x is read where it is written.  So a series of an
optimizer's calls in place is one kernel.  This is done to arrays whose memory no other value shows;
a program holds for inputs of which the same ones share memory.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

from tritorch import _C
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value, renumbered
from tritorch.compilation.fuse.definitions import is_dense_row_major, is_written
from tritorch.compilation.passes.functionalize import is_plain
from tritorch.compilation.plan.lowering import Lowered, general


class _StoreOp:
    """The stand-in for a record where a value is stored."""

    name, kind, is_view, fuses = "store", "store", False, "store"


def _store(value: Any, target: Any) -> Any:
    target.copy_(value)
    return target


def is_plain_write(call: Lowered, forms: Sequence[Form], alone: Collection[int]) -> bool:
    """True if a call writes each element of an array, whose memory nothing else shows, from those
    in the same position."""
    note = call.note
    if note.form != NoteForm.IN_PLACE or not call.args or type(call.args[0]) is not Value:
        return False
    target = call.args[0].number
    if target not in alone or note.results != (target,):
        return False
    if not is_written(forms[target]) or not is_dense_row_major(forms[target]):
        return False
    if note.op.fuses == "write":
        source = call.args[1]
        apart = type(source) is Value and source.number != target
        return apart and is_written(forms[source.number])
    return is_plain(note, forms)


def _plain(call: Lowered, args: tuple[Any, ...], result: int, forms: Sequence[Form]) -> Lowered:
    """A call in place as one that gives a new array."""
    note = call.note._replace(results=(result,))
    if note.op.fuses == "write":
        note = note._replace(form=NoteForm.COPY, inputs=args[1:2], params=())
        _, shape, kind, _ = forms[result]
        return Lowered(functools.partial(_copied, shape, kind), note.inputs, (result,), note, False)
    note = note._replace(form=NoteForm.POINTWISE, params=(None,))
    function = general(note, forms)
    assert function is not None
    return Lowered(function, args[: len(note.inputs)], (result,), note, False)


def _copied(shape: tuple[int, ...], kind: Any, source: Any) -> Any:
    made = _C.empty(shape, kind, source.device_index)
    made.copy_(source)
    return made


def with_stores(
    calls: Sequence[Lowered], forms: list[Form]
) -> tuple[list[Lowered], dict[int, tuple[int, ...]]]:
    """A block with plain calls in the place of those in place, all of which `is_plain_write`, and
    the stores at its end; of each store's result, the results of the calls that read what it
    overwrites."""
    names: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    found = []
    for call in calls:
        args = renumbered(call.args, names)
        old = [x.number for x in args if type(x) is Value]
        if call.note.form == NoteForm.IN_PLACE:
            (target,) = call.note.results
            names[target] = len(forms)
            forms.append(forms[target])
            call = _plain(call, args, names[target], forms)
        else:
            call = call._replace(args=args)
        for number in old:
            readers.setdefault(number, []).extend(call.results)
        found.append(call)
    after: dict[int, tuple[int, ...]] = {}
    for target, value in names.items():
        result = len(forms)
        forms.append(forms[target])
        note = Note(NoteForm.STORE, _StoreOp(), (Value(value), Value(target)), (), (result,), False)
        found.append(Lowered(_store, note.inputs, note.results, note, False))
        after[result] = tuple(dict.fromkeys(readers.get(target, ())))
    return found, after
