"""Pools of processes, as in torch.multiprocessing.pool."""

from __future__ import annotations

import gc
import multiprocessing.pool
from typing import Any

from tritorch.multiprocessing.queue import SimpleQueue as SimpleQueue


def clean_worker(*args: Any, **kwargs: Any) -> None:
    """A worker of a pool, which collects garbage at its end: tensors may hold shared memory."""
    multiprocessing.pool.worker(*args, **kwargs)  # type: ignore[attr-defined]
    gc.collect()


class Pool(multiprocessing.pool.Pool):
    """`multiprocessing.pool.Pool`: its pickler knows tensors already."""
