"""Storages: the memory that tensors are views of, as bytes; `typed_storage.py` has elements."""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays, meta
from tritorch.core import late_bound, resizing
from tritorch.core.device import PretendedDevice, device as Device
from tritorch.core.dtype import (
    STORED,
    bfloat16,
    bool_,
    complex64,
    complex128,
    dtype,
    dtype as Dtype,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from tritorch.core.naming import object_named
from tritorch.core.tensor import Tensor


def _absent(name: str) -> Any:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self, "device", None) is not None and self.device.type == "meta":
            raise RuntimeError(f"{name.removesuffix('cpu_')}: only available on CPU")
        raise NotImplementedError(
            f"tritorch has no UntypedStorage.{name}: memory goes from process to process as "
            "tritorch.multiprocessing sends it"
        )

    refuse.__name__ = name
    return refuse


def _not_available() -> Exception:
    return NotImplementedError("Not available for 'meta' device type")


def _not_shared() -> Exception:
    return RuntimeError("_share_fd_: only available on CPU")


class _StorageBase:
    """What is known of any storage; nobody makes one of this class."""

    is_sparse: bool = False
    is_sparse_csr: bool = False
    is_hpu: bool = False
    _fake_device: Any = None
    _checkpoint_offset: int | None = None

    def new(self, *args: Any) -> Any:
        """An empty storage of the same class."""
        if args:
            raise TypeError(f"StorageBase.new() takes no arguments ({len(args)} given)")
        return type(self)()

    def _shared_incref(self) -> None:
        """PyTorch counts the processes that map a file; here the file's own count is enough."""

    def _shared_decref(self) -> None:
        """See `_shared_incref`."""

    def get_device(self) -> int | None:
        """The index of the device; None on the CPU."""
        return self.device.index  # type: ignore[attr-defined]


# How PyTorch hands memory to another process, by descriptors, files and handles of CUDA.
for _name in [
    "_new_shared_fd_cpu",
    "_new_shared_filename_cpu",
    "_new_using_fd_cpu",
    "_new_using_filename_cpu",
    "_share_fd_cpu_",
    "_share_filename_cpu_",
    "_set_cdata",
    "_swap_data_ptr_",
    "_resize_with_addr_",
]:
    setattr(_StorageBase, _name, _absent(_name))


