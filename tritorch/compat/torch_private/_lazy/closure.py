"""Functions that run at the end of a step, when all tensors are computed."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

from tritorch.compat.torch_private._lazy.device_context import DeviceContext, get_device_context
from tritorch.core import locks

Closure = Callable[[], Any]


class ClosureHandler:
    """Runs closures, one after the other."""

    def run(self, closure: Closure) -> None:
        """Runs one."""
        closure()

    def __call__(self, closures: Iterable[Closure]) -> None:
        for closure in closures:
            self.run(closure)


class AsyncClosureHandler(ClosureHandler):
    """Runs closures in a thread, in order; at most max_queue_size wait (LTC_MAX_ASYNC_QUEUE)."""

    def __init__(self, max_queue_size: int = 100) -> None:
        size = int(os.environ.get("LTC_MAX_ASYNC_QUEUE", max_queue_size))
        self._closure_queue: queue.Queue[Closure] = queue.Queue(size)
        self._closure_exception: queue.Queue[Exception] = queue.Queue()
        self._closure_lock = locks.lock()
        self._closure_event_loop: threading.Thread | None = None

    def _loop(self) -> None:
        while True:
            try:
                closure = self._closure_queue.get(timeout=3)
            except queue.Empty:
                with self._closure_lock:
                    if self._closure_queue.empty():
                        self._closure_event_loop = None
                        return
                continue
            try:
                closure()
            except Exception as error:
                self._closure_exception.put(error)
            finally:
                self._closure_queue.task_done()

    def run(self, closure: Closure) -> None:
        """Gives one to the thread; an error of an earlier one is raised here."""
        try:
            error = self._closure_exception.get_nowait()
        except queue.Empty:
            pass
        else:
            raise RuntimeError(
                "Cannot run asynchronous closure due to previously raised exception"
            ) from error
        self._closure_queue.put(closure)
        with self._closure_lock:
            if self._closure_event_loop is None:
                self._closure_event_loop = threading.Thread(target=self._loop, daemon=True)
                self._closure_event_loop.start()


_handlers: dict[bool, ClosureHandler] = {}


def add_step_closure(
    closure: Callable[..., Any], args: tuple[Any, ...] = (), run_async: bool = False
) -> None:
    """Has a function called at the end of the step, in a thread if run_async."""
    context = get_device_context()
    waiting = context.async_step_closures if run_async else context.step_closures
    waiting.append(lambda: closure(*args))


def run_step_closures() -> DeviceContext:
    """Calls what waits for the end of a step."""
    context = get_device_context()
    waiting, context.async_step_closures = context.async_step_closures, []
    if waiting:
        _handlers.setdefault(True, AsyncClosureHandler())(waiting)
    waiting, context.step_closures = context.step_closures, []
    _handlers.setdefault(False, ClosureHandler())(waiting)
    return context
