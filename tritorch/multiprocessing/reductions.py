"""How tensors and storages are pickled between processes: their memory is shared, not copied."""

from __future__ import annotations

import os
from multiprocessing import reduction
from typing import Any

import numpy as np

from tritorch.arrays import arrays
from tritorch.core import lending, locks, published, sharing
from tritorch.core.layout import strided
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor
from tritorch.core.typed_storage import TypedStorage
from tritorch.cuda.streams import Event
from tritorch.multiprocessing import named


def check_sendable(tensor: Tensor) -> None:
    """Raises where a tensor cannot go to another process."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )


def reduce_tensor(tensor: Tensor) -> Any:
    """A tensor as its shared storage and its place in it."""
    check_sendable(tensor)
    if tensor.device.type == "meta" and type(tensor) is Tensor:
        where = tuple(tensor.size()), tensor.stride(), tensor.storage_offset()
        nbytes = tensor.untyped_storage().nbytes()
        return rebuild_meta_tensor, (Tensor, *where, tensor.dtype, nbytes, tensor.requires_grad)
    if tensor.layout is not strided:
        return tensor.__reduce_ex__(5)
    if not (tensor.is_cuda or tensor.is_nested):  # a nested tensor's parts are sent so
        sharing.share(tensor.untyped_storage(), tensor)
    return tensor.__reduce_ex__(5)


def reduce_storage(storage: UntypedStorage) -> Any:
    """A storage as its file, to be mapped again; moves it into shared memory where it is not."""
    if storage.device.type == "meta":
        raise RuntimeError("Cannot pickle meta storage; try pickling a meta tensor instead")
    if storage.is_cuda:
        return _reduce_loan(lending.lend(storage))
    nbytes = storage.nbytes()
    sharing.share(storage)
    segment = sharing.segment_of(storage._array)
    assert segment is not None
    skip = arrays.address_of(storage._array) - segment.address
    if isinstance(segment, named.NamedSegment):
        return _rebuild_named, (named.lend(segment), segment.nbytes, skip, nbytes)
    handle = reduction.DupFd(segment.descriptor())
    return rebuild_storage_fd, (handle, segment.nbytes, skip, nbytes)


def _reduce_loan(loan: lending.Loan) -> Any:
    """A loan of GPU memory; the descriptors travel as multiprocessing sends them."""
    try:
        files = [reduction.DupFd(file) for file in loan.files]
    finally:
        lending.close(loan.files)
    counters = loan.counters and (reduction.DupFd(loan.counters.descriptor()), loan.counters.nbytes)
    return _rebuild_loan, (files, counters, loan._replace(files=(), counters=None))


def _rebuild_loan(files: list[Any], counters: Any, loan: lending.Loan) -> UntypedStorage:
    own = tuple(file.detach() for file in files)
    try:
        segment = counters and sharing.attach(counters[0].detach(), counters[1])
        array = lending.borrow(loan._replace(files=own, counters=segment))
    finally:
        lending.close(own)
    storage = object.__new__(UntypedStorage)
    storage._set(array)
    return storage


def reduce_typed_storage(storage: TypedStorage) -> Any:
    """An untyped storage and the dtype."""
    return rebuild_typed_storage, (storage.untyped(), storage.dtype)


def _storage_in(segment: sharing.Segment, skip: int, nbytes: int) -> UntypedStorage:
    storage = object.__new__(UntypedStorage)
    storage._set(np.asarray(segment)[skip : skip + nbytes])
    return storage


def rebuild_storage_fd(handle: Any, size: int, skip: int, nbytes: int) -> UntypedStorage:
    """A storage in the file that a descriptor stands for."""
    return _storage_in(sharing.attach(handle.detach(), size), skip, nbytes)


def _rebuild_named(name: str, size: int, skip: int, nbytes: int) -> UntypedStorage:
    return _storage_in(named.receive(name, size), skip, nbytes)


def rebuild_typed_storage(storage: UntypedStorage, dtype: Any) -> TypedStorage:
    """A typed storage on an untyped one."""
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _reduce_parameter(parameter: Any) -> Any:
    check_sendable(parameter)
    if not parameter.is_cuda:
        sharing.share(parameter.untyped_storage(), parameter)
    return parameter.__reduce_ex__(5)


def reduce_event(event: Event) -> Any:
    """A CUDA event that was made with `interprocess=True`, as its handle."""
    return rebuild_event, (event.device, event.ipc_handle())


def rebuild_event(device: Any, handle: bytes) -> Event:
    """Another process's event."""
    return Event.from_ipc_handle(device, handle)


