"""Storages: the memory that tensors are views of, as bytes (`UntypedStorage`) or elements."""

from __future__ import annotations

import copy
import mmap
import os
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core import arrays, resizing
from tritorch.core.device import PretendedDevice, device as Device
from tritorch.core.dtype import dtype, float32, uint8
from tritorch.core.tensor import Tensor


class UntypedStorage:
    """The bytes behind one or more tensors."""

    _array: Any  # an array whose memory starts where the storage does
    _shared: Any
    _filename: str | None = None

    def __init__(self, *args: Any, device: Any = "cpu") -> None:
        where = Device(device)
        if args and not hasattr(args[0], "__index__"):
            data = np.array([int(value) for value in args[0]], np.uint8)
            self._set(arrays.move(data, where))
        else:
            self._set(arrays.zeros((int(args[0]) if args else 0,), uint8, where))

    def _set(self, array: Any) -> None:
        self._array = array
        self._shared = _C.wrap(array)._shared
        self._shared.storage = weakref.ref(self)  # a strong one would be a cycle

    @classmethod
    def from_file(
        cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0
    ) -> UntypedStorage:
        """The bytes of a file, as far as they are read; shared: what is changed is written to it,
        and it is made as long as that."""
        storage = object.__new__(cls)
        storage._set(_map_file(os.fspath(filename), shared, nbytes))
        storage._filename = os.fspath(filename) if shared else None
        return storage

    @property
    def filename(self) -> str | None:
        """The file whose memory this is."""
        return self._filename

    @classmethod
    def _of(cls, tensor: Tensor) -> UntypedStorage:
        shared = tensor._shared
        storage = shared.storage() if shared.storage is not None else None
        if storage is None:
            storage = object.__new__(cls)
            storage._array = shared.array if shared.array is not None else tensor._array
            storage._shared = shared
            shared.storage = weakref.ref(storage)
        return storage

    def nbytes(self) -> int:
        """How many bytes there are."""
        array = self._array
        if type(array) is not np.ndarray:
            return array.storage_nbytes
        if array.size == 0:
            return 0
        reach = sum((n - 1) * s for n, s in zip(array.shape, array.strides))
        return reach + array.itemsize

    size = nbytes

    def __len__(self) -> int:
        return self.nbytes()

    def _elements(self, kind: dtype) -> Any:
        """All of it as a flat array of a dtype."""
        array = self._array
        count = self.nbytes() // kind.itemsize
        if type(array) is np.ndarray:
            flat = arrays.np_strided(array, (self.nbytes() // array.itemsize,), (1,), 0)
            return (flat if count else flat[:0]).view(kind.numpy)[:count]
        whole = array.as_strided((array.storage_nbytes // array.itemsize,), (1,), 0)
        return whole.view_dtype(kind)

    def _view(self, kind: dtype, shape: Any, strides: Any, offset: int) -> Tensor:
        """A tensor on this storage."""
        out = _C.wrap(arrays.strided(self._elements(kind), tuple(shape), tuple(strides), offset))
        out._shared = self._shared
        return out

    @property
    def device(self) -> Device:
        """Where the bytes are."""
        return arrays.device_of(self._array)

    @property
    def is_cuda(self) -> bool:
        """Whether they are on a GPU."""
        return type(self._array) is _C.Array

    @property
    def _cdata(self) -> int:
        """What tells this memory from any other, whoever holds it."""
        return id(self._shared)

    def data_ptr(self) -> int:
        """The address of the first byte."""
        if isinstance(getattr(self._array, "device", None), PretendedDevice):
            raise RuntimeError("Attempted to access the data pointer on an invalid python storage.")
        return arrays.address_of(self._array) if self.nbytes() else 0

    def element_size(self) -> int:
        """1."""
        return 1

    def untyped(self) -> UntypedStorage:
        """This storage."""
        return self

    def tolist(self) -> list[int]:
        """The bytes as ints."""
        elements = self._elements(uint8)
        return (elements if type(elements) is np.ndarray else elements.numpy()).tolist()

    def __getitem__(self, key: Any) -> Any:
        elements = self._elements(uint8)
        if isinstance(key, slice):  # on the same memory
            if key.step not in (None, 1):
                raise RuntimeError(
                    f"Trying to slice with a step of {key.step}, but only a step of 1 is supported"
                )
            part = object.__new__(UntypedStorage)
            part._set(elements[key])
            return part
        return int((elements if type(elements) is np.ndarray else elements.numpy())[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, UntypedStorage):
            value = np.array(value.tolist(), np.uint8)
        self._elements(uint8)[key] = value
        self._shared.version += 1

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        rows = _shown(self)
        return (
            f"{rows}\n[tritorch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"
        )

    def fill_(self, value: int) -> UntypedStorage:
        """Sets every byte."""
        elements = self._elements(uint8)
        elements.fill(value) if type(elements) is np.ndarray else elements.fill_(value)
        self._shared.version += 1
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> UntypedStorage:
        """Copies another storage's bytes."""
        to, bytes_given = self._elements(uint8), source._elements(uint8)
        if type(to) is np.ndarray:
            np.copyto(to, arrays.move(bytes_given, arrays.CPU))
        else:
            to.copy_(bytes_given, bool(non_blocking))
        self._shared.version += 1
        return self

    def clone(self) -> UntypedStorage:
        """A copy."""
        out = object.__new__(UntypedStorage)
        elements = self._elements(uint8)
        out._set(elements.copy() if type(elements) is np.ndarray else elements.clone())
        return out

    def __deepcopy__(self, memo: Any) -> UntypedStorage:
        key = ("tritorch.storage", self)
        if key not in memo:
            memo[key] = self.clone()
        return memo[key]

    def __reduce__(self) -> Any:
        elements = self._elements(uint8)
        host = elements if type(elements) is np.ndarray else elements.numpy()
        return _rebuild_storage, (host, str(self.device))

    def cpu(self) -> UntypedStorage:
        """In host memory."""
        if not self.is_cuda:
            return self
        out = object.__new__(UntypedStorage)
        out._set(self._elements(uint8).numpy())
        return out

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """On a GPU."""
        out = object.__new__(UntypedStorage)
        where = Device("cuda", _C.current_device()) if device is None else Device(device)
        out._set(arrays.move(self._elements(uint8), where, non_blocking))
        return out

    def resize_(self, size: int) -> UntypedStorage:
        """Another size, for all tensors on it; what is no longer there is freed."""
        resizing.resize(self, size)
        return self

    def share_memory_(self) -> UntypedStorage:
        """Moves the memory, with all tensors on it, where other processes can see it."""
        if not self.is_cuda:
            from tritorch.core.sharing import share

            share(self)
        return self

    def is_shared(self) -> bool:
        """Whether other processes can see the memory; GPU memory counts as shared."""
        from tritorch.core.sharing import is_shared

        return self.is_cuda or is_shared(self)

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = "cpu") -> UntypedStorage:
        return cls(size, device=device).share_memory_()

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the memory is page-locked."""
        return not self.is_cuda and _C.driver_loaded() and _C.is_pinned(self.data_ptr())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage):
            return NotImplemented
        # x.data has a version counter, thus a `_shared`, of its own.
        return self._shared is other._shared or (
            self.nbytes() == other.nbytes() > 0
            and self.data_ptr() == other.data_ptr()
            and self.device == other.device
        )

    def __hash__(self) -> int:
        return hash((self.data_ptr(), self.nbytes()))


def _map_file(path: str, shared: bool, nbytes: int) -> np.ndarray[Any, Any]:
    """The first bytes of a file, in memory that belongs to the file or only starts as it."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o666)
    except OSError as error:
        how = "read-write" if shared else "read-only"
        raise RuntimeError(
            f"unable to open file <{path}> in {how} mode: {error.strerror} ({error.errno})"
        ) from None
    try:
        size = os.fstat(file).st_size
        if size < nbytes:
            if not shared:
                raise RuntimeError(
                    f"file <{path}> size <{size}> is smaller than the required mapping size "
                    f"<{nbytes}>"
                )
            os.ftruncate(file, nbytes)
        if nbytes == 0:
            return np.empty((0,), np.uint8)
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        return np.frombuffer(mmap.mmap(file, nbytes, access=access), np.uint8)
    finally:
        os.close(file)


def _rebuild_storage(data: np.ndarray[Any, Any], device: str) -> UntypedStorage:
    out = object.__new__(UntypedStorage)
    out._set(arrays.move(data, Device(device)))
    return out


class TypedStorage:
    """A storage as elements of one dtype (deprecated in PyTorch, kept for scripts that use it)."""

    def __init__(
        self,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: Any = None,
        device: Any = None,
        _internal: bool = False,
    ) -> None:
        if not _internal:
            warnings.warn(
                "TypedStorage is deprecated. It will be removed in the future and UntypedStorage "
                "will be the only storage class.",
                stacklevel=2,
            )
        self.dtype: Any = dtype or getattr(type(self), "_dtype", float32)
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
        else:
            given: Any = args[0] if args else 0
            values = None if hasattr(given, "__index__") else list(given)
            count = int(given) if values is None else len(values)
            where = device or getattr(type(self), "_where", "cpu")
            self._untyped_storage = UntypedStorage(count * self.dtype.itemsize, device=where)
            if values is not None:
                elements = self._untyped_storage._elements(self.dtype)
                host = np.array(values).astype(self.dtype.numpy)
                elements.copy_(host) if self._untyped_storage.is_cuda else np.copyto(elements, host)

    @classmethod
    def from_file(
        cls, filename: str | os.PathLike[str], shared: bool = False, size: int = 0
    ) -> TypedStorage:
        """The first elements of a file; see UntypedStorage.from_file."""
        kind = getattr(cls, "_dtype", float32)
        untyped = UntypedStorage.from_file(filename, shared, size * kind.itemsize)
        return TypedStorage(wrap_storage=untyped, dtype=kind, _internal=True)

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped_storage

    def size(self) -> int:
        """How many elements there are."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    __len__ = size

    def nbytes(self) -> int:
        """How many bytes there are."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return self._untyped_storage.device

    @property
    def _cdata(self) -> int:
        """What tells this memory from any other, whoever holds it."""
        return self._untyped_storage._cdata

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._untyped_storage.data_ptr()

    def _host(self) -> Any:
        elements = self._untyped_storage._elements(self.dtype)
        return elements if type(elements) is np.ndarray else elements.numpy()

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._host().tolist()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._host()[key].item()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._untyped_storage._elements(self.dtype)[key] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def share_memory_(self) -> TypedStorage:
        """Moves the memory, with all tensors on it, where other processes can see it."""
        self._untyped_storage.share_memory_()
        return self

    def is_shared(self) -> bool:
        """Whether other processes can see the memory; GPU memory counts as shared."""
        return self._untyped_storage.is_shared()

    def _new_shared(self, size: int, device: Any = None) -> TypedStorage:
        untyped = UntypedStorage._new_shared(size * self.dtype.itemsize, device=device or "cpu")
        return TypedStorage(wrap_storage=untyped, dtype=self.dtype, _internal=True)

    def clone(self) -> TypedStorage:
        """A copy."""
        return TypedStorage(
            wrap_storage=self._untyped_storage.clone(), dtype=self.dtype, _internal=True
        )

    def __deepcopy__(self, memo: Any) -> TypedStorage:
        return TypedStorage(
            wrap_storage=copy.deepcopy(self._untyped_storage, memo),
            dtype=self.dtype,
            _internal=True,
        )

    def __repr__(self) -> str:
        rows = _shown(self)
        return (
            f"{rows}\n[tritorch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of "
            f"size {len(self)}]"
        )


def _shown(storage: Any) -> str:
    """The first elements of a storage, one a line."""
    if storage.device.type == "meta":
        return "..."
    return "\n".join(f" {value}" for value in storage.tolist()[:20])


def is_storage(obj: Any) -> bool:
    """Whether an object is a storage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))
