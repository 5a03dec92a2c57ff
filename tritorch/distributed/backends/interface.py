"""The interface of a backend: one call for every collective, one for sends, one for receives.

A `Call` says what is done with which tensors.  `Backend.run` gets it with tensors of any strides
and on any device that the backend is registered for; `staging.py` makes buffers of them for those
that want contiguous memory of the host.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

from tritorch.distributed.reduce_op import RedOpType
from tritorch.distributed.work import Work

__all__ = ["Backend", "Call"]


@dataclasses.dataclass(slots=True)
class Call:
    """One member's part of a collective.

    kind: "broadcast", "all_reduce", "reduce", "all_gather", "gather", "scatter", "reduce_scatter",
    "all_to_all" or "barrier".  inputs, outputs: tensors, one for each member where there are
    several (the table in src/distributed/operation.h); one list for both, where a tensor is read
    and written.  wait: the caller waits at once.
    """

    kind: str
    inputs: list[Any]
    outputs: list[Any]
    op: RedOpType = RedOpType.SUM
    factor: Any = None
    root: int = 0
    timeout: timedelta | None = None
    wait: bool = False


class Backend:
    """Who moves data for one member of a group."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size

    def rank(self) -> int:
        """The number of this member."""
        return self._rank

    def size(self) -> int:
        """The number of members."""
        return self._size

    def name(self) -> str:
        """What the backend is called."""
        raise NotImplementedError

    def run(self, call: Call) -> Work:
        """Begins a collective; it runs behind those that were begun before."""
        raise NotImplementedError

    def send(self, tensor: Any, peer: int, tag: int, timeout: timedelta | None = None) -> Work:
        """Begins to send."""
        raise NotImplementedError

    def receive(
        self, tensor: Any, peer: int | None, tag: int, timeout: timedelta | None = None
    ) -> Work:
        """Begins to receive; from whoever sends first if there is no peer."""
        raise NotImplementedError

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets how long a collective may last that does not say it."""

    _set_default_timeout = set_timeout

    def abort(self) -> None:
        """Ends what runs, here and at the other members."""

    def shutdown(self) -> None:
        """Ends the group once what was begun is over."""

    def _set_sequence_number_for_group(self) -> None:
        """Collectives are counted anyway."""

    def split(self, part: Backend | None, color: int, key: int) -> None:
        """Gives a new group what it can share with this one: all members of this one call it, those
        of the part with its backend, those of none with None and the color -1."""

    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False
