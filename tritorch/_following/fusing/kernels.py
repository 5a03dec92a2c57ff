"""Launches of kernels that were written for a group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch._following.fusing.definitions import Definition
from tritorch._following.fusing.groups import Group
from tritorch._following.fusing.looping import Looped
from tritorch._following.fusing.orders import in_order_of_memory
from tritorch._following.fusing.words import Written, held, identity, type_text
from tritorch._following.fusing.writing import Source
from tritorch._following.tape import Form
from tritorch._triton.kernel import written_kernel
from tritorch.gpu import errors
from tritorch.gpu.layout import LONG, block_size, float_bits
from tritorch.gpu.random import signed

_OUTSIDE = "index {value} is out of bounds for dimension {0} with size {1}"
ELEMENTS = 2048  # of a program that holds rows
PART = 4096  # columns of a row that a program holds at a time, of those that are too long
PROGRAMS = 256  # that sum columns, at most
PROGRAMS_OF_ALL = 1024  # that reduce all elements, at most


def is_long(group: Group) -> bool:
    """Whether a thread computes few elements: of long functions."""
    return any(d.kind == "map" and d.what[0] in LONG for d in group.definitions)


def argument(given: Any, as_bits: bool) -> int:
    """A number as kernels get it: a float's bits or an integer."""
    return float_bits(float(given)) if as_bits else signed(given)


def tile(group: Group) -> dict[str, int]:
    """Sizes and warps of a group's programs: of the space and the functions alone."""
    if not group.holds:
        block, warps = (256, 4) if is_long(group) else block_size(group.columns)
        return {"BLOCK": block, "num_warps": warps}
    width = max(4, 1 << (group.columns - 1).bit_length())
    rows = 1
    if group.loops:
        return {"ROWS": 1, "WIDTH": PART, "num_warps": 8}
    while rows * width < ELEMENTS and rows < group.rows:
        rows *= 2
    warps = 1
    while warps * 512 < rows * width and warps < 16:
        warps *= 2
    return {"ROWS": rows, "WIDTH": width, "num_warps": warps}


