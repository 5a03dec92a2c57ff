"""Inter-op parallelism: calls that are computed in steps, each of which has work for few threads,
run at the same time, each in a thread of its own, if they are independent (both directions of a
recurrent network).

Functions of the CPU give the same bits however many threads they have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritorch.arrays.arrays import ndarray
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.compilation.passes.fused_loops import CombinedOp
from tritorch.compilation.plan.lowering import Lowered
from tritorch.host import threads
from tritorch.host.linalg import blas

_LEAST = 1 << 18  # multiply-adds of a step that is worth a thread


class _ParallelCalls:
    """Functions as one, which gives all results. counts: of the arguments and the results of each;
    wide: the number of threads for which a step has work."""

    def __init__(self, calls: Sequence[Lowered], wide: int) -> None:
        self.functions = [call.function for call in calls]
        self.counts = [(len(call.args), len(call.results)) for call in calls]
        self.wide = wide

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        n, rest = len(self.functions), iter(args)
        given = [[next(rest) for _ in range(count)] for count, _ in self.counts]
        found: list[Any] = [None] * n

        def work(i: int, _: int) -> None:
            found[i] = self.functions[i](*given[i])

        threads.blocks(n, 1, work, n >= min(threads.get_num_threads(), self.wide))
        results: list[Any] = []
        for result, (_, count) in zip(found, self.counts):
            results += result if count > 1 else (result,)
        return tuple(results)


def parallel_calls(calls: Sequence[Lowered], forms: Sequence[Form]) -> list[Lowered]:
    """The calls, with one for those in steps that can run at the same time."""
    left, found = list(calls), []
    while left:
        call = left.pop(0)
        wide = _width(call, forms)
        if wide:
            group, before, after = _group(call, left, forms)
            if len(group) > 1:
                found += before
                left[: len(before) + len(after) + len(group) - 1] = after
                call = _combined(group, wide)
        found.append(call)
    return found


def _width(call: Lowered, forms: Sequence[Form]) -> int:
    """The number of threads for which a step of the call has work; 0 if it is no such call, or a
    step is so small that Python's part of it, which has one thread at a time, is the larger one."""
    step = getattr(call.note.op, "step", None)
    if step is None or call.writes or call.function is not call.note.op.cpu:
        return 0
    inputs = [forms[x.number] if type(x) is Value else None for x in call.note.inputs]
    if any(form is not None and form.kind is not ndarray for form in inputs):
        return 0
    work = step(*inputs)
    return max(math.isqrt(work // blas.PIECE), 1) if work >= _LEAST else 0


def _group(
    first: Lowered, later: Sequence[Lowered], forms: Sequence[Form]
) -> tuple[list[Lowered], list[Lowered], list[Lowered]]:
    """A call with those in steps that follow and need none of them; and the calls between them:
    those that need none of them, and those that do."""
    group = [first]
    before: list[Lowered] = []
    after: list[Lowered] = []
    made, known = set(first.results), (0, 0)
    for call in later:
        if call.writes:
            break
        if made.intersection(x.number for x in call.args if type(x) is Value):
            after.append(call)
        elif call.note.op is first.note.op and _width(call, forms):
            group.append(call)
            known = len(before), len(after)
        else:
            before.append(call)
            continue
        made.update(call.results)
    return group, before[: known[0]], after[: known[1]]


def _combined(group: Sequence[Lowered], wide: int) -> Lowered:
    args = tuple(x for call in group for x in call.args)
    results = tuple(number for call in group for number in call.results)
    inputs = tuple(x for x in args if type(x) is Value)
    note = Note(
        NoteForm.COMBINED,
        CombinedOp([call.note.op.name for call in group]),
        inputs,
        (),
        results,
        True,
    )
    return Lowered(_ParallelCalls(group, wide), args, results, note, False)
