"""The source of a group's kernel: Triton as a person would write it.

Without reductions a program computes BLOCK elements (`at`); else ROWS rows (`row`) of all columns
(`col`, in a tile of WIDTH).  Sums of columns are made by as many programs as there are, each of
which goes through rows, and are added up by a second kernel; so are reductions of all elements.
Rows that no program holds are gone through in `looping.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tritorch.compilation.fuse import spaces
from tritorch.compilation.fuse.definitions import Definition, Kind
from tritorch.compilation.fuse.elements import Elements
from tritorch.compilation.fuse.groups import Group
from tritorch.compilation.fuse.words import ADDED, Written, held, identity, number_text, type_text
from tritorch.triton import sources as kernel_sources


def epilogue(group: Group, read: set[int], product: int, result: int, exact: bool) -> Written:
    """The epilogue of a product, for its kernel: `WrittenEpilogue` of `gpu/linalg/matmul.py`.

    result: the value that the kernel gives in the product's place; others of `read`, and the
    product itself if it is one of them, are stored too."""
    return Source(group, exact, product).epilogue(read, result)


def prologue(group: Group, operand: int, exact: bool) -> Written:
    """The prologue of a product, which computes an operand in its kernel: `Prologue` of
    `gpu/linalg/matmul.py`."""
    return Source(group, exact, tiled=True).prologue(operand)


class Source(Elements):
    """The lines of a kernel, as they are written."""

    def written(self, outputs: Sequence[int]) -> Written:
        group = self.group
        sums = [n for n in outputs if group.made[n].kind in (Kind.COLUMN, Kind.TOTAL)]
        stores = [n for n in outputs if n not in sums]
        if group.targets:  # all is read before something is overwritten
            for number in stores:
                self.computed(group.made[number], self.position)
        for i, number in enumerate(stores):
            self.stored(group.made[number], f"y{i}_ptr")
        for i, number in enumerate(sums):
            d = group.made[number]
            tile = self.tile(d, held(d.dtype))
            if d.kind == Kind.TOTAL:
                self.add(f"sum{i} = {self.combined(d, f'sum{i}', tile, 'mask')}")
                continue
            self.function("column_sum", "fused")
            mask = self.position.row_mask or "None"
            self.add(f"sum{i} += {self.function('whole_row', 'fused')}({tile}, {mask}, 0)")
        return self._assembled(stores, sums)

    def combined(self, d: Definition, part: str, tile: str, mask: str) -> str:
        """The text of a part of a reduction combined with one more tile."""
        how, _ = d.params
        whole = f"{self.function('whole_row', 'fused')}({tile}, {mask}, {identity(d)})"
        if how in ADDED:
            return f"{part} + {whole}"
        return f"{self.function(how, 'reduction')}({part}, {whole})"

    def epilogue(self, read: set[int], result: int) -> Written:
        """A function of an element of the product."""
        group = self.group
        stored_too = [n for n in group.outputs(read) if n != result]
        stored_too += [self.product] if self.product in read else []
        for i, number in enumerate(stored_too):
            if number == self.product:
                at = self.position_in(f"y{i}_ptr", number)
                kind = type_text(self.forms[number].dtype)
                self.add(f"tl.store({at}, convert(acc, {kind}), mask=row_mask & col_mask)")
                self.function("convert", "copy")
            else:
                self.stored(group.made[number], f"y{i}_ptr")
        word = self.computed(group.made[result], self.position)
        made = self.said(word, held(self.forms[result].dtype))
        for i, d in enumerate(group.left):
            call = self.function("leave_column_sums", "fused")
            tile = self.tile(d, held(d.dtype))
            self.add(f"{call}(sum{i}_ptr, {tile}, row, col, row_mask, col_mask, {group.columns})")
        pointers = [*self.arrays.values(), *(f"y{i}_ptr" for i in range(len(stored_too)))]
        pointers += [f"sum{i}_ptr" for i in range(len(group.left))]
        head = [f"{name} = extra[{10 + i}]" for i, name in enumerate(pointers)]
        lines = "\n".join(f"    {line}" for line in (*head, *self.lines, f"return {made}"))
        name = self.named()
        # `ROW` and `COL` are put in their order by the launcher.
        parameters = "acc, ROW, COL, ROW_mask, COL_mask, extra" if pointers else "acc"
        source = _FUNCTION.format(
            imports=self.imports(), name=name, parameters=parameters, lines=lines
        )
        return Written(
            source, name, tuple(self.arrays), tuple(self.read), tuple(self.numbers),
            (result, *stored_too), (), self.marks,
        )  # fmt: skip

    def prologue(self, operand: int) -> Written:
        """A function of a position in the operand."""
        d = self.group.made[operand]
        kind, word = self.forms[operand].dtype, self.computed(d, self.position)
        self.function("convert", "copy")
        made = f"convert({word.text}, {type_text(kind)})"
        self.add(f"return tl.where(row_mask & col_mask, {made}, {number_text(0, kind)})")
        head = [f"{name} = given[{i}]" for i, name in enumerate(self.arrays.values())]
        name = self.named("first")
        source = _FUNCTION.format(
            imports=self.imports(), name=name, parameters="ROW, COL, ROW_mask, COL_mask, given",
            lines="\n".join(f"    {line}" for line in (*head, *self.lines)),
        )  # fmt: skip
        return Written(
            source, name, tuple(self.arrays), tuple(self.read), tuple(self.numbers), (operand,), (),
            self.marks,
        )  # fmt: skip

    def stored(self, d: Definition, pointer: str) -> None:
        """A value, left in memory."""
        form = self.forms[d.result]
        row = self.tiled and spaces.columns(d.shape, self.group.rows) == 1
        position = self.row_position if row else self.position
        word = self.computed(d, position)
        found = spaces.outside(form.shape, form.strides, d.shape, self.group.rows)
        assert found is not None
        by_row, by_col = found
        terms = [pointer]
        if position.row and not by_row.is_still:
            terms.append(by_row.at(position.row))
        if position.col and not by_col.is_still:
            terms.append(by_col.at(position.col))
        rowed, coled = bool(position.row) and self.group.rows > 1, bool(position.col)
        mask = self.masked(position, rowed, coled)
        if not self.tiled and spaces.columns(d.shape, 1) == 1:
            mask = "at < 1"
        at = " + ".join(terms)
        if self.product >= 0:  # a block of the product's shape, even of one row or column
            at = self.position_in(pointer, d.result)
            mask = self.masked(position, True, True)
        elif len(terms) == 1:  # one element: a block of it
            at = f"{at} + tl.zeros([1, 1], tl.int32)" if self.tiled else f"{at} + at"
        options = f", mask={mask}" if mask else ""
        self.function("convert", "copy")
        self.add(f"tl.store({at}, convert({word.text}, {type_text(form.dtype)}){options})")

    def position_in(self, pointer: str, number: int) -> str:
        """The text of a block of positions in an array of a product's rows and columns."""
        form = self.forms[number]
        found = spaces.outside(form.shape, form.strides, form.shape, self.group.rows)
        assert found is not None
        walks = zip(found, ("row", "col"))
        return " + ".join([pointer, *(f"{at} * 0" if walk.is_still else walk.at(at)
                                      for walk, at in walks)])  # fmt: skip

    def named(self, stem: str = "fused") -> str:
        """The kernel's name, of the operators that it computes."""
        given = [d.name.strip("_") for d in self.group.definitions if d.kind != Kind.VIEW]
        joined = "_".join(dict.fromkeys(given))[:60].rstrip("_")
        return f"{stem}_{joined}"

    def imports(self) -> str:
        """The lines by which it has the functions of kernels/."""
        return "".join(
            f"from {kernel_sources.module(file)} import {', '.join(sorted(used))}\n"
            for file, used in sorted(self.used.items())
        )

    def body(self, sums: Sequence[int]) -> list[str]:
        """The kernel's lines: those that were written, and those before and after."""
        rows, cols = self.group.rows, self.group.columns
        if not self.tiled:
            first = "at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"
            if not sums:
                return [first, f"mask = at < {cols}", *self.lines]
            return self._totals(sums)
        head = ["col = tl.arange(0, WIDTH)[None, :]", f"col_mask = col < {cols}"]
        own = ["row = block * ROWS + tl.arange(0, ROWS)[:, None]"]
        own += [f"row_mask = row < {rows}"] * (rows > 1)
        if not sums:
            return [*head, "block = tl.program_id(0)", *own, *self.lines]
        head += [
            f"sum{i} = tl.zeros([ROWS, WIDTH], {type_text(held(self.group.made[n].dtype))})"
            for i, n in enumerate(sums)
        ]
        head.append(f"for block in range(tl.program_id(0), {rows} // ROWS + "
                    f"({rows} % ROWS > 0), tl.num_programs(0)):")  # fmt: skip
        return [
            *head,
            *(f"    {line}" for line in (*own, *self.lines)),
            *(f"tl.store(sum{i}_ptr + tl.program_id(0) * {cols} + col, column_sum(sum{i}), "
              "mask=col_mask)"
              for i in range(len(sums))),
        ]  # fmt: skip

    def _totals(self, sums: Sequence[int]) -> list[str]:
        """The lines, for each block of a program, and the parts that it leaves of them."""
        cols, wanted = self.group.columns, [self.group.made[n] for n in sums]
        ends = [self.function(f"all_{'sum' if d.params[0] in ADDED else d.params[0]}", "fused")
                for d in wanted]  # fmt: skip
        return [
            *(f"sum{i} = tl.full([BLOCK], {identity(d)}, {type_text(held(d.dtype))})"
              for i, d in enumerate(wanted)),
            f"for block in range(tl.program_id(0), {cols} // BLOCK + ({cols} % BLOCK > 0), "
            "tl.num_programs(0)):",
            "    at = block * BLOCK + tl.arange(0, BLOCK)",
            f"    mask = at < {cols}",
            *(f"    {line}" for line in self.lines),
            *(f"tl.store(sum{i}_ptr + tl.program_id(0), {end}(sum{i}))"
              for i, end in enumerate(ends)),
        ]  # fmt: skip

    def _assembled(self, stores: Sequence[int], sums: Sequence[int]) -> Written:
        body = self.body(sums)
        parameters = [*self.arrays.values(), *self.numbers.values()]
        parameters += [f"y{i}_ptr" for i in range(len(stores))]
        parameters += [f"sum{i}_ptr" for i in range(len(sums))]
        parameters += ["flag_ptr", "launch"] if self.marks else []
        constants = ("ROWS", "WIDTH") if self.tiled else ("BLOCK",)
        parameters += [f"{name}: tl.constexpr" for name in constants]
        name = self.named()
        free = [*self.numbers.values(), *(["launch"] if self.marks else [])]
        decorator = f"@triton.jit(do_not_specialize={free})" if free else "@triton.jit"
        source = _TEMPLATE.format(
            imports=self.imports(), decorator=decorator, name=name,
            parameters=",\n".join(f"    {p}" for p in parameters),
            lines="\n".join(f"    {line}" for line in body),
        )  # fmt: skip
        return Written(
            source, name, tuple(self.arrays), tuple(self.read), tuple(self.numbers), tuple(stores),
            tuple(sums), self.marks,
        )  # fmt: skip


_FUNCTION = """import triton
import triton.language as tl

{imports}

@triton.jit
def {name}({parameters}):
{lines}
"""
_TEMPLATE = """import triton
import triton.language as tl

{imports}

{decorator}
def {name}(
{parameters},
):
{lines}
"""
