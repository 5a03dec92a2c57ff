"""Dense operands beside nested ones, and records on values by what they do along each axis.

# Note [Folding]
A jagged tensor (B, j, D) has the same elements as its values with a dim of one in front, (1, L, D).
A record that treats each place of the batch and of the ragged dim by itself (its axes say so: Note
[Axes] in `ops/record/axes.py`) gives on the one what it gives on the other.  The number of dims is
the same, so its params need no translation.  Where it takes the ragged dim together (a sum, a
softmax along it), or where the layout is strided, it runs on one component after the other, each
with a dim of one in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch.arrays.arrays import dtype_of
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.nested import Jagged, NestedInt
from tritorch.core import published
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.nested.record import (
    cannot_run,
    is_nested,
    lengths_of,
    like_parts,
    made,
    of_parts,
    parts_of,
    structure_of,
    title_of,
    values_of,
)


class Places(NamedTuple):
    """Where the batch and the ragged dim are in each input and output; None: nowhere."""

    batch_in: tuple[int | None, ...]
    batch_out: tuple[int | None, ...]
    ragged_in: tuple[int | None, ...]
    ragged_out: tuple[int | None, ...]
    batch_role: str
    ragged_role: str


def fold(x: Tensor) -> Tensor:
    """The values of a jagged tensor, in front of which stands a dim of one."""
    return values_of(x).unsqueeze(0)


def unfold(values: Tensor, structure: Jagged, ragged: int, title: str) -> Tensor:
    """A folded result as a jagged tensor."""
    if ragged != structure.ragged:
        structure = structure.with_ragged(ragged)
    return made(values.squeeze(0), structure, title)


# ---- what becomes of the batch and of the ragged dim ---------------------------------------------


def _spec(x: Any, size: int) -> Any:
    """What axes are asked about: the array's shape, with a number for the ragged dim."""
    if not isinstance(x, Tensor):
        return x
    array = x._array
    shape = tuple(size if isinstance(n, NestedInt) else n for n in array.shape)
    return MetaArray(shape, dtype_of(array))


def places(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Places | None:
    """Where a call's batch and ragged dims are; None where its axes do not say."""
    first = next(k for k, x in enumerate(tensors) if is_nested(x))
    x = tensors[first]
    ragged = structure_of(x).ragged if type(structure_of(x)) is Jagged else None
    used = {n for t in tensors if isinstance(t, Tensor) for n in t._array.shape if type(n) is int}
    size = next(n for n in (7919, 7907, 7901, 7883) if n not in used)
    try:
        axes = op.axes([_spec(t, size) for t in tensors], params)
    except (RuntimeError, IndexError, NotImplementedError, TypeError, ValueError):
        return None
    if axes is None or axes.inputs[first] is None or None in axes.outputs:
        return None
    letters = axes.inputs[first]
    b, r = letters[0], letters[ragged] if ragged is not None else ""
    find = lambda each, c: each.index(c) if c and each and c in each else None
    return Places(
        tuple(find(each, b) for each in axes.inputs),
        tuple(find(each, b) for each in axes.outputs),
        tuple(find(each, r) for each in axes.inputs),
        tuple(find(each, r) for each in axes.outputs),
        axes.roles.get(b, ""),
        axes.roles.get(r, "mapped" if not r else ""),
    )


# ---- the rule of records that have no other ------------------------------------------------------


def call(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """A record on nested operands, by its axes."""
    x = next(t for t in tensors if is_nested(t))
    found = places(op, tensors, params)
    structure = structure_of(x)
    jagged = type(structure) is Jagged
    if found is not None and jagged and _takes_all(tensors, structure, found):
        return op.call([fold(t) if is_nested(t) else t for t in tensors], params)
    if found is None or found.batch_role != "mapped" or any(p != 0 for p in found.batch_out):
        raise cannot_run(op.name, x)
    if jagged and found.ragged_role == "mapped" and _fits(tensors, structure, found):
        return _folded(op, tensors, params, structure, found)
    return by_component(op, tensors, params, structure, found)


def _fits(tensors: Sequence[Any], structure: Jagged, found: Places) -> bool:
    """Whether folded operands meet: nested ones of one structure, dense ones without the batch."""
    for t, b in zip(tensors, found.batch_in):
        if is_nested(t):
            own = structure_of(t)
            if type(own) is not Jagged or not _same_lengths(own, structure):
                return False
        elif isinstance(t, Tensor) and b is not None:
            return False
    return None not in found.ragged_out


def _takes_all(tensors: Sequence[Any], structure: Jagged, found: Places) -> bool:
    """Whether a call takes all places together: a loss of one number."""
    roles = found.batch_role, found.ragged_role
    alike = all(
        type(structure_of(t)) is Jagged and _same_lengths(structure_of(t), structure)
        for t in tensors
        if is_nested(t)
    )
    return roles == ("contracted", "contracted") and structure.lengths is None and alike


def _same_lengths(a: Jagged, b: Jagged) -> bool:
    return a.source is b.source or (a.with_ragged(1).same(b.with_ragged(1)))


def _folded(
    op: Any, tensors: Sequence[Any], params: tuple[Any, ...], structure: Jagged, found: Places
) -> Any:
    operands = [fold(t) if is_nested(t) else t for t in tensors]
    result = op.call(operands, params)
    several = isinstance(result, tuple)
    outs = [
        None if out is None else unfold(out, structure, at or 0, title_of(op))
        for out, at in zip(result if several else (result,), found.ragged_out)
    ]
    return tuple(outs) if several else outs[0]


def component(t: Any, i: int, at: int | None, parts: list[Tensor] | None) -> Any:
    """An operand of the i-th component's call, whose batch dim is of size one."""
    if parts is not None:
        return parts[i].unsqueeze(0)
    if at is None or t.shape[at] == 1:
        return t
    return t.narrow(at, i, 1)


def by_component(
    op: Any, tensors: Sequence[Any], params: tuple[Any, ...], structure: Any, found: Places
) -> Any:
    """A record on one component after the other."""
    parts = [parts_of(t) if is_nested(t) else None for t in tensors]
    count = next(len(p) for p in parts if p is not None)
    results = [
        op.call(
            [component(t, i, at, p) for t, at, p in zip(tensors, found.batch_in, parts)], params
        )
        for i in range(count)
    ]
    if not results:
        raise cannot_run(op.name, next(t for t in tensors if is_nested(t)))
    if isinstance(results[0], tuple):
        columns = zip(zip(*results), found.ragged_out)
        return tuple(_joined(op, column, structure, at) for column, at in columns)
    return _joined(op, results, structure, found.ragged_out[0])


def _joined(op: Any, results: Sequence[Any], structure: Any, ragged: int | None) -> Any:
    """The results for all components: nested where sizes differ, else dense."""
    if results[0] is None:
        return None
    if type(structure) is not Jagged:
        return of_parts([result.squeeze(0) for result in results], title_of(op))
    if ragged is None:
        return published.public.cat(results, 0)
    lengths = [result.shape[ragged] for result in results]
    parts = [result.squeeze(0) for result in results]
    if lengths == lengths_of(structure):
        return like_parts(parts, structure.with_ragged(ragged), title_of(op))
    raise cannot_run(op.name, results[0])
