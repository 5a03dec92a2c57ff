"""Launches of kernels that were written for a group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from tritorch import _C
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.compilation.fuse.definitions import Definition, Kind
from tritorch.compilation.fuse.groups import Group
from tritorch.compilation.fuse.looping import Looped
from tritorch.compilation.fuse.orders import in_order_of_memory
from tritorch.compilation.fuse.words import Written, held, identity, type_text
from tritorch.compilation.fuse.writing import Source
from tritorch.compilation.plan.lowering import Lowered
from tritorch.gpu import errors
from tritorch.gpu.pointwise.layout import LONG, block_size, float_bits
from tritorch.gpu.random.random import signed
from tritorch.triton.kernel import written_kernel

_OUTSIDE = "index {value} is out of bounds for dimension {0} with size {1}"
ELEMENTS = 2048  # of a program that holds rows
PART = 4096  # columns of a row that a program holds at a time, of those that are too long
PROGRAMS = 256  # that sum columns, at most
PROGRAMS_OF_ALL = 1024  # that reduce all elements, at most


def is_long(group: Group) -> bool:
    """True if a thread computes few elements: of long functions."""
    return any(d.kind == Kind.MAP and d.params[0] in LONG for d in group.definitions)


def argument(number: Any, as_bits: bool) -> int:
    """A number as kernels get it: a float's bits or an integer."""
    return float_bits(float(number)) if as_bits else signed(number)


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


class FusedOp:
    """The stand-in for a record where a kernel was written."""

    is_view = False
    kind = "fused"

    def __init__(self, name: str) -> None:
        self.name = name


class Launched:
    """A kernel that was written, as a function of arrays and numbers.

    Its fields are plain data, from which it can be rebuilt: Note [Kept]."""

    plain: ClassVar[tuple[str, ...]] = ()  # the fields that say all
    name: str
    source: str
    inputs: tuple[int, ...]  # values
    results: tuple[int, ...]
    moved: int  # bytes that it reads and writes, once each
    elements: int | None = None  # that it computes of all its definitions
    launches = 1
    origin: tuple[tuple[str, int], ...] = ()  # records' names, and of which calls they are

    def state(self) -> tuple[Any, ...]:
        """The fields that say all."""
        return tuple(getattr(self, name) for name in self.plain)

    @classmethod
    def of(cls, state: Sequence[Any]) -> Launched:
        """The kernel that has such fields."""
        made = cls.__new__(cls)
        for name, value in zip(cls.plain, state, strict=True):
            setattr(made, name, value)
        made.load()
        return made

    def load(self) -> None:
        """Finds the function that is launched."""
        self.launch = written_kernel(self.source)

    def bytes(self) -> int:
        """The bytes that it reads and writes, once each."""
        return self.moved

    def as_call(self) -> Lowered:
        """The call of it."""
        given, several = tuple(map(Value, self.inputs)), len(self.results) > 1
        note = Note(NoteForm.KERNEL, FusedOp(self.name), given, (), self.results, several)
        return Lowered(self, given, self.results, note, False)

    def __call__(self, *given: Any) -> Any:
        raise NotImplementedError


FIELDS = ("name", "source", "inputs", "results", "moved", "elements", "origin")