def init_reductions() -> None:
    """Tells multiprocessing's pickler."""
    from tritorch.nn.parameter import Parameter

    register = reduction.ForkingPickler.register
    register(Tensor, reduce_tensor)
    register(Parameter, _reduce_parameter)
    register(UntypedStorage, reduce_storage)
    register(TypedStorage, reduce_typed_storage)
    register(Event, reduce_event)


def rebuild_storage_empty(cls: Any) -> Any:
    """A storage without elements."""
    return cls()


def rebuild_meta_tensor(
    cls: Any, size: Any, stride: Any, offset: int, dtype: Any, nbytes: int, requires_grad: bool
) -> Any:
    """A tensor without memory."""
    from tritorch.nn.parameter import Parameter

    tensor = published.public.empty_strided(size, stride, dtype=dtype, device="meta")
    if cls is Parameter:
        return Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)


def fd_id(fd: int) -> tuple[int, int]:
    """The inode and device of a descriptor's file."""
    status = os.fstat(fd)
    return status.st_ino, status.st_dev


class SharedCache(dict[Any, Any]):
    """References to memory that came from other processes, by its file."""

    def __init__(self) -> None:
        self.limit = 128
        self.lock = locks.lock()

    def get(self, key: Any) -> Any:  # type: ignore[override]
        """The reference of a file; None without one."""
        with self.lock:
            return dict.get(self, key)

    def __setitem__(self, key: Any, storage_ref: StorageWeakRef) -> None:
        with self.lock:
            dict.__setitem__(self, key, storage_ref)
            if len(self) > self.limit:
                self.free_dead_references()

    def free_dead_references(self) -> None:
        """Drops references to memory that is gone."""
        live = 0
        for key, reference in list(self.items()):
            if reference.expired():
                del self[key]
            else:
                live += 1
        self.limit = max(128, live * 2)


shared_cache = SharedCache()


def storage_from_cache(cls: Any, key: Any) -> Any:
    """The storage on a file that is mapped already; None without one."""
    reference = shared_cache.get(key)
    return None if reference is None else cls._new_with_weak_ptr(reference.cdata)


class StorageWeakRef:
    """A reference to a storage's memory that does not keep it."""

    __slots__ = ("_free_weak_ref", "cdata")

    def __init__(self, storage: Any) -> None:
        self.cdata = storage._weak_ref()
        self._free_weak_ref = UntypedStorage._free_weak_ref

    @classmethod
    def from_weakref(cls, cdata: int) -> StorageWeakRef:
        """A reference of what `_weak_ref` gave."""
        made = cls.__new__(cls)
        made.cdata, made._free_weak_ref = cdata, UntypedStorage._free_weak_ref
        return made

    def expired(self) -> bool:
        """Whether the memory is gone."""
        return UntypedStorage._expired(self.cdata)

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self.cdata == other.cdata


def rebuild_tensor(cls: Any, storage: Any, metadata: tuple[Any, ...]) -> Any:
    """A tensor (a parameter, of that class) on a typed storage."""
    from tritorch.nn.parameter import Parameter

    offset, size, stride, requires_grad = metadata
    tensor = storage._untyped_storage._view(storage.dtype, tuple(size), tuple(stride), offset)
    if cls is Parameter:
        return Parameter(tensor, requires_grad=requires_grad)
    tensor.requires_grad = requires_grad
    return tensor
