"""Memory that several processes see: mapped anonymous files, and storages moved into them.

# Note [Shared memory]
A segment is a file without a name (memfd), so that nothing can be left behind: the kernel frees it
when the last mapping and the last descriptor are gone, however the processes ended.  It is mapped
by mmap itself, not by Python's class, which would keep a second descriptor open.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch.arrays import arrays
from tritorch.core import late_bound
from tritorch.core.dtype import uint8
from tritorch.core.resizing import tensors_within

_libc = ctypes.CDLL(None, use_errno=True)
_mmap, _munmap = _libc.mmap, _libc.munmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
]  # fmt: skip
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED = ctypes.c_void_p(-1).value
_FIXED = 0x10  # MAP_FIXED: in the place of what is mapped there
PAGE = mmap.PAGESIZE


def new_file(nbytes: int) -> int:
    """A descriptor of a nameless file of zeros in memory."""
    try:
        descriptor = os.memfd_create("tritorch", os.MFD_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            error.strerror = (
                f"{error.strerror}: each shared storage holds a file open; raise the limit "
                f"(ulimit -n), or set_sharing_strategy('file_system')"
            )
        raise
    os.ftruncate(descriptor, nbytes)
    return descriptor


def map_file(descriptor: int, nbytes: int, offset: int = 0, address: int | None = None) -> int:
    """Maps a file, at a given address in the place of what is there; gives the address."""
    flags = mmap.MAP_SHARED | (_FIXED if address else 0)
    found = _mmap(address, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, offset)
    if found == _FAILED:
        code = ctypes.get_errno()
        raise OSError(code, f"mapping {nbytes} bytes of shared memory: {os.strerror(code)}")
    return found


class Segment:
    """A mapped file, unmapped when nothing uses it any more; `numpy.asarray` gives its bytes."""

    def __init__(self, descriptor: int, nbytes: int, offset: int = 0) -> None:
        self.address = 0
        self.nbytes = nbytes
        self.file = descriptor  # kept open, to hand it on; -1 if it is closed
        self.address = map_file(descriptor, nbytes, offset)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        where = (self.address, False)
        return {"data": where, "shape": (self.nbytes,), "typestr": "|u1", "version": 3}

    def descriptor(self) -> int:
        """The file, to be sent to another process."""
        return self.file

    def close_file(self) -> None:
        """Gives the descriptor back; the mapping stays."""
        if self.file >= 0:
            os.close(self.file)
        self.file = -1

    def __del__(
        self, unmap: Any = _munmap, close: Any = os.close
    ) -> None:  # not globals: they may be gone when the interpreter ends
        if self.address:
            unmap(self.address, self.nbytes)
        if self.file >= 0:
            close(self.file)


make_segment: Callable[[int], Segment] | None = None  # another strategy than nameless files
_by_file: weakref.WeakValueDictionary[tuple[int, int], Segment] = weakref.WeakValueDictionary()


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def new_segment(nbytes: int) -> Segment:
    """Shared memory, by the strategy in force."""
    if make_segment is not None:
        return make_segment(nbytes)
    descriptor = new_file(nbytes)
    segment = Segment(descriptor, nbytes)
    _by_file[_identity(descriptor)] = segment
    return segment


def attach(descriptor: int, nbytes: int) -> Segment:
    """The segment of a received file, which is the same object for the same file."""
    key = _identity(descriptor)
    segment = _by_file.get(key)
    if segment is not None:
        os.close(descriptor)
        return segment
    try:
        segment = Segment(descriptor, nbytes)
    except OSError:
        os.close(descriptor)
        raise
    _by_file[key] = segment
    return segment


def segment_of(array: Any) -> Segment | None:
    """The segment that an ndarray lies in, if any."""
    owner = array
    while owner is not None and not isinstance(owner, Segment):
        owner = owner.obj if type(owner) is memoryview else getattr(owner, "base", None)
    return owner


def is_shared(storage: Any) -> bool:
    """Whether other processes can see a host storage's memory."""
    return segment_of(storage._array) is not None


def share(storage: Any, tensor: Any = None) -> None:
    """Moves a host storage, and all tensors on it, into shared memory.

    `tensor` is the one by which it was reached, to spare the search for others where there are
    none.
    """
    if is_shared(storage):
        return
    # So that Python's own multiprocessing sends it as what it is now, too.
    late_bound.register_reductions()
    nbytes = storage.nbytes()
    alone = tensor is not None and not _has_others(storage, tensor)
    old, root = storage._elements(uint8), storage._array
    new = np.asarray(new_segment(max(nbytes, 1)))[:nbytes]
    new[:] = old
    start = arrays.address_of(old)
    moved = [tensor] if alone else tensors_within(start, start + nbytes)
    kind = root.dtype if nbytes % root.itemsize == 0 else np.dtype(np.uint8)
    flat = new.view(kind)
    for each in moved:
        _retarget(each, new, start, root, flat)
    storage._array = storage._shared.array = flat


def _retarget(tensor: Any, new: np.ndarray[Any, Any], start: int, root: Any, flat: Any) -> None:
    array = tensor._array
    skip = arrays.address_of(array) - start
    if array is root and flat.size == array.size and array.flags.c_contiguous:
        moved = flat.reshape(array.shape)
    else:
        elements = new[skip:]
        elements = elements[: elements.size // array.itemsize * array.itemsize].view(array.dtype)
        moved = arrays.np_strided(elements, array.shape, arrays.strides_of(array), 0)
    shared = tensor._shared
    shared.array = flat
    storage = shared.storage() if shared.storage is not None else None
    if storage is not None:
        storage._array = flat
    tensor._a = moved


def _has_others(storage: Any, tensor: Any) -> bool:
    """Whether anything but this tensor and its storage refers to the memory."""
    held = [tensor._a, storage._array, storage._shared.array]  # each by one place, and by `held`
    owner = tensor._a
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    views = {id(view): view for view in held if view is not None and view is not owner}
    from_views = 0
    for view in views.values():
        if view.base is not owner:
            return True
        times = sum(other is view for other in held)
        if sys.getrefcount(view) > 2 * times + 3:  # in `views`, `view`, and the argument
            return True
        from_views += 1
    times = sum(other is owner for other in held)
    return sys.getrefcount(owner) > 2 * times + from_views + 2
