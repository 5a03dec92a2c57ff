"""Files of the safetensors format: named tensors and nothing else.

Eight bytes of length, a header in JSON that says of each tensor its dtype, shape and place, and the
bytes.  Files are written whole or not at all, and mapped when read: a tensor's pages come from the
disk when they are used.  No package is needed.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np

from tritorch.core import dtype as dtypes
from tritorch.core.device import device as Device
from tritorch.core.dtype import dtype
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor
from tritorch.serialization.atomic import atomic_writer

# In the format's order: tensors lie by alignment, widest first, so that each is aligned.
_NAMES: dict[str, dtype] = {
    "BOOL": dtypes.bool_,
    "U8": dtypes.uint8,
    "I8": dtypes.int8,
    "F8_E5M2": dtypes.float8_e5m2,
    "F8_E4M3": dtypes.float8_e4m3fn,
    "I16": dtypes.int16,
    "U16": dtypes.uint16,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "I32": dtypes.int32,
    "U32": dtypes.uint32,
    "F32": dtypes.float32,
    "C64": dtypes.complex64,
    "F64": dtypes.float64,
    "I64": dtypes.int64,
    "U64": dtypes.uint64,
}
_DTYPES = {kind: name for name, kind in _NAMES.items()}
_ORDER = {name: i for i, name in enumerate(_NAMES)}
_LONGEST = 100_000_000  # bytes of a header, by the format
_MAX_DIMS = 64  # NumPy's


class SafetensorsError(ValueError):
    """A file is not what the format says."""


def save_safetensors(
    tensors: dict[str, Tensor], f: str | os.PathLike[str], metadata: dict[str, str] | None = None
) -> None:
    """Writes named tensors, and texts about them."""
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise ValueError(f"{name!r} is no name for a tensor")
        if not isinstance(tensor, Tensor):
            raise ValueError(
                f"Key `{name}` is invalid, expected Tensor but received {type(tensor)}"
            )
        if tensor.dtype not in _DTYPES:
            raise ValueError(f"{name!r} is of {tensor.dtype}, which safetensors does not have")
    if not all(isinstance(text, str) for pair in (metadata or {}).items() for text in pair):
        raise ValueError("metadata must be a dict of str to str")
    _refuse_shared(tensors)
    rank = lambda item: (-_ORDER[_DTYPES[item[1].dtype]], item[0])
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    ordered, position = sorted(tensors.items(), key=rank), 0
    for name, tensor in ordered:
        end = position + tensor.nbytes
        header[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [position, end],
        }
        position = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with atomic_writer(f) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in ordered:
            file.write(_bytes(tensor))


def _bytes(tensor: Tensor) -> Any:
    array = tensor.detach().cpu().contiguous()._array
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _refuse_shared(tensors: dict[str, Tensor]) -> None:
    """A file has no way to say that two names are one memory."""
    seen: dict[Any, str] = {}
    for name, tensor in tensors.items():
        if tensor.numel() and tensor.device.type != "meta":
            place = (tensor.device, tensor.untyped_storage().data_ptr())
            if place in seen:
                raise RuntimeError(
                    f"{seen[place]!r} and {name!r} share memory, which a safetensors file cannot "
                    f"say: leave one of them out, or save a clone"
                )
            seen[place] = name


def load_safetensors(f: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors of a file by name, in the order of their places in it."""
    header, start, storage = _open(f)
    where = Device(device)
    out = {}
    places = {name: about["data_offsets"][0] for name, about in header.items()}
    for name in sorted(header, key=places.__getitem__):
        about = header[name]
        kind, (begin, end) = _NAMES[about["dtype"]], about["data_offsets"]
        part = storage[start + begin : start + end]
        if part.data_ptr() % kind.itemsize:  # a file that is not aligned
            part = part.clone()
        shape = tuple(about["shape"])
        strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        out[name] = part._view(kind, shape, strides, 0).to(where)
    return out


def safetensors_metadata(f: str | os.PathLike[str]) -> dict[str, str]:
    """The texts that a file was saved with."""
    with open(f, "rb") as file:
        header, _ = _read_header(file, os.fstat(file.fileno()).st_size)
    return header.get("__metadata__", {})


def _open(f: str | os.PathLike[str]) -> tuple[dict[str, Any], int, UntypedStorage]:
    """The header without its texts, where the bytes start, and all of the file."""
    with open(f, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        header, start = _read_header(file, size)
    header.pop("__metadata__", None)
    _check_places(header, size - start)
    return header, start, UntypedStorage.from_file(f, False, size)


def _read_header(file: Any, size: int) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(_LONGEST, size - 8):
        raise SafetensorsError(f"a header of {length} bytes in a file of {size}")
    try:
        header = json.loads(file.read(length).decode(), object_pairs_hook=_once)
    except SafetensorsError:
        raise
    except (ValueError, RecursionError) as error:  # too many digits are a ValueError
        raise SafetensorsError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise SafetensorsError("the header is not an object")
    texts = header.get("__metadata__", {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise SafetensorsError("the metadata are not texts")
    return header, 8 + length


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise SafetensorsError("a name comes twice in the header")
    return found


def _check_places(header: dict[str, Any], available: int) -> None:
    """Each tensor as long as its dtype and shape say, and all of them side by side."""
    places = []
    for name, about in header.items():
        if not isinstance(about, dict) or set(about) != {"dtype", "shape", "data_offsets"}:
            raise SafetensorsError(f"{name!r}: not a dtype, a shape and offsets")
        kind, shape, offsets = about["dtype"], about["shape"], about["data_offsets"]
        if not isinstance(kind, str) or kind not in _NAMES:
            raise SafetensorsError(f"{name!r}: no dtype {str(kind)[:50]!r} here")
        for numbers in (shape, offsets):
            if not isinstance(numbers, list):
                raise SafetensorsError(f"{name!r}: {str(numbers)[:50]} are not sizes")
            if len(numbers) > _MAX_DIMS:
                raise SafetensorsError(
                    f"{name!r}: {len(numbers)} dims, of which a tensor has at most {_MAX_DIMS}"
                )
            if not all(_is_size(n) for n in numbers):
                raise SafetensorsError(f"{name!r}: {str(numbers)[:200]} are not sizes")
        if len(offsets) != 2 or offsets[1] - offsets[0] != _NAMES[kind].itemsize * math.prod(shape):
            raise SafetensorsError(f"{name!r}: {offsets} is not {kind} of shape {shape}")
        if math.prod(max(n, 1) for n in shape) * _NAMES[kind].itemsize >= 1 << 63:
            raise SafetensorsError(f"{name!r}: shape {shape} overflows")
        places.append(tuple(offsets))
    end = 0
    for begin, stop in sorted(places):
        if begin != end:
            raise SafetensorsError(f"a gap, or an overlap, at byte {begin}")
        end = stop
    if end != available:
        raise SafetensorsError(f"{end} bytes of tensors in a file with {available}")


def _is_size(n: Any) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 63
