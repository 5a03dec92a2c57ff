"""Leaving of process groups when Python ends.

# Note [Works at exit]
Before Python's threads may end no more, works that can end do so, within some seconds; what still
runs then is left to its native thread, with the memory that it uses, and ends with the process.
Nobody joins such a thread: it may wait for Python (Note [Threads at exit] in src/interpreter.h), or
for a member that never comes.  A daemon that waits for such a work waits on, without a word.

Python waits for threads that are no daemons before all that.  If the main thread has raised an
error, those that wait for another process are not waited for: their waiting fails.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable
from typing import Any

from tritorch import _C

_PATIENCE = 5000  # milliseconds
_on_error: list[Callable[[], None]] = [_C.distributed.end_waiting]


def on_error(function: Callable[[], None]) -> None:
    """Calls a function when the main thread has raised an error and other threads still run."""
    _on_error.append(function)


def _raised() -> bool:
    """True if an error has ended the main thread."""
    return getattr(sys, "last_value", None) is not None


def _end_threads() -> None:
    main = threading.main_thread()
    waited_for = [t for t in threading.enumerate() if t is not main and not t.daemon]
    if waited_for and _raised():
        for function in _on_error:
            function()


def _leave_groups() -> None:
    _C.distributed.leave_groups(0 if _raised() else _PATIENCE)


def install() -> None:
    """Registers this module with Python's exit."""
    register: Any = getattr(threading, "_register_atexit", None)
    if register is not None:  # concurrent.futures has it from there, too
        register(_end_threads)
    atexit.register(_leave_groups)
