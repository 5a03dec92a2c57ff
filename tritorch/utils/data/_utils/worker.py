"""What a worker does, in a process or a thread: it takes tasks and gives back batches."""

from __future__ import annotations

import gc
import os
import random
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tritorch.compat.torch_private._utils import ExceptionWrapper
from tritorch.core.generator import Generator, manual_seed
from tritorch.host.threads import set_num_threads
from tritorch.utils.data._utils import stall, transport

_PARENT_CHECK = 5.0  # seconds between looks whether the loader's process is still there


@dataclass(frozen=True, slots=True)
class _RNG:
    """Generators of a worker thread, which must not draw from those of the process."""

    random_generator: random.Random
    torch_generator: Generator
    numpy_generator: Any = None


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Which worker this is: `id` of `num_workers`, with its `seed` and its `dataset`.

    `worker_method` is "multiprocessing" or "thread". Threads share the process's random generators,
    so a worker thread has its own in `rng`.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: _RNG | None = None
    worker_method: str | None = "multiprocessing"


class _Here(threading.local):
    info: WorkerInfo | None = None


_here = _Here()
_worker_info: WorkerInfo | None = None  # of a worker process, whichever thread asks


def get_worker_info() -> WorkerInfo | None:
    """Which worker this is; None outside of workers."""
    return _here.info or _worker_info


@dataclass(frozen=True)
class _ResumeIteration:
    """In PyTorch, what tells a worker to begin again."""

    seed: int | None = None


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """In PyTorch, what a worker sends when its dataset has no more."""

    worker_id: int


class ManagerWatchdog:
    """A look whether the process that started this one is still there."""

    def __init__(self) -> None:
        self.manager_pid = os.getppid()
        self.manager_dead = False

    def is_alive(self) -> bool:
        """True while it is."""
        self.manager_dead = self.manager_dead or os.getppid() != self.manager_pid
        return not self.manager_dead


class End:
    """Instead of a batch: the worker's iterable dataset has no more."""


class Job(NamedTuple):
    """What all workers of a loader know."""

    dataset: Any
    make_fetcher: Callable[[Any], Any]
    iterable: bool
    base_seed: int
    init: Callable[[int], Any] | None
    num_workers: int
    prefetch: int


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """A seed for NumPy, far from those of other workers and of other epochs."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32 & 0xFFFFFFFF, 0]
    return np.random.SeedSequence(words).generate_state(4).tolist()


def serve(
    job: Job, worker_id: int, where: str, take: Callable[[], Any], give: Callable[..., Any]
) -> None:
    """Tasks from `take` until it gives None; (epoch, number, outcome) to `give` for each.

    A task is (epoch, number, index), or (epoch, None, None): a new epoch begins.
    """
    fetcher, failure, ended = None, None, False
    try:
        if job.init is not None:
            job.init(worker_id)
        fetcher = job.make_fetcher(job.dataset)
    except Exception:
        failure = ExceptionWrapper(where=where)
    while (task := take()) is not None:
        epoch, number, index = task
        if number is None:
            try:
                fetcher, failure, ended = job.make_fetcher(job.dataset), None, False
            except Exception:
                failure = ExceptionWrapper(where=where)
            continue
        outcome: Any = failure
        if ended:
            outcome = End()
        elif failure is None:
            try:
                outcome = fetcher.fetch(index)  # type: ignore[union-attr]
            except StopIteration:
                ended = job.iterable
                outcome = End() if ended else ExceptionWrapper(where=where)
            except Exception:
                outcome = ExceptionWrapper(where=where)
        give(epoch, number, outcome)
        del outcome  # before the next batch is made: its memory may serve again


def latest(tasks: Any) -> Any:
    """The first task that still matters: what came before the last new epoch does not."""
    for i in range(len(tasks) - 1, -1, -1):
        if tasks[i] is None or tasks[i][1] is None:
            for _ in range(i):
                tasks.popleft()
            break
    return tasks.popleft()


def process_main(job: Job, worker_id: int, sock: socket.socket, method: str) -> None:
    """A worker process."""
    try:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        # Blocked while this process was started, so that Ctrl-C ends it here and silently.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the program's handler is not for workers
        _set_up(job, worker_id, method)
        sender = transport.Sender(sock, job.prefetch)
        transport.send(sock, ("here", os.getpid()), [stall.prepare()])
        _serve_process(job, worker_id, sender)
    except KeyboardInterrupt:
        pass  # the loader's process got it too
    except (BrokenPipeError, ConnectionError):
        pass  # the loader is gone


def _set_up(job: Job, worker_id: int, method: str) -> None:
    global _worker_info
    if method == "fork":
        gc.freeze()  # so that collections here do not touch, and thus copy, the parent's pages
    set_num_threads(1)
    seed = job.base_seed + worker_id
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(_generate_state(job.base_seed, worker_id))
    _worker_info = WorkerInfo(worker_id, job.num_workers, seed, job.dataset)


def _serve_process(job: Job, worker_id: int, sender: transport.Sender) -> None:
    parent = os.getppid()
    where = f"in DataLoader worker process {worker_id}"

    def take() -> Any:
        sender.arena.end_batch()  # nothing here holds the last one any more
        while sender.receive():
            if sender.tasks:
                return latest(sender.tasks)
            if not sender.wait(_PARENT_CHECK) and os.getppid() != parent:
                break
        return None

    def give(epoch: int, number: int, outcome: Any) -> None:
        try:
            sender.send(epoch, number, outcome)
        except ConnectionError:
            raise
        except Exception:  # it cannot be pickled
            sender.send(epoch, number, ExceptionWrapper(where=where))

    serve(job, worker_id, where, take, give)


def thread_main(job: Job, worker_id: int, take: Callable[[], Any], give: Any) -> None:
    """A worker thread."""
    seed = job.base_seed + worker_id
    state = _generate_state(job.base_seed, worker_id)
    rng = _RNG(random.Random(seed), Generator().manual_seed(seed), np.random.default_rng(state))
    _here.info = WorkerInfo(worker_id, job.num_workers, seed, job.dataset, rng, "thread")
    serve(job, worker_id, f"in DataLoader worker thread {worker_id}", take, give)
