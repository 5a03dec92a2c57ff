"""Functionalization: pointwise calls in place, as the plain calls that give new arrays.

`x.add_(1)` on an array that the program itself has made, and which no view shows, is `x + 1` under
the same name: calls that read x before read it under a name of its own.  Plain calls can be part of
fused loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tritorch import _C
from tritorch.arrays.arrays import ndarray
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.compilation.plan.lowering import meta_tensor
from tritorch.core.layout import contiguous_strides
from tritorch.core.promotion import result_type
from tritorch.ops.record.pointwise import Pointwise


def functionalized(
    notes: Sequence[Note], forms: list[Form], inputs: Iterable[int], memory: Mapping[int, int]
) -> tuple[list[Note], dict[int, int]]:
    """The notes, plain ones in place of those in place that may be; and of new names the old ones,
    whose forms are at the end.

    inputs: values that were there before; memory: of each value, the memory it lies in."""
    first: dict[int, int] = {}  # the notes that make values
    for i, note in enumerate(notes):
        for number in note.results:
            first.setdefault(number, i)
    sharing: dict[int, list[int]] = {}
    for number, area in memory.items():
        sharing.setdefault(area, []).append(number)
    fixed = set(inputs)
    made = {n for note in notes if _makes(note) for n in note.results}
    names: dict[int, int] = {}  # as later notes know a value
    old: dict[int, int] = {}
    found = []
    for i, note in reversed([*enumerate(notes)]):
        if note.form == NoteForm.IN_PLACE and note.results:
            number = note.results[0]
            others = sharing[memory[number]]
            shown = any(first.get(n, -1) < i for n in others if n != number)  # views of it, before
            alone = number in made and number not in fixed
            if alone and not shown and is_plain(note, forms):
                after = names.get(number, number)
                names[number] = len(forms)
                forms.append(forms[number])
                old[names[number]] = number
                plain = note.renumbered(names)
                found.append(
                    plain._replace(form=NoteForm.POINTWISE, params=(None,), results=(after,))
                )
                continue
        found.append(note.renumbered(names))
    return found[::-1], old


def _makes(note: Note) -> bool:
    return note.form in (NoteForm.CALL, NoteForm.POINTWISE) and not note.op.is_view


def is_plain(note: Note, forms: Sequence[Form]) -> bool:
    """True if a call in place computes what the plain call gives, with its layout."""
    op = note.op
    if not isinstance(op, Pointwise) or len(note.results) != 1 or type(note.inputs[0]) is not Value:
        return False
    form = forms[note.results[0]]
    if form.kind not in (ndarray, _C.Array) or form.strides != contiguous_strides(form.shape):
        return False
    metas = [meta_tensor(forms[x.number]) if type(x) is Value else x for x in note.inputs]
    compute = op.compute_dtype(result_type(*metas[op.masks : len(metas) - op.beside]))
    result = op.result_dtype(compute)
    return form.dtype == (result.numpy if form.kind is ndarray else result)
