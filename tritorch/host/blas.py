"""How many threads NumPy's BLAS uses: as many as were asked for, one while our own threads compute
blocks side by side."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tritorch.core import locks

_lock = locks.lock()
_inside = [0, 0]  # threads of one_thread(), and the number to go back to
_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads",
          "openblas_{}_num_threads64_", "openblas_{}_num_threads")  # fmt: skip


@functools.cache
def _controls() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """OpenBLAS's functions that get and set its number of threads; None: another BLAS."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "openblas" in line}
    except OSError:
        return None  # not Linux
    for path in sorted(paths):
        library = ctypes.CDLL(path)
        for name in _NAMES:
            if hasattr(library, name.format("set")):
                return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


def set_threads(n: int) -> None:
    """How many threads products have from now on."""
    controls = _controls()
    if controls is None:
        return
    with _lock:
        if _inside[0]:
            _inside[1] = n
        else:
            controls[1](n)


@contextmanager
def one_thread() -> Iterator[None]:
    """Products run in the thread that asks for them: several of ours would wait for each other."""
    controls = _controls()
    if controls is None:
        yield
        return
    get, set_number = controls
    with _lock:  # OpenBLAS has one number for all threads
        _inside[0] += 1
        if _inside[0] == 1:
            _inside[1] = get()
            set_number(1)
    try:
        yield
    finally:
        with _lock:
            _inside[0] -= 1
            if _inside[0] == 0:
                set_number(_inside[1])


def _leave() -> None:
    """In a forked child, where the other threads that were inside are not."""
    controls = _controls()
    if _inside[0] and controls is not None:
        controls[1](_inside[1])
        _inside[0] = 0


os.register_at_fork(after_in_child=_leave)
