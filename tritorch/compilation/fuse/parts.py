"""A fused record's call as calls of smaller ones, for written kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Tape, Value
from tritorch.compilation.plan import meta_execution
from tritorch.compilation.plan.meta_execution import on_meta
from tritorch.core import scopes
from tritorch.core.device import PretendedDevice, device
from tritorch.core.dispatching import noting
from tritorch.ops.record.replacing import is_replaced

MOST = 40  # calls


def parts_of(note: Note, forms: list[Form], read: set[int]) -> list[Note] | None:
    """The calls of a record's parts, with the forms of their results at the end of `forms`; None if
    it has none. read: values of which somebody reads."""
    op = note.op
    if (
        note.form != NoteForm.CALL
        or op.parts is None
        or op.fuses
        or any(type(x) is Value for x in note.params)
    ):
        return None
    if not all(x is None or type(x) is Value for x in note.inputs):
        return None
    if is_replaced(op, "gpu"):
        return None
    tape = Tape()
    given = {}
    with on_meta():
        where = PretendedDevice(device("cuda", 0), meta_execution._meta_mode)
        tensors: list[Any] = []
        for x in note.inputs:
            if x is None:
                tensors.append(None)
                continue
            form = forms[x.number]
            if form.kind is not _C.Array:
                return None
            traced = _C.wrap(MetaArray(form.shape, form.dtype, form.strides, where))
            given[tape.number(traced._array)] = x.number
            tensors.append(traced)
        with scopes.unrecorded, noting(tape.note):
            results = op.parts(*tensors, *note.params)
    if results is NotImplemented or tape.unfit or len(tape.notes) > MOST:
        return None
    results = results if isinstance(results, tuple) else (results,)
    numbers = dict(given)
    for wanted, result in zip(note.results, results):
        if wanted not in read:
            continue
        known = tape.known(result._array)
        if known is None or known in numbers:
            return None  # it is an input, or what another result is
        numbers[known] = wanted
    for number, form in enumerate(tape.forms):
        if number not in numbers:
            numbers[number] = len(forms)
            forms.append(form._replace(kind=_C.Array))
    return [part.renumbered(numbers)._replace(source_line=note.source_line) for part in tape.notes]


def without_unread(parts: Sequence[Note], read: set[int]) -> list[Note]:
    """Parts whose results somebody reads."""
    found = []
    for note in reversed(parts):
        if any(n in read for n in note.results):
            found.append(note)
            read.update(x.number for x in note.inputs if type(x) is Value)
    return found[::-1]
