"""PyTorch's archives record by record: PyTorchFileWriter and PyTorchFileReader."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tritorch.core.storage import UntypedStorage
from tritorch.core.typed_storage import TypedStorage
from tritorch.serialization.archive import ArchiveReader, ArchiveWriter, record_offset
from tritorch.serialization.atomic import atomic_writer
from tritorch.serialization.saving import bytes_of, write_all

_VERSION = 3
_VERSION_OF_PACKAGES = 6  # from it on the version stands beside what else torch.package notes
_VERSION_NAME, _ORDER_NAME, _ID_NAME = "version", "byteorder", ".data/serialization_id"


class PyTorchFileWriter:
    """Writes an archive to a path, whole or not at all, or to anything with a write method.

    Records are what `torch.load` and zip readers find under the archive's name. What was not ended
    by `write_end_of_file` is ended when the writer is let go.
    """

    def __init__(
        self, file_name: Any, compute_crc32: bool = True, storage_alignment: int = 64
    ) -> None:
        self._is_ended = True  # until there is something to end
        self._stack = contextlib.ExitStack()
        is_path = isinstance(file_name, (str, os.PathLike))
        if not is_path and not hasattr(file_name, "write"):
            raise TypeError(
                "PyTorchFileWriter: expected a path or an object with a write method, got "
                f"{type(file_name).__name__}"
            )
        self._name = (Path(file_name).stem if is_path else "") or "archive"
        file = self._stack.enter_context(atomic_writer(file_name)) if is_path else file_name
        self._file, self._owns_file = file, is_path
        self._archive = ArchiveWriter(
            write_all(file), self._name, crc=compute_crc32, alignment=storage_alignment
        )
        self._version = _VERSION
        self._written: set[str] = set()
        self._id = ""
        self._is_ended = False

    def __del__(self) -> None:
        if not self._is_ended and not getattr(self._file, "closed", False):
            self.write_end_of_file()

    def archive_name(self) -> str:
        """The folder in the archive that holds the records."""
        return self._name

    def get_all_written_records(self) -> set[str]:
        """The names so far."""
        return set(self._written)

    def serialization_id(self) -> str:
        """40 digits that depend on the records; "" before the end."""
        return self._id

    def set_min_version(self, version: int) -> None:
        """The version that the archive says will be at least this."""
        self._version = max(self._version, version)

    def write_record(self, name: str, data: Any, size: int) -> None:
        """A record: the first bytes of a str, of bytes, or of a storage."""
        if isinstance(data, TypedStorage):
            data = data.untyped()
        if isinstance(data, UntypedStorage):
            view = memoryview(np.ascontiguousarray(bytes_of(data)).data)
        elif isinstance(data, (str, bytes, bytearray, memoryview)):
            raw = data.encode() if isinstance(data, str) else data
            view = memoryview(raw).cast("B") if len(raw) else memoryview(b"")
        else:
            raise TypeError(
                f"write_record(): expected str, bytes or a storage, got {type(data).__name__}"
            )
        if not 0 <= size <= len(view):
            raise RuntimeError(
                f"write_record(): {size} bytes of record {name!r} are wanted, it has {len(view)}"
            )
        self._begin(name)
        self._archive.add(name, view[:size])

    def write_record_metadata(self, name: str, size: int) -> None:
        """A record of so many zeros, which something else fills in later."""
        self._begin(name)
        self._archive.add_hole(name, size)

    def write_end_of_file(self) -> None:
        """Adds version, byte order and id, if they are not there, and the directory."""
        self._require_open()
        self._is_ended = True
        with self._stack:
            packaged = self._version >= _VERSION_OF_PACKAGES
            self._add(f".data/{_VERSION_NAME}" if packaged else _VERSION_NAME, f"{self._version}\n")
            self._add(_ORDER_NAME, sys.byteorder)
            self._id = self._archive.digest()
            self._add(_ID_NAME, self._id)
            self._archive.close()

    def discard(self) -> None:
        """Ends without a file: a path is what it was before. What went to an object with a write
        method is ended, so that it can be read as far as it goes."""
        if self._is_ended:
            return
        if not self._owns_file:
            self.write_end_of_file()
            return
        self._is_ended = True
        error = RuntimeError("the archive was discarded")
        self._stack.__exit__(RuntimeError, error, None)

    def _add(self, name: str, text: str) -> None:
        if name not in self._written:
            self._written.add(name)
            self._archive.add(name, text.encode())

    def _begin(self, name: str) -> None:
        self._require_open()
        if name in self._written:
            raise RuntimeError(f"Tried to serialize file twice: {name}")
        self._written.add(name)

    def _require_open(self) -> None:
        if self._is_ended:
            raise RuntimeError("PyTorchFileWriter: the archive was ended by write_end_of_file()")


class PyTorchFileReader:
    """Reads the records of an archive, from a path or a seekable binary file.

    Sizes and checksums are checked before anything is given out.
    """

    def __init__(self, file_name: Any, /) -> None:
        self._owned: Any = None
        file = file_name
        if isinstance(file_name, (str, os.PathLike)):
            try:
                file = self._owned = open(file_name, "rb")  # noqa: SIM115  # kept
            except OSError as error:
                raise RuntimeError(
                    f"open file failed because of errno {error.errno} on fopen: {error.strerror}, "
                    f"file path: {os.fspath(file_name)}"
                ) from error
        try:
            self._archive = ArchiveReader(file)
        except BaseException:
            self.__del__()
            raise

    def __del__(self) -> None:
        if self._owned is not None:
            self._owned.close()

    def get_all_records(self) -> list[str]:
        """The names of all records, in the order of the archive."""
        folder = self._archive.folder
        return [name.removeprefix(folder) for name in self._archive.records]

    def has_record(self, name: str) -> bool:
        """Whether there is a record."""
        return self._archive.has(name)

    def get_record(self, name: str) -> bytes:
        """A record."""
        return self._archive.read(name)

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Any:
        """An empty tensor of this dtype, whose storage is the record's first numel elements."""
        from tritorch.ops.shape.factory import empty

        data = self._archive.read_array(name, numel * dtype.itemsize)
        storage = object.__new__(UntypedStorage)
        storage._set(data)
        return empty(0, dtype=dtype).set_(storage, 0, (0,))

    def get_record_size(self, name: str) -> int:
        """The bytes of a record."""
        return self._archive.find(name).size

    def get_record_offset(self, name: str) -> int:
        """Where in the file a record begins."""
        return self._archive.find(name).offset

    def get_record_header_offset(self, name: str) -> int:
        """Where in the file the header of a record begins."""
        return self._archive.find(name).header

    def get_record_offset_no_read(
        self, cursor: int, filename: str, size: int, alignment: int
    ) -> int:
        """Where a record of this size begins whose header is at the cursor, not looking there."""
        return record_offset(cursor, self._archive.folder + filename, size, alignment)

    def serialization_id(self) -> str:
        """The archive's id; "" if it has none."""
        return self.get_record(_ID_NAME).decode() if self.has_record(_ID_NAME) else ""

    def version(self) -> int:
        """The version of the format that the archive says it has; 0 if it says none."""
        found = (n for n in (_VERSION_NAME, ".data/version") if self.has_record(n))
        name = next(found, None)
        return int(self.get_record(name)) if name else 0
