"""CSE, common subexpression elimination: of two equal calls the second gives what the first gave.

Gradients ask for the same views and copies of saved values again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tritorch.compilation.follow.tape import NoteForm, Value
from tritorch.compilation.plan.lowering import Lowered


def eliminate_common_calls(
    calls: Sequence[Lowered], inputs: Iterable[int], kept: set[int]
) -> list[Lowered]:
    """The calls without those that are equal to an earlier one.

    inputs: values from outside, which alone may be written: what others share is not."""
    outside = set(inputs)
    if any(_written(call) - outside for call in calls):
        return list(calls)
    same: dict[int, int] = {}
    known: dict[Any, tuple[int, ...]] = {}
    found = []
    for call in calls:
        call = call.renumbered(same)
        if call.writes:
            known.clear()
        key = _key(call)
        before = None if key is None or kept.intersection(call.results) else known.get(key)
        if before is not None and len(before) == len(call.results):
            same |= zip(call.results, before)
            continue
        if key is not None:
            known.setdefault(key, call.results)
        found.append(call)
    return found


def _written(call: Lowered) -> set[int]:
    """The arguments that a call may write."""
    return {x.number for x in call.args if type(x) is Value} if call.note.writes else set()


def _key(call: Lowered) -> Any:
    if (
        call.writes
        or call.note.form not in (NoteForm.CALL, NoteForm.POINTWISE)
        or -1 in call.results
    ):
        return None
    key = (call.note.op, tuple((type(x), x) for x in call.args), tuple(map(repr, call.args)))
    try:
        hash(key)
    except TypeError:
        return None
    return key
