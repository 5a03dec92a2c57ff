"""Messages between a loader and a worker: a pickle over a socket, tensors in shared memory.

The socket (SOCK_SEQPACKET) keeps messages whole and tells at once when the other side has died; no
lock, no semaphore and no thread is between the two, so a killed worker leaves nothing behind.
"""

from __future__ import annotations

import array as _array
import io
import math
import os
import pickle
import select
import socket
import threading
from collections import deque
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.compat.torch_private._utils import ExceptionWrapper
from tritorch.core.dtype import uint8
from tritorch.core.sharing import Segment, new_file, segment_of
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor
from tritorch.multiprocessing.reductions import check_sendable
from tritorch.serialization.rebuild import storage_of
from tritorch.utils.data._utils.segments import INLINE, MOST, Arena, Inbox

_LARGEST = 64 << 10  # bytes of a message on the socket; a longer one goes as a file
_FILES = _array.array("i", [0] * (MOST + 1))
_ANCILLARY = socket.CMSG_SPACE(len(_FILES) * _FILES.itemsize)
_CLOSE, AT_ONCE = int(socket.MSG_CMSG_CLOEXEC), int(socket.MSG_DONTWAIT)

arena: Arena | None = None  # in a worker process
_arriving = threading.local()


def empty(shape: tuple[int, ...], kind: Any) -> np.ndarray[Any, Any]:
    """An uninitialised array; in a worker in the shared memory that it will be sent in."""
    if arena is not None:
        found = arena.empty(math.prod(shape) * kind.itemsize)
        if found is not None:
            return found.view(kind).reshape(shape)
    return np.empty(shape, kind)


# ---- pickling -----------------------------------------------------------------------------------


class _Parts:
    """The segments of a message that is being pickled."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.references: list[tuple[int, int, int]] = []
        self.new: list[Segment] = []  # whose files go along
        self.kept: list[Any] = []  # so that no id below is used again
        self._places: dict[int, tuple[int, int]] = {}
        self.buffers: list[int] = []

    def place(self, memory: np.ndarray[Any, Any], lease: Segment | None = None) -> int:
        """The index of the segment with this memory, which is copied if it is in none; else -1."""
        slot = self.arena.slot_of(lease) if lease is not None else None
        if slot is None:
            copy = self.arena.empty(memory.nbytes)
            if copy is None:
                return -1
            np.copyto(copy, memory.reshape(-1).view(np.uint8))
            slot = self.arena.slot_of(segment_of(copy))
        assert slot is not None
        if slot.sent:
            return next(i for i, r in enumerate(self.references) if r[0] == slot.number)
        size = 0
        if not slot.known:
            size = slot.segment.nbytes
            self.new.append(slot.segment)
            slot.known = True
        slot.sent = True
        nbytes = lease.nbytes if lease is not None and slot.lease() is lease else memory.nbytes
        self.references.append((slot.number, nbytes, size))
        return len(self.references) - 1

    def undo(self) -> None:
        """Nothing of this is sent."""
        self.arena.unsend(self.new)

    def root(self, tensor: Tensor) -> tuple[int, int] | None:
        """(index, address) of the whole storage of a tensor, for what shares it; None for none."""
        shared = tensor._shared
        if id(shared) not in self._places:
            array = tensor._array
            lease = segment_of(array)
            if self.arena.slot_of(lease) is not None:
                assert lease is not None
                place = (self.place(array, lease), lease.address)
            else:
                whole = tensor.untyped_storage()
                if whole.nbytes() > 2 * tensor.nbytes:
                    return None  # a small part of much: it travels alone
                memory = whole._elements(uint8)
                place = (self.place(memory), arrays.address_of(memory))
            if place[0] < 0:
                return None
            self.kept.append(shared)
            self._places[id(shared)] = place
        return self._places[id(shared)]

    def buffer(self, buffer: pickle.PickleBuffer) -> bool:
        """Whether pickle shall write an array's buffer itself."""
        raw = buffer.raw()
        index = self.place(np.frombuffer(raw, np.uint8)) if raw.nbytes else -1
        if index >= 0:
            self.buffers.append(index)
        return index < 0


class _Pickler(ForkingPickler):
    parts: _Parts

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            check_sendable(obj)
            if type(obj) is Tensor and not obj.__dict__ and not obj.is_cuda:
                return _reduce_tensor(self.parts, obj)
            return obj.__reduce_ex__(5)
        if type(obj) is UntypedStorage and obj.is_cuda:
            return UntypedStorage._new_shared_cuda, obj._share_cuda_()
        if type(obj) is UntypedStorage:
            memory = obj._elements(uint8)
            index = self.parts.place(memory)
            if index < 0:
                return _own_storage, (bytearray(memory.tobytes()),)
            return _arrived_storage, (index,)
        return NotImplemented


def _reduce_tensor(parts: _Parts, tensor: Tensor) -> Any:
    array = tensor._array
    kind, shape, leaf = tensor.dtype, array.shape, tensor._leaf
    strides = None if array.flags.c_contiguous else arrays.strides_of(array)
    if array.nbytes >= INLINE:
        place = parts.root(tensor)
        if place is not None:
            skip = arrays.address_of(array) - place[1]
            return _arrived, (place[0], skip, kind, shape, strides, leaf)
    if strides is not None:
        array = arrays.copy(array)  # dense, in the same order
        strides = arrays.strides_of(array)
        array = arrays.np_strided(array, (array.size,), (1,), 0)
    if array.nbytes >= INLINE:
        index = parts.place(array)
        if index >= 0:
            return _arrived, (index, 0, kind, shape, strides, leaf)
    return _own, (bytearray(array.tobytes()), kind, shape, strides, leaf)


