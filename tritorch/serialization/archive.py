"""PyTorch's zip container: uncompressed records, aligned, and every size checked when reading.

The bytes are those of PyTorch's writer (miniz): a local header padded so that the record starts at
a multiple of the alignment, the record, a data descriptor; zip64 fields only where they are needed.
torch.load(mmap=True) and `calculate_storage_offsets` compute positions from that.

# Note [Sizes in archives]
A reader may not believe an archive: each record must lie between its header and the directory, may
not be compressed, and no two records may overlap.  Then all records together are smaller than the
file, so reading each of them once cannot allocate more than that.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQ2H2I4Q")
_MAX16, _MAX32 = 0xFFFF, 0xFFFFFFFF
_FAILED = "PytorchStreamReader failed reading zip archive: "
_CHUNK = 1 << 24
_DEFLATED = 8  # zip's number for the method


class Record(NamedTuple):
    """Where one record is."""

    offset: int
    size: int
    crc: int
    header: int
    inflates_to: int = 0
    is_deflated: bool = False


class ArchiveReader:
    """The records of an archive in a seekable file, which starts at the file's position."""

    def __init__(self, file: Any, may_inflate: bool = False) -> None:
        """may_inflate: some records may be compressed; `read` of a subclass inflates them."""
        self.file, self._may_inflate = file, may_inflate
        self.start = file.tell()
        self.size = file.seek(0, 2) - self.start
        self.records: dict[str, Record] = {}
        try:
            self._read_directory(*self._find_directory())
        except (struct.error, UnicodeDecodeError) as error:
            raise RuntimeError(f"{_FAILED}damaged directory ({error})") from error

    def read_at(self, offset: int, size: int) -> bytes:
        """Some bytes; RuntimeError if the file ends before."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise RuntimeError(f"{_FAILED}bytes {offset} to {offset + size} of {self.size}")
        self.file.seek(self.start + offset)
        data = self.file.read(size)
        if len(data) != size:
            raise RuntimeError(f"{_FAILED}file ended at byte {offset + len(data)}")
        return data

    def _find_directory(self) -> tuple[int, int, int]:
        """(offset, size, records) of the central directory."""
        tail_size = min(self.size, _END.size + _MAX16)
        tail = self.read_at(self.size - tail_size, tail_size)
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or at + _END.size > len(tail):
            raise RuntimeError(f"{_FAILED}failed finding central directory")
        *_, count, size, offset, _ = _END.unpack_from(tail, at)
        end = self.size - tail_size + at
        if count == _MAX16 or size == _MAX32 or offset == _MAX32:
            magic, _, end64, _ = _LOCATOR.unpack(self.read_at(end - _LOCATOR.size, _LOCATOR.size))
            if magic != b"PK\x06\x07":
                raise RuntimeError(f"{_FAILED}failed finding the zip64 directory")
            magic, *_, count, size, offset = _END64.unpack(self.read_at(end64, _END64.size))
            if magic != b"PK\x06\x06":
                raise RuntimeError(f"{_FAILED}failed finding the zip64 directory")
            end = end64
        if offset + size > end or count * _CENTRAL.size > size:
            raise RuntimeError(f"{_FAILED}invalid header or archive is corrupted")
        return offset, size, count

    def _read_directory(self, start: int, size: int, count: int) -> None:
        directory = self.read_at(start, size)
        spans = []
        at = 0
        for _ in range(count):
            (magic, _, _, flags, method, _, _, crc, stored, full, n_name, n_extra, n_comment, disk,
             _, _, header) = _CENTRAL.unpack_from(directory, at)  # fmt: skip
            fields_at = at + _CENTRAL.size
            extra_at = fields_at + n_name
            at = extra_at + n_extra + n_comment
            if magic != b"PK\x01\x02" or at > size:
                raise RuntimeError(f"{_FAILED}invalid header or archive is corrupted")
            name = directory[fields_at:extra_at].decode()
            extra = directory[extra_at : extra_at + n_extra]
            full, stored, header = _wide(extra, full, stored, header)
            is_deflated = self._may_inflate and method == _DEFLATED
            if ((method or stored != full) and not is_deflated) or flags & 1 or disk:
                raise RuntimeError(
                    f"{_FAILED}record {name!r} is compressed, encrypted or split; checkpoints hold "
                    f"their records as they are (zip -0)"
                )
            local = _LOCAL.unpack(self.read_at(header, _LOCAL.size))
            offset = header + _LOCAL.size + local[-2] + local[-1]
            if local[0] != b"PK\x03\x04" or offset + stored > start:
                raise RuntimeError(f"{_FAILED}record {name!r} lies outside of the file")
            if name in self.records:
                raise RuntimeError(f"{_FAILED}two records are called {name!r}")
            inflates_to = full if is_deflated else 0
            self.records[name] = Record(offset, stored, crc, header, inflates_to, is_deflated)
            spans.append((header, offset + stored))
        spans.sort()
        if any(end > begin for (_, end), (begin, _) in zip(spans, spans[1:])):
            raise RuntimeError(f"{_FAILED}records overlap")
        self.folder = next(iter(self.records), "").partition("/")[0] + "/"

    def has(self, name: str) -> bool:
        """Whether there is a record."""
        return self.folder + name in self.records

    def find(self, name: str) -> Record:
        """Where a record is; RuntimeError if there is none."""
        record = self.records.get(self.folder + name)
        if record is None:
            raise RuntimeError(
                f"PytorchStreamReader failed locating file {name}: file not found "
                f"(the archive's folder is {self.folder!r})"
            )
        return record

    def read(self, name: str) -> bytes:
        """A record."""
        record = self.find(name)
        data = self.read_at(record.offset, record.size)
        self._check(name, record, zlib.crc32(data))
        return data

    def read_array(self, name: str, size: int) -> np.ndarray[Any, Any]:
        """The first bytes of a record as an array of its own."""
        record = self.find(name)
        require_size(name, record.size, size)
        array = np.empty((record.size,), np.uint8)
        self.file.seek(self.start + record.offset)
        fill(array, self.file)
        if record.crc:
            self._check(name, record, _crc32(memoryview(array.data)))
        return array[:size]

    def _check(self, name: str, record: Record, crc: int) -> None:
        if record.crc not in (0, crc):  # 0: written under set_crc32_options(False)
            raise RuntimeError(
                f"{_FAILED}record {name!r} is damaged: its crc32 is {crc:08x}, not {record.crc:08x}"
            )


def require_size(name: str, got: int, needed: int) -> None:
    """A storage's record must hold what the pickle says."""
    if not 0 <= needed <= got:
        raise RuntimeError(f"{name}: storage has wrong byte size: expected {needed} got {got}")


