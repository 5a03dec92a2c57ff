"""Files written by the real torch (tools/record/checkpoints.py), read without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tritorch
from tritorch import serialization
from tritorch.serialization import LoadEndianness

FILES = Path(__file__).parent / "files"
EXPECTED = json.loads((FILES / "expected.json").read_text())


def check(value: Any, expected: Any) -> None:
    """Compares what was loaded with what the recorder saw."""
    if isinstance(expected, dict) and "tensor" in expected:
        assert type(value).__name__ == expected["parameter"]
        assert value.dtype.name == expected["dtype"]
        assert list(value.shape) == expected["shape"]
        assert value.requires_grad == expected["requires_grad"]
        if value.numel():
            assert list(value.stride()) == expected["stride"]
            assert value.storage_offset() == expected["offset"]
        plain = value.detach()
        if value.dtype.is_complex:
            plain = tritorch.view_as_real(plain)
        assert plain.tolist() == expected["tensor"]
    elif isinstance(expected, dict) and "dict" in expected:
        assert len(value) == len(expected["dict"])
        for (key, item), (expected_key, expected_item) in zip(value.items(), expected["dict"]):
            check(key, expected_key)
            check(item, expected_item)
    elif isinstance(expected, dict) and "repr" in expected:
        text = repr(sorted(value) if isinstance(value, set) else value)
        assert text.replace("tritorch.", "torch.") == expected["repr"]
    elif isinstance(expected, dict):
        ((kind, items),) = expected.items()
        assert type(value).__name__ == kind and len(value) == len(items)
        for item, expected_item in zip(value, items):
            check(item, expected_item)
    elif expected == "storage":
        assert tritorch.is_storage(value)
    else:
        assert value == expected and type(value) is type(expected)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("format", ["zip", "legacy"])
@pytest.mark.parametrize("name", ["dtypes", "views", "state", "containers", "attributes"])
def test_read(name: str, format: str, weights_only: bool) -> None:
    path = FILES / f"{name}.{format}.pt"
    if (name, format) == ("attributes", "legacy"):
        # The bytes come after the tensors here, so a conjugate can't be computed.
        with pytest.raises(RuntimeError, match="conj bit can't be resolved"):
            tritorch.load(path, weights_only=weights_only)
        return
    check(tritorch.load(path, weights_only=weights_only), EXPECTED[name])


@pytest.mark.parametrize("name", ["dtypes", "views", "state"])
def test_mapped(name: str) -> None:
    before = (FILES / f"{name}.zip.pt").read_bytes()
    value = tritorch.load(FILES / f"{name}.zip.pt", mmap=True)
    check(value, EXPECTED[name])
    if name == "views":
        value["base"].fill_(5.0)  # a private copy of the page
        assert value["row"].tolist() == [5.0] * 6
        assert (FILES / f"{name}.zip.pt").read_bytes() == before


@pytest.mark.parametrize("mmap", [False, True])
def test_big_endian(mmap: bool) -> None:
    check(tritorch.load(FILES / "dtypes.big_endian.pt", mmap=mmap), EXPECTED["dtypes"])


def test_default_endianness(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    tritorch.save(tritorch.tensor([1, 256]), path, _disable_byteorder_record=True)
    assert serialization.get_default_load_endianness() is None
    assert tritorch.load(path).tolist() == [1, 256]
    serialization.set_default_load_endianness(LoadEndianness.BIG)
    try:
        assert tritorch.load(path).tolist() == [1 << 56, 1 << 48]
    finally:
        serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="Invalid argument type"):
        serialization.set_default_load_endianness("big")  # type: ignore[arg-type]


def test_without_checksums() -> None:
    check(tritorch.load(FILES / "views.no_crc.pt"), EXPECTED["views"])


def test_sharing() -> None:
    for format in ("zip", "legacy"):
        value = tritorch.load(FILES / f"views.{format}.pt")
        value["base"].zero_()
        for name in ("row", "transposed", "part", "expanded"):
            assert not value[name].any(), name


def test_attributes() -> None:
    tensor, parameter, *_ = tritorch.load(FILES / "attributes.zip.pt")
    assert tensor.note == "kept"
    assert parameter.tag == 5 and not parameter.requires_grad


def test_whole_module_is_refused() -> None:
    with pytest.raises(Exception, match=r"GLOBAL torch.nn.modules.container.Sequential was not"):
        tritorch.load(FILES / "module.zip.pt")
    unsafe = serialization.get_unsafe_globals_in_checkpoint(FILES / "module.zip.pt")
    assert {"torch.nn.modules.container.Sequential", "torch.nn.modules.linear.Linear"} <= set(
        unsafe
    )
    assert "torch.nn.modules.activation.ReLU" in unsafe
    with serialization.safe_globals([tritorch.nn.ReLU]):
        left = serialization.get_unsafe_globals_in_checkpoint(FILES / "module.zip.pt")
        assert set(unsafe) - set(left) == {"torch.nn.modules.activation.ReLU"}
    with pytest.raises(ValueError, match="Expected input to be a checkpoint"):
        serialization.get_unsafe_globals_in_checkpoint(FILES / "views.legacy.pt")
    assert serialization.get_unsafe_globals_in_checkpoint(FILES / "state.zip.pt") == []


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")
@pytest.mark.parametrize("format", ["zip", "legacy"])
def test_quantized_tensors(format: str) -> None:
    """linspace(-1, 1, 12) as six quantized tensors."""
    state = tritorch.load(FILES / f"quantized.{format}.pt")
    x = tritorch.linspace(-1, 1, 12).reshape(3, 4)
    assert state["tensor"].q_zero_point() == 100 and state["view"].stride() == (1, 4)
    for name, step in (("tensor", 0.01), ("channels", 0.03), ("floats", 0.5), ("wide", 0.001)):
        error = (state[name].dequantize() - x).abs().max().item()
        assert error <= step * 0.51, (name, error)
    assert state["floats"].q_per_channel_zero_points().tolist() == [8.0, 9.0, 10.0]
    if format == "zip":
        nibbles = state["nibbles"]
        assert (nibbles.dequantize() - x).abs().max() <= 0.26
        assert nibbles.int_repr().shape == (6,)
