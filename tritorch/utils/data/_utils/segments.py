"""The shared memory that batches travel in, used again and again.

# Note [Segments of a loader]
A worker writes a tensor into a segment (core/sharing.py) and sends the segment's number; its file
goes along the first time.  The loader's process keeps the mapping, and when the last array on it is
gone, tells the worker with the next task that the segment is free.  So in the steady state nothing
is mapped, no page is touched for the first time, and no descriptor is open: only the mappings hold
the memory, and the kernel frees it with the processes, however they end.

Each array holds a `Lease`.  A segment is written again only when both leases, the worker's and the
loader's, are gone, and if nothing else can have seen it in between: not after a fork, whose child
sees the same memory, and not after it was sent on to another process, for which it moves into a
file of its own.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections import deque
from typing import Any

import numpy as np

from tritorch.core.sharing import PAGE, Segment, map_file, new_file

INLINE = 16 << 10  # bytes below which memory is copied into the message
MOST = 64  # segments of one batch; what is more is copied into the message too

_forks = [0]


def _count_forks() -> None:
    _forks[0] += 1


os.register_at_fork(after_in_parent=_count_forks)


class Lease(Segment):
    """A segment while an array is on it; given back when the last such array is gone."""

    def __init__(self, segment: Segment, nbytes: int, home: Inbox | None = None, number: int = 0):
        self.segment, self.address, self.nbytes = segment, segment.address, nbytes
        self.home, self.number, self.file = home, number, -1
        self.forks = _forks[0]

    def descriptor(self) -> int:
        """A file of its own, under the same addresses, to be sent to another process."""
        if self.file < 0:
            size = self.segment.nbytes
            self.file = new_file(size)
            os.pwrite(self.file, memoryview(np.asarray(self)), 0)  # type: ignore[arg-type]
            map_file(self.file, size, address=self.address)
        return self.file

    def __del__(self) -> None:  # type: ignore[override]
        if self.home is not None:
            self.home.give_back(self.number, self.file < 0 and self.forks == _forks[0])
        self.close_file()


class _Slot:
    """A worker's segment."""

    def __init__(self, number: int, segment: Segment) -> None:
        self.number = number
        self.segment = segment
        self.lease: Any = None  # a weak reference
        self.known = False  # to the loader's process
        self.sent = False  # with the current batch


class Arena:
    """A worker's side: where its batches are written."""

    def __init__(self, prefetch: int) -> None:
        self._numbers = itertools.count()
        self._slots: dict[int, _Slot] = {}
        self._free: list[_Slot] = []
        self._batch: list[_Slot] = []
        self._depth = prefetch + 2  # batches that are under way at a time
        self.dropped: list[int] = []  # numbers that the loader's process may forget

    def empty(self, nbytes: int) -> np.ndarray[Any, Any] | None:
        """Uninitialised bytes in a segment, or None if they should rather be copied."""
        if nbytes < INLINE or len(self._batch) >= MOST:
            return None
        slot = self._take(nbytes)
        lease = Lease(slot.segment, nbytes)
        slot.lease, slot.sent = weakref.ref(lease), False
        self._batch.append(slot)
        return np.asarray(lease)

    def _take(self, nbytes: int) -> _Slot:
        fitting = [s for s in self._free if nbytes <= s.segment.nbytes <= 2 * nbytes + PAGE]
        if fitting:
            best = min(fitting, key=lambda slot: slot.segment.nbytes)
            self._free.remove(best)
            return best
        size = -(-nbytes // PAGE) * PAGE
        slot = _Slot(next(self._numbers), Segment(new_file(size), size))
        self._slots[slot.number] = slot
        return slot

    def slot_of(self, lease: Segment | None) -> _Slot | None:
        """The slot of the current batch that an array's segment is."""
        if type(lease) is not Lease or lease.home is not None:
            return None
        for slot in self._batch:
            if slot.lease() is lease:
                return slot
        return None

    def unsend(self, unknown: list[Segment]) -> None:
        """The batch's message could not be made; the loader's process knows nothing of it."""
        for slot in self._batch:
            slot.sent = False
            if slot.segment in unknown:
                slot.known = False

    def end_batch(self) -> None:
        """After a batch was sent and let go: what was not sent is free."""
        most = self._depth * max(len(self._batch), 1)
        for slot in self._batch:
            if not slot.sent:
                self._give(slot)
        self._batch = []
        while len(self._free) > most:
            self._forget(self._free.pop(0))

    def take_back(self, numbers: list[int]) -> None:
        """What the loader's process is done with; ~number for what must not be used again."""
        for number in numbers:
            slot = self._slots.get(number if number >= 0 else ~number)
            if slot is not None:
                if number >= 0:
                    self._give(slot)
                else:
                    del self._slots[slot.number]

    def _give(self, slot: _Slot) -> None:
        if slot.lease() is None:
            self._free.append(slot)
        else:  # the dataset keeps a batch that it made
            self._forget(slot)

    def _forget(self, slot: _Slot) -> None:
        del self._slots[slot.number]
        if slot.known:
            self.dropped.append(slot.number)


class Inbox:
    """The loader's side of one worker's segments."""

    def __init__(self) -> None:
        self.mapped: dict[int, Segment] = {}
        self.returned: deque[int] = deque()
        self.owner = os.getpid()

    def open(
        self, references: list[tuple[int, int, int]], files: list[int]
    ) -> list[np.ndarray[Any, Any]]:
        """The arrays of a message's (number, bytes, size if it is new)."""
        arrays = []
        arriving = iter(files)
        for number, nbytes, size in references:
            if size:
                segment = Segment(next(arriving), size)
                segment.close_file()
                self.mapped[number] = segment
            lease = Lease(self.mapped[number], nbytes, self, number)
            arrays.append(np.asarray(lease))
        return arrays

    def give_back(self, number: int, usable: bool) -> None:
        """A lease has ended."""
        if os.getpid() != self.owner:
            return
        if not usable:
            self.mapped.pop(number, None)
        self.returned.append(number if usable else ~number)

    def forget(self, numbers: list[int]) -> None:
        """What the worker does not use any more."""
        for number in numbers:
            self.mapped.pop(number, None)

    def collect_returned(self, most: int = 1000) -> list[int]:
        """What to tell the worker next."""
        returned = self.returned
        return [returned.popleft() for _ in range(min(len(returned), most))]
