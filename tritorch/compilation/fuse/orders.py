"""The order in which a kernel without rows goes through its elements: that in which its arrays lie.

Images with their channels last lie otherwise than their shape says.  Counted by shape, neighbours
in a program would be far from each other in memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from tritorch.compilation.follow.tape import Form
from tritorch.compilation.fuse.definitions import Definition, Kind
from tritorch.compilation.fuse.groups import Group

# Of elements that are found wherever they are counted.
_ANYWHERE = (Kind.MAP, Kind.CAST, Kind.VIEW, Kind.TOTAL, Kind.STORE, Kind.FILL)
Order = tuple[int, ...]


def in_order_of_memory(group: Group, stored: Sequence[int]) -> Group:
    """A group whose dims are in the order in which most of its arrays lie; itself where that
    changes nothing."""
    if group.holds or any(d.kind not in _ANYWHERE for d in group.definitions):
        return group
    inside = not_behind_views(group, stored)
    rank = max((len(group.forms[n].shape) for n in inside), default=0)
    arrays = [n for n in inside if n in stored or n not in group.made]
    orders = Counter(
        order for n in arrays if (order := _order(group.forms[n], group.columns, rank))
    )
    if not orders:
        return group
    (order, _), *_ = orders.most_common(1)  # of those that are as many, that of stored values
    if order == tuple(sorted(order)):
        return group
    order = (*(dim for dim in range(rank) if dim not in order), *order)
    found = in_order(group, inside, order)
    return found if found.fits(stored) else group


def in_order(group: Group, inside: Sequence[int], order: Order) -> Group:
    """A group of which some values have their dims in another order."""
    forms = list(group.forms)
    for n in inside:
        forms[n] = forms[n]._replace(
            shape=_moved(forms[n].shape, 1, order), strides=_moved(forms[n].strides, 0, order)
        )
    definitions = [_in_order(d, order) if d.result in inside else d for d in group.definitions]
    return Group(definitions, group.rows, forms, group.roots)


def not_behind_views(group: Group, stored: Sequence[int]) -> list[int]:
    """The arrays whose elements are asked for in the positions of stored values; none if one of
    them is asked for through a view too."""
    asked: dict[tuple[int, bool], None] = {}  # (value, whether behind a view)
    waiting = [(n, False) for n in stored]
    while waiting:
        number, behind = waiting.pop(0)
        if (number, behind) in asked or group.forms[number].kind is int:
            continue
        asked[number, behind] = None
        d = group.made.get(number)
        if d is not None:
            waiting += [(n, behind or d.kind == Kind.VIEW) for n in d.reads]
    if any((n, True) in asked for n, behind in asked if not behind):
        return []
    return [n for n, behind in asked if not behind]


def _in_order(d: Definition, order: Order) -> Definition:
    params = d.params
    if d.kind == Kind.VIEW:
        offset, strides = d.params
        params = offset, _moved(strides, 0, order)
    return d._replace(shape=_moved(d.shape, 1, order), params=params)


def _order(form: Form, count: int, rank: int) -> Order:
    """The dims of an array of so many elements, as they lie; none if it is not one of those."""
    if math.prod(form.shape) != count:
        return ()
    first = rank - len(form.shape)
    dims = [dim for dim, n in enumerate(form.shape) if n > 1]
    if any(form.strides[dim] == 0 for dim in dims):
        return ()
    return tuple(first + dim for dim in sorted(dims, key=lambda dim: -form.strides[dim]))


def _moved(sizes: tuple[int, ...], missing: int, order: Order) -> tuple[int, ...]:
    """Sizes or strides, as of a rank and in another order."""
    whole = (missing,) * (len(order) - len(sizes)) + sizes
    return tuple(whole[dim] for dim in order)
