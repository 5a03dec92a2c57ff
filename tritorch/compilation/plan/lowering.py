"""Lowering: from a record's call to the function of arrays that computes it.

A function is taken that a call of the record runs, without what surrounds it: `quick`.  Where its
result has another layout than eager's, the record's own call takes its place: `whole`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.arrays import dtype_of_kind, ndarray
from tritorch.arrays.meta import MetaArray
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Unfit, Value, renumbered
from tritorch.core.dtype import from_numpy_dtype
from tritorch.core.generator import default_for
from tritorch.core.promotion import result_type
from tritorch.ops.record.apply import apply, apply_in_place
from tritorch.ops.record.overloads import overload_of
from tritorch.ops.record.pointwise import BIG, Pointwise
from tritorch.schema import table


class Lowered(NamedTuple):
    """A function of arrays and constants, with its arguments and results."""

    function: Callable[..., Any]
    args: tuple[Any, ...]  # `Value`s and constants
    results: tuple[int, ...]
    note: Note
    # It changes its first argument, or a generator, or meets other processes.
    writes: bool

    def renumbered(self, names: Mapping[int, int]) -> Lowered:
        """The call with other numbers for its values."""
        return self._replace(
            args=renumbered(self.args, names),
            results=tuple(names.get(n, n) for n in self.results),
            note=self.note.renumbered(names),
        )

    def as_called(self) -> Note:
        """The note with the arguments that the function gets: passes may have replaced some."""
        note, n = self.note, len(self.note.inputs)
        params = self.args[n:] if note.form in (NoteForm.CALL, NoteForm.MAKE) else note.params
        return note._replace(inputs=self.args[:n], params=params)


def _arrays(result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return tuple(None if x is None else x._array for x in result)
    return result._array


def _wrapped(x: Any) -> Any:
    return _C.wrap(x) if type(x) in (ndarray, _C.Array, MetaArray) else x


def whole(note: Note) -> Callable[..., Any]:
    """The record's own call, as a function of arrays and params (numbers are constants)."""
    op, n = note.op, len(note.inputs)
    if note.form == NoteForm.CALL:
        return lambda *given: _arrays(op.call([_wrapped(x) for x in given[:n]], given[n:]))
    if note.form == NoteForm.POINTWISE:
        return lambda *given: _arrays(apply(op, [_wrapped(x) for x in given]))
    if note.form == NoteForm.MAKE:
        return op.make
    if note.form == NoteForm.COPY:
        return arrays.copy
    if isinstance(op, Pointwise):
        return lambda *given: _arrays(apply_in_place(op, [_wrapped(x) for x in given]))
    return _in_place(note)


def _in_place(note: Note) -> Callable[..., Any]:
    """A record in place, by the overload that it computes."""
    op, n = note.op, len(note.inputs)
    stem = op.schema.name.partition("::")[2].removesuffix("_")
    names = table.overloads(f"{stem}_")
    if not names:
        raise Unfit(f"{op.name} in place is no operator of its own")
    wanted = op.schema.overload_name if op.schema.overload_name in names else names[0]
    overload = overload_of(table.find(f"{stem}_", wanted))
    known = {a.name for a in overload._schema.arguments}

    def run(*given: Any) -> Any:
        tensors = [_wrapped(x) for x in given[:n]]
        _, args, kwargs = op.as_call(tensors, given[n:])
        given_by_name = {name: x for name, x in kwargs.items() if name in known}
        overload.redispatch(None, *args, **given_by_name)  # no mode is asked again
        return tensors[0]._array

    return run


