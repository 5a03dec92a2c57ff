"""Chains: pointwise calls on large arrays of one shape, computed together in blocks that stay in
the CPU's cache, over threads.

Each element is computed by the functions that compute it alone, so a chain has their bits; what
only the chain reads never reaches memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tritorch import _C
from tritorch._following.lowering import Lowered, is_direct
from tritorch._following.tape import Form, Note, Value
from tritorch.core.arrays import ndarray
from tritorch.core.layout import contiguous_strides
from tritorch.host import threads

LEAST = 1 << 17  # elements from which a chain pays
BLOCK = 1 << 16  # elements of a block


class Link(NamedTuple):
    """One function of a chain; arguments and the result are places in a block's list."""

    function: Callable[..., Any]
    places: tuple[int, ...]  # negative where a constant goes
    constants: tuple[Any, ...]
    result: int
    buffer: (
        int  # what it writes, as one more argument: a buffer, or an output (OUTPUT); OWN: neither
    )


OUTPUT, OWN = -1, -2


class ChainOp:
    """What stands for a record at a chain's call."""

    is_view = False
    kind = "chain"

    def __init__(self, names: Sequence[str]) -> None:
        self.name = "+".join(names)


class Chain:
    """A function of arrays of one shape, and numbers as arrays of no dims."""

    def __init__(
        self, links: list[Link], whole: list[bool], outputs: list[int],
        kinds: list[np.dtype[Any]], size: int, buffers: list[np.dtype[Any]],
    ) -> None:  # fmt: skip
        self.links, self.whole, self.outputs, self.kinds = links, whole, outputs, kinds
        self.size = size  # of a block's list
        self.buffers = buffers

    def __call__(self, *inputs: Any) -> Any:
        shape = next(x.shape for x, whole in zip(inputs, self.whole) if whole)
        made = [np.empty(shape, kind) for kind in self.kinds]
        flat = [x.reshape(-1) if whole else x for x, whole in zip(inputs, self.whole)]
        targets = [out.reshape(-1) for out in made]
        n = targets[0].size
        where = dict(zip(self.outputs, targets))

        def work(low: int, high: int) -> None:
            values: list[Any] = [
                x[low:high] if whole else x for x, whole in zip(flat, self.whole)
            ] + [None] * (self.size - len(flat))
            buffers = [np.empty(high - low, kind) for kind in self.buffers]
            for link in self.links:
                args = [
                    constant if place < 0 else values[place]
                    for place, constant in zip(link.places, link.constants)
                ]
                target = where.get(link.result)
                if link.buffer != OWN:
                    out = buffers[link.buffer] if target is None else target[low:high]
                    link.function(*args, out)
                    values[link.result] = out
                    continue
                values[link.result] = found = link.function(*args)
                if target is not None:
                    target[low:high] = found

        threads.blocks(n, BLOCK, work, n >= threads.PARALLEL)
        return made[0] if len(made) == 1 else tuple(made)


def _fits(call: Lowered, forms: Sequence[Form]) -> tuple[int, ...] | None:
    """The shape that a call is computed element by element in; None if it is no such call."""
    if call.note.form != "pointwise" or call.writes or len(call.results) != 1:
        return None
    shape = forms[call.results[0]].shape
    if math.prod(shape) < LEAST:
        return None
    for x in (*call.args, Value(call.results[0])):
        if type(x) is not Value:
            continue
        form = forms[x.number]
        if form.kind is not ndarray or (form.shape and form.shape != shape):
            return None
        if form.shape and form.strides != contiguous_strides(shape):
            return None
    return shape


def fused(calls: Sequence[Lowered], forms: Sequence[Form], kept: set[int]) -> list[Lowered]:
    """The calls, with chains for pointwise ones that follow each other."""
    found: list[Lowered] = []
    group: list[Lowered] = []
    shape: tuple[int, ...] | None = None
    for i, call in enumerate(calls):
        own = _fits(call, forms)
        if group and own != shape:
            found += _chained(group, calls[i:], forms, kept)
            group = []
        if own is None:
            found.append(call)
        else:
            shape = own
            group.append(call)
    return found + (_chained(group, (), forms, kept) if group else [])


def _chained(
    group: list[Lowered], later: Sequence[Lowered], forms: Sequence[Form], kept: set[int]
) -> list[Lowered]:
    if len(group) < 2:
        return group
    read = {x.number for call in later for x in call.args if type(x) is Value} | kept
    inputs: list[int] = []
    made: dict[int, int] = {}
    for call in group:
        for x in call.args:
            if type(x) is Value and x.number not in made and x.number not in inputs:
                inputs.append(x.number)
        made[call.results[0]] = 0
    places = {number: i for i, number in enumerate([*inputs, *made])}
    last = {x.number: i for i, call in enumerate(group) for x in call.args if type(x) is Value}
    links, outputs = [], []
    buffers: list[np.dtype[Any]] = []
    owner: dict[int, int] = {}  # which buffer a value is in
    free: list[int] = []
    for i, call in enumerate(group):
        number = call.results[0]
        op = call.note.op
        operands = [forms[x.number] for x in call.args if type(x) is Value]
        direct = is_direct(op, call.note, operands)
        kind = forms[number].dtype
        for x in {x.number for x in call.args if type(x) is Value and x.number in owner}:
            if last[x] == i:  # it may be written while it is read: element by element
                free.append(owner.pop(x))
        buffer = OWN
        if direct and op.is_ufunc:
            buffer = OUTPUT
            if number not in read:
                fits = [b for b in free if buffers[b] is kind]
                buffer = fits[-1] if fits else len(buffers)
                if fits:
                    free.remove(buffer)
                else:
                    buffers.append(kind)
                owner[number] = buffer
        links.append(Link(
            op.function if direct else call.function,
            tuple(places[x.number] if type(x) is Value else -1 for x in call.args),
            tuple(None if type(x) is Value else x for x in call.args),
            places[number], buffer,
        ))  # fmt: skip
        if number in read:
            outputs.append(number)
    chain = Chain(
        links, [bool(forms[n].shape) for n in inputs], [places[n] for n in outputs],
        [forms[n].dtype for n in outputs], len(places), buffers,
    )  # fmt: skip
    note = Note(
        "chain", ChainOp([call.note.op.name for call in group]),
        tuple(Value(n) for n in inputs), (), tuple(outputs), len(outputs) > 1,
    )  # fmt: skip
    return [Lowered(_C.Quiet(chain), note.inputs, note.results, note, False)]