def fill(array: np.ndarray[Any, Any], file: Any) -> None:
    """Reads an array of bytes from a file."""
    view = memoryview(array.data)
    done = 0
    while done < len(view):
        if hasattr(file, "readinto"):
            count = file.readinto(view[done:])
        else:
            part = file.read(min(len(view) - done, _CHUNK))
            count = len(part)
            view[done : done + count] = part
        if not count:
            raise RuntimeError(f"unexpected EOF, expected {len(view) - done} more bytes")
        done += count


def _crc32(view: memoryview) -> int:
    crc = 0
    for at in range(0, len(view), _CHUNK):
        crc = zlib.crc32(view[at : at + _CHUNK], crc)
    return crc


def _wide(extra: bytes, *fields: int) -> list[int]:
    """Header fields, those that are all ones taken from the zip64 extra field."""
    values = list(fields)
    if _MAX32 not in values:
        return values
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wide = iter(struct.unpack_from(f"<{size // 8}Q", extra, at + 4))
            return [next(wide, value) if value == _MAX32 else value for value in values]
        at += 4 + size
    return values


def place(header: int, n_name: int, size: int, alignment: int) -> tuple[bytes, int]:
    """The zip64 field of a local header at a position, and the padding before its record."""
    wide = (struct.pack("<2Q", size, size) if size >= _MAX32 else b"") + (
        struct.pack("<Q", header) if header >= _MAX32 else b""
    )
    extra = struct.pack("<2H", 1, len(wide)) + wide if wide else b""
    return extra, -(header + _LOCAL.size + n_name + len(extra) + 4) % alignment


