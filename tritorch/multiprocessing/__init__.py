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

_STRATEGIES = {"file_descriptor", "file_system"}


def get_all_sharing_strategies() -> set[str]:
    """What set_sharing_strategy takes."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """How memory is shared from now on."""
    return "file_system" if _sharing.make_segment is _named.create else "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """How memory is shared from now on: by nameless files, each with an open descriptor, or by
    named ones in /dev/shm, which are removed when the last process of the family ends."""
    assert new_strategy in _STRATEGIES, (
        f"invalid sharing strategy {new_strategy!r}, expected one of {_STRATEGIES}"
    )
    _named.use(new_strategy == "file_system")


reductions.init_reductions()
