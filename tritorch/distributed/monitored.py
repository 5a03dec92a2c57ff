"""monitored_barrier: rank 0 hears from each member, and tells who was not heard."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from tritorch.core.dtype import uint8
from tritorch.ops.shape.factory import zeros

_TAG = 2**62  # beside the tags of programs


def monitored(backend: Any, timeout: timedelta, wait_all_ranks: bool) -> None:
    """All report to rank 0, which answers when it has heard all."""
    rank, size = backend.rank(), backend.size()
    if rank != 0:
        _report(backend, rank, timeout)
        return
    end, limit = time.monotonic() + timeout.total_seconds(), int(timeout.total_seconds() * 1000)
    waiting = [
        (peer, backend.receive(zeros(1, dtype=uint8), peer, _TAG, timeout))
        for peer in range(1, size)
    ]
    missing = []
    for peer, work in waiting:
        if not wait_all_ranks and time.monotonic() >= end:
            raise RuntimeError(
                f"Rank 0 timed out in monitoredBarrier after {limit} ms: it was not heard whether "
                f"rank {peer} came"
            )
        try:
            work.wait(timedelta(seconds=max(0.001, end - time.monotonic())))
        except RuntimeError as error:
            if not wait_all_ranks:
                raise RuntimeError(
                    f"Rank {peer} failed to pass monitoredBarrier in {limit} ms"
                ) from error
            missing.append(peer)
    if missing:
        ranks = ", ".join(map(str, missing))
        raise RuntimeError(f"Ranks {ranks} failed to pass monitoredBarrier in {limit} ms")
    for work in [
        backend.send(zeros(1, dtype=uint8), peer, _TAG, timeout) for peer in range(1, size)
    ]:
        work.wait()


def _report(backend: Any, rank: int, timeout: timedelta) -> None:
    try:
        backend.send(zeros(1, dtype=uint8), 0, _TAG, timeout).wait()
        backend.receive(zeros(1, dtype=uint8), 0, _TAG, timeout).wait()
    except RuntimeError as error:
        raise RuntimeError(
            f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting "
            "for send/recv from rank 0. Please check rank 0 logs for faulty rank."
        ) from error
