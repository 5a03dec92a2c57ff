"""Writes tests/serialization/files/: checkpoints made by the real torch, and what is in them.

    python tools/record/checkpoints.py     # with torch installed; the tests need only the files

Big-endian files are PyTorch's with each storage's elements turned around and `byteorder` changed.
"""

from __future__ import annotations

import collections
import io
import zipfile
from typing import Any

import torch
from recording import TESTS, write_json

FOLDER = TESTS / "serialization" / "files"
DTYPES = (
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16",
    "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128",
)  # fmt: skip


def dtypes() -> dict[str, Any]:
    values = torch.tensor([[0.0, 1.0, 1.5], [2.0, 3.0, 100.0]], dtype=torch.float64)
    return {
        name: (values * (1 + 2j) if "complex" in name else values).to(getattr(torch, name))
        for name in DTYPES
    }


def views() -> dict[str, Any]:
    base = torch.arange(24.0).reshape(4, 6)
    image = torch.arange(48.0).reshape(1, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    return {
        "base": base, "row": base[2], "transposed": base.t(), "part": base[1:3, ::2],
        "expanded": base[0, :1].expand(5), "scalar": torch.tensor(7), "empty": torch.empty(0, 3),
        "channels_last": image, "leaf": torch.ones(2, requires_grad=True),
    }  # fmt: skip


def state() -> Any:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 12,
        "parameter": torch.nn.Parameter(torch.ones(2)), "rng": torch.get_rng_state()[:64].clone(),
    }  # fmt: skip


def containers() -> dict[str, Any]:
    return {
        "list": [1, -2, 2**40, 2**100, 1.5, "text", None, True],
        "tuple": (1, (2, 3), (), (1, 2, 3, 4)),
        "bytes": b"ab\xff", "bytearray": bytearray(b"xy"), "set": {1, 2}, "complex": 1 + 2j,
        "ordered": collections.OrderedDict(a=1), "counter": collections.Counter("aab"),
        "size": torch.Size([2, 3]), "device": torch.device("cuda", 1), "cpu": torch.device("cpu"),
        "dtype": torch.bfloat16, "layout": torch.strided, "long text": "é" * 300,
    }  # fmt: skip


def attributes() -> Any:
    tensor = torch.ones(2)
    tensor.note = "kept"
    parameter = torch.nn.Parameter(torch.zeros(2), requires_grad=False)
    parameter.tag = 5
    return [tensor, parameter, torch.tensor([1 + 2j]).conj(), torch.ones(3).untyped_storage()]


def quantized(format: str) -> dict[str, Any]:
    """linspace(-1, 1, 12), quantized in each way; below 8 bits in the zip format alone."""
    x = torch.linspace(-1, 1, 12).reshape(3, 4)
    scales = torch.tensor([0.01, 0.02, 0.03]).double(), torch.tensor([0.125, 0.25, 0.5])
    zeros = torch.zeros(3).long(), torch.tensor([8.0, 9.0, 10.0]), torch.tensor([8.0, 7.0, 6.0])
    by_channel = torch.quantize_per_channel
    found = {
        "tensor": torch.quantize_per_tensor(x, 0.01, 100, torch.quint8),
        "view": torch.quantize_per_tensor(x, 0.02, 3, torch.qint8).t(),
        "channels": by_channel(x, scales[0], zeros[0], 0, torch.qint8),
        "floats": by_channel(x, scales[1], zeros[1], 0, torch.quint8),
        "wide": torch.quantize_per_tensor(x, 0.001, 0, torch.qint32),
    }
    if format == "zip":
        found["nibbles"] = by_channel(x, scales[1], zeros[2], 0, torch.quint4x2)
    return found


def describe(value: Any) -> Any:
    """Values in JSON, for the tests to compare with."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().resolve_conj()
        if plain.dtype.is_complex:
            numbers: Any = torch.view_as_real(plain).tolist()
        else:
            numbers = plain.double().tolist() if plain.dtype.itemsize == 1 else plain.tolist()
        return {
            "tensor": numbers, "dtype": str(value.dtype)[6:], "shape": list(value.shape),
            "stride": list(value.stride()), "offset": value.storage_offset(),
            "requires_grad": value.requires_grad, "parameter": type(value).__name__,
        }  # fmt: skip
    if isinstance(value, dict):
        return {"dict": [[describe(k), describe(v)] for k, v in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [describe(item) for item in value]}
    if isinstance(value, (int, float, str, type(None))):
        return value
    if isinstance(value, (torch.UntypedStorage, torch.storage.TypedStorage)):
        return "storage"
    return {"repr": repr(sorted(value) if isinstance(value, set) else value)}


def swapped(data: bytes, widths: dict[str, int]) -> bytes:
    """A little-endian checkpoint as a big-endian machine would have written it."""
    source = zipfile.ZipFile(io.BytesIO(data))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for info in source.infolist():
            record = source.read(info)
            if info.filename.endswith("/byteorder"):
                record = b"big"
            width = widths.get(info.filename.partition("/data/")[2], 1)
            record = b"".join(record[at : at + width][::-1] for at in range(0, len(record), width))
            target.writestr(info.filename, record)
    return out.getvalue()


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    expected: dict[str, Any] = {}
    everything = {
        "dtypes": dtypes(), "views": views(), "state": state(), "containers": containers(),
        "attributes": attributes(),
    }  # fmt: skip
    for name, value in everything.items():
        expected[name] = describe(value)
        torch.save(value, FOLDER / f"{name}.zip.pt")
        torch.save(value, FOLDER / f"{name}.legacy.pt", _use_new_zipfile_serialization=False)
    for format in ("zip", "legacy"):
        new = format == "zip"
        path = FOLDER / f"quantized.{format}.pt"
        torch.save(quantized(format), path, _use_new_zipfile_serialization=new)
    buffer = io.BytesIO()
    torch.save(everything["dtypes"], buffer)
    widths = {
        str(at): tensor.itemsize // (2 if tensor.dtype.is_complex else 1)
        for at, tensor in enumerate(everything["dtypes"].values())
    }
    (FOLDER / "dtypes.big_endian.pt").write_bytes(swapped(buffer.getvalue(), widths))
    torch.serialization.set_crc32_options(False)
    torch.save(everything["views"], FOLDER / "views.no_crc.pt")
    torch.serialization.set_crc32_options(True)
    whole = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    torch.save(whole, FOLDER / "module.zip.pt")  # weights_only=True refuses this one
    write_json(FOLDER / "expected.json", expected, indent=None)
    sizes = sum(path.stat().st_size for path in FOLDER.iterdir())
    print(f"{len(list(FOLDER.iterdir()))} files, {sizes:,} bytes, by torch {torch.__version__}")


if __name__ == "__main__":
    main()
