"""Checkpoints from before PyTorch 1.6: pickles one after the other, then the storages' bytes.

    magic number, protocol version, system, the object, [key, ...], (elements, bytes) for each key

All numbers are little-endian, whatever machine wrote them.  The object refers to storages whose
bytes come after it, so these are allocated first and filled later: the sum of what is allocated may
not pass what is left of the file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

import numpy as np

from tritorch.core.dtype import dtype, uint8
from tritorch.core.storage import UntypedStorage
from tritorch.core.typed_storage import TypedStorage
from tritorch.serialization import rebuild
from tritorch.serialization.archive import fill
from tritorch.serialization.options import options
from tritorch.serialization.saving import MAGIC_NUMBER, PROTOCOL_VERSION


class _Bounded:
    """A file whose reads are never longer than what it has left."""

    def __init__(self, file: Any) -> None:
        self._file = file
        at = file.tell()
        self._end = file.seek(0, 2)
        file.seek(at)
        self.left = self._end - at

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self.left if size < 0 else min(size, self.left))
        self.left -= len(data)
        return data

    def readline(self) -> bytes:
        data = self._file.readline()
        self.left -= len(data)
        return data

    def fill(self, array: np.ndarray[Any, Any]) -> None:
        """Reads an array of bytes."""
        if array.size > self.left:
            raise RuntimeError(
                f"unexpected EOF, expected {array.size - self.left} more bytes. The file might be "
                f"corrupted."
            )
        fill(array, self._file)
        self.left -= array.size


class _LegacyStorages:
    """Storages that wait for their bytes."""

    def __init__(self, restore: Any, left: int) -> None:
        self._restore = restore
        self._left = left
        self.typed: dict[str, TypedStorage] = {}
        self._views: dict[str, TypedStorage] = {}

    def persistent_load(self, pid: Any) -> Any:
        """The storage that ("storage", type, key, location, elements, view) means."""
        from tritorch.serialization.loading import storage_reference

        if type(pid) is tuple and pid and pid[0] in ("module", b"module") and len(pid) > 1:
            return pid[1]  # a class of modules, with its source
        kind, key, location, numel = storage_reference(pid, 6)
        typed = self.typed.get(key)
        if typed is None:
            nbytes = numel * kind.itemsize
            self._left -= nbytes
            if self._left < 0:
                raise RuntimeError(f"storage {key[:30]!r} is larger than the file: {nbytes} bytes")
            storage = self._restore(rebuild.storage_of(np.zeros((nbytes,), np.uint8)), location)
            typed = self.typed[key] = rebuild.typed(storage, kind)
            typed._waits = True  # type: ignore[attr-defined]
        return typed if pid[5] is None else self._part(typed, kind, pid[5])

    def _part(self, root: TypedStorage, kind: dtype, view: Any) -> TypedStorage:
        """Storages could be views of others, long ago."""
        if (
            type(view) is not tuple
            or list(map(type, view[1:])) != [int, int]
            or type(view[0]) is not str
        ):
            raise UnpicklingError("a view of a storage must be (key, offset, number of elements)")
        key, offset, numel = view
        if key not in self._views:
            start, size = offset * kind.itemsize, numel * kind.itemsize
            if min(start, size) < 0 or start + size > root.nbytes():
                raise RuntimeError("a view of a storage reaches beyond it")
            whole = root._untyped_storage._elements(uint8)
            self._views[key] = rebuild.typed(rebuild.storage_of(whole[start : start + size]), kind)
        return self._views[key]


def load(file: Any, unpickle: Callable[..., Any], restore: Any) -> Any:
    """Reads a file that starts at its position; `unpickle` reads one pickle of it."""
    bounded = _Bounded(file)
    size = bounded.left
    try:
        magic = unpickle(bounded, None, 100)
    except UnpicklingError as error:
        if _is_tar(file):
            raise RuntimeError(
                "Cannot use ``weights_only=True`` with files saved in the legacy .tar format. "
                "tritorch does not read that format; load the file with PyTorch and save it again"
            ) from None
        raise UnpicklingError(f"Invalid magic number; corrupt file? ({error})") from None
    if type(magic) is not int or magic != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = unpickle(bounded, None, 100)
    if type(version) is not int or version != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {version if type(version) is int else ''}")
    unpickle(bounded, None, 1000)  # the system: its byte order never mattered
    storages = _LegacyStorages(restore, bounded.left)
    result = unpickle(bounded, storages.persistent_load, size)
    keys = unpickle(bounded, None, size)
    if type(keys) is list:  # of Python 2, under encoding="bytes"
        keys = [key.decode("ascii", "replace") if type(key) is bytes else key for key in keys]
    if type(keys) is not list or not all(type(key) is str for key in keys):
        raise RuntimeError("the list of storages is damaged; corrupt file?")
    if set(keys) != storages.typed.keys() or len(set(keys)) != len(keys):
        raise RuntimeError("the file's storages are not those that its tensors need; corrupt file?")
    if not options.skip_data:
        for key in keys:
            _fill(storages.typed[key], bounded)
    return result


def _is_tar(file: Any) -> bool:
    file.seek(257)
    return file.read(5) == b"ustar"


def _fill(typed: TypedStorage, file: _Bounded) -> None:
    storage, kind = typed._untyped_storage, typed.dtype
    expected = storage.nbytes() // kind.itemsize
    found = int.from_bytes(file.read(8), "little")
    if found != expected:
        raise RuntimeError(f"storage has wrong byte size: expected {expected} got {found}")
    host = storage if not storage.is_cuda else rebuild.storage_of(_bytes(storage))
    array = host._elements(uint8)
    file.fill(array)
    if sys.byteorder == "big":
        rebuild.byteswap(array, kind)
    if host is not storage:
        storage.copy_(host)
    typed._waits = False  # type: ignore[attr-defined]


def _bytes(storage: UntypedStorage) -> np.ndarray[Any, Any]:
    return np.empty((storage.nbytes(),), np.uint8)
