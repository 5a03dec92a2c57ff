"""The worker processes of loaders, and their failures.

The loader looks at its processes itself (`stall.py`); these functions keep and answer what programs
that handle workers on their own register.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from typing import Any

_SIGCHLD_handler_set = False
_workers: dict[int, set[int]] = {}  # by the id of the loader's iterator


def _set_worker_pids(loader: int, pids: Iterable[int], /) -> None:
    """Registers a loader's processes."""
    if loader in _workers:
        raise ValueError(
            "_set_worker_pids should be called only once for each _BaseDataLoaderIter."
        )
    if not isinstance(pids, tuple):
        raise TypeError(
            f"_set_worker_pids expects a tuple for child_pids, but got {type(pids).__name__}."
        )
    _workers[loader] = set(pids)


def _remove_worker_pids(loader: int, /) -> None:
    """Forgets them."""
    if loader not in _workers:
        raise ValueError(f"Cannot find worker information for _BaseDataLoaderIter with id {loader}")
    del _workers[loader]


def _error_if_any_worker_fails() -> None:
    """RuntimeError where a registered process has ended by a signal or with an error."""
    for pids in _workers.values():
        for pid in tuple(pids):
            _check(pid, pids)


def _check(pid: int, pids: set[int]) -> None:
    try:
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, OSError):
        return
    if status is None or status.si_pid == 0:
        return
    if status.si_code == os.CLD_EXITED and status.si_status != 0:
        pids.clear()
        raise RuntimeError(
            f"DataLoader worker (pid {pid}) exited unexpectedly with exit code "
            f"{status.si_status}. Details are lost due to multiprocessing. Rerunning with "
            "num_workers=0 may give better error trace."
        )
    if status.si_code in (os.CLD_KILLED, os.CLD_DUMPED):
        pids.clear()
        raise RuntimeError(
            f"DataLoader worker (pid {pid}) is killed by signal: "
            f"{signal.strsignal(status.si_status)}. "
        )


def _set_worker_signal_handlers(*args: Any) -> None:
    """Workers end by Python's own handlers."""


def _set_SIGCHLD_handler() -> None:
    """Says that failures of workers are noticed: the loader looks at its processes itself."""
    global _SIGCHLD_handler_set
    _SIGCHLD_handler_set = True
