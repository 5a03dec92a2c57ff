"""Sums of sparse tensors: every member gathers the entries of all, and adds up those of one place.

The caller waits: such a call is over when it returns.
"""

from __future__ import annotations

from typing import Any

from tritorch.autograd import no_grad
from tritorch.distributed.reduce_op import AllgatherOptions, RedOpType, as_type
from tritorch.distributed.work import DoneWork
from tritorch.ops.interpret.sparse.build import sparse_coo_tensor
from tritorch.ops.shape.factory import empty, tensor
from tritorch.ops.shape.joining import cat

__all__ = ["all_reduce_sparse"]


def all_reduce_sparse(group: Any, given: Any, opts: Any) -> DoneWork:
    """Gives a sparse tensor the sum of the members' tensors."""
    if as_type(opts.reduceOp)[0] is not RedOpType.SUM:
        raise RuntimeError("sparse tensors are summed: ReduceOp.SUM is all there is for them")
    with no_grad():
        own = given.detach().coalesce()
        parts = [each.to(own.device) for each in (own.indices().t(), own.values())]
        entries = _entries(group, parts, opts)
        indices, values = (cat([each[i] for each in entries]) for i in range(2))
        total = sparse_coo_tensor(indices.t(), values, own.shape, check_invariants=False)
        given.detach().copy_(total.coalesce())
    return DoneWork([given])


def _entries(group: Any, parts: list[Any], opts: Any) -> list[list[Any]]:
    """The members' tensors of as many rows as each has, by rank."""
    rows = parts[0].shape[0]
    number = tensor([rows], device=parts[0].device)
    counts = [count.item() for count in _gathered(group, number, opts)]
    found: list[list[Any]] = [[] for _ in counts]
    for part in parts:
        room = empty((max(counts), *part.shape[1:]), dtype=part.dtype, device=part.device)
        room[:rows] = part
        for mine, each, count in zip(found, _gathered(group, room, opts), counts, strict=True):
            mine.append(each[:count])
    return found


def _gathered(group: Any, own: Any, opts: Any) -> list[Any]:
    outs = [empty(own.shape, dtype=own.dtype, device=own.device) for _ in range(group.size())]
    group.allgather([outs], [own], AllgatherOptions(opts.timeout, asyncOp=False)).wait()
    return outs
