"""The fusion pass, which puts written kernels in the place of calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tritorch import _C
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.compilation.fuse.definitions import Kind, definition
from tritorch.compilation.fuse.epilogues import FusedProduct, matrices_of
from tritorch.compilation.fuse.equal import Block
from tritorch.compilation.fuse.grouping import Grouping, Item
from tritorch.compilation.fuse.kernels import AddUp, Fused, Launched, Left, portions
from tritorch.compilation.fuse.lists import FusedList
from tritorch.compilation.fuse.parts import parts_of, without_unread
from tritorch.compilation.fuse.writes import is_plain_write, with_stores
from tritorch.compilation.plan.lowering import Lowered, lowered
from tritorch.compilation.tools import showing

TRIES = 6


def written_kernels(
    calls: Sequence[Lowered], forms: list[Form], kept: set[int], exact: bool,
    alone: Collection[int] = (), tables: bool = False,
) -> list[Lowered]:  # fmt: skip
    """The calls, with a written kernel in the place of those that one can compute.

    exact: each result is rounded as eager rounds it, and only definitions with eager's bits are
    taken; alone: arrays from outside whose memory no other value shows; tables: whether kernels may
    find their arrays by tables of addresses."""
    if not any(_on_gpu(call, forms) for call in calls):
        return list(calls)
    storable = set(alone)
    while True:
        found, lone = _in_blocks(calls, forms, kept, exact, storable, tables)
        if not lone:
            return found
        storable -= lone


def _in_blocks(
    calls: Sequence[Lowered], forms: list[Form], kept: set[int], exact: bool, alone: set[int],
    tables: bool,
) -> tuple[list[Lowered], set[int]]:  # fmt: skip
    """The calls with kernels, and the arrays to which no kernel can store."""
    found: list[Lowered] = []
    block: list[Lowered] = []
    lone: set[int] = set()
    for i, call in enumerate(calls):
        if _ends_a_block(call) and not is_plain_write(call, forms, alone):
            made, left = _fused(block, forms, _read_from(calls[i:], kept), exact, tables)
            found += [*made, call]
            lone |= left
            block = []
        else:
            block.append(call)
    made, left = _fused(block, forms, set(kept), exact, tables)
    return found + made, lone | left


def _on_gpu(call: Lowered, forms: Sequence[Form]) -> bool:
    return any(n >= 0 and forms[n].kind is _C.Array for n in call.results)


def _ends_a_block(call: Lowered) -> bool:
    """True if no call may be moved over it: it writes memory."""
    return call.writes and call.note.form not in (NoteForm.DRAW, NoteForm.CHECK)


def _read_from(calls: Sequence[Lowered], kept: set[int]) -> set[int]:
    return kept | {x.number for call in calls for x in call.args if type(x) is Value}


def _fused(
    calls: Sequence[Lowered], forms: list[Form], kept: set[int], exact: bool, tables: bool
) -> tuple[list[Lowered], set[int]]:
    if len(calls) < 2:
        return list(calls), set()
    block = Block(calls, forms, kept, exact, tables)
    known = block.known()
    if known is None:
        plain, after = with_stores(calls, forms)
        found = _by_kernels(plain, forms, kept.union(after), after, exact, tables)
        lone = {call.args[1].number for call in found if call.note.form == NoteForm.STORE}
        block.keep(found, lone)
    else:
        found, lone = known
    if not lone:
        _say(found, calls)
    return found, lone


def _say(kernels: Sequence[Lowered], calls: Sequence[Lowered]) -> None:
    """Tells for which lines of the program kernels were written."""
    for call in kernels:
        if isinstance(kernel := call.function, Launched) and kernel.origin:
            lines = [
                calls[i].note.source_line if i < len(calls) else None for _, i in kernel.origin
            ]
            names = [name for name, _ in kernel.origin]
            showing.wrote(kernel, kernel.source, [*zip(names, lines)])


def _by_kernels(
    calls: Sequence[Lowered], forms: list[Form], kept: set[int], after: Mapping[int, Any],
    exact: bool, tables: bool,
) -> list[Lowered]:  # fmt: skip
    whole: set[int] = set()  # calls that are left as they are
    parts: dict[int, list[Note]] = {}
    read = _read_from(calls, kept)
    for i, call in enumerate(calls):
        made = None if exact else parts_of(call.as_called(), forms, read)
        if made is not None:
            parts[i] = made
    for _ in range(TRIES):
        found, again = _tried(calls, parts, whole, forms, kept, after, exact, tables)
        if not again:
            return found
        whole |= again
    return _tried(calls, {}, whole, forms, kept, after, exact, tables)[0]


def _tried(
    calls: Sequence[Lowered], parts: dict[int, list[Note]], whole: set[int], forms: list[Form],
    kept: set[int], after: Mapping[int, Any], exact: bool, tables: bool,
) -> tuple[list[Lowered], set[int]]:  # fmt: skip
    """The calls with kernels, and the calls whose parts are better left together."""
    items: list[Item] = []
    by_item: list[Any] = []  # the call, or the note of a part
    drawn: tuple[int, ...] = ()
    read = _read_from(calls, kept)
    for i, call in enumerate(calls):
        if i in parts and i not in whole:
            for note in without_unread(parts[i], {n for n in call.results if n in read}):
                items.append(Item(_reads(note.inputs), note.results, definition(note, forms), i))
                by_item.append(note)
            continue
        known = None if call.writes else definition(call.as_called(), forms, call.args)
        if known is not None and exact and known.kind not in _EXACT:
            known = None
        reads = _reads(call.args) + drawn * (call.note.form == NoteForm.DRAW)
        drawn = call.results if call.note.form == NoteForm.DRAW else drawn
        before = next((after[n] for n in call.results if n in after), ())
        items.append(Item(reads, call.results, known, i, before))
        by_item.append(call)
    products = {
        i: matrices
        for i, call in enumerate(by_item)
        if (matrices := matrices_of(call, forms)) is not None
    }
    alone: set[int] = set()
    while True:
        grouping = Grouping(items, forms, kept, alone, products, tables, exact)
        units = grouping.run()
        if units or not items:
            break
    again = set()
    homes: dict[int, set[int]] = {}
    for u, unit in enumerate(units):
        for m in unit.members:
            if type(by_item[m]) is Note and not (unit.group is None and _is_view(items[m])):
                homes.setdefault(items[m].origin, set()).add(u)
                if unit.group is None and not _is_view(items[m]):
                    again.add(items[m].origin)
    for origin, where in homes.items():
        by_itself = {items[m].origin for u in where for m in units[u].members} == {origin}
        if len(where) > 1 or by_itself:
            again.add(origin)
    if again:
        return [], again
    found: list[Lowered] = []
    left: list[Left] = []  # of sums of columns that are still to be added up
    for unit in units:
        if len(unit.members) == 1 or (unit.group is None and unit.product is None):
            found += [_as_call(by_item[m], forms) for m in unit.members]
            continue
        read = grouping.read_of(unit)
        if not read:
            continue  # nobody needs it
        kernel: Fused | FusedList | FusedProduct
        if unit.listed:
            kernel = FusedList(unit.listed, read, exact)
        elif unit.product is not None:
            product = by_item[unit.product]
            kernel = FusedProduct(product, unit.group, unit.prologues, forms, read, exact)
            left += [] if kernel.left is None else [kernel.left]
        else:
            assert unit.group is not None
            kernel = Fused(unit.group, read, exact, forms)
            if not kernel.has_device:  # of numbers alone: what else it computes, nobody reads
                found += [_as_call(by_item[m], forms) for m in unit.members]
                continue
            left += [] if kernel.left is None else [kernel.left]
        which = [m for m in unit.members if not _is_view(items[m])]
        kernel.origin = tuple((_note_of(by_item[m]).op.name, items[m].origin) for m in which)
        found.append(kernel.as_call())
        for m in grouping.views_read(unit):
            found.append(_as_call(by_item[m], forms))
    return _added_up(found, left, forms), set()


def _added_up(
    calls: Sequence[Lowered], left: Sequence[Left], forms: Sequence[Form]
) -> list[Lowered]:  # fmt: skip
    """The calls, and the second kernels of sums of columns: each for all that are known where one
    of them is read, the last one at the end."""
    found: list[Lowered] = []
    unread: list[Left] = []
    for call in calls:
        reads = set(_reads(call.args))
        if any(not reads.isdisjoint(each.sums) for each in unread):
            found += [AddUp(each, forms).as_call() for each in portions(unread)]
            unread = []
        found.append(call)
        unread += [each for each in left if each.parts[0] in call.results]
    return found + [AddUp(each, forms).as_call() for each in portions(unread)]


_EXACT = (
    Kind.MAP, Kind.CAST, Kind.STORE, Kind.VIEW, Kind.CAT, Kind.EMBED, Kind.DROP, Kind.IOTA,
    Kind.FILL, Kind.ROWS, Kind.PICK,
)  # fmt: skip


def _is_view(item: Item) -> bool:
    return item.definition is not None and item.definition.kind == Kind.VIEW


def _as_call(item: Any, forms: Sequence[Form]) -> Lowered:
    return lowered(item, forms) if type(item) is Note else item


def _note_of(item: Any) -> Note:
    return item if type(item) is Note else item.note


def _reads(args: Sequence[Any]) -> tuple[int, ...]:
    return tuple(x.number for x in args if type(x) is Value)
