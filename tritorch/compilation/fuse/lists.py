"""Horizontal fusion: groups that compute the same of arrays of other sizes, as one kernel and one
launch.

As eager's functions of lists do (`kernels/foreach.py`), it finds the arrays by a table of their
addresses: a program computes a chunk of one row of the table, which is one group's arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.compilation.follow.tape import Form, Value
from tritorch.compilation.fuse.definitions import Kind, is_dense_row_major
from tritorch.compilation.fuse.groups import Group
from tritorch.compilation.fuse.kernels import FIELDS, Launched, Layout, argument, is_long
from tritorch.compilation.fuse.orders import in_order_of_memory
from tritorch.compilation.fuse.words import Written, type_text
from tritorch.compilation.fuse.writing import Source
from tritorch.gpu.lists.multi_tensor import table

FEW = 4  # groups from which a table pays
_KINDS = (Kind.MAP, Kind.CAST, Kind.STORE, Kind.FILL)


class Program(NamedTuple):
    """The computation of a group, whatever its size, and the arrays that it reads."""

    key: tuple[Any, ...]
    arrays: tuple[int, ...]


def program_of(group: Group, outputs: Sequence[int]) -> Program | None:
    """The computation of a group on each element of arrays of one shape, and of arrays of one
    element; None if it does anything else."""
    if group.holds or not outputs or any(d.kind not in _KINDS for d in group.definitions):
        return None
    group = in_order_of_memory(group, outputs)
    forms, shape = group.forms, group.made[outputs[0]].shape
    if not all(_is_whole(forms[n], shape) for n in outputs):
        return None
    arrays: dict[int, None] = {}
    indices = {d.result: i for i, d in enumerate(group.definitions)}
    lines = []
    for d in group.definitions:
        operands: list[Any] = []
        for x in d.operands:
            if type(x) is not Value or forms[x.number].kind is int:
                operands.append((type(x), repr(x)))
                continue
            form, whole = forms[x.number], forms[x.number].shape == shape
            if not whole and math.prod(form.shape) > 1:
                return None
            if x.number in indices:
                operands.append((indices[x.number], whole))
                continue
            if whole and not is_dense_row_major(form):
                return None
            arrays[group.roots.get(x.number, x.number)] = None
            which = [*arrays].index(group.roots.get(x.number, x.number))
            operands.append(("array", which, form.dtype, whole))
        if d.shape != shape and math.prod(d.shape) > 1:
            return None
        params = d.params if d.kind == Kind.MAP else repr(d.params) if d.kind == Kind.FILL else None
        lines.append((d.kind, d.name, params, d.dtype, d.shape == shape, d.result in outputs,
                      *operands))  # fmt: skip
    return Program(tuple(lines), tuple(arrays)) if arrays else None


def _is_whole(form: Form, shape: tuple[int, ...]) -> bool:
    return form.shape == shape and is_dense_row_major(form)


class Listed(Source):
    """The lines of a kernel that computes a block of elements of a row of a table.

    masked: of those that exist; else all do, and accesses are wide."""

    def __init__(self, group: Group, exact: bool, masked: bool) -> None:
        super().__init__(group, exact)
        self.position = self.position._replace(col_mask="mask" if masked else "")


def _written(group: Group, outputs: Sequence[int], exact: bool) -> Written:
    """The kernel of a group, for all that compute the same."""
    whole, rest = (Listed(group, exact, masked) for masked in (False, True))
    for block in (whole, rest):
        for number in outputs:
            # All is read before it is overwritten.
            block.computed(group.made[number], block.position)
        for i, number in enumerate(outputs):
            block.stored(group.made[number], f"y{i}_ptr")
        block.function("chunk_of", "optim")
        block.function("address", "optim")
    forms = [group.forms[n] for n in (*outputs, *whole.arrays)]
    names = [*(f"y{i}_ptr" for i in range(len(outputs))), *whole.arrays.values()]
    head = [
        f"{name} = address(table_ptr, row, {2 + i}, {type_text(form.dtype)}, ALIGNED, WIDTH)"
        for i, (name, form) in enumerate(zip(names, forms))
    ]
    numbers = [*whole.numbers.values()]
    name = whole.named("fused_list")
    source = _LIST.format(
        imports=whole.imports(), name=name, numbers="".join(f"{n}, " for n in numbers),
        decorator=f"@triton.jit(do_not_specialize={numbers})" if numbers else "@triton.jit",
        head="\n".join(f"    {line}" for line in head),
        whole="\n".join(f"        {line}" for line in whole.lines),
        rest="\n".join(f"        {line}" for line in rest.lines),
    )  # fmt: skip
    return Written(source, name, tuple(whole.arrays), tuple(whole.read), tuple(whole.numbers),
                   tuple(outputs), (), None)  # fmt: skip


class FusedList(Launched):
    """The kernel of several groups, as a function of their arrays and of numbers."""

    plain = (*FIELDS, "_options", "_rows", "_numbers", "_block")

    def __init__(self, groups: Sequence[Group], read: set[int], exact: bool) -> None:
        outputs = [group.outputs(read) for group in groups]
        ordered = [in_order_of_memory(*each) for each in zip(groups, outputs)]
        # Positions in an array of one element are not told from those of an array of several.
        first = max(range(len(groups)), key=lambda i: ordered[i].columns > 1)
        kernel = _written(ordered[first], outputs[first], exact)
        self.name, self.source = kernel.name, kernel.source
        programs = [program_of(*each) for each in zip(groups, outputs)]
        arrays = [program.arrays for program in programs if program is not None]
        order = [arrays[first].index(number) for number in kernel.arrays]
        read_by = [[known[position] for position in order] for known in arrays]
        rows = [*zip(groups, outputs, read_by)]
        given = [
            number for group, numbers, own in rows
            for number in (*own, *(group.targets[n] for n in numbers if n in group.targets))
        ]  # fmt: skip
        self._rows: tuple[Any, ...] = tuple(_row(*row) for row in rows)
        self.moved = sum(_bytes(*row) for row in rows)
        self.elements = sum(math.prod(d.shape) for group in groups for d in group.definitions)
        self._numbers = tuple((len(given) + i, n.as_bits) for i, n in enumerate(kernel.numbers))
        self.inputs = (*given, *(n.value for n in kernel.numbers))
        self.results = tuple(number for numbers in outputs for number in numbers)
        self._options = (("enable_fp_fusion", False),) * exact
        self._block = 256 if is_long(groups[first]) else 1024
        self.load()

    def load(self) -> None:
        super().load()
        self._rows = tuple(_Row(*row) for row in self._rows)

    def __call__(self, *given: Any) -> Any:
        rows, at = [], 0
        for row in self._rows:
            rows.append(row.of(given[at : at + row.given]))
            at += row.given
        found = table(rows)
        numbers = [argument(given[i], as_bits) for i, as_bits in self._numbers]
        self.launch(
            (found.programs,), found.rows, found.chunks, *numbers, WIDTH=2 + len(rows[0]),
            ALIGNED=found.aligned, CHUNK=found.chunk, BLOCK=min(self._block, found.block),
            num_warps=4, **dict(self._options),
        )  # fmt: skip
        outs = len(self.results) // len(rows)
        return tuple(array for row in rows for array in row[:outs])


class _Row(NamedTuple):
    """A group's part of a table: the arrays that it makes or writes, then those that it reads."""

    read: int  # arrays
    given: int  # of those, and of arrays that it writes
    made: tuple[Layout | None, ...]  # of each result: how it lies; None of one that it writes

    def of(self, arrays: Sequence[Any]) -> list[Any]:
        """The row, of arrays that are read and then those that are written."""
        written = iter(arrays[self.read :])
        device = arrays[0].device_index
        made = [
            next(written) if each is None else _C.empty_strided(*each, device) for each in self.made
        ]
        return [*made, *arrays[: self.read]]


def _row(group: Group, outputs: Sequence[int], arrays: Sequence[int]) -> _Row:
    targets = group.targets
    made = tuple(
        None if n in targets else (form.shape, form.strides, form.dtype)
        for n, form in ((n, group.forms[n]) for n in outputs)
    )
    return _Row(len(arrays), len(arrays) + sum(each is None for each in made), made)


def _bytes(group: Group, outputs: Sequence[int], arrays: Sequence[int]) -> int:
    forms = [group.forms[n] for n in (*outputs, *arrays)]
    return sum(math.prod(form.shape) * form.dtype.itemsize for form in forms)


_LIST = """import triton
import triton.language as tl

{imports}

{decorator}
def {name}(
    table_ptr, chunks_ptr, {numbers}WIDTH: tl.constexpr, ALIGNED: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):
    row, begin, end = chunk_of(table_ptr, chunks_ptr, WIDTH, CHUNK)
{head}
    full = begin + (end - begin) // BLOCK * BLOCK
    for start in range(begin, full, BLOCK):
        at = start + tl.arange(0, BLOCK)
{whole}
    if full < end:
        at = full + tl.arange(0, BLOCK)
        mask = at < end
{rest}
"""
