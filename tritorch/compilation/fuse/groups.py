"""A group: definitions that one kernel computes."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence

from tritorch.compilation.follow.tape import Form, Value
from tritorch.compilation.fuse import spaces
from tritorch.compilation.fuse.definitions import Definition, Kind, is_of_blocks

WIDEST = 1 << 14  # columns of a row that a program holds
LONG = 4  # times so many columns are gone through by one program, however few rows there are
MANY = 64  # rows whose programs keep a GPU busy, however many columns each goes through
MOST_INPUTS = 24
MOST_OUTPUTS = 64
_HOLDING = (Kind.REDUCE, Kind.SCAN, Kind.COLUMN)
_SUMS = (Kind.COLUMN, Kind.TOTAL)  # known when the kernel is done
_SPREAD = (Kind.MAP, Kind.CAST, Kind.IOTA, Kind.FILL)
_IN_PLACE = (Kind.MAP, Kind.CAST, Kind.STORE, Kind.DROP)
_STRAIGHT = (Kind.MAP, Kind.CAST, Kind.STORE, Kind.FILL)


class Group:
    """Definitions in one space, and the positions of each value of them in it."""

    def __init__(
        self, definitions: Sequence[Definition], rows: int, forms: Sequence[Form],
        roots: Mapping[int, int],
    ) -> None:  # fmt: skip
        """roots: of views that begin where an array does, that array."""
        self.definitions = list(definitions)
        self.rows, self.forms, self.roots = rows, forms, roots
        self.made = {d.result: d for d in self.definitions}
        self.columns = 1  # of what is stored or reduced
        self.left: list[Definition] = []  # sums of columns of which a product's tiles leave parts

    @property
    def holds(self) -> bool:
        """True if a program holds rows as a whole."""
        return self.rows > 1 or any(d.kind in _HOLDING for d in self.definitions)

    @property
    def has_totals(self) -> bool:
        """True if elements are reduced to one number in two kernels."""
        return any(d.kind == Kind.TOTAL for d in self.definitions)

    @property
    def loops(self) -> bool:
        """True if a program goes through a row in parts."""
        return self.holds and self.columns > WIDEST

    @functools.cached_property
    def inputs(self) -> list[int]:
        """The values that it reads and does not make."""
        given = [n for d in self.definitions for n in d.reads if n not in self.made]
        return list(dict.fromkeys(self.roots.get(n, n) for n in given))

    @property
    def has_device(self) -> bool:
        """True if an array says on which device it is computed."""
        return any(self.forms[n].kind is not int for n in self.inputs)

    def outputs(self, read: Iterable[int]) -> list[int]:
        """The values that others read."""
        wanted = set(read)
        return [d.result for d in self.definitions if d.result in wanted]

    def fits(self, read: Iterable[int]) -> bool:
        """True if a kernel can compute it; read: values that it must store."""
        stored = [self.made[n] for n in self.outputs(read)]
        if len(self.inputs) > MOST_INPUTS or len(stored) > MOST_OUTPUTS:
            return False
        maps = [d for d in self.definitions if d.kind == Kind.MAP]
        if self.holds and any(is_of_blocks(d.params[0]) for d in maps):
            return False
        if not self._writes_what_it_reads_in_place():
            return False
        return all(self._lies(d) for d in self.definitions) and self._ends(stored)

    @property
    def targets(self) -> dict[int, int]:
        """The arrays that it writes, by the results of its stores."""
        return {d.result: d.params for d in self.definitions if d.kind == Kind.STORE}

    def _writes_what_it_reads_in_place(self) -> bool:
        """True if each element of an array that it writes is read only by the definition that
        writes it."""
        targets = self.targets
        if self.holds and targets:
            return False
        for target in targets.values():
            of: set[int] = {target}
            for d in self.definitions:
                if of.isdisjoint(self.roots.get(n, n) for n in d.reads):
                    continue
                of.add(d.result)
                if d.kind not in _STRAIGHT or d.shape != self.forms[target].shape:
                    return False
        return True

    def unfit(self, read: Iterable[int]) -> list[int]:
        """The values that it must store and that do not have its columns."""
        reduced = [self._wide(self.forms[d.operands[0].number].shape) for d in self._holding]
        stored = {n: self._wide(self.made[n].shape) for n in self.outputs(read)
                  if self.made[n].kind not in _SUMS}  # fmt: skip
        columns = max(reduced or stored.values(), default=1)
        return [n for n, wide in stored.items() if wide not in (1, columns)]

    def _wide(self, shape: tuple[int, ...]) -> int:
        return spaces.columns(shape, self.rows) or -1

    @property
    def _holding(self) -> list[Definition]:
        return [d for d in self.definitions if d.kind in _HOLDING or d.kind in _SUMS]

    def _lies(self, d: Definition) -> bool:
        if d.kind != Kind.COLUMN and spaces.columns(d.shape, self.rows) is None:
            return d.kind in _SPREAD  # for each that reads it, in that one's shape
        return all(self._reaches(d, i) for i, x in enumerate(d.operands) if type(x) is Value)

    def _reaches(self, d: Definition, i: int) -> bool:
        """True if a definition finds the elements of an operand."""
        number, rows = d.operands[i].number, self.rows
        form, inside = self.forms[number], self.made.get(number)
        if form.kind is int:
            return True
        if inside is not None and inside.kind in _SUMS:
            return False
        if number in self._fixed and not self._reads_in_place(d, form.shape):
            return False
        at = spaces.split(form.shape, rows)
        if d.kind in _HOLDING or d.kind in _SUMS:
            count = rows if d.kind == Kind.COLUMN else math.prod(form.shape) // d.params[1]
            return spaces.columns(form.shape, rows) is not None and count == rows
        if d.kind in (Kind.CAT, Kind.EMBED):
            dim = d.params if d.kind == Kind.CAT else d.params[0]
            return at is not None and at == spaces.split(d.shape, rows) and dim >= at
        if d.kind == Kind.ROWS:
            return inside is None if i == 0 else at is not None and self._tables(d)
        if d.kind == Kind.PICK:
            return rows > 1 and at is not None and (i == 0 or spaces.columns(form.shape, rows) == 1)
        if d.kind == Kind.VIEW:
            offset, strides = d.params
            return inside is not None and (
                spaces.seen(form.shape, d.shape, strides, offset, rows) is not None
            )
        return self._spreads(number, d.shape)

    @functools.cached_property
    def _fixed(self) -> set[int]:
        """The values whose elements are known where a row has them, and nowhere else: scans, and
        values computed from those."""
        found: set[int] = set()
        for d in self.definitions:
            if d.kind == Kind.SCAN or (d.kind != Kind.REDUCE and not found.isdisjoint(d.reads)):
                found.add(d.result)
        return found

    def _reads_in_place(self, d: Definition, shape: tuple[int, ...]) -> bool:
        """True if each element of a definition is computed from the operand's element in its own
        position, or from whole rows."""
        if d.kind in _IN_PLACE:
            along = spaces.own(shape, d.shape, self.rows)
        elif d.kind == Kind.VIEW:
            offset, strides = d.params
            along = spaces.seen(shape, d.shape, strides, offset, self.rows)
        else:
            return d.kind in _HOLDING
        columns = spaces.columns(d.shape, self.rows)
        return along is not None and along.is_same and along.size == columns

    def _spreads(self, number: int, shape: tuple[int, ...]) -> bool:
        """True if a value is found for the positions of a shape that it broadcasts to."""
        form, inside = self.forms[number], self.made.get(number)
        if form.kind is int:
            return True
        if inside is None:
            return spaces.outside(form.shape, form.strides, shape, self.rows) is not None
        if spaces.own(form.shape, shape, self.rows) is not None:
            return True
        return inside.kind in _SPREAD and all(self._spreads(n, shape) for n in inside.reads)

    def _tables(self, d: Definition) -> bool:
        """True if rows of a table are whole in the columns."""
        found = spaces.columns(d.shape, self.rows)
        return found is not None and found % d.shape[-1] == 0

    def _ends(self, stored: Sequence[Definition]) -> bool:
        """True if all operands of reductions have the columns of the group, and all stored values
        those or one."""
        reduced = {self._wide(self.forms[d.operands[0].number].shape) for d in self._holding}
        wide = {self._wide(d.shape) for d in stored if d.kind not in _SUMS} - {1} | reduced
        self.columns = max(wide, default=1)
        if len(wide) > 1 or -1 in wide:
            return False
        if self.holds and self.has_totals:
            return False
        return not self.loops or (
            all(d.kind not in (Kind.COLUMN, Kind.SCAN) for d in self.definitions)
            and (self.columns <= LONG * WIDEST or self.rows >= MANY)
        )
