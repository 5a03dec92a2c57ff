"""nccl: collectives of GPUs by NVIDIA's library, or by the simulated device's communicators.

# Note [Collectives on streams]
A collective that the caller waits for runs on his current stream, one that he does not on a stream
of the group, which first waits for his; `Work.wait` has his stream wait for the collective's event.
The host waits for neither.  A work keeps its tensors until the device is done with them, so that no
memory has to be marked as used by another stream.

A thread of the group looks at the works that have begun.  When one has lasted too long, or NCCL
knows of an error, or another member has said in the store that the group has failed, it collects
who is where, aborts the communicators (which ends what hangs on the device), and has the error
raised by whatever comes first: a wait, the next call, the next synchronisation of the device.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from tritorch import _C, cuda
from tritorch.autograd import no_grad
from tritorch.core import locks
from tritorch.core.device import device as Device
from tritorch.distributed.backends.interface import Backend, Call
from tritorch.distributed.backends.nccl_calls import BYTES, launch, type_of
from tritorch.distributed.constants import DistBackendError, DistStoreError
from tritorch.distributed.stores import Store
from tritorch.distributed.where import Record, Ring
from tritorch.distributed.work import Work
from tritorch.futures import Future
from tritorch.gpu import errors

__all__ = ["ProcessGroupNCCL", "is_available", "version"]

_native = _C.nccl
_IN_PROGRESS = 7
_THREAD_LOCAL = 1  # of modes of captures


def _library() -> str:
    """The path of the library in NVIDIA's wheel, if there is one."""
    if path := os.environ.get("TRITORCH_LIBNCCL"):
        return path
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec("nvidia.nccl")
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            file = Path(place) / "lib" / "libnccl.so.2"
            if file.exists():
                return str(file)
    return ""


def problem() -> str:
    """Why there is no NCCL; "" if there is."""
    if not _native.loaded() and not cuda.is_available():
        return "there is no GPU"
    return str(_native.load(_library()))


def is_available() -> bool:
    """Whether there is a GPU, or a simulated one, and NCCL."""
    return not problem()


def version() -> tuple[int, int, int]:
    """NCCL's version."""
    number = _native.version()
    if number < 10000:  # before 2.9
        return number // 1000, number % 1000 // 100, number % 100
    return number // 10000, number % 10000 // 100, number % 100


class _Ring(Ring):
    """A member is where the device is: at the oldest call that has not ended."""

    def __init__(self, rank: int, size: int, store: Store | None) -> None:
        super().__init__("0", rank, size, store)
        self.works: list[NcclWork] = []

    def place(self, waits: bool) -> dict[str, Any]:
        works, found = list(self.works), super().place(False)
        if not works:
            return found
        record = works[0].record
        return found | {"last": record.describe(), "at": record.sequence, "waits": True}


class NcclWork(Work):
    """A collective on a stream."""

    def __init__(
        self, group: ProcessGroupNCCL, record: Record, outputs: list[Any], held: list[Any],
        stream: Any, limit: float, blocking: bool,
    ) -> None:  # fmt: skip
        self._group, self.record, self._outputs, self._held = group, record, outputs, held
        self._blocking = blocking
        self.event = stream.record_event()
        self.ends = time.monotonic() + limit
        self.failed: BaseException | None = None

    def is_completed(self) -> bool:
        return self.failed is not None or self.event.query()

    def exception(self) -> BaseException | None:
        return self.failed

    def wait(self, timeout: timedelta | None = None) -> bool:
        if timeout:
            end = time.monotonic() + timeout.total_seconds()
            while not self.is_completed():
                if time.monotonic() > end:
                    raise DistBackendError("the wait for a collective ended before it did")
                time.sleep(0.001)
        if self._blocking:
            while not self.is_completed():
                time.sleep(0.0005)
        if self.failed is not None:
            raise self.failed
        cuda.current_stream(self.event.device).wait_event(self.event)
        return True

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def result(self) -> list[Any]:
        return self._outputs

    def get_future(self) -> Future[Any]:
        """A future that is complete in the order of streams, as collectives are."""
        future: Future[Any] = Future()
        try:
            self.wait()
        except DistBackendError as error:
            future._complete(None, error)
        else:
            future.set_result(self._outputs)
        return future


