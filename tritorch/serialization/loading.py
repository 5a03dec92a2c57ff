"""`load`: an object from a checkpoint, of PyTorch's or tritorch's making."""

from __future__ import annotations

import io
import mmap as mmaps
import os
import pickle
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch.core.storage import UntypedStorage
from tritorch.core.typed_storage import TypedStorage
from tritorch.serialization import legacy, names, rebuild
from tritorch.serialization.archive import ArchiveReader, require_size
from tritorch.serialization.locations import restorer
from tritorch.serialization.options import LoadEndianness, options, settings
from tritorch.serialization.weights_only import Unpickler

UNSAFE_MESSAGE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` "
    "from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will "
    "likely succeed, but it can result in arbitrary code execution. Do it only if you got the "
    "file from a trusted source."
)
_DOCS_MESSAGE = (
    "\n\nCheck the documentation of torch.load to learn more about types accepted by default with "
    "weights_only https://pytorch.org/docs/stable/generated/torch.load.html."
)
_TRUE = ("1", "y", "yes", "true")


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Loads what save() (PyTorch's or tritorch's) wrote, from a path or an open binary file.

    Args:
        f: a path, or a file with read, readline, tell and seek.
        map_location: where storages go: a device, its name, a dict from the saved location to
            another, or a function of a storage and its location.
        pickle_module: for weights_only=False, in place of pickle.
        weights_only: allow tensors, plain containers and what add_safe_globals was given; runs no
            code. False unpickles anything: for trusted files only.
        mmap: map the file instead of reading it; `f` must be a path.
    """
    weights_only = _decide(weights_only, pickle_module)
    if weights_only:
        if pickle_module is not None:
            raise RuntimeError(
                "Can not safely load weights when explicit pickle_module is specified"
            )
        if pickle_load_args:
            warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    pickle_load_args.setdefault("encoding", "utf-8")
    read = Reader(map_location, pickle_module or pickle, weights_only, pickle_load_args)
    is_path = isinstance(f, (str, os.PathLike))
    if mmap and not is_path:
        raise ValueError("f must be a file path in order to use the mmap argument")
    try:
        if not is_path:
            check_seekable(f)
            return read(f, None, f)
        with open(f, "rb") as file:
            return read(file, os.fspath(f) if mmap else None, f)
    except pickle.UnpicklingError as error:
        if not weights_only:
            raise
        raise pickle.UnpicklingError(_weights_only_message(str(error))) from error.__cause__


def _decide(weights_only: bool | None, pickle_module: Any) -> bool:
    force = os.getenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() in _TRUE
    force_not = os.getenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in _TRUE
    if force and force_not:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` "
            "should be set, but both were set."
        )
    if force:
        return True
    if weights_only is None:
        if force_not:
            warnings.warn(
                "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the "
                "`weights_only` argument was not explicitly passed to `torch.load`, forcing "
                "weights_only=False.",
                UserWarning,
                stacklevel=3,
            )
            return False
        return pickle_module is None
    return bool(weights_only)


def check_seekable(f: Any) -> bool:
    """True; raises if a file cannot go back."""
    try:
        f.seek(f.tell())
        return True
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the "
            f"data into a buffer like io.BytesIO and try to load from it instead."
        ) from None


def _weights_only_message(message: str) -> str:
    if re.search(r"GLOBAL (\S+) was not an allowed global by default.", message):
        return (
            "Weights only load failed. This file can still be loaded, to do so you have two "
            "options, \033[1mdo those steps only if you trust the source of the checkpoint\033[0m. "
            f"\n\t(1) {UNSAFE_MESSAGE}\n\t(2) Alternatively, to load with `weights_only=True` "
            "please check the recommended steps in the following error message.\n\t"
            f"WeightsUnpickler error: {message}{_DOCS_MESSAGE}"
        )
    out = f"Weights only load failed. {UNSAFE_MESSAGE}\n"
    if not re.search(r"whose module (\S+) is blocked", message):
        out += (
            "Please file an issue with the following so that we can make `weights_only=True` "
            "compatible with your use case: WeightsUnpickler error: "
        )
    return f"{out}\n\n{message}{_DOCS_MESSAGE}"


