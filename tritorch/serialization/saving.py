"""`save`: an object into PyTorch's zip format, or into the format before that."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tritorch.core.dtype import uint8
from tritorch.core.storage import UntypedStorage
from tritorch.serialization.archive import ArchiveWriter
from tritorch.serialization.atomic import atomic_writer
from tritorch.serialization.options import options, settings
from tritorch.serialization.pickler import Storages, pickler_class
from tritorch.serialization.rebuild import storage_type

DEFAULT_PROTOCOL = 2
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001


def save(
    obj: object,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Saves an object to a path, whole or not at all, or to an open binary file.

    The file is PyTorch's: torch.load reads it, and tensors that share memory share it again.
    """
    is_path = isinstance(f, (str, os.PathLike))
    if not is_path and not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )
    if not _use_new_zipfile_serialization and options.skip_data:
        raise RuntimeError("Cannot use skip_data=True with _use_new_zipfile_serialization=False")
    with atomic_writer(f) if is_path else contextlib.nullcontext(f) as file:
        if _use_new_zipfile_serialization:
            folder = (Path(f).stem if is_path else "") or "archive"
            _save_zip(obj, file, folder, pickle_module, pickle_protocol, _disable_byteorder_record)
        else:
            save_legacy(obj, file, pickle_module, pickle_protocol)
        if hasattr(file, "flush"):
            file.flush()


def bytes_of(storage: UntypedStorage) -> np.ndarray[Any, Any]:
    """A storage's bytes, copied from the GPU if they are there."""
    elements = storage._elements(uint8)
    return elements if type(elements) is np.ndarray else elements.numpy()


def pickled(obj: object, pickle_module: Any, protocol: int) -> tuple[memoryview, Storages]:
    """The pickle of an archive, and the storages that it refers to."""
    storages = Storages()

    def persistent_id(value: Any) -> Any:
        reference = storages.refer(value)
        return None if reference is None else ("storage", *reference)

    data = io.BytesIO()
    pickler_class(pickle_module)(data, protocol, persistent_id).dump(obj)
    return data.getbuffer(), storages


def _save_zip(
    obj: object, file: Any, folder: str, pickle_module: Any, protocol: int, no_byteorder: bool
) -> None:
    data, storages = pickled(obj, pickle_module, protocol)
    archive = ArchiveWriter(
        write_all(file), folder, crc=settings.compute_crc32, alignment=settings.storage_alignment
    )
    archive.add("data.pkl", data)
    archive.add(".format_version", b"1")
    archive.add(".storage_alignment", str(settings.storage_alignment).encode())
    if not no_byteorder:
        archive.add("byteorder", sys.byteorder.encode())
    for key, storage, _ in storages.entries.values():
        if options.skip_data:
            archive.add_hole(f"data/{key}", storage.nbytes())
        else:
            archive.add(f"data/{key}", bytes_of(storage))
    archive.add("version", b"3\n")
    archive.add(".data/serialization_id", archive.digest().encode())
    archive.close()


def save_legacy(obj: object, f: Any, pickle_module: Any, pickle_protocol: int) -> None:
    """Writes an object in the format before archives."""
    storages = Storages()

    def persistent_id(value: Any) -> Any:
        reference = storages.refer(value)
        if reference is None:
            return None
        if reference[0] is UntypedStorage:  # which this format's readers in PyTorch don't know
            reference = (storage_type("ByteStorage"), *reference[1:])
        return ("storage", *reference, None)

    system = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for value in (MAGIC_NUMBER, PROTOCOL_VERSION, system):
        pickle_module.dump(value, f, protocol=pickle_protocol)
    pickler_class(pickle_module)(f, pickle_protocol, persistent_id).dump(obj)
    entries = sorted(storages.entries.values(), key=lambda entry: entry[0])
    pickle_module.dump([key for key, _, _ in entries], f, protocol=pickle_protocol)
    write = write_all(f)
    for _, storage, itemsize in entries:
        write((storage.nbytes() // itemsize).to_bytes(8, "little"))
        data = bytes_of(storage)[: storage.nbytes() // itemsize * itemsize]
        if sys.byteorder == "big":  # this format is little-endian everywhere
            data = data.reshape(-1, itemsize)[:, ::-1].ravel()
        write(data)


def write_all(file: Any) -> Any:
    """file.write, repeated for files that take less than they are given."""

    def write(data: Any) -> None:
        view = memoryview(data).cast("B") if memoryview(data).nbytes else memoryview(b"")
        while len(view):
            done = file.write(view)
            if done is None or done >= len(view):
                return
            view = view[done:]

    return write
