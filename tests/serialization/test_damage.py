"""Files that are damaged, or made to be."""

from __future__ import annotations

import importlib.util
import io
import pickle
import struct
import sys
import zipfile
from pathlib import Path

import pytest

import tritorch
from tritorch.serialization.archive import ArchiveReader, ArchiveWriter


def saved(zipped: bool = True) -> bytes:
    file = io.BytesIO()
    tritorch.save({"x": tritorch.arange(100.0)}, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


@pytest.mark.parametrize("zipped", [True, False])
def test_truncation(zipped: bool) -> None:
    data = saved(zipped)
    for size in range(1, len(data), 7):
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            tritorch.load(io.BytesIO(data[:size]))


def test_flipped_bit_is_noticed() -> None:
    data = bytearray(saved())
    at = data.find(struct.pack("<f", 77.0))
    data[at] ^= 1
    with pytest.raises(RuntimeError, match=r"record 'data/0' is damaged: its crc32"):
        tritorch.load(io.BytesIO(data))


def test_compressed_archive() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10_000_000))
    file.seek(0)
    with pytest.raises(RuntimeError, match="compressed, encrypted or split"):
        tritorch.load(file)


def test_overlapping_records() -> None:
    file = io.BytesIO()
    writer = ArchiveWriter(file.write, "a")
    writer.add("data.pkl", b"\x80\x02N.")
    writer.add("data/0", bytes(100))
    writer._entries.append(writer._entries[-1].replace(b"data/0", b"data/1"))
    writer.close()
    file.seek(0)
    with pytest.raises(RuntimeError, match="records overlap"):
        tritorch.load(file)


def test_other_archives() -> None:
    for records, match in (
        ({"x/other": b""}, "failed locating file data.pkl"),
        ({"x/constants.pkl": b"", "x/data.pkl": b""}, "TorchScript"),
        ({"x/data.pkl": b"N.", "x/byteorder": b"middle"}, "Unknown endianness type"),
    ):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in records.items():
                archive.writestr(name, data)
        file.seek(0)
        with pytest.raises((RuntimeError, ValueError), match=match):
            tritorch.load(file)


def test_legacy_checks() -> None:
    for data, match in (
        (pickle.dumps(5, 2), "Invalid magic number"),
        (b"garbage", "Invalid magic number"),
        (pickle.dumps(tritorch.serialization.MAGIC_NUMBER, 2) + pickle.dumps(3, 2), "version: 3"),
        (bytes(257) + b"ustar" + bytes(300), "legacy .tar format"),
    ):
        with pytest.raises((RuntimeError, pickle.UnpicklingError), match=match):
            tritorch.load(io.BytesIO(data))
    data = saved(zipped=False)
    huge = data.replace(b"K\x64", b"M\xff\xff", 1)
    with pytest.raises(RuntimeError, match="larger than the file"):
        tritorch.load(io.BytesIO(huge))


def test_wide_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """zip64 fields, as beyond 4 GiB, with the limit lowered."""
    from tritorch.serialization import archive

    monkeypatch.setattr(archive, "_MAX32", 200)
    file = io.BytesIO()
    writer = ArchiveWriter(file.write, "a")
    for n in range(5):
        writer.add(f"data/{n}", bytes([n]) * (n * 90))
    writer._entries = [
        entry.replace(struct.pack("<I", 200), struct.pack("<I", 0xFFFFFFFF))
        for entry in writer._entries
    ]
    writer.close()
    monkeypatch.undo()
    data = file.getvalue()
    # The end record's fields too.
    data = data[:-14] + data[-14:].replace(struct.pack("<I", 200), b"\xff" * 4)
    reader = ArchiveReader(io.BytesIO(data))
    for n in range(5):
        assert reader.read(f"data/{n}") == bytes([n]) * (n * 90)
        assert reader.find(f"data/{n}").offset % 64 == 0
    with zipfile.ZipFile(io.BytesIO(data)) as theirs:
        assert [info.file_size for info in theirs.infolist()] == [0, 90, 180, 270, 360]


def test_mutations(repository: Path) -> None:
    """500 of tools/fuzz_checkpoints.py's."""
    path = repository / "tools" / "fuzz_checkpoints.py"
    spec = importlib.util.spec_from_file_location("fuzz_checkpoints", path)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_checkpoints"] = tool
    spec.loader.exec_module(tool)
    outcomes = tool.run(500, seed=3)
    assert set(outcomes) == {"loaded", "refused"}, dict(outcomes)
    assert len(outcomes["loaded"]) > 10 and len(outcomes["refused"]) > 300
