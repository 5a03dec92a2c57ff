"""Batch norms with the relu that follows, and their gradients with the relu's, in the passes over
memory that a norm makes alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.arrays import ndarray
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.compilation.passes.fused_loops import LEAST, CombinedOp
from tritorch.compilation.plan.lowering import Lowered
from tritorch.core.layout import contiguous_strides
from tritorch.host.chains.rowwise import SINGLE
from tritorch.host.nn.norm import batch_norm, batch_norm_backward
from tritorch.host.pointwise.pointwise import relu, relu_backward

Array = np.ndarray[Any, Any]


def _normalised_relu(*args: Any) -> Any:
    """A batch norm whose result is relu of what it would be."""
    return batch_norm(*args, of_relu=True)


def _gradients_relu(
    g: Array, y: Array, x: Array, w: Any, mean: Array, rstd: Array, training: bool
) -> Any:
    """The gradients of a batch norm; g is that of y, relu of its result."""
    return batch_norm_backward(g, x, w, mean, rstd, training, y)


def fuse_norms(calls: Sequence[Lowered], forms: Sequence[Form], kept: set[int]) -> list[Lowered]:
    """The calls, with one for each batch norm and its relu, or the gradients of both."""
    reads = Counter(x.number for call in calls for x in call.args if type(x) is Value)
    found: list[Lowered | None] = []
    norms: dict[int, int] = {}  # results that a relu may take over, and which calls give them
    masks: dict[int, int] = {}  # relus' gradients
    for call in calls:
        i = len(found)
        found.append(call)
        if call.writes:
            norms, masks = _untouched(norms, found, call), _untouched(masks, found, call)
            continue
        given = call.args[0].number if call.args and type(call.args[0]) is Value else -1
        single = given not in kept and reads[given] == 1
        if _is_whole(call, forms, "batch_norm") and call.args[5]:
            norms[call.results[0]] = i
        elif _is_pointwise(call, relu) and given in norms and single:
            norm = found[norms[given]]
            assert norm is not None
            results = (call.results[0], *norm.results[1:])
            found[norms[given]] = _combined(norm, _normalised_relu, norm.args, results, "relu")
            found[i] = None
        elif _is_pointwise(call, relu_backward) and is_dense(call, forms):
            masks[call.results[0]] = i
        elif _is_whole(call, forms, "batch_norm_backward") and given in masks and single:
            mask = found[masks[given]]
            assert mask is not None
            args = (*mask.args, *call.args[1:])
            found[masks[given]] = None
            found[i] = _combined(call, _gradients_relu, args, call.results, "relu_backward")
    return [call for call in found if call is not None]


def _untouched(indices: dict[int, int], found: Sequence[Any], call: Lowered) -> dict[int, int]:
    """The calls whose arrays another call does not write."""
    touched = {x.number for x in call.args if type(x) is Value} | set(call.results)
    return {
        number: i for number, i in indices.items()
        if not touched & ({number} | {x.number for x in found[i].args if type(x) is Value})
    }  # fmt: skip


def _is_pointwise(call: Lowered, function: Any) -> bool:
    return call.note.form == NoteForm.POINTWISE and call.note.op.function is function


def is_dense(call: Lowered, forms: Sequence[Form]) -> bool:
    """True if all its arrays are dense, large or of one dim, and of float32."""
    for number in (*(x.number for x in call.args if type(x) is Value), *call.results):
        form = forms[number]
        dense = form.kind is ndarray and form.strides == contiguous_strides(form.shape)
        if not dense or form.dtype != SINGLE:
            return False
    return math.prod(forms[call.results[0]].shape) >= LEAST


def _is_whole(call: Lowered, forms: Sequence[Form], name: str) -> bool:
    return (
        call.note.op is not None
        and call.note.op.name == name
        and call.function is call.note.op.cpu
        and len(call.results) > 2
        and all(number >= 0 for number in call.results)
        and is_dense(call, forms)
    )


def _combined(
    call: Lowered, function: Any, args: tuple[Any, ...], results: tuple[int, ...], name: str
) -> Lowered:
    op = CombinedOp([call.note.op.name, name])
    inputs = tuple(x for x in args if type(x) is Value)
    note = Note(NoteForm.COMBINED, op, inputs, (), results, True)
    return Lowered(_C.Quiet(function), args, results, note, False)
