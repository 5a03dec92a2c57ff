"""Costs of a program's functions: bytes and operations, for the table that TORCH_LOGS=plan shows.

Bytes are those that each function reads and writes, once each; operations are those of records'
costs, and of a written kernel one an element of each record that it computes.  On a GPU its clocks
say how long a function takes at least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.compilation.follow.tape import Form, NoteForm, Value
from tritorch.compilation.plan.lowering import Lowered
from tritorch.core.dtype import dtype, from_numpy_dtype
from tritorch.ops.record.cost import cost_of


class Cost(NamedTuple):
    """The cost of one function: kernels that were written for it (0: the records' own), bytes,
    operations; None where sizes are dynamic or nobody knows."""

    written: int
    bytes: int | None
    flops: int | None


def costs(calls: Sequence[Lowered], forms: Sequence[Form]) -> list[Cost]:
    """The cost of each function of a program."""
    return [_of(call, forms) for call in calls]


def _of(call: Lowered, forms: Sequence[Form]) -> Cost:
    function = call.function
    moved = getattr(function, "bytes", None)
    if callable(moved):  # a kernel that was written, or a product's with an epilogue
        return Cost(getattr(function, "launches", 1), moved(), _written(function, forms))
    if getattr(call.note.op, "is_view", False):
        return Cost(0, 0, 0)
    try:
        note = call.note
        params = note.params if note.form == NoteForm.CALL else ()
        found = cost_of(note.op, [_spec(x, forms) for x in note.inputs], params)
    except Exception:  # of no record, or of one that says nothing without values
        return Cost(0, _moved(call, forms), None)
    numbers = isinstance(found.bytes, int) and isinstance(found.flops, int)
    return Cost(0, found.bytes, found.flops) if numbers else Cost(0, None, None)


def _spec(x: Any, forms: Sequence[Form]) -> Any:
    if type(x) is not Value:
        return x
    form = forms[x.number]
    kind = form.dtype if isinstance(form.dtype, dtype) else from_numpy_dtype(form.dtype)
    return MetaArray(form.shape, kind, form.strides)


def _moved(call: Lowered, forms: Sequence[Form]) -> int | None:
    """The bytes of the arrays of a call, once each; None if one of them is not known, or
    dynamic."""
    numbers = {x.number for x in call.args if type(x) is Value} | {*call.results} - {-1}
    if not all(0 <= number < len(forms) for number in numbers):
        return None
    known = [forms[number] for number in numbers if forms[number].kind is not int]
    found = sum(
        math.prod(n for n, step in zip(form.shape, form.strides) if step) * form.dtype.itemsize
        for form in known
    )
    return found if isinstance(found, int) else None


def _written(function: Any, forms: Sequence[Form]) -> int | None:
    """Operations of a kernel that was written: an element of each definition; and of the product
    whose epilogue it is."""
    elements, call = getattr(function, "elements", None), getattr(function, "call", None)
    if call is None:
        return elements
    own = _of(call._replace(function=None), forms).flops
    return None if own is None else own + (elements or 0)


def total(rows: Sequence[Cost]) -> str:
    """A program's line."""
    moved = [row.bytes for row in rows if row.bytes is not None]
    flops = [row.flops for row in rows if row.flops is not None]
    written = sum(row.written for row in rows)
    return f"{written} kernels written, {sum(moved) / 1e6:.3f} MB, {sum(flops) / 1e6:.3f} MFLOP"


# Operations a cycle and multiprocessor: products of 16 bits on tensor cores; all others.
_TENSOR = {80: 2048, 86: 1024, 89: 1024, 90: 4096, 100: 8192, 120: 1024}
_SCALAR = 256


class Peaks(NamedTuple):
    """The peak rates of a GPU, a second: bytes, products' operations, others."""

    bytes: float
    products: float
    others: float


def peaks_of(device: int) -> Peaks | None:
    """By the device's clocks; None where they are not known."""
    p = _C.device_properties(device)
    moved = 2e3 * p["memory_clock_rate"] * p["memory_bus_width"] / 8
    cycles = 1e3 * p["clock_rate"] * p["multi_processor_count"]
    tensor = _TENSOR.get(10 * p["major"] + p["minor"])
    if not moved or not cycles or tensor is None:
        return None
    return Peaks(moved, tensor * cycles, _SCALAR * cycles)


def shown(row: Cost, call: Lowered, forms: Sequence[Form]) -> str:
    """One function's columns; on a GPU with the least time that it takes, and whether memory or
    arithmetic decides it."""
    if row.bytes is None:
        return "?"
    text = f"{row.bytes / 1e6:.3f} MB"
    if row.flops is not None:
        text += f", {row.flops / 1e6:.3f} MFLOP"
    made = [forms[number] for number in call.results if 0 <= number < len(forms)]
    if made and made[0].kind is _C.Array and (peaks := peaks_of(0)) is not None:
        fast = bool(getattr(call.note.op, "axes", None)) and made[0].dtype.itemsize == 2
        arithmetic = (row.flops or 0) / (peaks.products if fast else peaks.others)
        memory = row.bytes / peaks.bytes
        which = "memory" if memory >= arithmetic else "arithmetic"
        text += f", {max(memory, arithmetic) * 1e6:.2f} us by {which}"
    return text
