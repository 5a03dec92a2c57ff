"""Files of packages: zip archives of plans, weights and kernels.

package.json                   which plans and weights each model has
MODEL/plans/0.json             a plan (`plan.py`)
MODEL/weights/0                the bytes of a weight, from a multiple of 64 on: they are mapped
kernels/sm_90/KEY              a compiled kernel, as `triton/cache.py` keeps it
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.arrays import strides_of
from tritorch.compilation.plan.coding import PackageError, dtype_of, whole
from tritorch.core.layout import is_dense
from tritorch.core.tensor import Tensor
from tritorch.triton import keys
from tritorch.version import __version__

FORMAT = "tritorch package 1"
_ALIGNMENT = 64
_LARGEST = 1 << 28  # bytes of a plan
_DAMAGE = (
    OSError, ValueError, KeyError, RuntimeError, EOFError, NotImplementedError, struct.error,
    zipfile.BadZipFile, zlib.error, RecursionError, TypeError, IndexError, AttributeError,
)  # fmt: skip


class Writer:
    """Writes a package."""

    def __init__(self, file: Any) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self._models: dict[str, Any] = {}

    def _put(self, name: str, data: Any, compressed: bool = False) -> None:
        info = zipfile.ZipInfo(name)  # a fixed date: equal programs make equal packages
        info.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
        if not compressed:
            start = self._zip.fp.tell() + 30 + len(name.encode())  # type: ignore[union-attr]
            pad = -(start + 4) % _ALIGNMENT
            info.extra = b"FB" + pad.to_bytes(2, "little") + b"Z" * pad
        self._zip.writestr(info, data)

    def model(self, name: str, plans: Iterable[Any], weights: dict[str, Tensor]) -> None:
        """A model: its plans, as JSON, and weights by their names."""
        rows: dict[str, Any] = {}
        for i, (key, tensor) in enumerate(weights.items()):
            x = tensor.detach().cpu()
            array = x._array
            strides = strides_of(array)
            if not is_dense(array.shape, strides):
                array = x.contiguous()._array
                strides = strides_of(array)
            order = sorted(range(array.ndim), key=lambda d: (-strides[d], d))
            self._put(f"{name}/weights/{i}", np.ascontiguousarray(array.transpose(order)).tobytes())
            rows[key] = [i, x.dtype.name, list(array.shape), list(strides)]
        digests = []
        for i, plan in enumerate(plans):
            data = json.dumps(plan, allow_nan=False, separators=(",", ":")).encode()
            digests.append(hashlib.sha256(data).hexdigest())
            self._put(f"{name}/plans/{i}.json", data, True)
        self._models[name] = {"plans": digests, "weights": rows}

    def kernel(self, target: int, key: str, data: bytes) -> None:
        """A compiled kernel."""
        self._put(f"kernels/sm_{target}/{key}", data, True)

    def close(self) -> None:
        """Ends the file."""
        head = {
            "format": FORMAT, "version": __version__, "kernels": keys.sources_digest(),
            "models": self._models,
        }  # fmt: skip
        self._put("package.json", json.dumps(head).encode(), True)
        self._zip.close()


class Archive:
    """A package that is read.  Its weights are mapped where they lie in a file."""

    def __init__(self, file: Any) -> None:
        """file: a path, or a file of bytes."""
        try:
            self._open(file)
            self.head = json.loads(self._read("package.json"))
            if not isinstance(self.head, dict) or self.head.get("format") != FORMAT:
                raise PackageError("it is no package of this version's format")
            self.models: dict[str, Any] = dict(self.head["models"])
            self.kernels: str = str(self.head["kernels"])
        except PackageError:
            raise
        except FileNotFoundError:
            raise
        except _DAMAGE as error:
            raise PackageError(f"it is no package: {type(error).__name__}: {error}") from None

    def _open(self, file: Any) -> None:
        if isinstance(file, (str, os.PathLike)):
            with open(file, "rb") as opened:
                self._memory: Any = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
            self._zip = zipfile.ZipFile(_Mapped(self._memory))
        else:
            self._memory = bytearray(file.read())
            self._zip = zipfile.ZipFile(io.BytesIO(self._memory))
        self._infos = {info.filename: info for info in self._zip.infolist()}

    def _read(self, name: str, limit: int = _LARGEST) -> bytes:
        with self._zip.open(self._infos[name]) as member:
            data = member.read(limit + 1)
        if len(data) > limit:
            raise PackageError(f"{name} is too large")
        return data

    def plans(self, model: str) -> list[Any]:
        """A model's plans, as JSON."""
        try:
            found = []
            for i, digest in enumerate(self.models[model]["plans"]):
                data = self._read(f"{model}/plans/{i}.json")
                if hashlib.sha256(data).hexdigest() != digest:
                    raise PackageError(f"plan {i} of {model} is damaged")
                found.append(json.loads(data))
            return found
        except PackageError:
            raise
        except _DAMAGE as error:
            raise PackageError(f"the plans are damaged: {type(error).__name__}: {error}") from None

    def weights(self, model: str) -> dict[str, Tensor]:
        """A model's weights, on the CPU; they are read when they are used."""
        try:
            rows = self.models[model]["weights"]
            return {str(name): self._weight(model, row) for name, row in rows.items()}
        except PackageError:
            raise
        except _DAMAGE as error:
            raise PackageError(f"weights are damaged: {type(error).__name__}: {error}") from None

    def _weight(self, model: str, row: Any) -> Tensor:
        number, name, shape, strides = row
        dtype = dtype_of(name)
        sizes = tuple(whole(n, 0, 2**48) for n in shape)
        steps = tuple(whole(n, 0, 2**48) for n in strides)
        if len(steps) != len(sizes) or not is_dense(sizes, steps):
            raise PackageError("a weight is not dense")
        start, size = self._place(f"{model}/weights/{whole(number)}")
        unit = dtype.itemsize
        if size != unit * int(np.prod(sizes, dtype=object)):
            raise PackageError("a weight has not as many bytes as elements")
        if start % unit:
            raise PackageError("a weight does not begin where its elements may")
        if not size:
            return _C.wrap(np.empty(sizes, dtype.numpy))
        bytes_of = [step * unit for step in steps]
        return _C.wrap(np.ndarray(sizes, dtype.numpy, self._memory, start, bytes_of))

    def _place(self, name: str) -> tuple[int, int]:
        """Where a member's bytes begin, and how many they are."""
        info = self._infos[name]
        head = bytes(self._memory[info.header_offset : info.header_offset + 30])
        if head[:4] != b"PK\3\4" or info.compress_type != zipfile.ZIP_STORED:
            raise PackageError(f"{name} is damaged")
        start = info.header_offset + 30 + sum(struct.unpack("<HH", head[26:30]))
        if start + info.file_size > len(self._memory):
            raise PackageError(f"{name} is cut off")
        return start, info.file_size

    def kernel(self, target: int, key: str) -> bytes:
        """A compiled kernel; nothing if there is none."""
        name = f"kernels/sm_{target}/{key}"
        if name not in self._infos:
            return b""
        try:
            return self._read(name)
        except (PackageError, *_DAMAGE):
            return b""


class _Mapped(io.RawIOBase):
    """Mapped memory as a file."""

    def __init__(self, memory: Any) -> None:
        self._memory, self._at = memory, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes to a place."""
        start = (0, self._at, len(self._memory))[whence]
        if start + offset < 0:
            raise ValueError("a place before the beginning")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """The place."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Reads what follows."""
        data = self._memory[self._at : self._at + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