class Reader:
    """One call of load()."""

    def __init__(
        self, map_location: Any, module: Any, weights_only: bool, load_args: dict[str, Any]
    ) -> None:
        self.restore = restorer(map_location)
        self.module = module
        self.weights_only = weights_only
        self.load_args = load_args

    def __call__(self, file: Any, mapped: Any, f: Any) -> Any:
        start = file.tell()
        magic = file.read(4)
        file.seek(start)
        if not magic:
            raise EOFError("Ran out of input")
        if magic != b"PK\x03\x04":
            if mapped is not None:
                name = f"{f}, " if isinstance(f, str) else ""
                raise RuntimeError(
                    f"mmap can only be used with files saved with `torch.save({name}"
                    "_use_new_zipfile_serialization=True), please torch.save your checkpoint with "
                    "this option in order to use mmap."
                )
            return legacy.load(file, self.unpickle, self.restore)
        archive = ArchiveReader(file)
        if archive.has("constants.pkl"):
            if self.weights_only:
                raise RuntimeError(
                    "Cannot use ``weights_only=True`` with TorchScript archives passed to "
                    "``torch.load``. " + UNSAFE_MESSAGE
                )
            raise RuntimeError("tritorch does not run TorchScript: save the model's state_dict")
        storages = ZipStorages(archive, self.restore, _map(mapped, archive) if mapped else None)
        data = archive.read("data.pkl")
        return self.unpickle(io.BytesIO(data), storages.persistent_load, len(data))

    def unpickle(self, file: Any, persistent_load: Callable[[Any], Any] | None, size: int) -> Any:
        """The next pickle of a file."""
        encoding = self.load_args["encoding"]
        if self.weights_only:
            return Unpickler(file, persistent_load, size=size, encoding=encoding).load()

        class TrustingUnpickler(self.module.Unpickler):  # type: ignore[name-defined]
            """The module's own, with PyTorch's names leading to tritorch."""

            def find_class(self, module: str, name: str) -> Any:
                if module == "torch" or module.startswith("torch."):
                    return names.resolve(module, name)
                return super().find_class(module, name)

        unpickler = TrustingUnpickler(file, **self.load_args)
        if persistent_load is not None:
            unpickler.persistent_load = persistent_load
        return unpickler.load()


class ZipStorages:
    """The storages of an archive, each read when the pickle first refers to it."""

    def __init__(self, archive: ArchiveReader, restore: Any, mapped: Any) -> None:
        self._archive = archive
        self._restore = restore
        self._mapped = mapped
        self._loaded: dict[str, TypedStorage] = {}
        self._swap = _byte_order(archive) != sys.byteorder

    def persistent_load(self, pid: Any) -> TypedStorage:
        """The storage that a pickle's ("storage", type, key, location, elements) means."""
        kind, key, location, numel = storage_reference(pid, 5)
        loaded = self._loaded.get(key)
        if loaded is None:
            array = self._read(f"data/{key}", numel * kind.itemsize)
            untyped = pid[1] is UntypedStorage
            if self._swap and not untyped:
                rebuild.byteswap(array, kind)
            loaded = rebuild.typed(self._restore(rebuild.storage_of(array), location), kind)
            loaded._foreign = self._swap and untyped  # type: ignore[attr-defined]
            self._loaded[key] = loaded
        return loaded

    def _read(self, name: str, nbytes: int) -> np.ndarray[Any, Any]:
        if options.skip_data:
            require_size(name, self._archive.find(name).size, nbytes)
            return np.zeros((nbytes,), np.uint8)
        if self._mapped is None:
            return self._archive.read_array(name, nbytes)
        record = self._archive.find(name)
        require_size(name, record.size, nbytes)
        part = self._mapped[record.offset : record.offset + nbytes]
        # Swapping in place would reach the file.
        return part.copy() if self._swap and settings.mmap_flags == mmaps.MAP_SHARED else part


def storage_reference(pid: Any, length: int) -> tuple[Any, str, str, int]:
    """(dtype, key, location, elements) of a persistent id; UnpicklingError if it is malformed."""
    if type(pid) is not tuple or len(pid) != length:
        raise pickle.UnpicklingError(f"a reference to a storage must be a tuple of {length} items")
    _, written, key, location, numel = pid[:5]
    kind = rebuild.dtypes.uint8 if written is UntypedStorage else getattr(written, "dtype", None)
    # Bytes in files that Python 2 wrote.
    key = key.decode("ascii", "replace") if type(key) is bytes else key
    location = location.decode("ascii", "replace") if type(location) is bytes else location
    if (
        not isinstance(written, (type, rebuild.StorageType))
        or not isinstance(kind, rebuild.dtypes.dtype)
        or type(key) is not str
        or type(location) is not str
        or type(numel) is not int
        or numel < 0
    ):
        raise pickle.UnpicklingError(
            "a reference to a storage must be (type, key, location, number of elements)"
        )
    return kind, key, location, numel


def _byte_order(archive: ArchiveReader) -> str:
    if archive.has("byteorder"):
        order = archive.read("byteorder")
        if order not in (b"little", b"big"):
            raise ValueError(f"Unknown endianness type: {order[:20]!r}")
        return order.decode()
    default = settings.endianness
    if default is LoadEndianness.NATIVE:
        return sys.byteorder
    return "big" if default is LoadEndianness.BIG else "little"


def _map(path: Any, archive: ArchiveReader) -> np.ndarray[Any, Any]:
    """The whole file as bytes; private pages are copied when they are written to."""
    shared = settings.mmap_flags == mmaps.MAP_SHARED
    with open(path, "r+b" if shared else "rb") as file:
        access = mmaps.ACCESS_WRITE if shared else mmaps.ACCESS_COPY
        mapped = mmaps.mmap(file.fileno(), 0, access=access)
    if len(mapped) < archive.size:
        raise RuntimeError(f"{path} shrank while it was read")
    return np.frombuffer(mapped, np.uint8)