def _view(memory: np.ndarray[Any, Any], kind: Any, shape: Any, strides: Any) -> Any:
    elements = memory[: memory.size // kind.itemsize * kind.itemsize].view(kind.numpy)
    if strides is None:
        return elements[: math.prod(shape)].reshape(shape)
    return arrays.np_strided(elements, shape, strides, 0)


def _memory(raw: bytearray) -> np.ndarray[Any, Any]:
    return np.frombuffer(raw, np.uint8) if raw else np.empty(0, np.uint8)


def _own(raw: bytearray, kind: Any, shape: Any, strides: Any, leaf: bool) -> Tensor:
    out = _C.wrap(_view(_memory(raw), kind, shape, strides))
    out._leaf = leaf
    return out


def _own_storage(raw: bytearray) -> UntypedStorage:
    return storage_of(_memory(raw))


def _arrived(index: int, skip: int, kind: Any, shape: Any, strides: Any, leaf: bool) -> Tensor:
    memory, shared = _arriving.memory[index], _arriving.shared
    out = _C.wrap(_view(memory[skip:] if skip else memory, kind, shape, strides))
    out._leaf = leaf
    if index in shared:
        out._shared = shared[index]
        out._shared.array = memory
    else:
        shared[index] = out._shared
        if skip or out._array.nbytes != memory.nbytes or strides is not None:
            out._shared.array = memory
    return out


def _arrived_storage(index: int) -> UntypedStorage:
    return storage_of(_arriving.memory[index])


def pack(value: Any, parts: _Parts) -> bytes:
    """A value as bytes; `parts` gets the segments that go along."""
    target = io.BytesIO()
    pickler = _Pickler(target, 5, True, parts.buffer)
    pickler.parts = parts
    try:
        pickler.dump(value)
    except BaseException:
        parts.undo()
        raise
    return target.getvalue()


def unpack(body: Any, memory: list[np.ndarray[Any, Any]], buffers: list[int]) -> Any:
    """The value again."""
    _arriving.memory, _arriving.shared = memory, {}
    try:
        return pickle.loads(body, buffers=[memory[i] for i in buffers])
    finally:
        del _arriving.memory, _arriving.shared


# ---- the socket ---------------------------------------------------------------------------------


def send(sock: socket.socket, message: Any, files: list[int] | None = None, flags: int = 0) -> None:
    """A message with descriptors, whole; a large one as a file."""
    data = pickle.dumps(message, 5)
    extra = -1
    if len(data) > _LARGEST:
        extra = new_file(len(data))
        os.pwrite(extra, data, 0)
        data, files = b"", [*(files or ()), extra]
    try:
        if files:
            socket.send_fds(sock, [data or b"\0"], files, flags)
        else:
            sock.send(data, flags)
    finally:
        if extra >= 0:
            os.close(extra)


def _next_message(sock: socket.socket, flags: int) -> tuple[bytes, list[Any]]:
    while True:
        try:
            return sock.recvmsg(_LARGEST, _ANCILLARY, flags | _CLOSE)[:2]
        except ConnectionResetError:
            pass  # it left without reading everything; what it has sent comes first


def receive(sock: socket.socket, flags: int = 0) -> tuple[Any, list[int]] | None:
    """A message and its descriptors; None when the other side is gone."""
    data, ancillary = _next_message(sock, flags)
    files: list[int] = []
    for _, _, raw in ancillary:
        received = _array.array("i")
        received.frombytes(raw[: len(raw) // received.itemsize * received.itemsize])
        files += received
    if not data:
        return None
    if data == b"\0":  # no pickle begins so
        with open(files.pop(), "rb") as file:
            file.seek(0)
            data = file.read()
    return pickle.loads(data), files


class Sender:
    """A worker's end: sends outcomes, receives tasks."""

    def __init__(self, sock: socket.socket, prefetch: int) -> None:
        global arena
        self.sock = sock
        self.arena = arena = Arena(prefetch)
        self.tasks: deque[Any] = deque()
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def send(self, epoch: int, number: int, outcome: Any) -> None:
        """What a task gave."""
        parts = _Parts(self.arena)
        body = pack(outcome, parts)
        if len(body) > _LARGEST // 2 and parts.place(np.frombuffer(body, np.uint8)) >= 0:
            body = b""  # it is the last segment
        dropped, self.arena.dropped = self.arena.dropped, []
        message = (epoch, number, parts.references, parts.buffers, dropped, body)
        send(self.sock, message, [segment.file for segment in parts.new])
        for segment in parts.new:
            segment.close_file()  # the mapping stays

    def wait(self, seconds: float) -> bool:
        """Whether there is something to receive, within a time."""
        return bool(self._poll.poll(seconds * 1000))

    def receive(self) -> bool:
        """Reads the tasks that are there; False when the loader is gone."""
        while True:
            try:
                found = receive(self.sock, AT_ONCE)
            except BlockingIOError:
                return True
            if found is None:
                return False
            returned, task = found[0]
            self.arena.take_back(returned)
            self.tasks.append(task)


def open_outcome(inbox: Inbox, message: Any, files: list[int]) -> tuple[int, int, Any]:
    """(epoch, number, outcome) of a worker's message."""
    epoch, number, references, buffers, dropped, body = message
    memory = inbox.open(references, files)
    inbox.forget(dropped)
    try:
        return epoch, number, unpack(body or memory[-1], memory, buffers)
    except Exception:
        return epoch, number, ExceptionWrapper(where="when a batch of a worker was unpickled")
