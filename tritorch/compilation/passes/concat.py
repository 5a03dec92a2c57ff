"""Concat: sums of gradients of parts as one array that the parts are put into.

The gradient of a part (a slice) is zero elsewhere, and those of several parts are added up: `qkv`
that was split gets three arrays of its size, and two sums.  Parts that do not overlap go into one
array; 0 is added to each, as it is in the sum, which makes 0 of -0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch.arrays.arrays import ndarray
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.compilation.passes.fused_loops import CombinedOp
from tritorch.compilation.plan.lowering import Lowered
from tritorch.core.layout import contiguous_strides

MOST = 1 << 24  # elements of an array whose parts are looked at one by one


class _Concat:
    """The concatenation of the parts' gradients. parts: for each, the view that shows it in the
    whole, and its params."""

    def __init__(
        self, form: Form, parts: Sequence[tuple[Any, tuple[Any, ...]]], full: bool
    ) -> None:
        self.shape, self.kind, self.parts = form.shape, form.dtype, parts
        self.make = np.empty if full else np.zeros
        self.zero = np.zeros((), form.dtype)

    def __call__(self, *grads: Any) -> Any:
        whole = self.make(self.shape, self.kind)
        for g, (part, params) in zip(grads, self.parts):
            np.add(g, self.zero, out=part(whole, *params))
        return whole


def concat_gradients(
    calls: Sequence[Lowered], forms: Sequence[Form], kept: set[int]
) -> list[Lowered]:
    """The calls, with one for each sum of gradients of parts that do not overlap."""
    reads = Counter(x.number for call in calls for x in call.args if type(x) is Value)
    leaves: dict[int, list[Lowered]] = {}  # of values that are such sums, or parts
    gone: dict[int, list[int]] = {}  # of the same, which calls they replace
    found: list[Lowered | None] = []
    for i, call in enumerate(calls):
        found.append(call)
        if call.writes:
            leaves.clear()
            continue
        if getattr(call.note.op, "embeds", None) is not None and _plain(call, forms):
            leaves[call.results[0]], gone[call.results[0]] = [call], [i]
            continue
        given = [x.number if type(x) is Value else -1 for x in call.args]
        is_sum = call.note.form == NoteForm.POINTWISE and call.note.op.function is np.add
        sums = is_sum and len(set(given)) == len(given) == 2
        if not sums or any(n not in leaves or n in kept or reads[n] != 1 for n in given):
            continue
        parts = leaves[given[0]] + leaves[given[1]]
        counts = _counts(parts, forms)
        if counts is None or not _plain(call, forms):
            continue
        result = call.results[0]
        leaves[result], gone[result] = parts, gone[given[0]] + gone[given[1]] + [i]
        for each in gone[result]:
            found[each] = None
        found[i] = _call(parts, result, forms[result], bool(counts.all()))
    return [call for call in found if call is not None]


def _plain(call: Lowered, forms: Sequence[Form]) -> bool:
    form = forms[call.results[0]]
    return (
        form.kind is ndarray
        and form.dtype.kind == "f"
        and form.dtype.itemsize >= 4
        and form.strides == contiguous_strides(form.shape)
        and all(forms[x.number].dtype is form.dtype for x in call.args if type(x) is Value)
    )


def _counts(parts: Sequence[Lowered], forms: Sequence[Form]) -> Any:
    """The number of parts that have each element; None if some overlap."""
    shape = forms[parts[0].results[0]].shape
    if any(forms[call.results[0]].shape != shape for call in parts) or np.prod(shape) > MOST:
        return None
    counts = np.zeros(shape, np.uint8)
    for call in parts:
        part = _part(call)
        if part[0](counts, *part[1]).base is None:
            return None
        part[0](counts, *part[1])[...] += 1
    return None if counts.max() > 1 else counts


def _part(call: Lowered) -> tuple[Any, tuple[Any, ...]]:
    """The view that shows a part, and its params: those of its gradient, but for the shape."""
    return call.note.op.embeds.cpu, call.note.params[1:]


def _call(parts: Sequence[Lowered], result: int, form: Form, full: bool) -> Lowered:
    inputs = tuple(call.args[0] for call in parts)
    function = _Concat(form, [_part(call) for call in parts], full)
    note = Note(
        NoteForm.COMBINED,
        CombinedOp([call.note.op.name for call in parts]),
        inputs,
        (),
        (result,),
        False,
    )
    return Lowered(function, inputs, (result,), note, False)
