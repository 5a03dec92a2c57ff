"""An archive that somebody has unpacked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tritorch.core.storage import UntypedStorage

__serialization_id_record_name__ = ".data/serialization_id"


class _HasStorage:
    """What gives a record as a storage, as a tensor does."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage

    def storage(self) -> Any:
        """The record."""
        return self._storage

    untyped_storage = storage


class DirectoryReader:
    """Reads the records of an unpacked archive, as `PyTorchFileReader` those of a file."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def get_record(self, name: str) -> bytes:
        """A record."""
        return Path(self.directory, name).read_bytes()

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> _HasStorage:
        """The first elements of a record; pages are read when they are used."""
        path = os.path.join(self.directory, name)
        return _HasStorage(UntypedStorage.from_file(path, False, numel * dtype.itemsize))

    def has_record(self, path: str) -> bool:
        """Whether there is a record."""
        return os.path.isfile(os.path.join(self.directory, path))

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        files = (path for path in Path(self.directory).rglob("*") if path.is_file())
        return sorted(path.relative_to(self.directory).as_posix() for path in files)

    def serialization_id(self) -> str:
        """The archive's id; "" if it has none."""
        name = __serialization_id_record_name__
        return self.get_record(name).decode() if self.has_record(name) else ""
