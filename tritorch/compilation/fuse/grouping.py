"""Grouping: the choice of definitions that become one kernel.

Each joins the kernels that make its operands, as far as all then share a space and no other call
stands between: the operands of a kernel are there before it starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tritorch.compilation.follow.tape import Form, Value
from tritorch.compilation.fuse.definitions import Definition, Kind, is_dense_row_major
from tritorch.compilation.fuse.epilogues import (
    ProloguePart,
    epilogue_of,
    epilogue_of_convolution,
    is_turned,
    prologue_of,
)
from tritorch.compilation.fuse.groups import Group
from tritorch.compilation.fuse.lists import FEW, program_of

MOST = 96  # definitions of a kernel


class Item(NamedTuple):
    """A call, or a part of one."""

    reads: tuple[int, ...]
    results: tuple[int, ...]
    definition: Definition | None
    origin: int  # the call that it is, or is a part of
    after: tuple[int, ...] = ()  # values that it does not read, and that are made before


class _Unit:
    """A group that is computed together, or a call by itself."""

    def __init__(self, index: int) -> None:
        self.members = [index]
        self.mask = 1 << index
        self.after = 0  # the items on which it depends, as a mask
        self.group: Group | None = None
        self.product: int | None = None  # the item whose epilogue or prologue the others are
        # What computes matrices of the product; the group is what follows it.
        self.prologues: list[ProloguePart] = []
        self.listed: list[Group] = []  # several that compute the same; `group` is one of them


class Grouping:
    """Items, and the units that they become."""

    def __init__(
        self, items: Sequence[Item], forms: Sequence[Form], kept: set[int], alone: set[int],
        products: Mapping[int, tuple[int, ...]], tables: bool, exact: bool,
    ) -> None:  # fmt: skip
        """alone: values that are not to be stored by a kernel of other columns; products: items
        whose kernels can have epilogues, and the matrices that they multiply; tables: whether a
        kernel may compute several groups; exact: only eager's own operations."""
        self.tables, self.exact = tables, exact
        self.items, self.forms, self.kept = items, forms, kept
        self.products = products
        self.alone = alone
        self.makers: dict[int, int] = {}  # of values, items
        self.readers: dict[int, list[int]] = {}
        for i, item in enumerate(items):
            for number in item.results:
                self.makers.setdefault(number, i)
            for number in item.reads:
                self.readers.setdefault(number, []).append(i)
        # Of views that begin where a dense array does, that array.
        self.roots: dict[int, int] = {}
        for item in items:
            d = item.definition
            if d is not None and d.kind == Kind.VIEW and d.params[0] == 0:
                (base,) = d.reads
                if is_dense_row_major(forms[base]):
                    self.roots[d.result] = self.roots.get(base, base)
        self.rooted: dict[int, list[int]] = {}  # readers of an array and of those views
        for number, readers in self.readers.items():
            self.rooted.setdefault(self.roots.get(number, number), []).extend(readers)
        self.units: list[_Unit] = []
        self.unit: dict[int, _Unit] = {}

    def run(self) -> list[_Unit]:
        """The units, each after those that it depends on; none if some value was to be stored that
        cannot be: those are `alone` then."""
        for i, item in enumerate(self.items):
            self._add_unit(i)
            if item.definition is not None and item.definition.kind != Kind.VIEW:
                self._join(i, i)
        for unit in [*self.units]:  # those whose siblings came later
            if unit.group is not None and len(unit.members) == 1 and unit in self.units:
                self._join(unit.members[0], len(self.items))
        unfit = [u for u in self.units if u.group and not u.group.fits(self.read_of(u))]
        if unfit:
            self._separate(unfit)
            return []
        for unit in [*self.units]:
            if unit.group is not None:
                self._fuse_epilogue(unit)
        for product, matrices in self.products.items():
            for number in matrices:
                self._fuse_prologue(product, number)
        if self.tables:
            self._list()
        return self._ordered()

    def _separate(self, units: Sequence[_Unit]) -> None:
        """Adds to `alone` the values that kernels have to store and cannot."""
        found: set[int] = set()
        for unit in units:
            assert unit.group is not None
            own = set(unit.group.unfit(self.read_of(unit))) - self.alone
            # If it was known that those are in memory, others were not when they joined.
            found |= own - self.kept or {n for m in unit.members for n in self.items[m].results}
        assert not found <= self.alone, "a kernel cannot be written"
        self.alone |= found

    # ---- dependence

    def _before(self, i: int) -> list[_Unit]:
        """The units that make an item's operands."""
        item = self.items[i]
        makers = {self.makers[n] for n in (*item.reads, *item.after) if n in self.makers}
        return list(dict.fromkeys(self.unit[m] for m in makers if m in self.unit and m != i))

    def _add_unit(self, i: int) -> None:
        """An item becomes a unit of its own."""
        unit, d = _Unit(i), self.items[i].definition
        for other in self._before(i):  # and nothing depends on it yet
            unit.after |= other.mask | other.after
        self.units.append(unit)
        self.unit[i] = unit
        if d is not None and d.kind != Kind.VIEW:
            for rows in self._rows([d]):
                group = Group([d], rows, self.forms, self.roots)
                if group.fits({d.result}):
                    unit.group = group
                    return

    def _depend(self, unit: _Unit, before: Sequence[_Unit]) -> None:
        """A unit depends on others, and what depends on it does too."""
        for other in before:
            if other is not unit:
                unit.after |= other.mask | other.after
        for each in self.units:
            if each is not unit and each.after & unit.mask:
                each.after |= unit.after | unit.mask

    # ---- merging

    def _join(self, i: int, n_placed: int) -> None:
        """Merges a definition's unit with those that make its operands, or that read the same.

        n_placed: the number of items that have units."""
        own = self.unit[i]
        near: list[_Unit] = []
        views: dict[int, list[int]] = {}
        for number in self.items[i].reads:
            m, through = self.makers.get(number), []
            while m is not None and self._is_view(m):
                through.append(m)
                m = self.makers.get(self.items[m].reads[0])
            if m is None or m not in self.unit or self.unit[m] is own:
                continue
            unit = self.unit[m]
            if unit.group is not None:
                near.append(unit)
                views[unit.mask] = [*views.get(unit.mask, ()), *through]
        near = sorted(dict.fromkeys(near), key=lambda unit: -max(unit.members))
        choices = [near] if len(near) > 1 else []
        choices += [[unit] for unit in near]
        given = {self.roots.get(n, n) for n in self.items[i].reads}
        theirs = {self.unit[r] for n in given for r in self.rooted[n] if r in self.unit}
        theirs -= {own, *near}
        readers_of_same = [
            u for u in reversed(self.units)
            if u in theirs and u.group is not None and not given.isdisjoint(u.group.inputs)
        ]  # fmt: skip
        choices += [[*near, u] for u in readers_of_same if near] + [[u] for u in readers_of_same]
        for chosen in choices:
            pulled = [self.unit[m] for u in chosen for m in views.get(u.mask, ())]
            if self._merge([*dict.fromkeys([*chosen, *pulled, own])], n_placed):
                return

    def _is_view(self, m: int) -> bool:
        d = self.items[m].definition
        return d is not None and d.kind == Kind.VIEW

    def _merge(self, chosen: list[_Unit], n_placed: int) -> bool:
        """Makes one unit of several, if one kernel can compute them."""
        mask = sum(unit.mask for unit in chosen)
        members = sorted(m for unit in chosen for m in unit.members)
        before = [u for m in members for u in self._before(m) if u not in chosen]
        if any(u.after & mask for u in before):
            return False
        definitions = [d for m in members if (d := self.items[m].definition) is not None]
        if len(definitions) > MOST:
            return False
        # Later readers may yet be merged, and need nothing in memory.
        read = self._read(
            [m for m in members if self._must_be_stored(m, members, n_placed)], members
        )
        for rows in self._rows(definitions, [u.group.rows for u in chosen if u.group]):
            group = Group(definitions, rows, self.forms, self.roots)
            if group.has_device and group.fits(read):
                break
        else:
            return False
        chosen[0].group = group
        self._unite(chosen[0], chosen, members, before)
        return True

    def _unite(
        self, target: _Unit, chosen: Sequence[_Unit], members: list[int], before: Sequence[_Unit]
    ) -> None:
        """One unit takes the place of several; before: the others that they depend on."""
        target.members, target.mask = members, sum(unit.mask for unit in chosen)
        for unit in chosen:
            target.after |= unit.after
        target.after &= ~target.mask
        for m in members:
            self.unit[m] = target
        self.units = [u for u in self.units if u is target or u not in chosen]
        self._depend(target, before)

    def _fuse_epilogue(self, unit: _Unit) -> None:
        """Makes a unit the epilogue of a product, if it can be: of the last one that the unit
        reads."""
        assert unit.group is not None
        roots, reads = self.roots, [n for m in unit.members for n in self.items[m].reads]
        makers = {self.makers.get(roots.get(n, n), -1) for n in reads}
        for product in sorted(makers & self.products.keys(), reverse=True):
            (made,) = self.items[product].results
            own = self.unit[product]
            if own.product is not None or len(own.members) > 1:
                continue
            views = [
                self.unit[self.makers[n]] for n in reads
                if roots.get(n) == made and self.unit[self.makers[n]] is not unit
            ]  # fmt: skip
            chosen = list(dict.fromkeys([own, *views, unit]))
            members = sorted(m for each in chosen for m in each.members)
            mask = sum(each.mask for each in chosen)
            before = [u for m in members for u in self._before(m) if u not in chosen]
            if any(u.after & mask for u in before) or any(len(v.members) > 1 for v in views):
                continue
            read = self._read(members, members)
            after = epilogue_of if self.products[product] else epilogue_of_convolution
            group = after(unit.group, made, read)
            if group is None:
                continue
            unit.group, unit.product = group, product
            self._unite(unit, chosen, members, before)
            return

    def _fuse_prologue(self, product: int, operand: int) -> None:
        """Makes the unit of a product's matrix its prologue, if that saves reading it."""
        own, number, turned = self.unit[product], operand, False
        *rows, columns = self.forms[operand].shape
        shape = math.prod(rows), columns
        views: list[_Unit] = []
        while (m := self.makers.get(number)) is not None and self._is_view(m):
            d = self.items[m].definition
            assert d is not None
            (base,) = d.reads
            if len(self.unit[m].members) > 1:
                return
            if number == operand and is_turned(d, self.forms[base]):
                turned, shape = True, (shape[1], shape[0])
            elif (self.roots.get(number), math.prod(self.forms[base].shape)) != (
                self.roots.get(base, base), math.prod(shape)
            ):  # fmt: skip
                return
            views.append(self.unit[m])
            number = base
        unit = None if m is None else self.unit[m]
        if unit is None or unit is own or unit.group is None or unit.product is not None:
            return
        chosen = [own, *views, unit]
        members = sorted(m for each in chosen for m in each.members)
        mask = sum(each.mask for each in chosen)
        before = [u for m in members for u in self._before(m) if u not in chosen]
        if any(u.after & mask for u in before):
            return
        inside = [m for each in (*views, unit) for m in each.members]
        made_there = [n for m in inside for n in self.items[m].results]
        readers = {r for n in made_there for r in self.readers.get(n, ())}
        if readers - {product, *inside} or not self.kept.isdisjoint(made_there):
            return
        sizes = [math.prod(self.forms[n].shape)
                 for n in (*self.products[product], *self.items[product].results)]  # fmt: skip
        across = math.isqrt(math.prod(sizes)) // math.prod(shape)  # m k, k n and m n are three
        group = prologue_of(unit.group, number, shape, across, self.exact)
        if group is not None:
            own.prologues.append(ProloguePart(operand, number, shape, turned, group))
            own.product = product
            self._unite(own, chosen, members, before)

    def _list(self) -> None:
        """Fuses horizontally: makes one unit of those that compute the same and do not depend on
        each other."""
        same: dict[Any, list[_Unit]] = {}
        for unit in self.units:
            if unit.group is not None and unit.product is None:
                program = program_of(unit.group, unit.group.outputs(self.read_of(unit)))
                if program is not None:
                    same.setdefault(program.key, []).append(unit)
        for left in same.values():
            while len(left) >= FEW:
                chosen, mask, after = [], 0, 0
                for unit in left:
                    if not unit.after & mask and not after & unit.mask:
                        chosen.append(unit)
                        mask, after = mask | unit.mask, after | unit.after
                left = [unit for unit in left if unit not in chosen]
                if len(chosen) < FEW:
                    break
                first = chosen[0]
                first.listed = [unit.group for unit in chosen if unit.group is not None]
                members = sorted(m for unit in chosen for m in unit.members)
                before = [u for m in members for u in self._before(m) if u not in chosen]
                self._unite(first, chosen, members, before)

    def _must_be_stored(self, m: int, members: Sequence[int], n_placed: int) -> bool:
        """True if an item's result has to be in memory for sure, when so many items have units."""
        (number,) = self.items[m].results
        if number in self.kept or number in self.alone:
            return True
        base = m
        while self._is_view(base) and (base := self.makers.get(self.items[base].reads[0], -1)) >= 0:
            if not self.alone.isdisjoint(self.items[base].results):
                return True
        return any(r < n_placed and r not in members for r in self.readers.get(number, ()))

    def _read(self, shown: Sequence[int], members: Sequence[int]) -> set[int]:
        """The values that have to be in memory, so that others can read the results of members."""
        found = set()
        for m in self._shown(shown, members):
            (number,) = self.items[m].results
            while (d := self.items[m].definition) is not None and d.kind == Kind.VIEW:
                (number,) = d.reads
                if number not in self.makers or self.makers[number] not in members:
                    break
                m = self.makers[number]
            else:
                found.add(number)
        return found

    def _shown(self, some: Sequence[int], members: Sequence[int]) -> list[int]:
        """The items whose results are read outside of members."""
        inside = set(members)
        return [
            m for m in some
            if any(
                n in self.kept or any(r not in inside for r in self.readers.get(n, ()))
                for n in self.items[m].results
            )
        ]  # fmt: skip

    def views_read(self, unit: _Unit) -> list[int]:
        """The views among a unit's items that others read, and those that they are views of."""
        found: set[int] = set()
        for m in self._shown(unit.members, unit.members):
            while (d := self.items[m].definition) is not None and d.kind == Kind.VIEW:
                found.add(m)
                (number,) = d.reads
                if self.makers.get(number) not in unit.members:
                    break
                m = self.makers[number]
        return sorted(found)

    def _rows(self, definitions: Sequence[Definition], known: Sequence[int] = ()) -> list[int]:
        """The numbers of rows that their space may have."""
        wanted = {n for n in known if n > 1}
        for d in definitions:
            if d.kind in (Kind.REDUCE, Kind.SCAN):
                x = d.operands[0]
                assert type(x) is Value
                wanted.add(math.prod(self.forms[x.number].shape) // d.params[1])
            elif d.kind == Kind.COLUMN:
                wanted.add(d.params[1])
        if len(wanted) > 1:
            return []
        return sorted(wanted) or [1]

    # ---- order

    def _ordered(self) -> list[_Unit]:
        """By their last item, each after those that it depends on."""
        waiting = sorted(self.units, key=lambda unit: max(unit.members))
        found: list[_Unit] = []
        done = 0
        while waiting:
            unit = next(unit for unit in waiting if not unit.after & ~done)
            waiting.remove(unit)
            found.append(unit)
            done |= unit.mask
        return found

    def read_of(self, unit: _Unit) -> set[int]:
        """The results of a unit that others read."""
        return self._read(unit.members, unit.members)
