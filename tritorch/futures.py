"""torch.futures: results that come later, from whichever thread sets them."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from tritorch.core import locks
from tritorch.core.device import device as Device

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value, or an exception, that is set once.

    devices: those whose streams the value's tensors were computed on; whoever waits for it has
    its current streams wait for them.
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        self._devices = [Device(device) for device in devices or ()]
        for device in self._devices:
            if device.index is None:
                raise ValueError(f"Expected devices to have indices, got {device}")
        self._changed = locks.condition()
        self._done = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Any], Any]] = []
        self._events: list[Any] = []

    def done(self) -> bool:
        """Whether there is a result or an exception."""
        return self._done

    def wait(self) -> Any:
        """The value, as soon as there is one; raises the exception if that is what was set."""
        with self._changed:
            self._changed.wait_for(lambda: self._done)
        return self.value()

    def value(self) -> Any:
        """The value, which must be there; raises the exception if that is what was set."""
        if not self._done:
            raise RuntimeError("value() of a Future that is not complete yet")
        if self._error is not None:
            raise self._error
        for event in self._events:
            event.wait()
        return self._result

    def set_result(self, result: Any) -> None:
        """Sets the value, and runs the callbacks in this thread."""
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Sets an exception, which `wait` and `value` raise."""
        assert isinstance(result, Exception), (
            f"{result} is of type {type(result)}, not an Exception."
        )
        self._complete(None, result)

    def _complete(self, result: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future "
                    "can only be marked completed once."
                )
            self._result, self._error = result, error
            self._record()
            self._done = True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback(self)

    def _record(self) -> None:
        from tritorch import cuda

        for device in self._devices:
            if device.type == "cuda":
                with cuda.device(device):
                    event = cuda.Event()
                    event.record()
                    self._events.append(event)

    def _when_done(self, callback: Callable[[Any], Any]) -> None:
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Any], Any]) -> Future[Any]:
        """What callback(self) will give: called once this is complete."""
        later: Future[Any] = Future(devices=self._devices)

        def run(done: Any) -> None:
            try:
                result = callback(done)
            except Exception as error:
                later.set_exception(
                    RuntimeError(
                        "Got the following error when running the callback: "
                        f"{type(error).__name__}: {error}"
                    )
                )
            else:
                later.set_result(result)

        self._when_done(run)
        return later

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Calls callback(self) once this is complete; its errors are printed."""

        def run(done: Any) -> None:
            try:
                callback(done)
            except Exception:
                print("Got the following error when running the callback:", file=sys.stderr)
                traceback.print_exc()

        self._when_done(run)


def collect_all(futures: Sequence[Future[Any]]) -> Future[Any]:
    """A future of these futures, complete when they all are, or when one has an exception."""
    out: Future[Any] = Future()
    left = len(futures)
    lock = locks.lock()

    def one_done(done: Any) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
            failed = done._error is not None and not out.done()
            if failed:
                out._complete(None, done._error)
        if last and not out.done():
            out.set_result(list(futures))

    if not futures:
        out.set_result([])
    for future in futures:
        future._when_done(one_done)
    return out


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """The values of all; raises the first exception."""
    return [future.wait() for future in collect_all(futures).wait()]


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """func(*args, **kwargs), computed now, as a future."""
    out: Future[Any] = Future()
    out.set_result(func(*args, **kwargs))
    return out


def wait(future: Future[Any]) -> Any:
    """The future's value."""
    if not isinstance(future, Future):
        raise TypeError(f"wait(): expected a tritorch.futures.Future, got {type(future).__name__}")
    return future.wait()
