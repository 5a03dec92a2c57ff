"""Storages by name, while several modules that share them are read."""

from __future__ import annotations

from tritorch.core.dtype import dtype
from tritorch.core.tensor import Tensor


class DeserializationStorageContext:
    """Storages that were read already, by name."""

    def __init__(self) -> None:
        self._storages: dict[str, Tensor] = {}

    def add_storage(self, name: str, tensor: Tensor) -> None:
        """Keeps a tensor's storage; each name once."""
        if not isinstance(tensor, Tensor):
            raise TypeError(f"add_storage(): expected a tensor, got {tensor!r}")
        if self.has_storage(name):
            raise RuntimeError(f"there is a storage {name!r} already")
        self._storages[name] = tensor.detach()

    def has_storage(self, name: str) -> bool:
        """Whether there is one with the name."""
        return name in self._storages

    def get_storage(self, name: str, kind: dtype) -> Tensor:
        """An empty tensor of a dtype on the storage, for views that are made with `set_`."""
        if not isinstance(kind, dtype):
            raise TypeError(f"get_storage(): expected a dtype, got {kind!r}")
        if not self.has_storage(name):
            raise RuntimeError(f"there is no storage {name!r}")
        kept = self._storages[name]
        return kept.new_empty((0,), dtype=kind).set_(kept.untyped_storage(), 0, (0,))


DeserializationStorageContext.__module__ = "tritorch"
