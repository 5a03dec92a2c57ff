"""Python's multiprocessing, where tensors go between processes by shared memory.

Everything of `multiprocessing` is here under its name. A tensor that is put into a queue,
a pipe or a pool's arguments moves into shared memory, and the other side maps the same memory. GPU
tensors are refused by name.
"""

from __future__ import annotations

import multiprocessing as _python
from multiprocessing import *  # noqa: F403

from tritorch.core import sharing as _sharing
from tritorch.multiprocessing import named as _named, reductions as reductions
from tritorch.multiprocessing.spawn import (
    ProcessContext as ProcessContext,
    ProcessExitedException as ProcessExitedException,
    ProcessRaisedException as ProcessRaisedException,
    SpawnContext as SpawnContext,
    spawn as spawn,
    start_processes as start_processes,
)

__all__ = ["get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]
__all__ += _python.__all__

_all_sharing_strategies = {"file_descriptor", "file_system"}
_sharing_strategy = "file_descriptor"
init_reductions = reductions.init_reductions


def get_all_sharing_strategies() -> set[str]:
    """What set_sharing_strategy takes."""
    return set(_all_sharing_strategies)


def get_sharing_strategy() -> str:
    """How memory is shared from now on."""
    return "file_system" if _sharing.make_segment is _named.create else "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """How memory is shared from now on: by nameless files, each with an open descriptor, or by
    named ones in /dev/shm, which are removed when the last process of the family ends."""
    assert new_strategy in _all_sharing_strategies, (
        f"invalid sharing strategy {new_strategy!r}, expected one of {_all_sharing_strategies}"
    )
    _named.use(new_strategy == "file_system")


def _set_thread_name(name: str, /) -> None:
    """Names this thread for tools that list threads."""
    with open("/proc/thread-self/comm", "w") as file:
        file.write(name[:15])


def _get_thread_name() -> str:
    """The name of this thread."""
    with open("/proc/thread-self/comm") as file:
        return file.read().rstrip("\n")


reductions.init_reductions()