def record_offset(header: int, path: str, size: int, alignment: int) -> int:
    """Where a record begins that is written with its local header at a position."""
    n_name = len(path.encode())
    extra, padding = place(header, n_name, size, alignment)
    return header + _LOCAL.size + n_name + len(extra) + 4 + padding


class ArchiveWriter:
    """Writes records one after the other, to anything with a write method."""

    def __init__(
        self, write: Callable[[Any], Any], folder: str, *, crc: bool = True, alignment: int = 64
    ) -> None:
        self._write = write
        self._folder = folder
        self._crc = crc
        self._alignment = alignment
        self._at = 0
        self._entries: list[bytes] = []

    def _put(self, data: Any) -> None:
        self._write(data)
        self._at += memoryview(data).nbytes

    def add(self, name: str, data: Any) -> None:
        """A record."""
        view = memoryview(data).cast("B") if memoryview(data).nbytes else memoryview(b"")
        crc = _crc32(view) if self._crc else 0
        self._begin(name, len(view), crc)
        if len(view):
            self._put(view)
        self._finish(len(view), crc)

    def add_hole(self, name: str, size: int) -> None:
        """A record of zeros, whose bytes come later from somewhere else."""
        self._begin(name, size, 0)
        zeros = bytes(min(size, _CHUNK))
        for at in range(0, size, _CHUNK):
            self._put(zeros[: min(_CHUNK, size - at)])
        self._finish(size, 0)

    def _begin(self, name: str, size: int, crc: int) -> None:
        path = f"{self._folder}/{name}".encode()
        header = self._at
        wide_size, self._wide = size >= _MAX32, size >= _MAX32 or header >= _MAX32
        extra, padding = place(header, len(path), size, self._alignment)
        # The descriptor after the record holds its size and crc; an empty record has none.
        flags = 0x0808 if size else 0x0800
        self._put(
            _LOCAL.pack(b"PK\x03\x04", 0, flags, 0, 0, 0, 0, *((_MAX32, _MAX32) if wide_size else
                        (0, 0)), len(path), len(extra) + 4 + padding)
            + path + extra + struct.pack("<2s H", b"FB", padding) + b"Z" * padding
        )  # fmt: skip
        narrow = _MAX32 if wide_size else size
        self._entries.append(
            _CENTRAL.pack(b"PK\x01\x02", 0, 0, flags, 0, 0, 0, crc, narrow, narrow, len(path),
                          len(extra), 0, 0, 0, 0, min(header, _MAX32))
            + path + extra
        )  # fmt: skip

    def _finish(self, size: int, crc: int) -> None:
        if size:
            layout = "<4sI2Q" if self._wide else "<4s3I"
            self._put(struct.pack(layout, b"PK\x07\x08", crc, size, size))

    def digest(self) -> str:
        """40 digits that depend on the names, sizes and checksums of the records so far."""
        entries = b"".join(self._entries)
        return f"{zlib.crc32(entries):020d}{zlib.adler32(entries):020d}"

    def close(self) -> None:
        """Writes the directory."""
        start, count = self._at, len(self._entries)
        self._put(b"".join(self._entries))
        end, size = self._at, self._at - start
        self._put(_END64.pack(b"PK\x06\x06", 44, 0x031E, 45, 0, 0, count, count, size, start))
        self._put(_LOCATOR.pack(b"PK\x06\x07", 0, end, 1))
        n = min(count, _MAX16)
        ends = min(size, _MAX32), min(start, _MAX32)
        self._put(_END.pack(b"PK\x05\x06", 0, 0, n, n, *ends, 0))