def quick(note: Note, known: Sequence[Form]) -> Callable[..., Any] | None:
    """The function that a call of the record runs, with the note's inputs and then its params; None
    where that is not known."""
    op = note.op
    if note.form == NoteForm.CHECK:
        return lambda *given: op.function(*given) or ()
    forms = [known[x.number] for x in note.inputs if type(x) is Value]
    on_gpu = any(form.kind is _C.Array for form in forms)
    if note.form == NoteForm.MAKE:
        return op.make
    if note.form == NoteForm.COPY:
        return arrays.copy
    if note.form == NoteForm.DRAW:
        return lambda device, count: default_for(device).draw(count)
    if note.form == NoteForm.CALL:
        function = op.gpu if on_gpu else op.cpu
        if op.variadic:
            n = len(note.inputs)
            return lambda *given: function(list(given[:n]), *given[n:])
        return function
    if note.form == NoteForm.POINTWISE and not on_gpu and is_direct(op, note, forms):
        if all(_size(form.shape) < BIG for form in forms):
            return op.cpu
    return general(note, known) if note.form == NoteForm.POINTWISE else None


def general(note: Note, known: Sequence[Form]) -> Callable[..., Any] | None:
    """A pointwise record's computation, its types decided."""
    op = note.op
    metas = [meta_tensor(known[x.number]) if type(x) is Value else x for x in note.inputs]
    if len({known[x.number].kind for x in note.inputs if type(x) is Value}) > 1:
        return None  # a number that lies on the other device
    compute = op.compute_dtype(result_type(*metas[op.masks : len(metas) - op.beside]))
    result = op.result_dtype(compute)
    run = op.compute
    return lambda *operands: run(operands, compute, result)


def meta_tensor(form: Form) -> Any:
    """A meta tensor with the form of an array."""
    return _C.wrap(MetaArray(form.shape, dtype_of_kind(form.dtype), form.strides))


def is_direct(op: Pointwise, note: Note, forms: list[Form]) -> bool:
    """True if the CPU's function takes the operands as they are (`apply._direct`)."""
    kinds = {form.dtype for form in forms[op.masks :]}
    return (
        not op.masks
        and len(kinds) == 1
        and (kind := next(iter(kinds))) in op.direct
        and kind.kind == "f"
        and all(type(x) in (Value, float, int) for x in note.inputs)
    )


def into_itself(note: Note, known: Sequence[Form]) -> bool:
    """True if NumPy's function may write a pointwise record's result into its first input."""
    op = note.op
    if not isinstance(op, Pointwise) or not op.is_ufunc or op.masks or op.beside:
        return False
    function: Any = op.function
    if len(note.inputs) != function.nin or type(note.inputs[0]) is not Value:
        return False
    forms = [known[x.number] for x in note.inputs if type(x) is Value]
    first = forms[0]
    if first.kind is not ndarray:
        return False
    kinds = (Value, float, int) if first.dtype.kind == "f" else (Value, int)
    return (
        first.dtype in op.direct
        and op.result_dtype(from_numpy_dtype(first.dtype)).numpy is first.dtype
        and all(form.dtype is first.dtype for form in forms)
        and all(type(x) in kinds for x in note.inputs)
        and _size(first.shape) < BIG
        and len({x.number for x in note.inputs if type(x) is Value}) == len(forms)
    )


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


def arguments(note: Note) -> tuple[Any, ...]:
    """The arguments of a note's function."""
    return note.inputs if note.form == NoteForm.POINTWISE else (*note.inputs, *note.params)


def lowered(note: Note, known: Sequence[Form]) -> Lowered:
    """A note's function, the quick one where there is one."""
    op = note.op
    if note.form == NoteForm.STEPS:
        return Lowered(op.function, note.inputs, note.results, note, False)
    if note.form == NoteForm.POINTWISE and note.params != (None,):
        raise Unfit(f"{op.name} writes into out=")
    if note.form == NoteForm.IN_PLACE and into_itself(note, known):
        return Lowered(op.cpu, (*note.inputs, note.inputs[0]), note.results, note, True)
    changes = note.form == NoteForm.CHECK or note.writes or note.draws or note.meets
    function = quick(note, known)
    if function is None:
        function = whole(note)
    return Lowered(function, arguments(note), note.results, note, changes)
