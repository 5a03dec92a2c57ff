"""What goes through a loader once: in its own process, or with workers."""

from __future__ import annotations

import itertools
import queue
import threading
import time
import warnings
import weakref
from typing import Any

from tritorch.compat.torch_private._utils import ExceptionWrapper
from tritorch.core import profiling
from tritorch.core.profiling import events
from tritorch.utils.data._utils import stall
from tritorch.utils.data._utils.pin_memory import pin_memory
from tritorch.utils.data._utils.pools import Outcome, Processes, Threads
from tritorch.utils.data._utils.worker import End, Job
from tritorch.utils.data.sampler import draw_seed

_SLICE = 1.0  # seconds of one wait, after which the clock is looked at


def _can_pin(loader: Any) -> bool:
    if not loader.pin_memory:
        return False
    from tritorch import cuda

    if loader.pin_memory_device:
        warnings.warn(
            f"pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{loader.pin_memory_device}'.",
            stacklevel=4,
        )
    if not cuda.is_available():
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned "
            "memory won't be used.",
            stacklevel=4,
        )
        return False
    return True


def _get_distributed_settings() -> tuple[int, int]:
    """How many processes train together, and which of them this is."""
    from tritorch import distributed

    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size(), distributed.get_rank()
    return 1, 0


def _share_dist_seed(generator: Any, pg: Any) -> int:
    """A seed for all processes of a group: here there is one."""
    return draw_seed(generator)


