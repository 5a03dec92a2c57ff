"""The workers of a loader, as processes or as threads, behind one interface."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from multiprocessing import forkserver
from typing import Any

from tritorch.core import locks
from tritorch.utils.data._utils import stall, transport
from tritorch.utils.data._utils.segments import Inbox
from tritorch.utils.data._utils.worker import Job, latest, process_main, thread_main

Outcome = tuple[int, int, int, Any]  # worker, epoch, number, batch

_CHECK = 1.0  # seconds between looks whether the processes live, should a socket not tell
_LAST_WISH = 5.0  # seconds that worker processes have to end by themselves
_LAST_JOIN = 1.0  # and threads, which cannot be ended otherwise


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """Ctrl-C waits; a process that is started meanwhile gets it when it is ready for it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_loader_ends: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _close_loader_ends() -> None:
    # A child that kept them open would hide from its siblings that the loader is gone.
    for end in list(_loader_ends):
        end.close()


os.register_at_fork(after_in_child=_close_loader_ends)


class _Process:
    """One worker process and the way to it."""

    def __init__(self, context: Any, job: Job, number: int) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.inbox = Inbox()
        self.waiting: deque[Any] = deque()  # messages that the socket had no room for
        self.stacks: int | None = None  # the file for its stacks, once it has begun
        _loader_ends.add(self.socket)
        method = context.get_start_method()
        if method == "forkserver":
            forkserver.ensure_running()  # here, as the server would keep Ctrl-C blocked
        self.process = context.Process(
            target=process_main, args=(job, number, theirs, method), daemon=True
        )
        try:
            with _interrupts_later():
                self.process.start()
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()
        self.name = f"worker {number} (pid {self.process.pid})"

    def send(self, task: Any) -> None:
        self.waiting.append((self.inbox.collect_returned(), task))
        self.flush()

    def flush(self) -> bool:
        """Sends what waits as far as there is room; whether all is sent."""
        while self.waiting:
            try:
                transport.send(self.socket, self.waiting[0], flags=transport.AT_ONCE)
            except BlockingIOError:
                return False
            except OSError:  # it has died, which reading will tell
                self.waiting.clear()
                return True
            self.waiting.popleft()
        return True

    def receive(self) -> Any:
        """(epoch, number, outcome), () if there is nothing, or None if it is gone."""
        while True:
            try:
                found = transport.receive(self.socket, transport.AT_ONCE)
            except BlockingIOError:
                return ()
            except OSError:
                return None
            if found is None:
                return None
            message, files = found
            if message[0] != "here":
                return transport.open_outcome(self.inbox, message, files)
            self.stacks = files[0]

    def close(self) -> None:
        """No more tasks: the worker ends when it sees it."""
        _loader_ends.discard(self.socket)
        self.socket.close()
        self.inbox.mapped.clear()
        self.waiting.clear()
        if self.stacks is not None:
            os.close(self.stacks)
            self.stacks = None

    def end(self) -> str:
        """How the process ended."""
        self.process.join(_CHECK)
        code = self.process.exitcode
        if code is None:
            return f"{self.name} does not answer any more"
        if code >= 0:
            return f"{self.name} exited with exit code {code}"
        what = signal.strsignal(-code) or f"signal {-code}"
        hint = ""
        if -code == signal.SIGKILL:
            hint = " (as the system does with a process that takes too much memory)"
        elif -code == signal.SIGBUS:
            hint = " (as when there is no room for shared memory)"
        crash = stall.of_crash(self.stacks)
        return f"{self.name} is killed by signal: {what}{hint}" + (f"\n{crash}" if crash else "")


