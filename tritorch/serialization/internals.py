"""Private functions of torch.serialization that packages call, on tritorch's archives."""

from __future__ import annotations

import io
import os
import sys
import threading
from typing import Any, Generic, TypeVar

from tritorch.core.device import device as Device
from tritorch.serialization import legacy, rebuild, weights_only
from tritorch.serialization.helpers import check_module_version_greater_or_equal
from tritorch.serialization.loading import Reader, ZipStorages, check_seekable
from tritorch.serialization.locations import default_tag, restorer, to_cpu, to_meta
from tritorch.serialization.options import get_crc32_options, settings
from tritorch.serialization.records import PyTorchFileReader, PyTorchFileWriter
from tritorch.serialization.saving import pickled, save_legacy

T = TypeVar("T")

_get_restore_location, _legacy_save, _get_layout = restorer, save_legacy, rebuild._get_layout
_cpu_deserialize, _meta_deserialize = to_cpu, to_meta
_check_seekable = check_seekable
_cpu_tag, _meta_tag = default_tag("cpu"), default_tag("meta")


class _SerializationLocal(threading.local):
    """What one thread's load and save have noted."""

    map_location: Any = None
    skip_data = materialize_fake_tensors = False


# ---- files ---------------------------------------------------------------------------------------


class _opener(Generic[T]):
    """Something open: `with` gives it, and ends it."""

    def __init__(self, file_like: T) -> None:
        self.file_like = file_like

    def __enter__(self) -> T:
        return self.file_like

    def __exit__(self, *raised: object) -> None:
        """A file of the caller's stays open."""


class _open_file(_opener[Any]):
    """A file by its path."""

    def __init__(self, name: Any, mode: str) -> None:
        super().__init__(open(name, mode))  # noqa: SIM115  # closed by __exit__

    def __exit__(self, *raised: object) -> None:
        self.file_like.close()


class _open_buffer_reader(_opener[Any]):
    """An open file to read, which must be seekable."""

    def __init__(self, buffer: Any) -> None:
        super().__init__(buffer)
        check_seekable(buffer)


class _open_buffer_writer(_opener[Any]):
    """An open file to write."""

    def __exit__(self, *raised: object) -> None:
        self.file_like.flush()


def _open_file_like(name_or_buffer: Any, mode: str) -> _opener[Any]:
    """A path, or an open file, to read or to write."""
    if _is_path(name_or_buffer):
        return _open_file(name_or_buffer, mode)
    if "w" in mode:
        return _open_buffer_writer(name_or_buffer)
    if "r" in mode:
        return _open_buffer_reader(name_or_buffer)
    raise RuntimeError(f"Expected 'r' or 'w' in mode but got {mode}")


class _open_zipfile_reader(_opener[PyTorchFileReader]):
    """An archive to read."""

    def __init__(self, name_or_buffer: Any) -> None:
        super().__init__(PyTorchFileReader(name_or_buffer))


class _open_zipfile_writer_file(_opener[PyTorchFileWriter]):
    """An archive to write, by its path."""

    def __init__(self, name: Any) -> None:
        self.file_stream, self.name = None, name
        super().__init__(PyTorchFileWriter(name, get_crc32_options(), _get_storage_alignment()))

    def __exit__(self, *raised: object) -> None:
        if raised[:1] not in ((), (None,)):
            self.file_like.discard()
        else:
            self.file_like.write_end_of_file()


class _open_zipfile_writer_buffer(_open_zipfile_writer_file):
    """An archive to write, into an open file."""

    def __init__(self, buffer: Any) -> None:
        if not callable(getattr(buffer, "write", None)):
            message = f"Buffer of {str(type(buffer)).strip('<>')} has no callable attribute 'write'"
            raise (TypeError if hasattr(buffer, "write") else AttributeError)(message)
        self.buffer = buffer
        super().__init__(buffer)

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self.buffer.flush()


def _open_zipfile_writer(name_or_buffer: Any) -> _opener[PyTorchFileWriter]:
    """An archive to write, by its path or into an open file."""
    if _is_path(name_or_buffer):
        return _open_zipfile_writer_file(name_or_buffer)
    return _open_zipfile_writer_buffer(name_or_buffer)


