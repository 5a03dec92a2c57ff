"""Files of the safetensors format, by tritorch alone and by the safetensors package."""

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

import tritorch as torch
from tritorch.serialization import (
    SafetensorsError,
    load_safetensors,
    safetensors_metadata,
    save_safetensors,
)
from tritorch.serialization.safetensors import _NAMES


@pytest.fixture
def tensors():
    rng = np.random.default_rng(0)
    out = {}
    for name, kind in _NAMES.items():
        values = torch.from_numpy(rng.integers(0, 2, (3, 5)).astype(np.float32))
        out[f"layer.{name.lower()}"] = values.to(kind)
    out["turned"] = torch.arange(6.0).reshape(2, 3).T
    out["number"], out["nothing"] = torch.tensor(2.5), torch.zeros(0, 4)
    out["grad"] = torch.ones(2, requires_grad=True)
    return out


def same(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        other = found[name]
        assert (other.dtype, other.shape) == (tensor.dtype, tensor.shape), name
        left, right = (bytes(t.detach().contiguous().view(-1).untyped_storage().tolist())
                       for t in (other.clone(), tensor.clone()))  # fmt: skip
        assert left == right, name


def test_what_is_saved_is_loaded(tensors, tmp_path):
    file = tmp_path / "x.safetensors"
    save_safetensors(tensors, file, {"format": "pt", "note": "ü"})
    found = load_safetensors(file)
    same(found, tensors)
    assert safetensors_metadata(file) == {"format": "pt", "note": "ü"}
    assert os.listdir(tmp_path) == ["x.safetensors"]
    found["turned"].mul_(2)  # one's own memory, not the file's
    same(load_safetensors(str(file)), tensors)
    net, other = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
    save_safetensors(net.state_dict(), file)
    other.load_state_dict(load_safetensors(file))
    assert other.weight.equal(net.weight) and safetensors_metadata(file) == {}
    save_safetensors({}, file)
    assert load_safetensors(file) == {}


@pytest.mark.device
def test_on_a_gpu(tmp_path):
    x = torch.arange(12.0, device="cuda").reshape(3, 4)
    save_safetensors({"x": x.T}, tmp_path / "x")
    found = load_safetensors(tmp_path / "x", device="cuda")["x"]
    assert found.is_cuda and found.cpu().equal(x.T.cpu())


def test_what_cannot_be_saved(tmp_path):
    x = torch.ones(4)
    for wrong, message in (
        ({"a": x, "b": x[:2]}, "'a' and 'b' share memory"),
        ({"a": 3}, "expected Tensor but received"),
        ({"__metadata__": x}, "is no name"),
        ({"a": torch.ones(1, dtype=torch.complex128)}, "safetensors does not have"),
    ):
        with pytest.raises((ValueError, RuntimeError), match=message):
            save_safetensors(wrong, tmp_path / "x")
    with pytest.raises(ValueError, match="str to str"):
        save_safetensors({}, tmp_path / "x", {"a": 1})
    assert not (tmp_path / "x").exists()


def file_of(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    path.write_bytes(size.to_bytes(8, "little") + text + data)
    return path


def test_unaligned_files_load(tmp_path):
    header = {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    data = np.array([1.5, -2.0], np.float32).tobytes()
    text = json.dumps(header).encode() + b" " * 3
    for pad in range(4):
        file = file_of(tmp_path / "x", text + b" " * pad, data)
        assert load_safetensors(file)["x"].tolist() == [1.5, -2.0]


def test_wrong_files_are_refused(tmp_path):
    about = lambda begin, end, shape=(2,), kind="F32": {
        "dtype": kind, "shape": list(shape), "data_offsets": [begin, end],
    }  # fmt: skip
    x, eight = tmp_path / "x", b"12345678"
    for header, data, length, message in (
        (b"{}", b"", 1 << 60, "a header of"),
        (b"{", b"", None, "not JSON"),
        (b"\xff\xff", b"", None, "not JSON"),
        (b"[" * 100_000, b"", None, "not JSON"),
        (b"[]", b"", None, "not an object"),
        (b'{"a":{"b":1,"b":2}}', b"", None, "comes twice"),
        ({"__metadata__": {"a": 1}}, b"", None, "not texts"),
        ({"a": 1}, b"", None, "not a dtype"),
        ({"a": about(0, 8, kind="F128")}, eight, None, "no dtype 'F128'"),
        ({"a": about(0, 8, shape=(-2,))}, eight, None, "are not sizes"),
        ({"a": about(0, 8, shape=(1 << 40, 1 << 40))}, eight, None, "is not F32 of shape"),
        ({"a": about(0, 8, shape=[1 << 62] * 100_000)}, eight, None, "100000 dims"),
        ({"a": about(0, 8, shape=[1] * 65)}, eight, None, "65 dims, of which"),
        ({"a": about(0, 0, shape=[0, 1 << 62, 1 << 62])}, b"", None, "overflows"),
        ({"a": about(0, 8) | {"data_offsets": [0] * 100_000}}, eight, None, "100000 dims"),
        ({"a": about(0, 8, kind=["F32"])}, eight, None, "no dtype"),
        ({"a": about(0, 8, kind={})}, eight, None, "no dtype"),
        ({"a": about(0, 8) | {"shape": "2"}}, eight, None, "are not sizes"),
        ({"a": about(0.0, 8)}, eight, None, "are not sizes"),
        ({"a": about(0, 8, shape=(True, 2))}, eight, None, "are not sizes"),
        (
            b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,8]}}',
            eight,
            None,
            "not JSON",
        ),
        (b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}}', eight, None, "not sizes"),
        ({"__metadata__": [1]}, b"", None, "not texts"),
        ({"__metadata__": None}, b"", None, "not texts"),
        ({"a": about(0, 4)}, eight, None, "is not F32 of shape"),
        ({"a": about(8, 16)}, eight * 2, None, "a gap"),
        ({"a": about(0, 8), "b": about(4, 12)}, eight * 2, None, "a gap, or an overlap"),
        ({"a": about(0, 8)}, eight * 2, None, "8 bytes of tensors in a file with 16"),
        ({"a": about(0, 8)}, b"1234", None, "8 bytes of tensors in a file with 4"),
    ):
        with pytest.raises(SafetensorsError, match=message):
            load_safetensors(file_of(x, header, data, length))
    x.write_bytes(b"123")
    with pytest.raises(SafetensorsError):
        load_safetensors(x)