class Processes:
    """Worker processes, each behind a socket of its own."""

    def __init__(self, job: Job, context: Any) -> None:
        self.owner = os.getpid()
        self.workers: list[_Process] = []
        self._poll = select.poll()
        self._by_socket: dict[int, int] = {}
        self._lock = locks.lock()
        self._checked = time.monotonic()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._bell, select.POLLIN)
        try:
            for number in range(job.num_workers):
                worker = _Process(context, job, number)
                self.workers.append(worker)
                self._by_socket[worker.socket.fileno()] = number
                self._poll.register(worker.socket, select.POLLIN)
        except BaseException:
            self.close()
            raise

    def name(self, worker: int) -> str:
        """Which process it is."""
        return self.workers[worker].name

    def stack(self, worker: int) -> str:
        """What a worker is doing."""
        process = self.workers[worker]
        return stall.of_process(process.process.pid, process.stacks)

    def send(self, worker: int, task: Any) -> None:
        """Gives a worker a task, without waiting."""
        with self._lock:
            self.workers[worker].send(task)

    def retire(self, worker: int) -> None:
        """A worker that gets no more tasks may end."""
        process = self.workers[worker]
        number = process.socket.fileno()
        if number >= 0:
            self._poll.unregister(number)
            del self._by_socket[number]
            process.close()

    def wait(self, seconds: float) -> list[Outcome]:
        """What has come, after at most some time; an error where a worker has died."""
        with self._lock:
            waiting = [worker for worker in self.workers if not worker.flush()]
        patience = min(seconds, 0.01 if waiting else _CHECK)
        found: list[Outcome] = []
        dead = None
        for number, _ in self._poll.poll(patience * 1000):
            if number == self._bell:
                os.eventfd_read(number)
                continue
            worker = self._by_socket.get(number, -1)
            if worker < 0:
                continue  # retired by another thread meanwhile
            while outcome := self.workers[worker].receive():
                found.append((worker, *outcome))
            if outcome is None:
                dead = worker
        if not found and dead is None and time.monotonic() - self._checked > _CHECK:
            self._checked = time.monotonic()
            alive = [self.workers[w].process.is_alive() for w in self._by_socket.values()]
            dead = None if all(alive) else list(self._by_socket.values())[alive.index(False)]
        if not found and dead is not None:
            process = self.workers[dead]
            raise RuntimeError(
                f"DataLoader worker (pid(s) {process.process.pid}) exited unexpectedly: "
                f"{process.end()}"
            )
        return found

    def interrupt(self) -> None:
        """Makes a `wait` in another thread return."""
        os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        """Ends all workers; those that are busy are given some seconds."""
        mine = os.getpid() == self.owner
        for worker in self.workers:
            worker.close()
        if self._bell >= 0:
            os.close(self._bell)
            self._bell = -1
        until = time.monotonic() + _LAST_WISH
        for stop in (lambda p: None, lambda p: p.terminate(), lambda p: p.kill()):
            if not mine:
                return
            for worker in self.workers:
                if worker.process.is_alive():
                    stop(worker.process)
            for worker in self.workers:
                worker.process.join(max(until - time.monotonic(), 0))
            until = time.monotonic() + 1.0
        for worker in self.workers:
            worker.process.join()
        self.workers = []


class _Thread:
    """One worker thread."""

    def __init__(self, job: Job, number: int, outcomes: Any) -> None:
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._taken: deque[Any] = deque()

        def give(epoch: int, index: int, outcome: Any) -> None:
            outcomes.put((number, epoch, index, outcome))

        self.thread = threading.Thread(
            target=thread_main, args=(job, number, self._take, give), daemon=True,
            name=f"tritorch-loader-{number}",
        )  # fmt: skip
        self.thread.start()
        self.name = f"worker {number} (thread {self.thread.name})"

    def _take(self) -> Any:
        taken = self._taken
        if not taken:
            taken.append(self.tasks.get())
        while not self.tasks.empty():
            taken.append(self.tasks.get())
        return latest(taken)


class Threads:
    """Worker threads: they share the dataset and the process's memory."""

    def __init__(self, job: Job) -> None:
        self._outcomes: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
        self.workers = [_Thread(job, i, self._outcomes) for i in range(job.num_workers)]

    def name(self, worker: int) -> str:
        """Which thread it is."""
        return self.workers[worker].name

    def stack(self, worker: int) -> str:
        """What a worker is doing."""
        return stall.of_thread(self.workers[worker].thread.ident)

    def send(self, worker: int, task: Any) -> None:
        """Gives a worker a task."""
        self.workers[worker].tasks.put(task)

    def retire(self, worker: int) -> None:
        """A worker that gets no more tasks may end."""
        self.workers[worker].tasks.put(None)

    def wait(self, seconds: float) -> list[Outcome]:
        """What has come, after at most some time."""
        found: list[Outcome] = []
        with contextlib.suppress(queue.Empty):
            outcome = self._outcomes.get(timeout=seconds)
            while True:
                if outcome is not None:
                    found.append(outcome)
                outcome = self._outcomes.get_nowait()
        return found

    def interrupt(self) -> None:
        """Makes a `wait` in another thread return."""
        self._outcomes.put(None)

    def close(self) -> None:
        """Ends all workers; one that is busy ends after its batch, or with the process."""
        for worker in self.workers:
            worker.tasks.put(None)
        until = time.monotonic() + _LAST_JOIN
        for worker in self.workers:
            if worker.thread is not threading.current_thread():
                worker.thread.join(max(until - time.monotonic(), 0))
