"""GPU memory that several processes use: lent by one, borrowed by others.

# Note [Lent GPU memory]
Memory of the caching allocator is lent as the driver's allocations around it.  Those of an
expandable segment are pieces of physical memory, each a descriptor; a plain segment has a handle of
64 bytes.  A loan is a counter in memory that both processes map: it is 1 until the borrower's
storage is gone, and as long as it is, the lender keeps the memory, whatever becomes of its own
tensors.  The lender looks when it lends again, in `ipc_collect()`, and when memory is exhausted.
Before lending it waits for the device, and so does the borrower before it gives back.
"""

from __future__ import annotations

import os
import pickle
import warnings
import weakref
from multiprocessing import resource_sharer, util
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.core import sharing
from tritorch.core.dtype import uint8

_COUNTERS = 4096  # of a file
_WORD = 8


class Loan(NamedTuple):
    """What a borrower is told: where the memory is, how to map it, and what it counts in."""

    process: int
    device: int
    handle: bytes  # of a plain segment; b"" for pieces
    files: tuple[int, ...]  # of pieces of `chunk` bytes each; whoever has them closes them
    chunk: int
    skip: int  # from the mapped memory's begin
    nbytes: int
    counters: sharing.Segment | None
    slot: int


class _Lender:
    """What this process has lent: arrays by (file of counters, slot)."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.files: list[sharing.Segment] = []
        self.free: list[tuple[sharing.Segment, int]] = []
        self.lent: dict[tuple[sharing.Segment, int], Any] = {}

    def slot(self, array: Any) -> tuple[sharing.Segment, int]:
        """A counter at 1, by which an array is lent."""
        if not self.free:
            if not self.files:
                util.Finalize(None, _warn_of_loans, exitpriority=0)
            size = _COUNTERS * _WORD
            segment = sharing.attach(sharing.new_file(size), size)  # found again by its file
            self.files.append(segment)
            self.free = [(segment, i) for i in reversed(range(_COUNTERS))]
        place = self.free.pop()
        _C.shared_add(place[0].address + place[1] * _WORD, 1)
        self.lent[place] = array
        return place

    def collect(self) -> None:
        """Forgets what has been given back."""
        for place in list(self.lent):
            if _C.shared_add(place[0].address + place[1] * _WORD, 0) == 0:
                del self.lent[place]
                self.free.append(place)


_lender = _Lender()


def _in_child() -> None:
    global _lender
    _lender = _Lender()
    _opened.clear()


def collect() -> None:
    """Frees memory that borrowers have given back."""
    if _lender.lent:
        _lender.collect()


def _warn_of_loans() -> None:
    collect()
    if _lender.lent:
        warnings.warn(
            "Producer process has been terminated before all shared CUDA tensors released. See "
            "Note [Sharing CUDA tensors]",
            stacklevel=2,
        )


def lend(storage: Any) -> Loan:
    """A loan of a storage's memory, which is kept until it is given back."""
    collect()
    device, address, nbytes = storage.device.index, storage.data_ptr(), storage.nbytes()
    if nbytes == 0:
        return Loan(os.getpid(), device, b"", (), 0, 0, 0, None, 0)
    if address in _borrowed:
        raise RuntimeError(
            "Attempted to send CUDA tensor received from another process; this is not currently "
            "supported. Consider cloning before sending."
        )
    base, _, chunk = _C.ipc_place(device, address)
    _C.synchronize(device)  # a queue lends on a thread of its own, with other current streams
    handle, files, skip = b"", [], address - base
    if chunk:
        first, last = skip // chunk, (skip + nbytes - 1) // chunk
        try:
            for i in range(first, last + 1):
                files.append(_C.export_chunk(device, base + i * chunk))
        except Exception:
            close(files)
            raise
        skip -= first * chunk
    else:
        handle = _C.ipc_handle(device, base)
    counters, slot = _lender.slot(storage._array)
    pieces = tuple(files)
    return Loan(os.getpid(), device, handle, pieces, chunk, skip, nbytes, counters, slot)


def close(files: Any) -> None:
    """Closes descriptors of pieces."""
    for file in files:
        os.close(file)


