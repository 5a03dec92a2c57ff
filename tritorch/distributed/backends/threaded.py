"""threaded: the members of a group are threads of one process, as in PyTorch's tests.

Each thread calls its part of a collective and waits for the others; the last one computes for all,
in the order of the ranks.  `install` makes the state of torch.distributed (the groups, the default
group) one of each thread.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from datetime import timedelta
from typing import Any

from tritorch import _C
from tritorch.autograd import no_grad
from tritorch.core import locks
from tritorch.distributed import exits
from tritorch.distributed.backends.gloo import _OPS, _REDUCING, _check_op, _multiplied
from tritorch.distributed.backends.interface import Backend, Call
from tritorch.distributed.constants import DistBackendError, default_pg_timeout
from tritorch.distributed.stores import PrefixStore, Store
from tritorch.distributed.where import Ring
from tritorch.distributed.work import DoneWork, Work

__all__ = ["ThreadedProcessGroup"]


class _Meeting:
    """One collective: the parts of the members that have come."""

    def __init__(self, size: int) -> None:
        self.parts: list[Any] = [None] * size
        self.came = 0
        self.over = False
        self.error: BaseException | None = None


class _Place:
    """Where the threads of one group meet."""

    def __init__(self, size: int) -> None:
        self.changed = locks.condition()
        self.meetings: dict[int, _Meeting] = defaultdict(lambda: _Meeting(size))
        self.messages: dict[tuple[int, int, int], deque[Any]] = defaultdict(deque)
        self.broken: BaseException | None = None
        self.rings: list[Ring | None] = [None] * size


_places: dict[tuple[int, str], _Place] = {}
_lock = locks.lock()


def _place(store: Store, size: int) -> _Place:
    """The place of the group that has this store: by the keys' prefix and what lies below."""
    prefix = ""
    while isinstance(store, PrefixStore):
        prefix, store = f"{store._prefix}/{prefix}", store.underlying_store
    with _lock:
        key = (id(getattr(store, "_engine", store)), prefix)
        place = _places.get(key)
        if place is None:
            place = _places[key] = _Place(size)
            place.store = store  # type: ignore[attr-defined]  # its address stays its own
        return place


def _break_all() -> None:
    with _lock:
        places = list(_places.values())
    for place in places:
        with place.changed:
            place.broken = DistBackendError("the process ends: its main thread has raised an error")
            place.changed.notify_all()


exits.on_error(_break_all)


class ThreadedProcessGroup(Backend):
    """A thread that is a member of a group."""

    def __init__(
        self, store: Store, rank: int, size: int, timeout: timedelta = default_pg_timeout
    ) -> None:
        super().__init__(rank, size)
        self._timeout = timeout
        self._place = _place(store, size)
        self.ring = Ring("0", rank, size, None)
        self._place.rings[rank] = self.ring

    def name(self) -> str:
        return "threaded"

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    _set_default_timeout = set_timeout

    def run(self, call: Call) -> Work:
        if call.kind in _REDUCING:
            _check_op(call, call.inputs[0].dtype)
        sequence = self.ring.add(call)
        limit = self._timeout if call.timeout is None else call.timeout
        end = time.monotonic() + limit.total_seconds()
        place = self._place
        with place.changed:
            meeting = place.meetings[sequence]
            meeting.parts[self._rank] = call
            meeting.came += 1
            if meeting.came == self._size:
                self._complete(meeting)
                del place.meetings[sequence]
                place.changed.notify_all()
            while not meeting.over and place.broken is None:
                left = end - time.monotonic()
                if left <= 0:
                    absent = [r for r, part in enumerate(meeting.parts) if part is None]
                    place.broken = DistBackendError(
                        f"Timed out in group {self.ring.group}: waited for rank "
                        f"{', '.join(map(str, absent))}. {self._report()}"
                    )
                    place.changed.notify_all()
                    break
                place.changed.wait(left)
            error = meeting.error if meeting.over else place.broken
        if error is not None:
            raise error
        return DoneWork(call.outputs)

    def _report(self) -> str:
        lines = [
            f"rank {rank}: at {ring.place(True)['last'] or 'no collective'}"
            for rank, ring in enumerate(self._place.rings)
            if ring is not None
        ]
        return "; ".join(lines)

    def _complete(self, meeting: _Meeting) -> None:
        calls = meeting.parts
        try:
            first = calls[0]
            for other in calls[1:]:
                if (other.kind, other.op, other.root) != (first.kind, first.op, first.root):
                    raise DistBackendError(
                        f"Collectives do not match in group {self.ring.group}. {self._report()}"
                    )
            with no_grad():
                _compute(calls)
        except RuntimeError as error:
            meeting.error = self._place.broken = error
        meeting.over = True

    def send(self, tensor: Any, peer: int, tag: int, timeout: timedelta | None = None) -> Work:
        place = self._place
        with place.changed:
            place.messages[self._rank, peer, tag].append(tensor.detach().clone())
            place.changed.notify_all()
        return DoneWork([tensor])

    def receive(
        self, tensor: Any, peer: int | None, tag: int, timeout: timedelta | None = None
    ) -> Work:
        return _Receive(self, tensor, peer, tag, self._timeout if timeout is None else timeout)

    def abort(self) -> None:
        with self._place.changed:
            self._place.broken = DistBackendError("the group was aborted")
            self._place.changed.notify_all()


