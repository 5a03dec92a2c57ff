"""save() and load() together: formats, files, devices, options."""

from __future__ import annotations

import collections
import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tritorch
from tritorch import serialization
from tritorch.core.dtype import all_dtypes
from tritorch.nn.parameter import Parameter

FORMATS = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])


def again(value: Any, zipped: bool = True, **options: Any) -> Any:
    """A value, saved and loaded."""
    file = io.BytesIO()
    tritorch.save(value, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    return tritorch.load(file, **options)


@FORMATS
@pytest.mark.parametrize("kind", all_dtypes, ids=lambda kind: kind.name)
def test_dtypes(kind: Any, zipped: bool) -> None:
    x = tritorch.arange(6).to(kind).reshape(2, 3)
    y = again(x, zipped)
    assert y.dtype is kind and y.tolist() == x.tolist() and y.shape == x.shape


@FORMATS
@pytest.mark.parametrize("weights_only", [True, False])
def test_views_share_again(zipped: bool, weights_only: bool) -> None:
    x = tritorch.arange(12.0).reshape(3, 4)
    views = {"x": x, "t": x.t(), "part": x[1:, ::2], "expanded": x[0, :1].expand(3, 3)}
    loaded = again(views, zipped, weights_only=weights_only)
    for name, view in views.items():
        assert loaded[name].stride() == view.stride()
        assert loaded[name].storage_offset() == view.storage_offset()
        assert loaded[name].tolist() == view.tolist()
    loaded["x"].zero_()
    assert not any(view.any() for view in loaded.values())


@FORMATS
def test_parameters_and_attributes(zipped: bool) -> None:
    parameter = Parameter(tritorch.ones(2), requires_grad=False)
    noted = Parameter(tritorch.ones(2))
    noted.note = "kept"
    tensor = tritorch.ones(2, requires_grad=True)
    tensor.note = [1]
    a, b, c = again([parameter, noted, tensor], zipped)
    assert type(a) is type(b) is Parameter and not a.requires_grad and b.requires_grad
    assert b.note == "kept" and c.note == [1] and c.requires_grad and c.is_leaf


@FORMATS
def test_state_dict_metadata(zipped: bool) -> None:
    state = collections.OrderedDict(w=tritorch.ones(2))
    state._metadata = {"": {"version": 1}}  # type: ignore[attr-defined]
    assert again(state, zipped)._metadata == {"": {"version": 1}}


def test_storages() -> None:
    x = tritorch.arange(3.0)
    typed, untyped = again([x.storage(), tritorch.ones(2, dtype=tritorch.uint8).untyped_storage()])
    assert typed.dtype is tritorch.float32 and typed.tolist() == [0, 1, 2]
    assert untyped.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        tritorch.save([x, x.untyped_storage()], io.BytesIO())
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        tritorch.save([x, x.view(tritorch.int32)], io.BytesIO())


def test_generator_state() -> None:
    generator = tritorch.Generator().manual_seed(5)
    tritorch.rand(3, generator=generator)
    state = again(generator.get_state())
    expected = tritorch.rand(4, generator=generator).tolist()
    assert tritorch.rand(4, generator=tritorch.Generator().set_state(state)).tolist() == expected


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_protocols_and_trust(protocol: int) -> None:
    file = io.BytesIO()
    value = {"x": tritorch.ones(2), "dtype": tritorch.int8, "relu": tritorch.relu}
    tritorch.save(value, file, pickle_protocol=protocol)
    data = zipfile.ZipFile(file).read("archive/data.pkl")
    assert b"tritorch" not in data and b"torch" in data
    file.seek(0)
    loaded = tritorch.load(file, weights_only=False)
    assert loaded["relu"] is tritorch.relu and loaded["x"].tolist() == [1, 1]


class Subclass(tritorch.Tensor):
    """A tensor that needs allowlisting."""


def test_subclass() -> None:
    x = tritorch.ones(2).as_subclass(Subclass)
    with pytest.raises(pickle.UnpicklingError, match="Subclass was not an allowed global"):
        again(x)
    with serialization.safe_globals([Subclass]):
        assert type(again(x)) is Subclass
    assert serialization.get_safe_globals() == []


def test_archive_is_pytorchs(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    tritorch.save([tritorch.ones(3), tritorch.empty(0), tritorch.ones(100)], path)
    archive = zipfile.ZipFile(path)
    assert archive.testzip() is None
    assert [info.filename for info in archive.infolist()] == [
        f"model/{name}"
        for name in ("data.pkl", ".format_version", ".storage_alignment", "byteorder", "data/0",
                     "data/1", "data/2", "version", ".data/serialization_id")
    ]  # fmt: skip
    assert archive.read("model/.storage_alignment") == b"64"
    assert archive.read("model/version") == b"3\n"
    for info in archive.infolist():
        with archive.open(info) as record:
            assert record._orig_compress_start % 64 == 0  # type: ignore[attr-defined]
    first = path.read_bytes()
    tritorch.save([tritorch.ones(3), tritorch.empty(0), tritorch.ones(100)], path)
    assert path.read_bytes() == first  # the same content, the same bytes


def test_position_in_a_file() -> None:
    for zipped in (True, False):
        file = io.BytesIO()
        file.write(b"before")
        tritorch.save(tritorch.ones(2), file, _use_new_zipfile_serialization=zipped)
        file.seek(6)
        assert tritorch.load(file).tolist() == [1, 1]


def raise_type_error(storage: Any, location: str) -> Any:
    raise TypeError("mine")


def test_map_location(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    tritorch.save(tritorch.ones(2), path)
    seen = []

    def place(storage: Any, location: str) -> Any:
        seen.append((type(storage).__name__, location))

    assert tritorch.load(path, place).device.type == "cpu"
    assert seen == [("UntypedStorage", "cpu")]
    for place_ in ("cpu", tritorch.device("cpu"), {"cuda:0": "cpu"}, b"cpu"):
        assert tritorch.load(path, place_).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match=r"don't know how to restore.*tagged with abc"):
        tritorch.load(path, "abc")
    with pytest.raises(ZeroDivisionError):
        tritorch.load(path, lambda storage, location: 1 // 0)
    with pytest.raises(TypeError, match="mine"):
        tritorch.load(path, raise_type_error)
    assert tritorch.load(path, "meta").is_meta


@pytest.mark.device
@FORMATS
def test_cuda(zipped: bool) -> None:
    x = tritorch.arange(4.0, device="cuda")
    saved = [x, x[1:], x.t()]
    loaded = again(saved, zipped)
    assert loaded[0].device == x.device and loaded[1].tolist() == [1, 2, 3]
    loaded[0].zero_()
    assert loaded[1].tolist() == [0, 0, 0]
    assert not again(saved, zipped, map_location="cpu")[0].is_cuda
    assert again(tritorch.ones(2), zipped, map_location="cuda").is_cuda
    assert again(tritorch.ones(2), zipped, map_location={"cpu": "cuda:0"}).is_cuda
    assert again(tritorch.ones(2), zipped, map_location=lambda s, _: s.cuda()).is_cuda
    with pytest.raises(RuntimeError, match="CUDA device 99 but"):
        again(x, zipped, map_location="cuda:99")


def test_register_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from tritorch.serialization import locations

    monkeypatch.setattr(locations, "_packages", list(locations._packages))
    serialization.register_package(
        1, lambda storage: "here", lambda storage, tag: storage if tag == "here" else None
    )
    assert serialization.location_tag(tritorch.ones(1).untyped_storage()) == "here"
    assert again(tritorch.ones(1)).tolist() == [1]
    monkeypatch.undo()
    assert serialization.location_tag(tritorch.ones(1).untyped_storage()) == "cpu"


def test_mmap_options(tmp_path: Path) -> None:
    import mmap

    path = tmp_path / "x.pt"
    tritorch.save(tritorch.ones(2), path)
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        tritorch.load(path, mmap=True).fill_(3)
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    serialization.set_crc32_options(True)
    assert tritorch.load(path, mmap=True).tolist() == [3, 3]
    with pytest.raises(ValueError, match="expected mmap.MAP_PRIVATE"):
        serialization.set_default_mmap_options(77)
    with pytest.raises(ValueError, match="must be a file path"):
        tritorch.load(io.BytesIO(path.read_bytes()), mmap=True)
    tritorch.save(tritorch.ones(2), path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used"):
        tritorch.load(path, mmap=True)


def test_skip_data() -> None:
    file = io.BytesIO()
    with serialization.skip_data():
        tritorch.save(tritorch.ones(2), file)
        with pytest.raises(RuntimeError, match="Cannot use skip_data"):
            tritorch.save(tritorch.ones(2), file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert tritorch.load(file).tolist() == [0, 0]
    tritorch.save(tritorch.ones(2), file := io.BytesIO())
    file.seek(0)
    with serialization.skip_data():
        assert tritorch.load(file).tolist() == [0, 0]


def test_no_checksums() -> None:
    serialization.set_crc32_options(False)
    try:
        assert again(tritorch.ones(2)).tolist() == [1, 1]
    finally:
        serialization.set_crc32_options(True)
    assert serialization.get_crc32_options()


def test_arguments(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match="expected 'f' to be string, path"):
        tritorch.save(1, object())
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist"):
        tritorch.save(1, tmp_path / "none" / "x.pt")
    with pytest.raises(EOFError, match="Ran out of input"):
        tritorch.load(io.BytesIO())
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        tritorch.load(io.BytesIO(b"x"), pickle_module=pickle, weights_only=True)
    with open(tmp_path / "x.pt", "wb") as file:
        tritorch.save({"a": 1}, file)
    assert tritorch.load(str(tmp_path / "x.pt"), pickle_module=pickle) == {"a": 1}
    assert os.listdir(tmp_path) == ["x.pt"]


def test_whole_module() -> None:
    from tritorch import nn

    file = io.BytesIO()
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    tritorch.save(model, file)
    data = zipfile.ZipFile(file).read("archive/data.pkl")
    assert b"tritorch" not in data and b"ctorch.nn.modules.linear\nLinear\n" in data
    file.seek(0)
    loaded = tritorch.load(file, weights_only=False)
    x = tritorch.ones(1, 2)
    file.seek(0)
    assert "torch.nn.modules.linear.Linear" in serialization.get_unsafe_globals_in_checkpoint(file)
    file.seek(0)
    assert loaded(x).tolist() == model(x).tolist()