class ProcessGroupNCCL(Backend):
    """A member of a group of GPUs."""

    supports_coalescing = supports_splitting = True

    class Options:
        """How the group's own stream is made."""

        def __init__(self, is_high_priority_stream: bool = False) -> None:
            self.is_high_priority_stream = is_high_priority_stream
            self._timeout = timedelta(minutes=10)
            self.backend = "nccl"
            self.global_ranks_in_group: list[int] = []
            self.group_name = ""

    def __init__(
        self, store: Store, rank: int, size: int, timeout: timedelta, options: Any = None
    ) -> None:
        super().__init__(rank, size)
        if wrong := problem():
            raise RuntimeError(
                f"Distributed package doesn't have NCCL built in: {wrong}. It comes with `pip "
                "install nvidia-nccl-cu12` (or -cu13), or TRITORCH_LIBNCCL names its file; gloo "
                "serves GPUs through the host"
            )
        self.options = options if isinstance(options, self.Options) else self.Options()
        self._store, self._timeout = store, timeout
        self._comms: dict[int, Any] = {}
        self._streams: dict[int, Any] = {}
        self.ring = _Ring(rank, size, store if size > 1 else None)
        self._changed = locks.condition()
        self._failed: BaseException | None = None
        self._ended = False
        self._grouped: list[tuple[Any, ...]] | None = None
        self._thread: threading.Thread | None = None

    def name(self) -> str:
        return "nccl"

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    _set_default_timeout = set_timeout

    # Communicators.

    def _comm(self, device: int) -> Any:
        """The communicator of a device; its first use meets the other members."""
        if self._failed is not None:
            raise DistBackendError(f"the group has failed: {self._failed}")
        if self._ended:
            raise DistBackendError("the group was ended")
        found = self._comms.get(device)
        if found is None:
            key = f"nccl/{len(self._comms)}"
            if self._rank == 0:
                self._store.set(key, _native.unique_id())
            self._store.set(f"{key}/{self._rank}", "1")
            try:
                identity = self._store.get(key)
            except DistStoreError as error:
                raise DistStoreError(
                    f"rank {self.ring.ranks[0]} did not come to the first collective of the group "
                    f"on its device {device} ({error})"
                ) from None
            found = _native.Communicator(self._size, identity, self._rank, device)
            self._await(found, key)
            self._comms[device] = found
        return found

    def _await(self, comm: Any, key: str) -> None:
        end = time.monotonic() + self._timeout.total_seconds()
        while True:
            state, text = comm.state
            if state == 0:
                return
            if state != _IN_PROGRESS:
                comm.abort()
                raise DistBackendError(f"NCCL's communicator was not made: {text}")
            if time.monotonic() > end:
                comm.abort()
                absent = [r for r in range(self._size) if not self._store.check([f"{key}/{r}"])]
                names = ", ".join(str(self.ring.ranks[rank]) for rank in absent)
                raise DistBackendError(
                    f"Timed out in group {self.ring.group}: no communicator, as rank {names} did "
                    f"not come. {self.ring.report()}"
                )
            time.sleep(0.001)

    def split(self, part: Backend | None, color: int, key: int) -> None:
        """A part's communicators are cut from this group's, where there are some already."""
        for place, (device, comm) in enumerate(self._comms.items()):
            self._settled(comm)
            made = comm.split(color, key)
            if not isinstance(part, ProcessGroupNCCL):
                continue
            name = f"nccl/{place}"
            part._store.set(f"{name}/{part._rank}", "1")
            part._await(made, name)
            part._comms[device] = made

    def _settled(self, comm: Any) -> None:
        """Until a call is queued: a communicator that does not block may need a moment."""
        end = time.monotonic() + self._timeout.total_seconds()
        while comm.state[0] == _IN_PROGRESS:
            if self._failed is None and time.monotonic() > end:
                self._fail(f"Timed out in group {self.ring.group}: NCCL took no call")
            if self._failed is not None:
                raise self._failed
            time.sleep(0.0002)

    # Calls.

    def run(self, call: Call) -> Work:
        tensors = [*call.inputs, *call.outputs]
        if any(not each.is_cuda for each in tensors):
            raise RuntimeError("No backend type associated with device type cpu")
        if call.kind in ("all_reduce", "reduce", "reduce_scatter"):
            type_of(call)  # refused before anybody waits
        if call.kind == "barrier" and cuda.is_current_stream_capturing():
            raise RuntimeError("a barrier waits on the host: no graph can have one")
        index = tensors[0].device.index if tensors else cuda.current_device()
        comm = self._comm(index)
        self.ring.add(call)
        with self._on_stream(index, call.wait) as stream, no_grad():
            held, copies = launch(comm, call, self._rank, self._size, stream.cuda_stream)
            self._settled(comm)
            for to, piece in copies:
                to.copy_(piece.reshape(to.shape))
        limit = self._timeout if call.timeout is None else call.timeout
        return self._begun(call.outputs, [*tensors, *held], stream, limit, call.kind == "barrier")

    @contextlib.contextmanager
    def _on_stream(self, index: int, waits: bool) -> Any:
        """Note [Collectives on streams]."""
        current = cuda.current_stream(index)
        stream = current
        if not waits:
            if index not in self._streams:
                urgency = -1 if self.options.is_high_priority_stream else 0
                self._streams[index] = cuda.Stream(index, urgency)
            stream = self._streams[index]
            stream.wait_stream(current)
        with cuda.stream(stream):
            yield stream

    def _begun(
        self, outputs: list[Any], held: list[Any], stream: Any, limit: timedelta, blocking: bool
    ) -> NcclWork:
        record = self.ring.records[-1]
        blocking = blocking or os.environ.get("TORCH_NCCL_BLOCKING_WAIT") == "1"
        work = NcclWork(self, record, outputs, held, stream, limit.total_seconds(), blocking)
        if cuda.is_current_stream_capturing():  # it runs whenever the graph does
            return work
        with self._changed:
            self.ring.works.append(work)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="tritorch nccl", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()
        return work

    def send(self, tensor: Any, peer: int, tag: int, timeout: timedelta | None = None) -> Work:
        return self._message(tensor, peer, True, timeout)

    def receive(
        self, tensor: Any, peer: int | None, tag: int, timeout: timedelta | None = None
    ) -> Work:
        if peer is None:
            raise RuntimeError("nccl cannot receive from any rank: name one")
        return self._message(tensor, peer, False, timeout)

    def _message(self, tensor: Any, peer: int, sends: bool, timeout: timedelta | None) -> Work:
        index = int(tensor.device.index)
        comm = self._comm(index)
        if self._grouped is None:
            self.ring.add(Call("send" if sends else "recv", [tensor], []))
        with self._on_stream(index, False) as stream, no_grad():
            data = tensor.detach()
            plain = data if data.is_contiguous() else data.contiguous()
            size = plain.numel() * plain.element_size()
            move = comm.send if sends else comm.receive
            move(plain.data_ptr(), size, BYTES, peer, stream.cuda_stream)
            if self._grouped is not None:
                self._grouped.append((tensor, plain, sends, stream))
                return _Later()
            self._settled(comm)
            if not sends and plain is not data:
                data.copy_(plain)
        limit = self._timeout if timeout is None else timeout
        return self._begun([tensor], [tensor, plain], stream, limit, False)

    def start_coalescing(self) -> None:
        """From now on messages are begun together."""
        _native.group_start()
        self._grouped = []
        self.ring.add(Call("batch_isend_irecv", [], []))

    def end_coalescing(self) -> Work | None:
        """The messages since then, as one work; None if there were none."""
        grouped, self._grouped = self._grouped or [], None
        _native.group_end()
        if not grouped:
            return None
        stream = grouped[0][3]
        with cuda.stream(stream), no_grad():
            for comm in self._comms.values():
                self._settled(comm)
            for tensor, plain, sends, _ in grouped:
                if not sends and plain.data_ptr() != tensor.data_ptr():
                    tensor.detach().copy_(plain)
        held = [each for entry in grouped for each in entry[:2]]
        outputs = [tensor for tensor, _, sends, _ in grouped if not sends]
        return self._begun(outputs, held, stream, self._timeout, False)

    # Who looks after them.

    def _watch(self) -> None:
        _C.exchange_capture_mode(_THREAD_LOCAL)  # its questions spoil no capture of another thread
        looked = 0.0
        while True:
            with self._changed:
                while not self.ring.works and not self._ended:
                    self._changed.wait()
                if self._ended:
                    return
                works = list(self.ring.works)
            try:
                for work in works:  # not all: works of other devices may be behind
                    if work.event.query():
                        self.ring.works.remove(work)
                        work._held = []
                now = time.monotonic()
                wrong = self._wrong(now, now - looked > 0.25)
                if now - looked > 0.25:
                    looked = now
            except Exception as error:  # the device is lost
                wrong = f"A collective failed: {error}"
            if wrong and not self._ended:
                self._fail(wrong)
                return
            time.sleep(0.001)

    def _wrong(self, now: float, thoroughly: bool) -> str | None:
        """What has failed, in words."""
        for work in list(self.ring.works):
            if now > work.ends:
                return f"Timed out in group {self.ring.group}"
        if not thoroughly:
            return None
        for comm in list(self._comms.values()):
            state, text = comm.state
            if state not in (0, _IN_PROGRESS):
                return f"A rank is gone, or has failed in group {self.ring.group}: NCCL says {text}"
        if self._size > 1 and self._store.check(["nccl/failed"]):
            return f"A rank is gone, or has failed in group {self.ring.group}"
        return None

    def _fail(self, what: str) -> None:
        if self._size > 1:
            with contextlib.suppress(RuntimeError):
                self._store.set("nccl/failed", "1")
        error = DistBackendError(f"{what}. {self.ring.report()}{self.ring.difference()}")
        self._failed = error
        for work in list(self.ring.works):
            work.failed = error
        for device in self._comms:
            errors.post(device, error)
        self._abort()

    def _abort(self) -> None:
        for comm in list(self._comms.values()):
            comm.abort()

    def abort(self) -> None:
        error = DistBackendError("the group was aborted")
        self._failed = self._failed or error
        with self._changed:
            for work in self.ring.works:
                work.failed = work.failed or error
        if self._size > 1:
            with contextlib.suppress(RuntimeError):
                self._store.set("nccl/failed", "1")
        self._abort()

    def shutdown(self) -> None:
        if self._failed is None:
            while self.ring.works and self._failed is None:
                time.sleep(0.001)
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._failed is None:
            for comm in self._comms.values():
                comm.destroy()
        if self._thread is not None:
            self._thread.join(10)

    def eager_connect_single_device(self, device: Any) -> None:
        """Makes the communicator now."""
        self._comm(int(Device(device).index or 0))


class _Later(Work):
    """A message of a batch: the batch's work stands for it."""

    def wait(self, timeout: timedelta | None = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


ProcessGroupNCCL.__module__ = "tritorch.distributed.distributed_c10d"
