"""Archives record by record: PyTorchFileWriter and PyTorchFileReader."""

import io

import pytest

import tritorch as torch


def written(**options):
    buffer = io.BytesIO()
    writer = torch.PyTorchFileWriter(buffer, **options)
    writer.write_record("a", b"hello", 4)
    writer.write_record("text", "word", 4)
    writer.write_record("storage", torch.ones(3).untyped_storage(), 12)
    writer.write_record_metadata("hole", 20)
    writer.set_min_version(5)
    assert writer.serialization_id() == ""
    writer.write_end_of_file()
    buffer.seek(0)
    return writer, buffer


def test_round_trip():
    writer, buffer = written()
    assert writer.archive_name() == "archive"
    reader = torch.PyTorchFileReader(buffer)
    names = ["a", "text", "storage", "hole", "version", "byteorder", ".data/serialization_id"]
    assert reader.get_all_records() == names and writer.get_all_written_records() == set(names)
    assert reader.get_record("a") == b"hell" and reader.get_record("text") == b"word"
    assert reader.get_record("hole") == bytes(20) and reader.get_record_size("hole") == 20
    assert reader.get_record("version") == b"5\n" and reader.version() == 5
    assert len(reader.serialization_id()) == 40
    assert reader.serialization_id() == writer.serialization_id()
    tensor = reader.get_storage_from_record("storage", 2, torch.float32)
    assert tensor.shape == (0,) and tensor.untyped_storage().nbytes() == 8
    assert reader.has_record("a") and not reader.has_record("b")
    with pytest.raises(RuntimeError, match="failed locating file b: file not found"):
        reader.get_record_offset("b")


# As the real torch lays such archives out.
@pytest.mark.parametrize(
    ("alignment", "offsets"), [(64, [64, 192, 320, 448]), (16, [48, 128, 208, 288])]
)
def test_offsets(alignment, offsets):
    _, buffer = written(storage_alignment=alignment)
    reader = torch.PyTorchFileReader(buffer)
    for name, offset in zip(reader.get_all_records(), offsets, strict=False):
        header, size = reader.get_record_header_offset(name), reader.get_record_size(name)
        assert reader.get_record_offset(name) == offset
        assert reader.get_record_offset_no_read(header, name, size, alignment) == offset


def test_writers_are_strict_and_end_by_themselves(tmp_path):
    path = tmp_path / "some.name.pt"
    writer = torch.PyTorchFileWriter(str(path))
    assert writer.archive_name() == "some.name"
    writer.write_record("x", b"1", 1)
    with pytest.raises(RuntimeError, match="file twice: x"):
        writer.write_record("x", b"1", 1)
    with pytest.raises(RuntimeError, match="5 bytes of record 'y' are wanted, it has 1"):
        writer.write_record("y", b"1", 5)
    with pytest.raises(TypeError, match="expected str, bytes or a storage, got int"):
        writer.write_record("y", 5, 5)
    assert not path.exists()
    del writer
    assert torch.PyTorchFileReader(path).get_record("x") == b"1"
    ended, _ = written()
    for late in (ended.write_end_of_file, lambda: ended.write_record("z", b"", 0)):
        with pytest.raises(RuntimeError, match="was ended"):
            late()


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(RuntimeError, match="open file failed because of errno 2"):
        torch.PyTorchFileReader(str(tmp_path / "none"))
    with pytest.raises(RuntimeError, match="failed finding central directory"):
        torch.PyTorchFileReader(io.BytesIO(b"abc" * 100))
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        torch.PyTorchFileWriter(str(tmp_path / "none" / "x"))
