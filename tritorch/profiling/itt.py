"""ITT, the marks that Intel's profilers show: tasks, by the collector that a profiler names in
INTEL_LIBITTNOTIFY64.  Without one they go nowhere, as with Intel's own library."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any


class _Id(ctypes.Structure):
    """Which task it is; all zeros: it has no number."""

    _fields_ = [("d1", ctypes.c_uint64), ("d2", ctypes.c_uint64), ("d3", ctypes.c_uint64)]


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "__itt_domain_create": (ctypes.c_void_p, [ctypes.c_char_p]),
    "__itt_string_handle_create": (ctypes.c_void_p, [ctypes.c_char_p]),
    "__itt_task_begin": (None, [ctypes.c_void_p, _Id, _Id, ctypes.c_void_p]),
    "__itt_task_end": (None, [ctypes.c_void_p]),
}


class _Collector:
    """A profiler's library, with a domain of ours."""

    def __init__(self, path: str) -> None:
        """OSError without the library, AttributeError without its functions."""
        library = ctypes.CDLL(path)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        self._make_name = getattr(library, "__itt_string_handle_create")
        self._begin = getattr(library, "__itt_task_begin")
        self._end = getattr(library, "__itt_task_end")
        self._domain = getattr(library, "__itt_domain_create")(b"PyTorch")
        self._names: dict[str, Any] = {}

    def begin(self, message: str) -> None:
        """A task begins."""
        name = self._names.get(message)
        if name is None:
            name = self._names[message] = self._make_name(message.encode())
        self._begin(self._domain, _Id(), _Id(), name)

    def end(self) -> None:
        """The innermost task ends."""
        self._end(self._domain)


@functools.cache
def _collector() -> _Collector | None:
    path = os.environ.get("INTEL_LIBITTNOTIFY64")
    if not path:
        return None
    try:
        return _Collector(path)
    except (OSError, AttributeError):  # it is none of that kind
        return None


def push(message: str) -> None:
    """Begins a task within the open one."""
    if (found := _collector()) is not None:
        found.begin(message)


def pop() -> None:
    """Ends the innermost task."""
    if (found := _collector()) is not None:
        found.end()


def mark(message: str) -> None:
    """A task without length."""
    push(message)
    pop()
