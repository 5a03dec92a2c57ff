"""The zip file of an archive, whose source files may be compressed."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from tritorch.serialization.archive import ArchiveReader

MAX_INFLATED = 1 << 28  # bytes of all compressed records together


class CodeArchive(ArchiveReader):
    """The records of an archive of TorchScript; storages are those in `data_folder`."""

    def __init__(self, file: Any) -> None:
        self.data_folder = "data"
        self._inflated = 0
        super().__init__(file, may_inflate=True)

    def read(self, name: str) -> bytes:
        record = self.find(name)
        if not record.inflates_to and not record.is_deflated:
            return super().read(name)
        self._inflated += record.inflates_to
        if self._inflated > MAX_INFLATED:
            raise RuntimeError(f"the archive's records inflate to more than {MAX_INFLATED} bytes")
        stored = self.read_at(record.offset, record.size)
        inflate = zlib.decompressobj(-15)
        data = inflate.decompress(stored, record.inflates_to + 1)
        if len(data) != record.inflates_to:
            raise RuntimeError(f"record {name!r} does not inflate to the size that it declares")
        self._check(name, record, zlib.crc32(data))
        return data

    def read_array(self, name: str, size: int) -> np.ndarray[Any, Any]:
        if name.startswith("data/"):
            name = f"{self.data_folder}/{name.removeprefix('data/')}"
        if self.find(name).is_deflated:
            data = np.frombuffer(bytearray(self.read(name)), np.uint8)
            if len(data) < size:
                raise RuntimeError(f"{name}: storage has {len(data)} bytes, {size} are needed")
            return data[:size]
        return super().read_array(name, size)