class Fused:
    """A group's kernel, as a function of arrays and numbers."""

    def __init__(self, group: Group, read: set[int], exact: bool, forms: list[Form]) -> None:
        """forms: of all values; what programs leave of sums of columns is added."""
        self.group, self.forms = group, forms
        source = Looped if group.loops else Source
        outputs = group.outputs(read)
        ordered = in_order_of_memory(group, outputs)
        self.kernel: Written = source(ordered, exact).written(outputs)
        self.name, self.source = self.kernel.name, self.kernel.source
        numbers = dict.fromkeys(n.value for n in self.kernel.numbers)
        targets = group.targets
        written = dict.fromkeys(targets[n] for n in self.kernel.outputs if n in targets)
        self.inputs = (*self.kernel.arrays, *written, *numbers)
        self.launch = written_kernel(self.kernel.source)
        self.options: dict[str, Any] = tile(group)
        if exact:
            self.options["enable_fp_fusion"] = False
        places = {number: i for i, number in enumerate(self.inputs)}
        self._written = [places.get(targets.get(n, -1)) for n in self.kernel.outputs]
        self._n_arrays = len(self.kernel.arrays)
        self._numbers = [(places[n.value], n.as_bits) for n in self.kernel.numbers]
        made = [group.forms[n] for n in self.kernel.outputs]
        self._made = [(form.shape, form.strides, form.dtype) for form in made]
        self._grid = (self._blocks(),)
        self._totals: _Totals | None = None
        self.left: Left | None = None
        self.results = self.kernel.outputs
        if group.has_totals:
            self._totals = _Totals(group, self.kernel.sums, self._grid[0])
            self.results += self.kernel.sums
        elif self.kernel.sums:
            self.left = left_of(self.kernel.sums, self._grid[0], group.columns, forms)
            left = [forms[n] for n in self.left.parts]
            self._made += [(form.shape, form.strides, form.dtype) for form in left]
            self._written += [None] * len(left)
            self.results += self.left.parts

    def _blocks(self) -> int:
        group = self.group
        if not group.holds:
            blocks = -(-group.columns // self.options["BLOCK"])
            return min(blocks, PROGRAMS_OF_ALL) if self.kernel.sums else blocks
        blocks = -(-group.rows // self.options["ROWS"])
        return min(blocks, PROGRAMS) if self.kernel.sums else blocks

    @property
    def launches(self) -> int:
        """How many kernels it launches."""
        return 1 if self._totals is None else 2

    def bytes(self) -> int:
        """What it reads and writes, once each."""
        forms, roots = self.forms, self.group.roots
        seen: set[Any] = set()
        total = 0
        for number in (*self.kernel.read, *self.results):
            form = forms[number]
            place = roots.get(number, number), math.prod(form.shape)
            if place in seen:
                continue
            seen.add(place)
            size = math.prod(n for n, s in zip(form.shape, form.strides) if s or n == 1)
            total += size * form.dtype.itemsize
        return total

    def __call__(self, *given: Any) -> Any:
        arrays = given[: self._n_arrays]
        device = arrays[0].device_index
        numbers = [argument(given[i], as_bits) for i, as_bits in self._numbers]
        outs = [
            _C.empty_strided(*made, device) if target is None else given[target]
            for made, target in zip(self._made, self._written)
        ]
        parts: Sequence[Any] = ()
        if self._totals is not None:
            parts = self._totals.parts(device)
        marks: Sequence[Any] = ()
        if self.kernel.marks is not None:
            name, dim, size = self.kernel.marks
            marks = errors.mark(device, name, _OUTSIDE, (dim, size))
        self.launch(self._grid, *arrays, *numbers, *outs, *parts, *marks, **self.options)
        if self._totals is not None:
            outs += self._totals(parts, device)
        return outs[0] if len(outs) == 1 else tuple(outs)


class _Totals:
    """The second kernel of reductions to one number, of what each program has left."""

    def __init__(self, group: Group, totals: Sequence[int], programs: int) -> None:
        forms = [group.forms[number] for number in totals]
        self.made = [(form.shape, form.strides, form.dtype) for form in forms]
        self.kept = [((programs,), held(form.dtype)) for form in forms]
        self.launch = written_kernel(_total([group.made[n] for n in totals], programs))
        self.options = {"WIDTH": max(4, 1 << (programs - 1).bit_length()), "num_warps": 4}

    def parts(self, device: int) -> list[Any]:
        """Where programs leave what they have."""
        return [_C.empty(shape, kind, device) for shape, kind in self.kept]

    def __call__(self, parts: Sequence[Any], device: int) -> list[Any]:
        outs = [_C.empty_strided(*made, device) for made in self.made]
        self.launch((1,), *parts, *outs, **self.options)
        return outs


def _total(definitions: Sequence[Definition], programs: int) -> str:
    lines, used = [], set()
    for i, d in enumerate(definitions):
        how, count = d.what
        used.add(f"row_{how}")
        more = f", {count}" if how == "mean" else "" if how == "sum" else f", {identity(d)}"
        lines.append(f"part_{i} = tl.load(sum{i}_ptr + col, mask=mask, other=0)")
        lines.append(f"total_{i} = row_{how}(part_{i}, mask{more})")
        lines.append(
            f"tl.store(y{i}_ptr + tl.zeros([1, 1], tl.int32), "
            f"convert(total_{i}, {type_text(d.dtype)}))"
        )
    n = len(definitions)
    parameters = [f"sum{i}_ptr" for i in range(n)] + [f"y{i}_ptr" for i in range(n)]
    return _TOTAL.format(
        parameters=", ".join(parameters), programs=programs, used=", ".join(sorted(used)),
        lines="\n".join(f"    {line}" for line in lines),
    )  # fmt: skip


class Left(NamedTuple):
    """What programs have left of sums of columns, for a second kernel to add up."""

    parts: tuple[int, ...]  # values
    sums: tuple[int, ...]
    programs: int
    columns: int
    is_most: bool = False  # there may be fewer programs: as many as the parts have rows


def left_of(
    sums: Sequence[int], programs: int, columns: int, forms: list[Form], is_most: bool = False
) -> Left:
    """What programs leave of sums; their forms are added."""
    first = len(forms)
    for number in sums:
        kind = held(forms[number].dtype)
        forms.append(Form(_C.Array, (programs, columns), kind, (columns, 1)))
    return Left(tuple(range(first, len(forms))), tuple(sums), programs, columns, is_most)


class AddUp:
    """The second kernel of sums of columns: it adds up what programs of several kernels have left,
    each in their order."""

    name = "fused_add_up"

    def __init__(self, left: Sequence[Left], forms: Sequence[Form]) -> None:
        self.inputs = tuple(number for each in left for number in each.parts)
        self.results = tuple(number for each in left for number in each.sums)
        made = [forms[number] for number in self.results]
        self._made = [(form.shape, form.strides, form.dtype) for form in made]
        self._sizes = [forms[n] for n in (*self.inputs, *self.results)]
        self.source, programs = _add_up(left, [form.dtype for form in made])
        self._grid = (programs,)
        firsts = [self.inputs.index(each.parts[0]) for each in left if each.is_most]
        self._counted = firsts
        self.launch = written_kernel(self.source)

    def bytes(self) -> int:
        """What it reads and writes, once each."""
        return sum(math.prod(form.shape) * form.dtype.itemsize for form in self._sizes)

    def __call__(self, *parts: Any) -> Any:
        device = parts[0].device_index
        outs = [_C.empty_strided(*made, device) for made in self._made]
        counts = [parts[i].shape[0] for i in self._counted]
        self.launch(self._grid, *parts, *outs, *counts, num_warps=4)
        return outs[0] if len(outs) == 1 else tuple(outs)


def _add_up(left: Sequence[Left], kinds: Sequence[Any]) -> tuple[str, int]:
    """The source, and how many programs it is for."""
    lines: list[str] = []
    counts: list[str] = []
    first = at = 0
    for each in left:
        programs = str(each.programs)
        if each.is_most:
            programs = f"n{len(counts)}"
            counts.append(programs)
        rows = 1 << (each.programs - 1).bit_length()
        width = min(max(16, 1 << (each.columns - 1).bit_length()), max(16, 4096 // rows))
        after = first + -(-each.columns // width)
        lines += [
            f"if (block >= {first}) & (block < {after}):",
            f"    row = tl.arange(0, {rows})[:, None]",
            f"    col = (block - {first}) * {width} + tl.arange(0, {width})[None, :]",
            f"    mask = (row < {programs}) & (col < {each.columns})",
        ]
        for i in range(at, at + len(each.sums)):
            place = f"row * {each.columns} + col"
            total = f"convert(column_sum(part_{i}), {type_text(kinds[i])})"
            lines += [
                f"    part_{i} = tl.load(sum{i}_ptr + {place}, mask=mask, other=0)",
                f"    tl.store(y{i}_ptr + col, {total}, mask=col < {each.columns})",
            ]
        first, at = after, at + len(each.sums)
    parameters = [f"{name}{i}_ptr" for name in ("sum", "y") for i in range(at)]
    source = _ADD_UP.format(
        decorator=f"@triton.jit(do_not_specialize={counts})" if counts else "@triton.jit",
        parameters=", ".join([*parameters, *counts]),
        lines="\n".join(f"    {line}" for line in lines),
    )  # fmt: skip
    return source, first


_TOTAL = """import triton
import triton.language as tl

from tritorch.kernels.copy import convert
from tritorch.kernels.fused import {used}


@triton.jit
def fused_total({parameters}, WIDTH: tl.constexpr):
    col = tl.arange(0, WIDTH)[None, :]
    mask = col < {programs}
{lines}
"""
_ADD_UP = """import triton
import triton.language as tl

from tritorch.kernels.copy import convert
from tritorch.kernels.fused import column_sum


{decorator}
def fused_add_up({parameters}):
    block = tl.program_id(0)
{lines}
"""