class StorageBase(_StorageBase):
    """The native half of a storage, in PyTorch."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is StorageBase:
            raise RuntimeError(
                "Cannot directly construct StorageBase; subclass it and then construct that"
            )
        return object.__new__(cls)


_weakly_held: dict[int, Any] = {}  # by what `_weak_ref` gave


def nbytes_of(array: Any) -> int:
    """How many bytes the memory below an array has."""
    if type(array) is not np.ndarray:
        return array.storage_nbytes
    if array.size == 0:
        return 0
    reach = sum((n - 1) * s for n, s in zip(array.shape, array.strides))
    return reach + array.itemsize


class UntypedStorage(StorageBase):
    """The bytes behind one or more tensors."""

    _array: Any  # an array whose memory starts where the storage does
    _shared: Any
    _filename: str | None = None

    def __init__(self, *args: Any, device: Any = "cpu", **other: Any) -> None:
        where = Device(device)
        if len(args) > 1 or other:
            got = [type(arg).__name__ for arg in args]
            got += [f"{key}={type(value).__name__}" for key, value in other.items()]
            raise TypeError(
                "torch.UntypedStorage() received an invalid combination of arguments - got "
                f"({', '.join(got)})"
            )
        if args and (isinstance(args[0], Tensor) or not hasattr(args[0], "__index__")):
            if isinstance(args[0], Tensor) or not hasattr(args[0], "__iter__"):
                raise RuntimeError(
                    "torch.UntypedStorage(): Expected a sequence type, but got "
                    f"{type(args[0]).__name__}"
                )
            for value in args[0]:
                if not hasattr(value, "__index__"):
                    raise RuntimeError(
                        "torch.UntypedStorage(): tried to construct a storage from a sequence "
                        f"({type(args[0]).__name__}), but one of the items was of type "
                        f"{type(value).__name__} instead of int"
                    )
            data = np.array([int(value) & 255 for value in args[0]], np.uint8)
            self._set(arrays.move(data, where))
            return
        size = int(args[0]) if args else 0
        _require_size(size)
        self._set(arrays.zeros((size,), uint8, where))

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0, *,
        dtype: dtype,
    ) -> UntypedStorage:  # fmt: skip
        """A copy of a buffer's elements, which lie in a byte order, in this machine's."""
        size = dtype.itemsize
        if byte_order is None and dtype not in (uint8, int8):
            raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
        if byte_order not in (None, "big", "little", "native"):
            raise ValueError(
                f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')"
            )
        raw = np.frombuffer(memoryview(buffer), np.uint8) if len(buffer) else np.empty(0, np.uint8)
        if offset < 0 or (offset > 0 and offset >= raw.size):
            raise ValueError(
                f"offset must be non-negative and no greater than buffer length ({raw.size}), but "
                f"got {offset}"
            )
        left = raw.size - offset
        if count < 0:
            if left % size:
                raise ValueError(
                    f"buffer size ({raw.size}) must be a multiple of element size ({size})"
                )
            count = left // size
        if count * size > left:
            raise ValueError(
                f"buffer has only {left // size} elements after offset {offset}, but specified a "
                f"size of {count}"
            )
        out = cls.__new__(cls)
        out._set(raw[offset : offset + count * size].copy())
        if byte_order not in (None, "native", sys.byteorder):
            out.byteswap(dtype)
        return out

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
        return nbytes_of(self._array)

    size = nbytes

    def __len__(self) -> int:
        return self.nbytes()

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The class's name, or the bytes in a storage of another class."""
        if dtype is None:
            return "torch.storage.UntypedStorage"
        cls = object_named(dtype) if isinstance(dtype, str) else dtype
        sparse = cls.is_sparse
        if sparse:
            raise RuntimeError("Cannot cast dense tensor to sparse tensor")
        if cls is type(self):
            return self
        return cls(len(self)).copy_(self, non_blocking)

    def byteswap(self, dtype: dtype) -> None:
        """Turns the bytes of each element around, in place; of a complex one those of its parts."""
        if self.is_cuda:
            raise NotImplementedError("byteswap is for storages on the CPU")
        size = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        whole = self._elements(uint8)
        rows = whole[: whole.size // size * size].reshape(-1, size)
        rows[...] = rows[:, ::-1].copy()
        self._shared.version += 1

    _byteswap = byteswap

    def _weak_ref(self) -> int:
        """A number that stands for this memory and does not keep it."""
        _weakly_held[id(self._shared)] = weakref.ref(self._shared)
        return id(self._shared)

    _fix_weakref = _weak_ref

    @classmethod
    def _expired(cls, reference: int) -> bool:
        """Whether the memory that a number of `_weak_ref` stands for is gone."""
        held = _weakly_held.get(reference)
        return held is None or held() is None

    @classmethod
    def _free_weak_ref(cls, reference: int) -> None:
        """Forgets a number of `_weak_ref`."""
        _weakly_held.pop(reference, None)

    @classmethod
    def _new_with_weak_ptr(cls, reference: int) -> UntypedStorage | None:
        """The storage that a number of `_weak_ref` stands for; None if it is gone."""
        held = _weakly_held.get(reference)
        shared = None if held is None else held()
        if shared is None:
            return None
        storage = shared.storage() if shared.storage is not None else None
        if storage is None and shared.array is not None:
            storage = object.__new__(cls)
            storage._array, storage._shared = shared.array, shared
        return storage

    def _write_file(self, f: Any, is_real_file: bool, save_size: bool, element_size: int) -> None:
        """Writes the bytes to a file, behind the number of elements where that is wanted."""
        if save_size:
            f.write((self.nbytes() // element_size).to_bytes(8, "little"))
        f.write(bytes(memoryview(self.cpu()._elements(uint8))))

    @classmethod
    def _new_with_file(cls, f: Any, element_size: int) -> UntypedStorage:
        """The storage that `_write_file` wrote, with its number of elements."""
        count = int.from_bytes(f.read(8), "little")
        data = f.read(count * element_size)
        if len(data) != count * element_size:
            raise RuntimeError(
                f"unexpected EOF, expected {count * element_size - len(data)} more bytes. The file "
                "might be corrupted."
            )
        out = cls.__new__(cls)
        out._set(np.frombuffer(bytearray(data), np.uint8))
        return out

    def _set_from_file(
        self, f: Any, offset: int | None, is_real_file: bool, element_size: int
    ) -> UntypedStorage:
        """Takes the bytes that `_write_file` wrote at a place of a file."""
        if offset is not None:
            f.seek(offset)
        found = UntypedStorage._new_with_file(f, element_size)
        if found.nbytes() != self.nbytes():
            self.resize_(found.nbytes())
        return self.copy_(found)

    def _get_filename(self) -> str | None:
        """The file whose memory this is."""
        return self.filename

    def _to(self, dtype: dtype) -> Any:
        """The bytes as numbers, each as an element of another dtype."""
        if not isinstance(dtype, Dtype):
            raise TypeError(f"Argument 'dtype' must be torch.dtype, not {type(dtype)}")
        numbers = self._view(uint8, (self.nbytes(),), (1,), 0).to(dtype)
        if numbers.dtype is uint8:
            numbers = numbers.clone()
        return numbers.storage()

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """On another device."""
        where = Device(device)
        if where.type == "cpu":
            return self.cpu()
        if where.type == "cuda":
            return self.cuda(where, non_blocking)
        raise AssertionError(f"{where.type.upper()} device module is not loaded")

    def hpu(self, device: Any = None, non_blocking: bool = False) -> Any:
        """There are none of these devices."""
        raise AssertionError("HPU device module is not loaded")

    def mps(self) -> Any:
        """There are none of these devices."""
        raise RuntimeError("torch.UntypedStorage(): Storage device not recognized: mps")

    def pin_memory(self, device: Any = None) -> UntypedStorage:
        """A copy in page-locked memory."""
        if self.device.type != "cpu":
            raise TypeError(f"cannot pin '{self.type()}' only CPU memory can be pinned")
        if device is not None:
            Device(device)
        pinned = self._view(uint8, (self.nbytes(),), (1,), 0).pin_memory()
        return pinned.untyped_storage()

    def _require_elements(self, error: Callable[[], Exception]) -> None:
        """Raises the error where the memory is only described."""
        if self.device.type == "meta":
            raise error()

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
        self._require_elements(_not_available)
        elements = self._elements(uint8)
        return (elements if type(elements) is np.ndarray else elements.numpy()).tolist()

    def __getitem__(self, key: Any) -> Any:
        self._require_elements(_not_available)
        elements = self._elements(uint8)
        if isinstance(key, slice):  # on the same memory
            if key.step not in (None, 1):
                raise RuntimeError(
                    f"Trying to slice with a step of {key.step}, but only a step of 1 is supported"
                )
            part = object.__new__(UntypedStorage)
            part._set(elements[key])
            return part
        place = self._place(key)
        return int((elements if type(elements) is np.ndarray else elements.numpy())[place])

    def _place(self, key: Any) -> int:
        if isinstance(key, bool) or not hasattr(key, "__index__"):
            raise TypeError(f"can't index a torch.UntypedStorage with {type(key).__name__}")
        size, place = self.nbytes(), int(key)
        if not -size <= place < size:
            shown = place + size if place < 0 else place  # as PyTorch counts by then
            raise IndexError(f"index {shown} out of range for storage of size {size}")
        return place % size

    def __setitem__(self, key: Any, value: Any) -> None:
        if not hasattr(value, "__index__"):
            raise RuntimeError(
                f"can only set storage content with a int types, but got {type(value).__name__} "
                "instead"
            )
        place = key if isinstance(key, slice) else self._place(key)
        self._elements(uint8)[place] = int(value) & 255
        self._shared.version += 1

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        kind = f"torch.storage.UntypedStorage(device={self.device})"
        return f"{shown(self)}\n[{kind} of size {len(self)}]"

    def fill_(self, value: int) -> UntypedStorage:
        """Sets every byte."""
        if not hasattr(value, "__index__"):
            raise RuntimeError(f"fill_ expects int, but got {type(value).__name__}")
        if type(self._array) is meta.MetaArray:
            return self
        elements, value = self._elements(uint8), int(value) & 255
        elements.fill(value) if type(elements) is np.ndarray else elements.fill_(value)
        self._shared.version += 1
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> UntypedStorage:
        """Copies another storage's bytes."""
        if not isinstance(source, UntypedStorage):
            untyped = getattr(source, "_untyped_storage", None)
            if untyped is None:
                raise TypeError(
                    "copy_(): argument 'src' (position 1) must be torch.Storage, not "
                    f"{type(source).__name__}"
                )
            source = untyped
        if type(source._array) is meta.MetaArray is not type(self._array):
            raise meta.no_data()
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was "
                f"{source.nbytes()} bytes"
            )
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

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def __deepcopy__(self, memo: Any) -> UntypedStorage:
        key = ("tritorch.storage", self)
        if key not in memo:
            memo[key] = self.clone()
        return memo[key]

    def _get_shared_fd(self) -> int:
        """A descriptor of the shared memory, for who maps it too."""
        if not self.is_shared():
            raise RuntimeError("couldn't retrieve a shared file descriptor")
        from tritorch.core.sharing import segment_of

        segment = segment_of(self._array)
        assert segment is not None
        return segment.descriptor()

    def __reduce__(self) -> Any:
        elements = self._elements(uint8)
        host = elements if type(elements) is np.ndarray else elements.numpy()
        return _rebuild_storage, (host, str(self.device))

    def cpu(self) -> UntypedStorage:
        """In host memory."""
        self._require_elements(meta.no_data)
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

    def resizable(self) -> bool:
        """Whether the memory is tritorch's own, which can be another size."""
        return not self._shared.fixed

    def resize_(self, size: int) -> UntypedStorage:
        """Another size, for all tensors on it; what is no longer there is freed."""
        if not hasattr(size, "__index__"):
            raise RuntimeError(f"resize_ expects an int, but got {type(size).__name__}")
        _require_size(size)
        resizing.resize(self, size)
        return self

    def share_memory_(self) -> UntypedStorage:
        """Moves the memory, with all tensors on it, where other processes can see it."""
        if not self.is_cuda:
            self._require_elements(_not_shared)
            from tritorch.core.sharing import share

            share(self)
        return self

    def is_shared(self) -> bool:
        """Whether other processes can see the memory; GPU memory counts as shared."""
        from tritorch.core.sharing import is_shared

        return self.is_cuda or is_shared(self)

    def _share_cuda_(self) -> tuple[int, bytes, int, int, bytes, int, bytes, bool]:
        """A loan of GPU memory to one process of this one's family: device, handle, bytes, offset,
        and the counter's file and place; the event's handle is empty, as the work is done."""
        from tritorch.core import lending

        return lending.to_words(lending.lend(self))

    @classmethod
    def _new_shared_cuda(cls, *words: Any) -> UntypedStorage:
        """The storage of what `_share_cuda_` gave in another process."""
        from tritorch.core import lending

        loan = lending.from_words(*words)
        storage = object.__new__(cls)
        try:
            storage._set(lending.borrow(loan))
        finally:
            lending.close(loan.files)
        return storage

    @classmethod
    def _release_ipc_counter_cuda(cls, handle: bytes, offset: int, device: Any = None) -> None:
        """Gives back what `_share_cuda_` lent and nobody took."""
        from tritorch.core import lending

        lending.decline(handle, offset)

    _release_ipc_counter = _release_ipc_counter_cuda

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


UntypedStorage.to.__qualname__ = "_StorageBase.to"


def _conversion(name: str, kind: Dtype) -> None:
    def convert(self: Any) -> Any:
        return self._to(kind)

    convert.__name__ = name
    convert.__doc__ = f"The elements as {kind.name}, in a typed storage."
    setattr(_StorageBase, name, convert)


CONVERSIONS = {
    "double": float64, "float": float32, "half": float16, "long": int64, "int": int32,
    "short": int16, "char": int8, "byte": uint8, "bool": bool_, "bfloat16": bfloat16,
    "complex_double": complex128, "complex_float": complex64,
    "float8_e5m2": float8_e5m2, "float8_e4m3fn": float8_e4m3fn,
    **{n: STORED[n] for n in ("float8_e5m2fnuz", "float8_e4m3fnuz")},
}  # fmt: skip
for _name, _kind in CONVERSIONS.items():
    _conversion(_name, _kind)


def _require_size(size: int) -> None:
    if size < 0:
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp:98] ((ptrdiff_t)nbytes) >= 0. alloc_cpu() seems to "
            f"have been called with negative number: {size % 2**64}"
        )


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


def shown(storage: Any) -> str:
    """The elements of a storage, one a line."""
    if storage.device.type == "meta":
        return "..."
    return " " + "\n ".join(str(value) for value in storage.tolist())


for _class in (UntypedStorage, _StorageBase):
    _class.__module__ = "tritorch.storage"
StorageBase.__module__ = "tritorch._C"


late_bound.untyped_storage = UntypedStorage._of
