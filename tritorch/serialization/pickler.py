"""Picklers that write PyTorch's names: what torch.load reads as torch's, load() reads as ours."""

from __future__ import annotations

import functools
import operator
import pickle
import sys
import types
from typing import Any

from tritorch.core.device import device as Device
from tritorch.core.dtype import dtype
from tritorch.core.layout import layout, memory_format
from tritorch.core.size import Size
from tritorch.core.storage import UntypedStorage
from tritorch.core.typed_storage import TypedStorage
from tritorch.serialization import names, rebuild
from tritorch.serialization.locations import location_tag


class Storages:
    """The storages that a pickle refers to, numbered as they come."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[str, UntypedStorage, int]] = {}
        self._dtypes: dict[int, dtype] = {}

    def refer(self, obj: Any) -> tuple[Any, str, str, int] | None:
        """(type, key, location, elements) of a storage, None for other objects."""
        if isinstance(obj, TypedStorage):
            storage, kind = obj._untyped_storage, obj.dtype
            name = rebuild.STORAGE_OF_DTYPE.get(kind)
            if name is None:
                raise RuntimeError(f"save(): a TypedStorage of {kind} has no name in PyTorch")
            written: Any = rebuild.storage_type(name)
        elif isinstance(obj, UntypedStorage):
            storage, kind, written = obj, rebuild.dtypes.uint8, UntypedStorage
        else:
            return None
        address = storage.data_ptr()
        if address and self._dtypes.setdefault(address, kind) is not kind:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different "
                "types"
            )
        entry = (str(len(self.entries)), storage, kind.itemsize)
        key = self.entries.setdefault(id(storage._shared), entry)[0]
        return written, key, location_tag(storage), storage.nbytes() // kind.itemsize


def _reduce(obj: Any) -> Any:
    kind = type(obj)
    if kind is Size:
        return Size, (tuple(obj),)
    if kind is Device:
        return Device, ((obj.type,) if obj.index is None else (obj.type, obj.index))
    if kind is layout:
        return rebuild._get_layout, (f"torch.{obj.name}",)
    if getattr(kind, "is_quantized", False) is True:
        return rebuild.reduce_plain(obj)  # refuses: its own pickle is not PyTorch's
    return NotImplemented


@functools.cache
def pickler_class(module: Any) -> Any:
    """A pickler like a module's, for objects that hold tensors.

    Names are written by hand, which takes a pickler in Python; one in C (cloudpickle's) would
    import what it names, so its pickles keep tritorch's names, which only tritorch reads.
    """
    base = pickle._Pickler if module is pickle else module.Pickler
    in_python = issubclass(base, pickle._Pickler)

    class Pickler(base):  # type: ignore[misc, valid-type]
        """Writes storages as references."""

        def __init__(self, file: Any, protocol: int, refer: Any) -> None:
            super().__init__(file, protocol=protocol)
            self._refer = refer

        def persistent_id(self, obj: Any) -> Any:
            return self._refer(obj)

        def reducer_override(self, obj: Any) -> Any:
            out = _reduce(obj)
            if out is NotImplemented and in_python:
                if isinstance(obj, (dtype, rebuild.StorageType, memory_format)):
                    return "a name"  # for save_global
            if out is NotImplemented and hasattr(base, "reducer_override"):
                return super().reducer_override(obj)
            return out

        if in_python:
            dispatch = dict(base.dispatch)

            def save_global(self, obj: Any, name: str | None = None) -> None:
                written = names.path_of(obj)
                if written is None:
                    super().save_global(obj, name)
                    return
                self.write_global(obj, *written, lambda module: sys.modules[obj.__module__])

            def write_global(self, obj: Any, module: str, name: str, find: Any) -> None:
                """Writes a reference to what a module has; find: the module by its name."""
                parent, _, last = name.rpartition(".")
                if parent and self.proto < 4:  # as pickle writes names in a class
                    owner = operator.attrgetter(parent)(find(module))
                    self.save_reduce(getattr, (owner, last), obj=obj)
                    return
                if self.proto >= 4:
                    self.save(module)
                    self.save(name)
                    self.write(pickle.STACK_GLOBAL)
                else:
                    self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
                self.memoize(obj)

            dispatch[types.FunctionType] = save_global

    return Pickler