def _is_zipfile(f: Any) -> bool:
    """Whether an open file begins as an archive does; its position stays."""
    start = f.tell()
    found = f.read(4)
    f.seek(start)
    return found == b"PK\x03\x04"


def _is_path(name_or_buffer: Any) -> bool:
    return isinstance(name_or_buffer, (str, os.PathLike))


def _is_compressed_file(f: Any) -> bool:
    return getattr(f, "__module__", None) == "gzip"


def _should_read_directly(f: Any) -> bool:
    """Whether there is a file of the system's behind this, with the bytes that are read."""
    try:
        return not _is_compressed_file(f) and f.fileno() >= 0
    except (io.UnsupportedOperation, AttributeError):
        return False


def _is_torchscript_zip(zip_file: PyTorchFileReader) -> bool:
    return zip_file.has_record("constants.pkl")


# ---- checks --------------------------------------------------------------------------------------


def _check_save_filelike(f: Any) -> None:
    if not _is_path(f) and not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )


def _check_dill_version(pickle_module: Any) -> None:
    """Refuses a dill that is too old; other modules are not looked at."""
    if pickle_module is None or pickle_module.__name__ != "dill":
        return
    if not check_module_version_greater_or_equal(pickle_module, (0, 3, 1), False):
        raise ValueError(
            f"'torch' supports dill >= 0.3.1, but you have dill {pickle_module.__version__}. "
            "Please upgrade dill or switch to 'pickle'"
        )


def _default_to_weights_only(pickle_module: Any) -> bool:
    return pickle_module is None


def _maybe_decode_ascii(bytes_str: bytes | str) -> str:
    return bytes_str.decode("ascii") if isinstance(bytes_str, bytes) else bytes_str


def _get_storage_alignment() -> int:
    return settings.storage_alignment


def _is_meta_location(map_location: Any) -> bool:
    """Whether everything is loaded to where there is no memory."""
    if isinstance(map_location, Device):
        return map_location.type == "meta"
    return isinstance(map_location, str) and map_location == "meta"


def _backend_tag(backend_name: str, obj: Any) -> str | None:
    return str(obj.device) if obj.device.type == backend_name else None


# ---- archives ------------------------------------------------------------------------------------


def _reader(map_location: Any, pickle_module: Any, load_args: dict[str, Any]) -> Reader:
    """By PyTorch's module of the restricted unpickler, that one; else a pickle that is trusted."""
    restricted = pickle_module is weights_only
    load_args.setdefault("encoding", "utf-8")
    return Reader(map_location, pickle_module, restricted, load_args)


def _load(
    zip_file: PyTorchFileReader, map_location: Any, pickle_module: Any,
    pickle_file: str = "data.pkl", overall_storage: Any = None, **pickle_load_args: Any,
) -> Any:  # fmt: skip
    """The object of an open archive."""
    read = _reader(map_location, pickle_module, pickle_load_args)
    storages = ZipStorages(zip_file._archive, read.restore, None)
    data = zip_file.get_record(pickle_file)
    return read.unpickle(io.BytesIO(data), storages.persistent_load, len(data))


def _legacy_load(f: Any, map_location: Any, pickle_module: Any, **pickle_load_args: Any) -> Any:
    """The object of an open file of the format before archives."""
    read = _reader(map_location, pickle_module, pickle_load_args)
    return legacy.load(f, read.unpickle, read.restore)


def _save(
    obj: object, zip_file: PyTorchFileWriter, pickle_module: Any, pickle_protocol: int,
    _disable_byteorder_record: bool,
) -> None:  # fmt: skip
    """Writes an object into an open archive, which may get other records."""
    data, storages = pickled(obj, pickle_module, pickle_protocol)
    alignment = str(settings.storage_alignment)
    zip_file.write_record("data.pkl", data, len(data))
    zip_file.write_record(".format_version", "1", 1)
    zip_file.write_record(".storage_alignment", alignment, len(alignment))
    if not _disable_byteorder_record:
        zip_file.write_record("byteorder", sys.byteorder, len(sys.byteorder))
    for key, storage, _ in storages.entries.values():
        zip_file.write_record(f"data/{key}", storage, storage.nbytes())