class _Receive(DoneWork):
    """A receive, which is done by whoever waits for it."""

    def __init__(
        self, group: ThreadedProcessGroup, tensor: Any, peer: int | None, tag: int, limit: timedelta
    ) -> None:
        super().__init__([tensor])
        self._group, self._peer, self._tag, self._limit = group, peer, tag, limit
        self._source = -1

    def _take(self) -> bool:
        place, group = self._group._place, self._group
        peers = range(group._size) if self._peer is None else [self._peer]
        for peer in peers:
            waiting = place.messages.get((peer, group._rank, self._tag))
            if waiting:
                with no_grad():
                    self._tensors[0].detach().copy_(waiting.popleft())
                self._source = peer
                return True
        return False

    def is_completed(self) -> bool:
        with self._group._place.changed:
            return self._source >= 0 or self._take()

    def wait(self, timeout: timedelta | None = None) -> bool:
        limit = self._limit if timeout is None else timeout
        place = self._group._place
        with place.changed:
            if self._source < 0 and not place.changed.wait_for(
                lambda: place.broken is not None or self._take(), limit.total_seconds()
            ):
                raise DistBackendError(f"Timed out waiting for recv from rank {self._peer}")
        if self._source < 0 and place.broken is not None:
            raise place.broken
        return True

    def source_rank(self) -> int:
        return self._source


def _compute(calls: list[Call]) -> None:
    """What all members get, from what all have."""
    kind, root = calls[0].kind, calls[0].root
    if kind in _REDUCING:
        return _reduce(calls)
    # Sources are copied first: an output may be the input of another member.
    if kind == "broadcast":
        value = calls[root].outputs[0].detach().clone()
        pairs = [(call.outputs[0], value) for r, call in enumerate(calls) if r != root]
    elif kind in ("all_gather", "gather"):
        values = [call.inputs[0].detach().clone() for call in calls]
        takers = calls if kind == "all_gather" else [calls[root]]
        pairs = [pair for call in takers for pair in zip(call.outputs, values, strict=True)]
    elif kind == "scatter":
        values = [tensor.detach().clone() for tensor in calls[root].inputs]
        pairs = [(call.outputs[0], value) for call, value in zip(calls, values, strict=True)]
    elif kind == "all_to_all":
        sent = [[tensor.detach().clone() for tensor in call.inputs] for call in calls]
        pairs = [
            (out, sent[source][rank])
            for rank, call in enumerate(calls)
            for source, out in enumerate(call.outputs)
        ]
    else:
        pairs = []
    for out, value in pairs:
        out.detach().copy_(value.reshape(out.shape))


def _reduce(calls: list[Call]) -> None:
    kind, root = calls[0].kind, calls[0].root

    def total(parts: list[Any]) -> Any:
        plain = [part.detach().cpu().contiguous() for part in parts]
        out = plain[0].clone()
        _C.distributed.reduce(
            _OPS[calls[0].op],
            out.dtype.code,
            out.data_ptr(),
            [part.data_ptr() for part in plain],
            out.numel(),
        )
        return out

    parts = [[_multiplied(tensor, call) for tensor in call.inputs] for call in calls]
    if kind == "reduce_scatter":
        totals = [total([mine[rank] for mine in parts]) for rank in range(len(calls))]
    else:
        totals = [total([mine[0] for mine in parts])] * len(calls)
    for rank, call in enumerate(calls):
        if kind != "reduce" or rank == root:
            call.outputs[0].detach().copy_(totals[rank].reshape(call.outputs[0].shape))
