"""Words of a kernel's source: positions, names and their values, numbers and types as texts."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tritorch.compilation.fuse.definitions import Definition
from tritorch.core import dtype as dtypes
from tritorch.core.dtype import dtype as Dtype
from tritorch.triton import names

NARROW = ("float16", "bfloat16")
SHORT = {
    "bool": "b1", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
}  # fmt: skip


class Position(NamedTuple):
    """A position at which elements are asked for: the texts of its row and column, and their
    masks."""

    row: str
    col: str
    row_mask: str
    col_mask: str
    columns: int
    plain: bool = True  # whether columns are those of the kernel, in their order


class Word(NamedTuple):
    """A name in the source, and its value's type."""

    text: str
    kind: Dtype
    by_row: bool
    by_col: bool


class Number(NamedTuple):
    """An argument that is a number: a value, as a float's bits or as an integer."""

    value: int
    as_bits: bool


class Written(NamedTuple):
    """A kernel's source, and its arguments."""

    source: str
    name: str
    arrays: tuple[int, ...]  # values that it reads, the bases in place of views
    read: tuple[int, ...]  # those themselves
    numbers: tuple[Number, ...]
    outputs: tuple[int, ...]  # values that it makes
    sums: tuple[int, ...]  # of those, the ones that a second kernel adds up
    marks: tuple[str, int, int] | None  # a record, a dim and its size, for indices out of bounds


def held(kind: Dtype) -> Dtype:
    """The type as which an element is held: narrow floats are float32."""
    return dtypes.float32 if kind.name in NARROW else kind


def type_text(kind: Dtype) -> str:
    """A dtype, as Triton writes it."""
    return f"tl.{names.element_type(kind.name).name}"


def number_text(x: Any, kind: Dtype) -> str:
    """A number, as of a dtype."""
    if kind.is_floating_point:
        x = float(x)
        return repr(x) if math.isfinite(x) else f'float("{x}")'
    if kind is dtypes.bool_:
        return repr(bool(x))
    bits = 8 * kind.itemsize
    x = int(x) % (1 << bits)
    return repr(x - (1 << bits) if kind.is_signed and x >> (bits - 1) else x)


ADDED = ("sum", "mean")


def identity(d: Definition) -> str:
    """The identity of a reduction."""
    how, _ = d.params
    return "0" if how in ADDED else extreme(held(d.dtype), how == "larger")


def extreme(kind: Dtype, lowest: bool) -> str:
    """The number of a dtype that no other is below, or above."""
    if kind.is_floating_point:
        return number_text(-math.inf if lowest else math.inf, kind)
    if kind is dtypes.bool_:
        return repr(not lowest)
    bits = 8 * kind.itemsize - kind.is_signed
    return repr((-(1 << bits) if kind.is_signed else 0) if lowest else (1 << bits) - 1)