class Fused(Launched):
    """A group's kernel."""

    plain = (*FIELDS, "_options", "_grid", "_made", "_written", "_n_arrays", "_numbers", "_marks",
             "_second")  # fmt: skip

    def __init__(self, group: Group, read: set[int], exact: bool, forms: list[Form]) -> None:
        """forms: of all values; those of parts of column sums are added."""
        source = Looped if group.loops else Source
        outputs = group.outputs(read)
        ordered = in_order_of_memory(group, outputs)
        kernel: Written = source(ordered, exact).written(outputs)
        self.name, self.source = kernel.name, kernel.source
        numbers = dict.fromkeys(n.value for n in kernel.numbers)
        targets = group.targets
        written = dict.fromkeys(targets[n] for n in kernel.outputs if n in targets)
        self.inputs = (*kernel.arrays, *written, *numbers)
        self.has_device = len(self.inputs) > len(numbers)  # an array says on which device it is
        options: dict[str, Any] = tile(group)
        if exact:
            options["enable_fp_fusion"] = False
        self._options = tuple(options.items())
        indices = {number: i for i, number in enumerate(self.inputs)}
        self._n_arrays, self._marks = len(kernel.arrays), kernel.marks
        self._numbers = tuple((indices[n.value], n.as_bits) for n in kernel.numbers)
        self._grid = (_blocks(group, options, kernel),)
        self._second: tuple[Any, ...] | None = None
        self.left: Left | None = None
        self.results = kernel.outputs
        made = list(kernel.outputs)
        if group.has_totals:
            self._second = _second(group, kernel.sums, self._grid[0])
            self.results += kernel.sums
        elif kernel.sums:
            self.left = left_of(kernel.sums, self._grid[0], group.columns, forms)
            made += self.left.parts
            self.results += self.left.parts
        self._made = tuple(_layout(forms[n]) for n in made)
        self._written = tuple(indices.get(targets.get(n, -1)) for n in made)
        self.elements = sum(math.prod(d.shape) for d in group.definitions)
        self.moved = _moved((*kernel.read, *self.results), group, forms)
        self.load()

    def load(self) -> None:
        super().load()
        self.options = dict(self._options)
        self.totals = None if self._second is None else _Totals(*self._second)

    @property
    def launches(self) -> int:  # type: ignore[override]
        """The number of kernels that it launches."""
        return 1 if self.totals is None else 2

    def __call__(self, *given: Any) -> Any:
        arrays = given[: self._n_arrays]
        device = arrays[0].device_index
        numbers = [argument(given[i], as_bits) for i, as_bits in self._numbers]
        outs = [
            _C.empty_strided(*made, device) if target is None else given[target]
            for made, target in zip(self._made, self._written)
        ]
        parts: Sequence[Any] = ()
        if self.totals is not None:
            parts = self.totals.parts(device)
        marks: Sequence[Any] = ()
        if self._marks is not None:
            name, dim, size = self._marks
            marks = errors.mark(device, name, _OUTSIDE, (dim, size))
        self.launch(self._grid, *arrays, *numbers, *outs, *parts, *marks, **self.options)
        if self.totals is not None:
            outs += self.totals(parts, device)
        return outs[0] if len(outs) == 1 else tuple(outs)


Layout = tuple[Any, Any, Any]  # how an array lies: its shape, strides and dtype


def _layout(form: Form) -> Layout:
    return form.shape, form.strides, form.dtype


