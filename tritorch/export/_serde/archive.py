"""Archives of exported programs: a zip file of programs, tensors' bytes and what else is put in.

model/models/NAME.json                        programs
model/data/weights/NAME_weights_config.json   which record each tensor is in, and how it lies
model/data/weights/weight_0                   memory that tensors share
model/data/sample_inputs/NAME.pt              example arguments
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from typing import Any

from tritorch.compat.torch_private._subclasses.fake_tensor import as_it_is
from tritorch.core.dtype import uint8
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor
from tritorch.export._serde import reading, writing
from tritorch.export._serde.codes import OF_SCALAR_TYPE
from tritorch.nn.parameter import Parameter
from tritorch.serialization import load as load_artifact, save as save_artifact

_KINDS = {  # (folder, the config's name, the stem of records)
    "weights": ("data/weights/", "{}_weights_config.json", "weight_"),
    "constants": ("data/constants/", "{}_constants_config.json", "tensor_"),
}
_ALIGNMENT = 64


class Writer:
    """Writes records into an archive."""

    def __init__(self, file: Any, name: str) -> None:
        self.zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self.prefix = name

    def write(self, name: str, data: bytes) -> None:
        """A record, whose bytes begin at a multiple of 64."""
        info = zipfile.ZipInfo(f"{self.prefix}/{name}", (1980, 1, 1, 0, 0, 0))
        start = self.zip.fp.tell() + 30 + len(info.filename.encode())  # type: ignore[union-attr]
        pad = -(start + 4) % _ALIGNMENT
        info.extra = b"FB" + pad.to_bytes(2, "little") + b"Z" * pad
        self.zip.writestr(info, data)

    def close(self) -> None:
        """Ends the archive."""
        self.write("archive_format", b"pt2")
        self.write("archive_version", b"0")
        self.write(".data/version", b"6\n")
        self.write("byteorder", b"little")
        self.zip.close()


class Reader:
    """Reads records of an archive."""

    def __init__(self, file: Any) -> None:
        self.zip = zipfile.ZipFile(file)
        self.prefix = self.zip.namelist()[0].partition("/")[0]
        self.names = [n.removeprefix(f"{self.prefix}/") for n in self.zip.namelist()]

    def read(self, name: str) -> bytes:
        """A record."""
        return self.zip.read(f"{self.prefix}/{name}")


def _write_tensors(
    writer: Writer, kind: str, model: str, tensors: dict[str, Any], stems: dict[str, int]
) -> None:
    folder, config, stem = _KINDS[kind]
    entries: dict[str, Any] = {}
    records: dict[int, str] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise writing.SerializeError(f"{name} is a {type(tensor).__name__}: no tensor")
        plain = tensor.detach().cpu()
        storage = plain.untyped_storage()
        key = id(tensor._shared)
        if key not in records:
            number = stems[kind] = stems.get(kind, -1) + 1
            records[key] = f"{stem}{number}"
            writer.write(folder + records[key], storage._elements(uint8).tobytes())
        entries[name] = {
            "path_name": records[key], "is_param": isinstance(tensor, Parameter),
            "use_pickle": False, "tensor_meta": writing.tensor_meta(tensor),
        }  # fmt: skip
    writer.write(folder + config.format(model), json.dumps({"config": entries}).encode())


def _read_tensors(reader: Reader, kind: str, model: str) -> dict[str, Any]:
    folder, config, _ = _KINDS[kind]
    if folder + config.format(model) not in reader.names:
        legacy = f"{folder}{model}.pt"
        return load_artifact(io.BytesIO(reader.read(legacy))) if legacy in reader.names else {}
    entries = json.loads(reader.read(folder + config.format(model)))["config"]
    memories: dict[str, UntypedStorage] = {}
    found = {}
    for name, entry in entries.items():
        if entry["use_pickle"]:
            found[name] = load_artifact(io.BytesIO(reader.read(folder + entry["path_name"])))
            continue
        meta = entry["tensor_meta"]
        kind_of = OF_SCALAR_TYPE[meta["dtype"]]
        key = entry["path_name"]
        if key not in memories:
            data = reader.read(folder + entry["path_name"])
            memories[key] = UntypedStorage.from_buffer(data, dtype=uint8)
        sizes, strides = ([n["as_int"] for n in meta[which]] for which in ("sizes", "strides"))
        tensor = memories[key]._view(kind_of, sizes, strides, meta["storage_offset"]["as_int"])
        if entry["is_param"]:
            tensor = Parameter(tensor.detach(), requires_grad=meta["requires_grad"])
        else:
            tensor = tensor.detach().requires_grad_(meta["requires_grad"])
        found[name] = tensor
    return found


def write_program(writer: Writer, model: str, exported: Any, stems: dict[str, int]) -> None:
    """A program with its tensors."""
    with as_it_is():
        _write_tensors(writer, "weights", model, exported.state_dict, stems)
        _write_tensors(writer, "constants", model, exported.constants, stems)
        writer.write(
            f"models/{model}.json",
            json.dumps(writing.program(exported), allow_nan=False).encode(),
        )
        inputs = b""
        if exported.example_inputs is not None:
            buffer = io.BytesIO()
            save_artifact(exported.example_inputs, buffer, pickle_protocol=2)
            inputs = buffer.getvalue()
        writer.write(f"data/sample_inputs/{model}.pt", inputs)


def read_program(reader: Reader, model: str) -> Any:
    """A program with its tensors."""
    data = json.loads(reader.read(f"models/{model}.json"))
    sample = f"data/sample_inputs/{model}.pt"
    inputs: Any = None
    if sample in reader.names and (packed := reader.read(sample)):
        inputs = load_artifact(io.BytesIO(packed), weights_only=True)
    return reading.program(
        data, _read_tensors(reader, "weights", model), _read_tensors(reader, "constants", model),
        inputs,
    )  # fmt: skip


def save(exported: Any, file: Any, extra_files: dict[str, Any] | None = None) -> None:
    """Writes an archive of one program, or of several by their names."""
    programs = exported if isinstance(exported, dict) else {"model": exported}
    name = "archive"
    if isinstance(file, (str, os.PathLike)):
        name = os.path.splitext(os.path.basename(os.fspath(file)))[0]
    buffer = io.BytesIO()
    writer, stems = Writer(buffer, name), {}  # type: ignore[var-annotated]
    for model, each in programs.items():
        write_program(writer, model, each, stems)
    for path, content in (extra_files or {}).items():
        writer.write(f"extra/{path}", content.encode() if isinstance(content, str) else content)
    writer.close()
    if isinstance(file, (str, os.PathLike)):
        with open(file, "wb") as out:
            out.write(buffer.getvalue())
    else:
        file.write(buffer.getvalue())


def load(file: Any, extra_files: dict[str, Any] | None = None) -> Any:
    """The program of an archive."""
    reader = Reader(file)
    for path in extra_files or {}:
        if f"extra/{path}" in reader.names:
            extra_files[path] = reader.read(f"extra/{path}").decode()  # type: ignore[index]
    models = [n[7:-5] for n in reader.names if n.startswith("models/") and n.endswith(".json")]
    if not models:
        raise writing.SerializeError("the file has no exported program")
    return read_program(reader, "model" if "model" in models else models[0])
