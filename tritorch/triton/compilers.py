"""Processes that compile kernels side by side.

Triton's compiler holds the interpreter lock, so threads would take turns.  A launch whose kernel is
in no cache begins a `Job` here and waits in a queue (Note [Launches that wait] in
src/launch/waiting.h); what it is compiled to is asked for when the queue is started.

A process is told a kernel as a message: a function by its module and name, or by its source.  It
gives back what is stored of a kernel.  Where that fails, for whatever reason, the process that
asked compiles, and has the compiler's error.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import io
import os
import pickle
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING, Any

from tritorch import _C
from tritorch.core import locks
from tritorch.triton import assemblers, cache, keys, names, written
from tritorch.triton.installing import lock

if TYPE_CHECKING:
    from tritorch.triton.trace import Work

MOST = 8  # processes of "all"
IDLE = 30.0  # seconds without a job after which a process ends
# For tests: the first launch of each kernel waits, also on the simulated device.
always = False


def count() -> int:
    """How many processes may compile: as TRITORCH_COMPILERS says ("all": one a processor); without
    it none, while launches that wait have not been seen on a GPU."""
    said = os.environ.get("TRITORCH_COMPILERS", "")
    if said == "all":
        return min(len(os.sched_getaffinity(0)), MOST)
    return int(said) if said.isdecimal() and int(said) > 1 else 0


class Job:
    """A kernel that is to be compiled for a target."""

    def __init__(self, work: Work, target: int) -> None:
        self.work, self.target = work, target
        self.taken = False
        self.entry: cache.Entry | None = None  # what it was compiled to; None: that failed
        self.over = threading.Event()


class _Pool:
    """The processes of this one, started when there is something to do for them."""

    def __init__(self) -> None:
        self.lock = self.changed = locks.condition()
        self.jobs: dict[tuple[str, str], Job] = {}
        self.pending: collections.deque[Job] = collections.deque()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.ready = 0  # processes that have imported the compiler

    def begin(self, place: tuple[str, str], work: Work, target: int) -> None:
        """Has a kernel compiled, unless it is already."""
        with self.lock:
            if place in self.jobs:
                return
            job = self.jobs[place] = Job(work, target)
            self.pending.append(job)
            if len(self.processes) < min(count(), len(self.pending) + self.ready):
                self._start()
            self.changed.notify()

    def has_begun(self, place: tuple[str, str]) -> bool:
        """Whether a kernel is being compiled, or was and nobody has asked for it."""
        with self.lock:
            return place in self.jobs

    def result(self, place: tuple[str, str]) -> cache.Entry | None:
        """What a kernel was compiled to; None if nobody does that, or it failed."""
        with self.lock:
            job = self.jobs.pop(place, None)
            if job is None:
                return None
            is_here = not job.taken and not self.ready  # sooner than there
            if is_here and job in self.pending:
                self.pending.remove(job)
        if is_here and not job.over.is_set():
            with lock:
                job.entry = _compiled(job.work, job.target)
        else:
            job.over.wait()
        return job.entry

    def _start(self) -> None:
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()"
        command = [sys.executable, "-I", "-c", code]
        told = os.environ | {assemblers.DRIVER: str(keys.driver_cuda())}
        with contextlib.suppress(OSError):  # no more processes: there is one less
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=told
            )
            self.processes.append(process)
            threading.Thread(target=self._serve, args=(process,), daemon=True).start()

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        """Gives a process one job after the other."""
        assert process.stdin is not None and process.stdout is not None
        job: Job | None = None
        ready = 0
        try:
            _received(process.stdout)
            with self.lock:
                self.ready += (ready := 1)
            while True:
                with self.lock:
                    while not self.pending:
                        if not self.changed.wait(IDLE) and not self.pending:
                            raise EOFError
                    job = self.pending.popleft()
                    job.taken = True
                message = _packed(job)
                if message:
                    _send(process.stdin, message)
                    job.entry = cache.Entry.from_bytes(_received(process.stdout))
                job.over.set()
                job = None
        except (OSError, EOFError):  # it is gone, or goes: jobs without a process fail
            process.kill()
            process.wait()
            with self.lock:
                self.ready -= ready
                self.processes.remove(process)
                left = [] if job is None else [job]
                while self.pending and not self.processes:
                    left.append(self.pending.popleft())
            for each in left:
                each.over.set()

    def end(self) -> None:
        """Ends the processes."""
        _C.forget_what_waits()
        for process in self.processes:
            process.kill()


pool = _Pool()
atexit.register(lambda: pool.end())


def _anew() -> None:
    global pool
    pool = _Pool()  # a forked child has none of its parent's processes


os.register_at_fork(after_in_child=_anew)


# ---- messages ------------------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    def persistent_id(self, x: Any) -> Any:
        from triton import JITFunction

        if not isinstance(x, JITFunction):
            return None
        if (name := names.of_made(x)) is not None:
            return name.module, name.name, name.argument
        source = written.sources.get(x.__module__)
        return (source,) if source is not None else (x.__module__, x.__name__, None)


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        return written.function(*pid) if len(pid) == 1 else names.named(*pid).find()


def _packed(job: Job) -> bytes:
    file = io.BytesIO()
    try:
        _Pickler(file).dump((job.work, job.target))
    except Exception:  # of what cannot be sent
        return b""
    return file.getvalue()


def _send(file: IO[bytes], message: bytes) -> None:
    file.write(len(message).to_bytes(8, "little") + message)
    file.flush()


def _received(file: IO[bytes]) -> bytes:
    size = int.from_bytes(_exactly(file, 8), "little")
    return _exactly(file, size)


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


def entry_of(compiled: Any) -> cache.Entry:
    """What Triton compiled, to be stored."""
    from tritorch.triton import driver

    steps = driver.plan_of(compiled.src, compiled.metadata)
    assembler = keys.assembler(compiled.metadata.target.arch)
    by = f"{assembler.name} {assembler.version()}" if assembler is not None else ""
    return cache.Entry(compiled.metadata.name, steps, compiled.asm["cubin"], by)


def _compiled(work: Work, target: int) -> cache.Entry | None:
    try:
        return entry_of(work.compile(target))
    except Exception:
        return None  # who asked compiles it, and has the error


def _answer(message: bytes) -> bytes:
    try:
        entry = _compiled(*_Unpickler(io.BytesIO(message)).load())
    except Exception:  # of a function that is not there
        return b""
    return b"" if entry is None else entry.to_bytes()


def main() -> None:
    """A process that compiles, until who started it is gone."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what compilers print is no answer
    import triton.compiler  # noqa: F401

    _send(out, b"")
    with contextlib.suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while True:
            _send(out, _answer(_received(sys.stdin.buffer)))
