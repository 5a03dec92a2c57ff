"""Typed storages: memory as elements of one dtype, deprecated in PyTorch and kept for scripts.

`FloatStorage` and its like are classes that make `TypedStorage`s and that these are instances of.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from typing import Any

from tritorch import _C
from tritorch.core import defaults, late_bound, published
from tritorch.core.device import device as Device
from tritorch.core.dtype import STORED, all_dtypes, dtype as Dtype
from tritorch.core.naming import as_native, qualified
from tritorch.core.storage import CONVERSIONS, UntypedStorage, shown

_QUANTIZED = {
    "quint8": "QUInt8", "quint4x2": "QUInt4x2", "quint2x4": "QUInt2x4", "qint32": "QInt32",
    "qint8": "QInt8",
}  # fmt: skip
_NAMES = {
    "float64": "Double", "float32": "Float", "float16": "Half", "int64": "Long", "int32": "Int",
    "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool", "bfloat16": "BFloat16",
    "complex128": "ComplexDouble", "complex64": "ComplexFloat",
}  # fmt: skip
_DTYPES = {kind.name: kind for kind in all_dtypes} | STORED
STORAGE_NAMES = {_DTYPES[name]: f"{word}Storage" for name, word in (_NAMES | _QUANTIZED).items()}


_REMOVAL = (
    "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be "
    "the only storage class. This should only matter to you if you are using storages "
    "directly.  To access UntypedStorage directly, use tensor.untyped_storage() instead of "
    "tensor.storage()"
)


def warn_of_removal(stacklevel: int = 2, always: bool = False, forget: bool = False) -> None:
    """Says once in a process that typed storages are deprecated; forget: it may say so again."""
    if always or forget:
        defaults.forget_warning(_REMOVAL)
    if not forget:
        defaults.warn_once(_REMOVAL, stacklevel=stacklevel + 2)


def _refused(who: str, why: str, error: type[Exception] = RuntimeError) -> Exception:
    return error(f"{who} received an invalid combination of arguments. {why}")


class TypedStorage:
    """A storage as elements of one dtype."""

    is_sparse: bool = False
    _fake_device: Any = None

    def __init__(
        self,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: Any = None,
        device: Any = None,
        _internal: bool = False,
        **other: Any,
    ) -> None:
        if other:
            raise TypeError(
                f"TypedStorage.__new__() got an unexpected keyword argument '{next(iter(other))}'"
            )
        if not _internal:
            warn_of_removal()
        who = "TypedStorage.__init__"
        if wrap_storage is not None:
            if args:
                raise _refused(who, "No positional arguments should be given with 'wrap_storage'")
            if dtype is None:
                raise _refused(who, "Argument 'dtype' must be specified")
            if not isinstance(dtype, Dtype):
                raise _refused(who, f"'dtype' must be torch.dtype, not {type(dtype)}", TypeError)
            if device is not None:
                raise _refused(who, "'device' should not be specified with 'wrap_storage'")
            if not isinstance(wrap_storage, UntypedStorage):
                raise _refused(
                    who,
                    f"'wrap_storage' must be UntypedStorage, not {type(wrap_storage)}",
                    TypeError,
                )
            self.dtype: Dtype = dtype
            self._dtype = dtype
            self._untyped_storage = wrap_storage
            return
        if dtype is not None and not isinstance(dtype, Dtype):
            raise TypeError(
                f"tensor(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}"
            )
        self.dtype = self._dtype = defaults.dtype() if dtype is None else dtype
        where = Device("cpu" if device is None else device)
        if len(args) > 1:
            raise _refused(who, "Too many positional arguments")
        given = args[0] if args else 0
        if hasattr(given, "__index__") and not isinstance(given, _C.TensorBase):
            self._untyped_storage = UntypedStorage(int(given) * self.dtype.itemsize, device=where)
        elif isinstance(given, Sequence):
            if isinstance(given, (str, bytes)):
                raise TypeError(f"new(): invalid data type '{type(given).__name__}'")
            if any(isinstance(each, str) for each in given):
                raise TypeError("must be real number, not str")
            values = published.public.tensor(list(given), dtype=self._numbers(), device=where)
            self._untyped_storage = values.untyped_storage()
        else:
            raise _refused(who, f"Argument type not recognized: {type(given)}", TypeError)

    def _numbers(self) -> Dtype:
        """The dtype of the elements as they are stored: of a quantised one its integers."""
        stored = {"quint8": "uint8", "quint4x2": "uint8", "quint2x4": "uint8", "qint32": "int32",
                  "qint8": "int8"}  # fmt: skip
        return _DTYPES[stored[self.dtype.name]] if self.dtype.name in stored else self.dtype

    @classmethod
    def from_file(
        cls, filename: str | os.PathLike[str], shared: bool = False, size: int = 0
    ) -> TypedStorage:
        """The first elements of a file; see UntypedStorage.from_file."""
        kind = getattr(cls, "_dtype", None) or defaults.dtype()
        untyped = UntypedStorage.from_file(filename, shared, size * kind.itemsize)
        return TypedStorage(wrap_storage=untyped, dtype=kind, _internal=True)

    @classmethod
    def from_buffer(cls, *args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Any:
        """A copy of a buffer's elements; see UntypedStorage.from_buffer."""
        warn_of_removal()
        own = getattr(cls, "_dtype", None)
        if own is not None and (dtype is not None or len(args) == 5):
            raise RuntimeError(
                "from_buffer: 'dtype' can only be specified in UntypedStorage.from_buffer and "
                "TypedStorage.from_buffer"
            )
        if own is not None and device is not None:
            raise RuntimeError(
                "from_buffer: 'device' can only be specified in UntypedStorage.from_buffer and "
                "TypedStorage.from_buffer"
            )
        kind = own or dtype or defaults.dtype()
        untyped = UntypedStorage.from_buffer(*args, dtype=kind, **kwargs)
        return TypedStorage(wrap_storage=untyped, dtype=kind, _internal=True)

    _from_buffer = from_buffer

    # ---- what it is ------------------------------------------------------------------------------

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped_storage

    def size(self) -> int:
        """How many elements there are."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    __len__ = _size = size

    def nbytes(self) -> int:
        """How many bytes there are."""
        return self._untyped_storage.nbytes()

    _nbytes = nbytes

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    _element_size = element_size

    def _maybe_wrap_index(self, idx: int | None, is_stop: bool = False) -> int:
        """An index, counted from the front; is_stop: of a slice's end, which may be behind all."""
        size = self.size()
        if idx is None:
            return size if is_stop else 0
        if not hasattr(idx, "__index__"):
            raise TypeError(f"can't index a {type(self)} with {type(idx)}")
        if is_stop and idx > size:
            return size
        if not -size <= idx < size + is_stop:
            raise IndexError(f"index {idx} out of range for storage of size {size}")
        return int(idx) % size if not is_stop else int(idx) + (size if idx < 0 else 0)

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether they are on a GPU."""
        return self._untyped_storage.is_cuda

    @property
    def is_hpu(self) -> bool:
        """False: there are none of these devices."""
        return False

    @property
    def filename(self) -> str | None:
        """The file whose memory this is."""
        return self._untyped_storage.filename

    def get_device(self) -> int | None:
        """The index of the device; None on the CPU."""
        return self._untyped_storage.get_device()

    @property
    def _cdata(self) -> int:
        """What tells this memory from any other, whoever holds it."""
        return self._untyped_storage._cdata

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._untyped_storage.data_ptr()

    _data_ptr = data_ptr

    def resizable(self) -> bool:
        """Whether the memory can be another size."""
        return self._untyped_storage.resizable()

    def pickle_storage_type(self) -> str:
        """The name of the class that old files name for this dtype."""
        if self.dtype not in STORAGE_NAMES:
            raise KeyError(f"dtype {self.dtype} is not recognized")
        return STORAGE_NAMES[self.dtype]

    _pickle_storage_type = pickle_storage_type

    def _get_legacy_storage_class(self) -> Any:
        """The class named after the dtype, on this device; None without one."""
        name = STORAGE_NAMES.get(self.dtype) or ""
        return LEGACY[self.device.type].get(name) if self.device.type in LEGACY else None

    # ---- elements --------------------------------------------------------------------------------

    def _tensor(self) -> Any:
        return self._untyped_storage._view(self._numbers(), (self.size(),), (1,), 0)

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        return self._tensor().tolist()

    def _index(self, key: Any) -> Any:
        if isinstance(key, slice):
            return key
        if not hasattr(key, "__index__"):
            raise RuntimeError(f"can't index a {type(self)} with {type(key)}")
        return int(key)

    def __getitem__(self, key: Any) -> Any:
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        if isinstance(key, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        place, size = self._index(key), self.size()
        if not -size <= place < size:
            raise IndexError(f"index {place} out of range for storage of size {size}")
        return self._tensor()[place].item()

    _getitem = __getitem__

    def __setitem__(self, key: Any, value: Any) -> None:
        place = self._index(key)
        if isinstance(value, (TypedStorage, UntypedStorage)):
            raise RuntimeError(f"cannot set item with value type {type(value)}")
        self._put(place, value)

    def _put(self, place: Any, value: Any) -> None:
        if isinstance(value, (list, str)):
            raise TypeError(f"can't assign a {type(value).__name__} to a {self._tensor().type()}")
        self._tensor()[place] = value

    _setitem = __setitem__

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def fill_(self, value: Any) -> TypedStorage:
        """Sets every element."""
        self._put(slice(None), value)
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Copies another storage's bytes."""
        self._untyped_storage.copy_(source, non_blocking)
        return self

    def resize_(self, size: int) -> None:
        """Another number of elements, for all tensors on the memory."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    _resize_ = resize_

    # ---- elsewhere, otherwise --------------------------------------------------------------------

    def _new_wrapped_storage(self, untyped: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=untyped, dtype=self.dtype, _internal=True)

    _wrapped = _new_wrapped_storage

    def _to(self, dtype: Dtype) -> TypedStorage:
        """The elements as another dtype, in memory of their own."""
        if not isinstance(dtype, Dtype):
            raise TypeError(f"Argument 'dtype' must be torch.dtype, not {type(dtype)}")
        whole = self._tensor().to(dtype)
        if whole.data_ptr() == self.data_ptr():
            whole = whole.clone()
        return TypedStorage(wrap_storage=whole.untyped_storage(), dtype=dtype, _internal=True)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the class after the dtype, or the bytes in a storage of another class."""
        if dtype is not None:
            return self._untyped_storage.type(dtype, non_blocking)
        cls = self._get_legacy_storage_class()
        named = "storage.TypedStorage" if cls is None else cls.__name__
        return qualified(f"cuda.{named}" if self.is_cuda and cls is not None else named)

    def cpu(self) -> TypedStorage:
        """In host memory."""
        return self._wrapped(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """On a GPU."""
        self._require_plain("CUDA")
        return self._wrapped(self._untyped_storage.cuda(device, non_blocking))

    def hpu(self, device: Any = None, non_blocking: bool = False) -> Any:
        """There are none of these devices."""
        return self._untyped_storage.hpu(device, non_blocking)

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """On another device."""
        self._require_plain(Device(device).type.upper())
        moved = self._untyped_storage.to(device=device, non_blocking=non_blocking)
        return self._wrapped(moved)

    def _require_plain(self, where: str) -> None:
        if self.dtype.name in _QUANTIZED:
            raise RuntimeError(f"Cannot create {where} storage with quantized dtype")

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the memory is page-locked."""
        return self._untyped_storage.is_pinned(device)

    def pin_memory(self, device: Any = None) -> TypedStorage:
        """A copy in page-locked memory."""
        return self._wrapped(self._untyped_storage.pin_memory(device))

    def share_memory_(self) -> TypedStorage:
        """Moves the memory, with all tensors on it, where other processes can see it."""
        self._untyped_storage.share_memory_()
        return self

    _share_memory_ = share_memory_

    def is_shared(self) -> bool:
        """Whether other processes can see the memory; GPU memory counts as shared."""
        return self._untyped_storage.is_shared()

    _is_shared = is_shared

    def _new_shared(self, size: int, device: Any = None) -> TypedStorage:
        untyped = UntypedStorage._new_shared(size * self.dtype.itemsize, device=device or "cpu")
        return self._wrapped(untyped)

    def clone(self) -> TypedStorage:
        """A copy."""
        return self._wrapped(self._untyped_storage.clone())

    __copy__ = clone

    def __deepcopy__(self, memo: Any) -> TypedStorage:
        return self._wrapped(copy.deepcopy(self._untyped_storage, memo))

    _deepcopy = __deepcopy__

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def __reduce__(self) -> Any:
        return late_bound.reduce_typed_storage(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # By its memory, which tensors of one pickle share; PyTorch's form is `__reduce__`'s.
        return of_memory, (self._untyped_storage, self.dtype)

    def __repr__(self) -> str:
        return (
            f"{shown(self)}\n[torch.storage.TypedStorage(dtype={self.dtype}, "
            f"device={self.device}) of size {len(self)}]"
        )

    __str__ = __repr__


def _forwarded(name: str) -> None:
    """A method that is the bytes'."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._untyped_storage, name)(*args, **kwargs)

    forward.__name__ = name
    forward.__doc__ = f"UntypedStorage.{name} of the bytes."
    setattr(TypedStorage, name, forward)


for _name in [
    "_weak_ref",
    "_write_file",
    "_set_from_file",
    "_set_cdata",
    "_share_cuda_",
    "_share_fd_cpu_",
    "_share_filename_cpu_",
    "_shared_decref",
    "_shared_incref",
]:
    _forwarded(_name)
for _name in ("_expired", "_free_weak_ref", "_new_shared_cuda", "_release_ipc_counter"):
    setattr(TypedStorage, _name, staticmethod(getattr(UntypedStorage, _name)))


def of_memory(untyped: UntypedStorage, dtype: Dtype) -> TypedStorage:
    """The typed storage on an untyped one: what pickles call."""
    return TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def _conversion(name: str, kind: Dtype) -> None:
    def convert(self: Any) -> TypedStorage:
        return self._to(kind)

    convert.__name__ = name
    convert.__doc__ = f"The elements as {kind.name}."
    setattr(TypedStorage, name, convert)


for _name, _kind in CONVERSIONS.items():
    _conversion(_name, _kind)


# ---- the classes named after dtypes --------------------------------------------------------------


class _LegacyStorageMeta(type):
    dtype: Dtype
    _home: str

    def __instancecheck__(cls, instance: Any) -> bool:
        if type(instance) is not TypedStorage or cls is _LegacyStorage:
            return False
        return instance.device.type == cls._home and instance.dtype is cls.dtype


class _LegacyStorage(TypedStorage, metaclass=_LegacyStorageMeta):
    """The base of FloatStorage and its like: what they make is a TypedStorage."""

    _dtype: Any = None
    _home: str = "cpu"

    def __new__(
        cls, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None,
        _internal: bool = False, **other: Any,
    ) -> Any:  # fmt: skip
        if other:
            raise TypeError(
                f"TypedStorage.__new__() got an unexpected keyword argument '{next(iter(other))}'"
            )
        if not _internal:
            warn_of_removal()
        if cls is _LegacyStorage:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
        who = f"{cls}.__new__"
        if device is not None:
            raise _refused(who, "Keyword argument 'device' cannot be specified")
        if dtype is not None:
            raise _refused(who, "Keyword argument 'dtype' cannot be specified")
        if wrap_storage is None:
            if len(args) > 1:
                raise _refused(who, "Too many positional arguments")
            if args and (
                isinstance(args[0], _C.TensorBase)
                or not (hasattr(args[0], "__index__") or isinstance(args[0], Sequence))
            ):
                raise _refused(who, f"Argument type not recognized: {type(args[0])}", TypeError)
            if cls._home == "cuda" and not _C.device_count():
                raise AssertionError("Torch not compiled with CUDA enabled")
            return TypedStorage(*args, dtype=cls._dtype, device=cls._home, _internal=True)
        if args:
            raise _refused(who, "No positional arguments should be given with 'wrap_storage'")
        if not isinstance(wrap_storage, UntypedStorage):
            raise _refused(
                who,
                f"'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}",
                TypeError,
            )
        if wrap_storage.device.type != cls._home:
            raise _refused(
                who,
                f"Device of 'wrap_storage' must be {cls._home}, but got {wrap_storage.device.type}",
            )
        return TypedStorage(wrap_storage=wrap_storage, dtype=cls._dtype, _internal=True)

    @classmethod
    def _new_shared(cls, size: int) -> TypedStorage:  # type: ignore[override]
        """Elements in memory that other processes can see."""
        untyped = UntypedStorage._new_shared(size * cls._dtype.itemsize)
        return TypedStorage(wrap_storage=untyped, dtype=cls._dtype, _internal=True)


def _legacy(name: str, kind: Dtype, home: str) -> Any:
    module = "tritorch" if home == "cpu" else "tritorch.cuda"
    fields = {"_dtype": kind, "dtype": kind, "_home": home, "__module__": module}
    return _LegacyStorageMeta(name, (_LegacyStorage,), fields)


LEGACY: dict[str, dict[str, Any]] = {
    "cpu": {name: _legacy(name, kind, "cpu") for kind, name in STORAGE_NAMES.items()},
    "cuda": {
        name: _legacy(name, kind, "cuda")
        for kind, name in STORAGE_NAMES.items()
        if kind.name not in _QUANTIZED
    },
}


def _dtype_to_storage_type_map() -> dict[Dtype, str]:
    """The names of the classes, by dtype."""
    return dict(STORAGE_NAMES)


def _storage_type_to_dtype_map() -> dict[str, Dtype]:
    """The dtypes, by the names of the classes."""
    return {name: kind for kind, name in STORAGE_NAMES.items()}


def is_storage(obj: Any) -> bool:
    """Whether an object is a storage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


for _class in (TypedStorage, _LegacyStorage, _LegacyStorageMeta):
    _class.__module__ = "tritorch.storage"


def _of_tensor(tensor: Any) -> TypedStorage:
    """A tensor's memory as elements of its dtype."""
    return TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True)


as_native(TypedStorage, "torch.storage.TypedStorage", final=False)
as_native(UntypedStorage, "torch.storage.UntypedStorage", final=False)
late_bound.typed_storage, late_bound.warn_of_typed_storage = _of_tensor, warn_of_removal