# ---- the borrower --------------------------------------------------------------------------------


class _Mapping:
    """Memory of another process, mapped here; unmapped when nothing uses it."""

    def __init__(self, loan: Loan) -> None:
        unmap: Any
        if loan.handle:
            self.base = _C.ipc_open(loan.device, loan.handle)
            size: tuple[int, ...] = ()
            unmap = _C.ipc_close
        else:
            self.base = _C.import_chunks(loan.device, list(loan.files), loan.chunk)
            size = (len(loan.files) * loan.chunk,)
            unmap = _C.unmap_chunks
        util.Finalize(self, unmap, (loan.device, self.base, *size), exitpriority=1)


# A driver opens a handle once in a process.
_opened: weakref.WeakValueDictionary[bytes, _Mapping] = weakref.WeakValueDictionary()
_borrowed: weakref.WeakValueDictionary[int, _Owner] = weakref.WeakValueDictionary()


class _Owner:
    """Owns borrowed memory for the arrays on it; gives it back at the end."""

    def __init__(self, loan: Loan, mapping: _Mapping) -> None:
        self.mapping = mapping
        assert loan.counters is not None
        counter = loan.counters.address + loan.slot * _WORD
        # The mapping and the counters are arguments so that they outlive the call.
        args = (loan.device, counter, loan.counters, mapping)
        util.Finalize(self, _give_back, args, exitpriority=2)


def _give_back(device: int, counter: int, *kept: Any) -> None:
    _C.synchronize(device)
    _C.shared_add(counter, -1)


def borrow(loan: Loan) -> Any:
    """The array of bytes of a loan; the memory that this process itself lent is that."""
    if loan.counters is None:
        return _C.empty((0,), uint8, loan.device)
    if loan.process == os.getpid():
        for (segment, slot), array in _lender.lent.items():
            if slot == loan.slot and segment is loan.counters:
                _C.shared_add(segment.address + slot * _WORD, -1)
                return array
    mapping = _opened.get(loan.handle) if loan.handle else None
    if mapping is None:
        mapping = _Mapping(loan)
        if loan.handle:
            _opened[loan.handle] = mapping
    owner = _Owner(loan, mapping)
    address = mapping.base + loan.skip
    _borrowed[address] = owner
    return _C.adopt(owner, address, (loan.nbytes,), None, uint8, loan.device)


# ---- as PyTorch's storages have it ---------------------------------------------------------------


def to_words(loan: Loan) -> tuple[int, bytes, int, int, bytes, int, bytes, bool]:
    """A loan as plain data, for one process of this one's family: descriptors are fetched from a
    thread of this process, once."""
    try:
        pieces = [resource_sharer.DupFd(file) for file in loan.files]
    finally:
        close(loan.files)
    counters = b""
    if loan.counters is not None:
        file = resource_sharer.DupFd(loan.counters.descriptor())
        counters = pickle.dumps((file, loan.counters.nbytes))
    handle = pickle.dumps((loan.process, loan.handle, pieces, loan.chunk))
    return loan.device, handle, loan.nbytes, loan.skip, counters, loan.slot, b"", False


def _counters(words: bytes) -> sharing.Segment | None:
    if not words:
        return None
    file, size = pickle.loads(words)
    return sharing.attach(file.detach(), size)


def from_words(
    device: int, handle: bytes, nbytes: int, skip: int, counters: bytes, slot: int,
    event: bytes = b"", wait: bool = False,
) -> Loan:  # fmt: skip
    """The loan that `to_words` made plain data of; whoever borrows closes its files."""
    process, plain, pieces, chunk = pickle.loads(handle)
    segment = _counters(counters)
    files = tuple(piece.detach() for piece in pieces)
    return Loan(process, device, plain, files, chunk, skip, nbytes, segment, slot)


def decline(counters: bytes, slot: int) -> None:
    """Gives back a loan that nobody borrowed."""
    segment = _counters(counters)
    if segment is not None:
        _C.shared_add(segment.address + slot * _WORD, -1)


os.register_at_fork(after_in_child=_in_child)
