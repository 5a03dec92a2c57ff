"""What is set for one thread (modes, scopes, the current stream), and how another takes it over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tritorch import _C

# Each sets a flag of this thread and returns what it was.
_FLAGS = (
    _C.set_grad_enabled,
    _C.set_inference_mode,
    _C.set_saving_hooks,
    _C.set_tracing_calls,
    _C.set_function_modes,
    _C.set_autocast,
    _C.set_overrides,
)
_locals: list[threading.local] = []


def carried(local: Any) -> Any:
    """Notes a thread-local object as part of what a thread that goes on for another takes over."""
    _locals.append(local)
    return local


def _read(flag: Callable[[bool], bool]) -> bool:
    value = flag(False)
    flag(value)
    return value


def _capture() -> tuple[Any, ...]:
    flags = [_read(flag) for flag in _FLAGS]
    fields = [dict(local.__dict__) for local in _locals]
    where: list[int] = []
    if _C.driver_loaded():
        where = [_C.current_device(), *(_C.current_stream(i) for i in range(_C.device_count()))]
    return flags, fields, where


def _restore(captured: tuple[Any, ...]) -> None:
    flags, fields, where = captured
    for flag, value in zip(_FLAGS, flags):
        flag(value)
    for local, values in zip(_locals, fields):
        local.__dict__.update(values)
    if where:
        _C.set_device(where[0])
        for i, stream in enumerate(where[1:]):
            _C.set_stream(i, stream)


def run_in_thread(function: Callable[[], Any]) -> Any:
    """Calls a function on a new thread, which takes over what is set for this one, and waits.

    For recursion that would outgrow this thread's stack.
    """
    captured = _capture()
    outcome: list[tuple[Any, BaseException | None]] = []

    def body() -> None:
        try:
            _restore(captured)
            outcome.append((function(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=body, name="tritorch-deep", daemon=True)
    thread.start()
    thread.join()
    result, error = outcome.pop()
    if error is not None:
        raise error
    return result
