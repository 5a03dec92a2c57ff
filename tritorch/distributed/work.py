"""Work: a collective or a message that runs, or will."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tritorch.core import locks
from tritorch.distributed.constants import milliseconds
from tritorch.futures import Future

__all__ = ["Work"]

_FOREVER = 2**31 - 1


class Work:
    """What PyTorch's asynchronous functions give.  Backends of programs derive from it."""

    def is_completed(self) -> bool:
        """Whether it is over."""
        raise NotImplementedError

    def is_success(self) -> bool:
        """Whether it is over, and well."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """Why it failed."""
        return None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for its end; raises if it failed."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Waits for its end."""
        self.wait()

    def block_current_stream(self) -> None:
        """Waits for its end: results of ours are there for every stream then."""
        self.wait()

    def result(self) -> list[Any]:
        """The tensors that were written."""
        return []

    def source_rank(self) -> int:
        """Who sent what a receive got."""
        raise RuntimeError("sourceRank() may only be called on work objects that correspond to a "
                           "recv or recv-from-any call.")  # fmt: skip

    def _source_rank(self) -> int:
        return self.source_rank()

    def get_future(self) -> Future[Any]:
        """A future of what `result` gives."""
        raise NotImplementedError

    def _once_over(self, function: Callable[[], None]) -> None:
        """Calls the function when the host's part is over."""
        function()


class TaskWork(Work):
    """The work of a native task: with what is left to do once it is over (copies into tensors that
    the native half cannot write), and the tensors that must live until then."""

    def __init__(
        self,
        task: Any,
        finish: Callable[[], None] | None,
        tensors: list[Any],
        explain: Callable[[Any], BaseException],
        held: list[Any],
    ) -> None:
        self._task, self._finish, self._tensors, self._held = task, finish, tensors, held
        self._explain = explain
        self._error: BaseException | None = None
        self._settled = False
        self._lock: Any = None
        if finish is not None:  # whoever looks at the tensors without `wait` finds them written
            self._lock = locks.lock()
            task.then(self._settle)

    def _settle(self) -> None:
        if self._lock is None:  # nothing is done that may not be done twice
            self._settle_now()
            return
        with self._lock:
            self._settle_now()

    def _settle_now(self) -> None:
        if self._settled:
            return
        failure = self._task.failure
        if failure is not None:
            self._error = self._explain(failure)
        elif self._finish is not None:
            self._finish()
        self._held.clear()  # the native half has the list, too
        self._settled = True

    def is_completed(self) -> bool:
        if self._task.done and not self._settled:
            self._settle()
        return self._settled

    def exception(self) -> BaseException | None:
        return self._error if self.is_completed() else None

    def wait(self, timeout: timedelta | None = None) -> bool:
        limit = _FOREVER if timeout is None or not timeout else milliseconds(timeout)
        if not self._task.done and not self._task.wait(limit):
            raise self._explain(("timeout", "the wait for it ended before it did", []))
        self._settle()
        if self._error is not None:
            raise self._error
        return True

    def result(self) -> list[Any]:
        return self._tensors

    def source_rank(self) -> int:
        if self._task.source < 0:
            return super().source_rank()
        return int(self._task.source)

    def get_future(self) -> Future[Any]:
        future: Future[Any] = Future()

        def complete() -> None:
            self._settle()
            if self._error is not None:
                future._complete(None, self._error)
            else:
                future.set_result(self._tensors)

        self._task.then(complete)
        return future

    def _once_over(self, function: Callable[[], None]) -> None:
        self._task.then(function)


class DoneWork(Work):
    """A work that was over when it was made."""

    def __init__(self, tensors: list[Any], error: BaseException | None = None) -> None:
        self._tensors, self._error = tensors, error

    def is_completed(self) -> bool:
        return True

    def exception(self) -> BaseException | None:
        return self._error

    def wait(self, timeout: timedelta | None = None) -> bool:
        if self._error is not None:
            raise self._error
        return True

    def result(self) -> list[Any]:
        return self._tensors

    def get_future(self) -> Future[Any]:
        future: Future[Any] = Future()
        if self._error is not None:
            future._complete(None, self._error)
        else:
            future.set_result(self._tensors)
        return future


class WorkList(Work):
    """Several works as one."""

    def __init__(self, works: list[Work]) -> None:
        self._works = works

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def exception(self) -> BaseException | None:
        return next((e for e in (work.exception() for work in self._works) if e is not None), None)

    def wait(self, timeout: timedelta | None = None) -> bool:
        for work in self._works:
            work.wait() if timeout is None else work.wait(timeout)
        return True

    def result(self) -> list[Any]:
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self) -> Future[Any]:
        from tritorch.futures import collect_all

        futures = [work.get_future() for work in self._works]
        return collect_all(futures).then(
            lambda done: [tensor for each in done.value() for tensor in each.value()]
        )

    def _once_over(self, function: Callable[[], None]) -> None:
        over = itertools.count(1)

        def one_more() -> None:
            if next(over) == len(self._works):
                function()

        for work in self._works:
            work._once_over(one_more)