def test_damaged_files_never_do_more_than_raise(tensors, tmp_path):
    save_safetensors(tensors, tmp_path / "x", {"a": "b"})
    whole, rng = (tmp_path / "x").read_bytes(), random.Random(0)
    end = 8 + int.from_bytes(whole[:8], "little")
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(end)] = rng.choice(b'0123456789{}[]",:ae\x00\xff')
        data = data[: rng.randrange(len(data))] if rng.random() < 0.2 else data
        (tmp_path / "y").write_bytes(data)
        try:
            found = load_safetensors(tmp_path / "y")
        except SafetensorsError:
            continue
        assert sum(t.nbytes for t in found.values()) <= len(data)


def test_the_package_reads_and_writes_the_same(tensors, tmp_path):
    """Also safetensors.torch, which imports torch: with tritorch as torch."""
    pytest.importorskip("safetensors", reason="the safetensors package is not installed")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    tensors = {name: t.detach().contiguous() for name, t in tensors.items()}
    save_safetensors(tensors, ours)
    code = """
import sys
import tritorch; tritorch.as_torch()
import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model
ours, theirs = sys.argv[1:]
found = load_file(ours)
save_file(found, theirs)
assert {k: v.dtype for k, v in load(save(found)).items()} == {k: v.dtype for k, v in found.items()}
with safe_open(ours, framework="pt", device="cpu") as f:
    part = f.get_slice("turned")[1:, :]
    assert part.equal(found["turned"][1:]) and set(f.keys()) == set(found)
net, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
save_model(net, ours + ".net")
assert load_model(other, ours + ".net") == (set(), []) and other.weight.equal(net.weight)
"""
    command = [sys.executable, "-c", code, ours, theirs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    same(load_safetensors(theirs), tensors)
    assert ours.read_bytes() == theirs.read_bytes()