class _BaseDataLoaderIter:
    """What goes through a loader once: derive from it, and say in `_next_data` what comes next."""

    def __init__(self, loader: Any) -> None:
        # Not the loader itself: it may hold this iterator.
        self._dataset = loader.dataset
        self._num_workers = loader.num_workers
        self._iterable = loader._iterable
        self._index_sampler = loader._index_sampler
        self._pin_memory = _can_pin(loader)
        self._dataset_kind = loader._dataset_kind
        self._auto_collation, self._drop_last = loader._auto_collation, loader.drop_last
        self._collate_fn, self._timeout = loader.collate_fn, loader.timeout
        self._persistent_workers = loader.persistent_workers
        self._world_size, self._rank = _get_distributed_settings()
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = draw_seed(loader.generator)
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._num_yielded = 0

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._num_yielded = 0

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        if events.enabled():
            name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"
            event = events.begin(profiling.ANNOTATION, name)
            data = self._next_data()
            events.end(event)
        else:
            data = self._next_data()
        self._num_yielded += 1
        expected = self._IterableDataset_len_called
        if expected is not None and self._num_yielded > expected:
            self._warn_of_length(expected)
        return data

    def _warn_of_length(self, expected: int) -> None:
        text = (
            f"Length of IterableDataset {self._dataset} was reported to be {expected} (when "
            f"accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            text += (
                "With several workers each one yields the whole dataset, unless its __iter__ asks "
                "get_worker_info() which part is its own."
            )
        warnings.warn(text, stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._dataset_fetcher = loader._make_fetcher(self._dataset)

    def _next_data(self) -> Any:
        data = self._dataset_fetcher.fetch(self._next_index())
        return pin_memory(data) if self._pin_memory else data


def _close(pool: Any) -> None:
    pool.close()


class _Pinning:
    """A pool whose batches a thread pins as they come."""

    def __init__(self, pool: Any) -> None:
        from tritorch import cuda

        self._pool = pool
        self._device = cuda.current_device()
        self._done = threading.Event()
        self._pinned: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._run, daemon=True, name="tritorch-loader-pinning"
        )
        self._thread.start()
        self.name, self.stack, self.send, self.retire = (
            pool.name, pool.stack, pool.send, pool.retire,
        )  # fmt: skip

    def _run(self) -> None:
        from tritorch import cuda

        cuda.set_device(self._device)
        where = f"in pin memory thread for device {self._device}"
        while not self._done.is_set():
            try:
                outcomes = self._pool.wait(_SLICE)
            except Exception as error:
                self._pinned.put(error)
                return
            for worker, epoch, number, outcome in outcomes:
                if not isinstance(outcome, (End, ExceptionWrapper)):
                    try:
                        outcome = pin_memory(outcome)
                    except Exception:
                        outcome = ExceptionWrapper(where=where)
                self._pinned.put((worker, epoch, number, outcome))
            del outcomes
            outcome = None

    def wait(self, seconds: float) -> list[Outcome]:
        """What has come and is pinned."""
        try:
            found = self._pinned.get(timeout=seconds)
        except queue.Empty:
            return []
        if isinstance(found, Exception):
            self._pinned.put(found)  # for who asks again
            raise found
        return [found]

    def close(self) -> None:
        """Ends the thread, then the workers."""
        self._done.set()
        self._pool.interrupt()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._pool.close()


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Gives out tasks, at most `prefetch_factor` for each worker ahead, and hands on what comes.

    Tasks are numbered. With `in_order`, worker by worker in turn, and batches come in the order of
    the tasks; without, to the worker with the fewest, and batches come as they are ready. Each task
    is answered: by a batch, an exception, or `End` when a worker's iterable dataset has no more.
    """

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._ahead = max(loader.prefetch_factor, 1) * self._num_workers
        self._in_order = loader.in_order
        self._epoch = 0
        self._failure: RuntimeError | None = None
        self._is_closed = False
        context = loader.multiprocessing_context
        job = Job(
            self._dataset, loader._make_fetcher, self._iterable, self._base_seed,
            loader.worker_init_fn, self._num_workers, max(loader.prefetch_factor, 1),
        )  # fmt: skip
        if context == "thread":
            self._pool: Any = Threads(job)
        else:
            if context is None:
                from tritorch import multiprocessing

                context = multiprocessing.get_context()
            self._pool = Processes(job, context)
        if self._pin_memory:
            self._pool = _Pinning(self._pool)
        # Runs when this is collected, and at the latest when the interpreter ends.
        self._close = weakref.finalize(self, _close, self._pool)
        self._start()

    def _start(self) -> None:
        self._sent = self._next = 0
        self._tasks: dict[int, int] = {}  # number -> worker, of what is not handed on
        self._ready: dict[int, Any] = {}  # number -> outcome, of those that have come
        self._load = [0] * self._num_workers
        self._active = [True] * self._num_workers
        self._turn = itertools.cycle(range(self._num_workers))
        self._all_given = False
        self._give_out()

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader)
        self._epoch += 1
        for worker in range(self._num_workers):
            self._pool.send(worker, (self._epoch, None, None))
        self._start()

    def _worker_for_next(self) -> int | None:
        if not self._in_order:
            active = [w for w in range(self._num_workers) if self._active[w]]
            return min(active, key=self._load.__getitem__, default=None)
        for _ in range(self._num_workers):
            worker = next(self._turn)
            if self._active[worker]:
                return worker
        return None

    def _give_out(self) -> None:
        while len(self._tasks) < self._ahead and not self._all_given:
            worker = self._worker_for_next()
            if worker is None:
                return
            try:
                index = self._next_index()
            except StopIteration:
                self._all_given = True
                return
            self._tasks[self._sent] = worker
            self._load[worker] += 1
            self._pool.send(worker, (self._epoch, self._sent, index))
            self._sent += 1

    def _accept(self, outcomes: list[Outcome]) -> None:
        for worker, epoch, number, outcome in outcomes:
            if epoch != self._epoch:
                continue  # of an epoch that was left early
            self._load[worker] -= 1
            if isinstance(outcome, End):
                del self._tasks[number]
                self._active[worker] = False
                if not self._persistent_workers and not self._load[worker]:
                    self._pool.retire(worker)
            else:
                self._ready[number] = outcome
        self._give_out()

    def _next_data(self) -> Any:
        if self._failure is not None:
            raise self._failure
        if self._is_closed:
            raise StopIteration
        while True:
            number = self._first_ready()
            if number is not None:
                break
            if not self._tasks:
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            self._wait()
        del self._tasks[number]
        outcome = self._ready.pop(number)
        self._give_out()
        if isinstance(outcome, ExceptionWrapper):
            outcome.reraise()
        return outcome

    def _first_ready(self) -> int | None:
        if not self._in_order:
            return next(iter(self._ready), None)
        first = next(iter(self._tasks), None)
        return first if first in self._ready else None

    def _wait(self) -> None:
        """Until the batch that is needed, or the end of a worker, has come."""
        began = time.monotonic()
        warn_at = stall.WARN_AFTER
        while True:
            waited = time.monotonic() - began
            if self._timeout and waited >= self._timeout:
                raise RuntimeError(
                    f"DataLoader timed out after {self._timeout} seconds\n{self._report()}"
                )
            if waited >= warn_at:
                warnings.warn(
                    f"DataLoader has waited {waited:.0f} seconds for a batch\n{self._report()}",
                    RuntimeWarning,
                    stacklevel=4,
                )
                warn_at *= 4
            limit = min(self._timeout or warn_at, warn_at)
            try:
                outcomes = self._pool.wait(max(min(_SLICE, limit - waited), 0))
            except RuntimeError as error:
                self._failure = error
                self._shutdown_workers()
                raise
            if outcomes:
                self._accept(outcomes)
                if not self._tasks or self._first_ready() is not None:
                    return

    def _report(self) -> str:
        """Which workers are waited for, and where they are."""
        late = {worker for number, worker in self._tasks.items() if number not in self._ready}
        if self._in_order and self._tasks:
            late = {next(iter(self._tasks.values()))}
        return "\n".join(
            f"{self._pool.name(worker)}:\n{self._pool.stack(worker)}" for worker in sorted(late)
        )

    def _shutdown_workers(self) -> None:
        self._is_closed = True
        self._close()
