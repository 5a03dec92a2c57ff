"""Several collectives as one: the coalescing manager, and batches of sends and receives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tritorch.distributed.groups import _group_or_default_group
from tritorch.distributed.reduce_op import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    ReduceScatterOptions,
)
from tritorch.distributed.work import Work
from tritorch.distributed.world import _world


class _IllegalWork(Work):
    """What an asynchronous collective gives inside of a coalescing manager: its work is the
    manager's."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("is_success", "exception", "wait", "source_rank", "_source_rank", "result",
                    "synchronize"):  # fmt: skip
            raise ValueError(f"Illegal to call {name} on IllegalWork object")
        return object.__getattribute__(self, name)


class _Collected:
    """One collective inside of a manager."""

    def __init__(self, function: Any, source: Any, output: Any, op: Any, work: Any) -> None:
        self.function, self.source, self.output, self.op = function, source, output, op
        self.work = work


def collected(
    group: Any, function: Any, async_op: bool, source: Any, output: Any, op: Any
) -> _Collected | None:
    """Notes a collective in the group's manager, if it is in one."""
    if not _world.pg_coalesce_state or group not in _world.pg_coalesce_state:
        return None
    held = _Collected(function, source, output, op, _IllegalWork() if async_op else None)
    _world.pg_coalesce_state[group].append(held)
    return held


class _CoalescingManager:
    """The works of what was called inside of a manager."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def append(self, work: Work | None = None) -> None:
        if work:
            self.works.append(work)

    def wait(self) -> None:
        for work in self.works:
            work.wait()


@contextlib.contextmanager
def _coalescing_manager(
    group: Any = None, device: Any = None, async_ops: bool = False
) -> Iterator[_CoalescingManager]:
    """Collectives of one kind in here are one collective of several tensors."""
    group = _group_or_default_group(group)
    if _world.pg_coalesce_state.get(group):
        raise ValueError("ProcessGroup has non-empty op list at the start of coalescing")
    _world.pg_coalesce_state[group] = []
    if device:
        group._start_coalescing(device)
    manager = _CoalescingManager()
    try:
        yield manager
    finally:
        held = _world.pg_coalesce_state.pop(group)
    work = _together(group, held, async_ops) if held else None
    if device:
        work = group._end_coalescing(device)
    if async_ops:
        manager.append(work)
    elif work is not None:
        work.wait()


def _together(group: Any, held: list[_Collected], async_ops: bool) -> Work:
    first = held[0]
    if any(each.function is not first.function for each in held):
        names = {each.function.__name__ for each in held}
        raise RuntimeError(
            "Coalescing manager requires all collectives to be the same type, but got mixed types: "
            f"{names}"
        )
    sources = [each.source for each in held]
    outputs = [each.output for each in held]
    name = first.function.__name__
    if name == "all_reduce":
        reducing = AllreduceCoalescedOptions(reduceOp=first.op, asyncOp=async_ops)
        return group.allreduce_coalesced(sources, reducing)
    if name == "all_gather_single":
        gathering = AllgatherOptions(asyncOp=async_ops)
        return group.allgather_into_tensor_coalesced(outputs, sources, gathering)
    scattering = ReduceScatterOptions(reduceOp=first.op, asyncOp=async_ops)
    return group.reduce_scatter_tensor_coalesced(outputs, sources, scattering)
