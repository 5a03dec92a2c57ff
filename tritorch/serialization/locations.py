"""Devices of storages in checkpoints: their tags, and how a tag becomes a device again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from tritorch.core.device import device as Device
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import typename
from tritorch.core.typed_storage import TypedStorage

_Storage = TypedStorage | UntypedStorage
MAP_LOCATION: TypeAlias = (
    Callable[[_Storage, str], _Storage] | Device | str | dict[str, str] | None  # of load()
)
_Tagger = Callable[[Any], "str | None"]
_Deserializer = Callable[[Any, str], Any]
_packages: list[tuple[int, _Tagger, _Deserializer]] = []


def register_package(priority: int, tagger: _Tagger, deserializer: _Deserializer) -> None:
    """Adds a kind of device: `tagger(storage)` gives a location or None, `deserializer(storage,
    location)` the storage there or None; lower priorities are asked first."""
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage: Any) -> str:
    """A storage's location, as checkpoints name it."""
    for _, tagger, _ in _packages:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"don't know how to determine data location of {typename(storage)}")


def default_restore_location(storage: Any, location: str) -> Any:
    """A storage in host memory, moved to a location."""
    for _, _, deserializer in _packages:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError(
        f"don't know how to restore data location of {typename(storage)} (tagged with {location})"
    )


def restorer(map_location: Any) -> _Deserializer:
    """What load() calls with each storage and its location."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(
            storage, str(map_location.get(location, location))
        )
    if isinstance(map_location, bytes):
        map_location = map_location.decode("ascii")
    if isinstance(map_location, (str, Device)):
        return lambda storage, location: default_restore_location(storage, str(map_location))

    def restore(storage: Any, location: str) -> Any:
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return restore


def validate_cuda_device(location: Any) -> int:
    """The index behind a CUDA location; RuntimeError if there is no such device."""
    from tritorch import cuda

    if not cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but tritorch.cuda.is_available() is "
            "False. If you are running on a CPU-only machine, please use tritorch.load with "
            "map_location=tritorch.device('cpu') to map your storages to the CPU."
        )
    where = Device(location)
    index = cuda.current_device() if where.index is None else where.index
    if index >= cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but "
            f"tritorch.cuda.device_count() is {cuda.device_count()}. Please use tritorch.load with "
            f"map_location to map your storages to an existing device."
        )
    return index


def default_tag(kind: str) -> _Tagger:
    """What names a device of one type, and no other."""
    return lambda storage: str(storage.device) if storage.device.type == kind else None


def to_cpu(storage: Any, location: str) -> Any:
    return storage if location == "cpu" else None


def _to_cuda(storage: Any, location: str) -> Any:
    if location == "cuda" or re.match("cuda(:|[0-9]+)", location):
        return storage.cuda(Device("cuda", validate_cuda_device(location)))
    return None


def to_meta(storage: Any, location: str) -> Any:
    if location == "meta":
        return UntypedStorage(storage.nbytes(), device="meta")
    return None


register_package(10, default_tag("cpu"), to_cpu)
register_package(20, default_tag("cuda"), _to_cuda)
register_package(22, default_tag("meta"), to_meta)
