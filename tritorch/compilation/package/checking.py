"""Checks of a plan: its values, compared with the results that its records infer.

Kernels and native loops trust in sizes, dtypes and strides.  So each call is made once for arrays
without memory, by the record's own rules, before a plan of a file is run: a view lies inside of the
memory that it is of, and all else has the sizes and the dtype that the plan says.
"""

from __future__ import annotations

from typing import Any

from tritorch.arrays.arrays import ndarray
from tritorch.arrays.meta import MetaArray
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.compilation.package.plan import Plan
from tritorch.compilation.plan.coding import PackageError
from tritorch.compilation.plan.lowering import whole
from tritorch.core import scopes
from tritorch.core.dtype import from_numpy_dtype
from tritorch.core.layout import is_dense
from tritorch.ops.record.maker import Maker
from tritorch.ops.record.pointwise import Pointwise


def _dtype(form: Form) -> Any:
    return from_numpy_dtype(form.dtype) if form.kind is ndarray else form.dtype


def _array(form: Form) -> Any:
    """An array of a form, without memory; of a number, a number."""
    return 0 if form.kind is int else MetaArray(form.shape, _dtype(form), form.strides)


def require_consistent(plan: Plan) -> None:
    """Refuses a plan whose records give other values than it says."""
    arrays: dict[int, Any] = {}
    for number in plan.inputs:
        if not is_dense(plan.forms[number].shape, plan.forms[number].strides):
            raise PackageError("a value that is given is not dense")
        arrays[number] = _array(plan.forms[number])
    with scopes.unrecorded:
        for note in plan.notes:
            try:
                results = _results(note, arrays)
            except Exception as error:
                text = str(error).split("\n")[0]
                raise PackageError(
                    f"{note.op.name} refuses what the plan gives it: {type(error).__name__}: {text}"
                ) from error
            _take(plan, note, results, arrays)


def _results(note: Note, arrays: dict[int, Any]) -> tuple[Any, ...]:
    given = [arrays[x.number] if type(x) is Value else x for x in note.inputs]
    params = [arrays[x.number] if type(x) is Value else x for x in note.params]
    if note.form == NoteForm.CHECK:
        return ()
    if note.form == NoteForm.DRAW:
        return 0, 0
    if note.form == NoteForm.COPY:
        return (given[0],)
    if note.form == NoteForm.MAKE:
        if not isinstance(note.op, Maker):
            raise TypeError("it makes nothing")
        return (note.op.infer([], tuple(params)),)
    if (
        isinstance(note.op, Pointwise) != (note.form == NoteForm.POINTWISE)
        and note.form != NoteForm.IN_PLACE
    ):
        raise TypeError(f"it is not called as {note.form}")
    found = whole(note)(*given, *(() if note.form == NoteForm.POINTWISE else params))
    return tuple(found) if type(found) is tuple else (found,)


def _take(plan: Plan, note: Note, results: tuple[Any, ...], arrays: dict[int, Any]) -> None:
    """Compares a call's results with the forms that the plan says."""
    if len(results) != len(note.results) or note.several != (len(results) != 1):
        raise PackageError(f"{note.op.name} gives {len(results)} results")
    is_view = note.form == NoteForm.CALL and note.op.is_view
    for number, array in zip(note.results, results):
        if number < 0:
            continue
        form = plan.forms[number]
        if type(array) is not MetaArray:
            if array is None or form.kind is not int:
                raise PackageError(f"{note.op.name} gives no array")
            arrays[number] = array
            continue
        if form.kind is int or (tuple(array.shape), array.dtype) != (form.shape, _dtype(form)):
            raise PackageError(
                f"{note.op.name} gives {tuple(array.shape)} {array.dtype}, not what the plan says"
            )
        if is_view:
            if tuple(array.strides) != form.strides or not _inside(array):
                raise PackageError(f"{note.op.name} gives a view that lies otherwise")
            arrays[number] = array
        elif note.form != NoteForm.IN_PLACE:
            if not is_dense(form.shape, form.strides):
                raise PackageError(f"{note.op.name} gives what is not dense")
            arrays[number] = _array(form)


def _inside(array: MetaArray) -> bool:
    """True if a view lies in its memory."""
    if 0 in array.shape:
        return True
    steps = [(n - 1) * s for n, s in zip(array.shape, array.strides)]
    low = array.offset + sum(min(step, 0) for step in steps)
    high = array.offset + sum(max(step, 0) for step in steps) + 1
    return low >= 0 and high * array.dtype.itemsize <= array.memory.nbytes
