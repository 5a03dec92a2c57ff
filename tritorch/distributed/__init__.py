"""torch.distributed: processes that work together.

docs/distributed.md says how it is made: stores by which processes meet, groups of them, and
collectives that move tensors.
"""

from __future__ import annotations

import pdb
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tritorch.core import late_bound
from tritorch.distributed.constants import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
    set_debug_level,
    set_debug_level_from_env,
)
from tritorch.distributed.ddp.buckets import GradBucket
from tritorch.distributed.device_mesh import DeviceMesh, init_device_mesh
from tritorch.distributed.distributed_c10d import *  # noqa: F403
from tritorch.distributed.distributed_c10d import (
    __all__ as _c10d,
    _all_gather_base as _all_gather_base,
    _coalescing_manager as _coalescing_manager,
    _CoalescingManager as _CoalescingManager,
    _get_process_group_name as _get_process_group_name,
    _rank_not_in_group as _rank_not_in_group,
    _reduce_scatter_base as _reduce_scatter_base,
    barrier,
    get_rank,
)
from tritorch.distributed.rendezvous import (
    _create_store_from_options as _create_store_from_options,
    register_rendezvous_handler,
    rendezvous,
)
from tritorch.distributed.stores import FileStore, HashStore, TCPStore
from tritorch.distributed.world import is_initialized

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.distributed import (
        algorithms as algorithms,
        constants as constants,
        device_mesh as device_mesh,
        distributed_c10d as distributed_c10d,
    )


__all__ = [
    *_c10d, "DeviceMesh", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError",
    "FileStore", "GradBucket",
    "HashStore", "QueueEmptyError", "TCPStore", "breakpoint", "init_device_mesh",
    "is_available", "register_rendezvous_handler", "rendezvous", "set_debug_level",
    "set_debug_level_from_env",
]  # fmt: skip


def is_available() -> bool:
    """True."""
    return True


_skipped: dict[int, int] = {}


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: int = 3600) -> None:
    """Stops one process in the debugger, from the call on that follows `skip` others; all others
    wait at a barrier."""
    if skip > 0:
        _skipped[skip] = _skipped.get(skip, 0) + 1
        if _skipped[skip] <= skip:
            return
    if get_rank() == rank:
        debugger: Any = pdb.Pdb()
        debugger.message(f"rank {rank}: 'up' goes to the frame that called breakpoint")
        debugger.set_trace()
    barrier(timeout=timedelta(seconds=timeout_s))


set_debug_level_from_env()

late_bound.process_rank = lambda: get_rank() if is_available() and is_initialized() else None