def _blocks(group: Group, options: Mapping[str, Any], kernel: Written) -> int:
    """The number of programs that compute a group."""
    if not group.holds:
        blocks = -(-group.columns // options["BLOCK"])
        return min(blocks, PROGRAMS_OF_ALL) if kernel.sums else blocks
    blocks = -(-group.rows // options["ROWS"])
    return min(blocks, PROGRAMS) if kernel.sums else blocks


def _moved(numbers: Sequence[int], group: Group, forms: Sequence[Form]) -> int:
    """The bytes of values, once each."""
    seen: set[Any] = set()
    total = 0
    for number in numbers:
        form = forms[number]
        key = group.roots.get(number, number), math.prod(form.shape)
        if key in seen:
            continue
        seen.add(key)
        size = math.prod(n for n, s in zip(form.shape, form.strides) if s or n == 1)
        total += size * form.dtype.itemsize
    return total


def _second(group: Group, totals: Sequence[int], programs: int) -> tuple[Any, ...]:
    """The fields of the second kernel of reductions to one number."""
    forms = [group.forms[number] for number in totals]
    kept = tuple(((programs,), held(form.dtype)) for form in forms)
    source = _total([group.made[n] for n in totals], programs)
    return source, programs, tuple(map(_layout, forms)), kept


class _Totals:
    """The second kernel of reductions to one number, from the parts that programs have left."""

    def __init__(
        self, source: str, programs: int, made: Sequence[Layout], kept: Sequence[Any]
    ) -> None:
        self.made, self.kept = made, kept
        self.launch = written_kernel(source)
        self.options = {"WIDTH": max(4, 1 << (programs - 1).bit_length()), "num_warps": 4}

    def parts(self, device: int) -> list[Any]:
        """The arrays in which programs leave their parts."""
        return [_C.empty(shape, kind, device) for shape, kind in self.kept]

    def __call__(self, parts: Sequence[Any], device: int) -> list[Any]:
        outs = [_C.empty_strided(*made, device) for made in self.made]
        self.launch((1,), *parts, *outs, **self.options)
        return outs


def _total(definitions: Sequence[Definition], programs: int) -> str:
    lines, used = [], set()
    for i, d in enumerate(definitions):
        how, count = d.params
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
    """The parts of sums of columns that programs have left, for a second kernel to add up."""

    parts: tuple[int, ...]  # values
    sums: tuple[int, ...]
    programs: int
    columns: int
    is_most: bool = False  # there may be fewer programs: as many as the parts have rows


def left_of(
    sums: Sequence[int], programs: int, columns: int, forms: list[Form], is_most: bool = False
) -> Left:
    """The parts that programs leave of sums; their forms are added."""
    first = len(forms)
    for number in sums:
        kind = held(forms[number].dtype)
        forms.append(Form(_C.Array, (programs, columns), kind, (columns, 1)))
    return Left(tuple(range(first, len(forms))), tuple(sums), programs, columns, is_most)


class AddUp(Launched):
    """The second kernel of sums of columns: it adds up the parts that programs of several kernels
    have left, each in their order."""

    plain = (*FIELDS, "_grid", "_made", "_counted")
    name = "fused_add_up"

    def __init__(self, left: Sequence[Left], forms: Sequence[Form]) -> None:
        self.inputs = tuple(number for each in left for number in each.parts)
        self.results = tuple(number for each in left for number in each.sums)
        made = [forms[number] for number in self.results]
        self._made = tuple(_layout(form) for form in made)
        sizes = [*(forms[n] for n in self.inputs), *made]
        self.moved = sum(math.prod(form.shape) * form.dtype.itemsize for form in sizes)
        self.source, programs = _add_up(left, [form.dtype for form in made])
        self._grid = (programs,)
        self._counted = tuple(self.inputs.index(each.parts[0]) for each in left if each.is_most)
        self.load()

    def __call__(self, *parts: Any) -> Any:
        device = parts[0].device_index
        outs = [_C.empty_strided(*made, device) for made in self._made]
        counts = [parts[i].shape[0] for i in self._counted]
        self.launch(self._grid, *parts, *outs, *counts, num_warps=4)
        return outs[0] if len(outs) == 1 else tuple(outs)


MOST_PARAMETERS = 120  # of a kernel that adds up


def portions(left: Sequence[Left]) -> list[list[Left]]:
    """The parts that programs have left, as much at a time as one kernel has parameters for."""
    found: list[list[Left]] = []
    free = 0
    for each in left:
        needed = 2 * len(each.sums) + each.is_most
        if needed > free:
            found.append([])
            free = MOST_PARAMETERS
        found[-1].append(each)
        free -= needed
    return found


def _add_up(left: Sequence[Left], kinds: Sequence[Any]) -> tuple[str, int]:
    """The source, and the number of its programs.  Sums of a size have one text, for the arrays of
    which a program takes its own."""
    alike: dict[Any, list[tuple[int, str]]] = {}
    counts: list[str] = []
    at = 0
    for each in left:
        programs = str(each.programs)
        if each.is_most:
            programs = f"n{len(counts)}"
            counts.append(programs)
        for i in range(at, at + len(each.sums)):
            size = each.programs, each.columns, each.is_most, kinds[i]
            alike.setdefault(size, []).append((i, programs))
        at += len(each.sums)
    lines: list[str] = []
    first = 0
    for (most, columns, _, kind), sums in alike.items():
        rows = 1 << (most - 1).bit_length()
        width = min(max(16, 1 << (columns - 1).bit_length()), max(16, 4096 // rows))
        blocks = -(-columns // width)
        lines += [
            f"if (block >= {first}) & (block < {first + blocks * len(sums)}):",
            *(f"    {line}" for line in _own(sums, f"(block - {first}) // {blocks}")),
            f"    row = tl.arange(0, {rows})[:, None]",
            f"    col = (block - {first}) % {blocks} * {width} + tl.arange(0, {width})[None, :]",
            f"    mask = (row < programs) & (col < {columns})",
            f"    part = tl.load(parts + row * {columns} + col, mask=mask, other=0)",
            f"    total = convert(column_sum(part), {type_text(kind)})",
            f"    tl.store(out + col, total, mask=col < {columns})",
        ]
        first += blocks * len(sums)
    parameters = [f"{name}{i}_ptr" for name in ("sum", "y") for i in range(at)]
    source = _ADD_UP.format(
        decorator=f"@triton.jit(do_not_specialize={counts})" if counts else "@triton.jit",
        parameters=", ".join([*parameters, *counts]),
        lines="\n".join(f"    {line}" for line in lines),
    )  # fmt: skip
    return source, first


def _own(sums: Sequence[tuple[int, str]], which: str) -> list[str]:
    """The lines by which a program takes its arrays."""
    (i, programs), *others = sums
    lines = [f"parts, out, programs = sum{i}_ptr, y{i}_ptr, {programs}"]
    if others:
        lines.append(f"own = {which}")
    for position, (i, programs) in enumerate(others, 1):
        lines.append(f"parts = tl.where(own == {position}, sum{i}_ptr, parts)")
        lines.append(f"out = tl.where(own == {position}, y{i}_ptr, out)")
        if not programs.isdecimal():
            lines.append(f"programs = tl.where(own == {position}, {programs}, programs)")
    return lines


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
