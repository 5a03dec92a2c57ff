"""Backend: names of backends, what devices each serves, and who makes one."""

from __future__ import annotations

import importlib.util
import warnings
from collections import namedtuple
from collections.abc import Callable
from typing import Any, ClassVar

from tritorch.core.device import device as Device
from tritorch.distributed.process_group import BackendType

__all__ = ["Backend", "BackendConfig"]


class Backend(str):
    """A backend's name, in lower case: Backend("GLOO") is "gloo", as is Backend.GLOO."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"
    THREADED = "threaded"

    _BackendPlugin = namedtuple("_BackendPlugin", ["creator_fn", "extended_api"])
    _plugins: ClassVar[dict[str, Any]] = {}

    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE, THREADED]
    # What a group without a named backend uses: gloo serves GPUs too, through the host.
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": GLOO}
    backend_capability: ClassVar[dict[str, list[str]]] = {
        GLOO: ["cpu", "cuda"],
        NCCL: ["cuda"],
        XCCL: ["xpu"],
        UCC: ["cpu", "cuda"],
        MPI: ["cpu", "cuda"],
        FAKE: ["cpu", "cuda", "hpu", "xpu"],
        THREADED: ["cpu", "cuda"],
    }
    backend_type_map: ClassVar[dict[str, BackendType]] = {
        UNDEFINED: BackendType.UNDEFINED,
        GLOO: BackendType.GLOO,
        NCCL: BackendType.NCCL,
        XCCL: BackendType.XCCL,
        UCC: BackendType.UCC,
        MPI: BackendType.MPI,
        FAKE: BackendType.CUSTOM,
        THREADED: BackendType.CUSTOM,
    }

    def __new__(cls, name: str) -> Any:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        value = getattr(Backend, name.upper(), Backend.UNDEFINED)
        return name.lower() if value == Backend.UNDEFINED else value

    @classmethod
    def register_backend(
        cls,
        name: str,
        func: Callable[..., Any],
        extended_api: bool = False,
        devices: str | list[str] | None = None,
    ) -> None:
        """Adds a backend: func(store, rank, size, timeout) makes one, or func(options of the
        group, options of the backend) under extended_api."""
        lower = name.lower()
        if not hasattr(Backend, name.upper()):
            setattr(Backend, name.upper(), lower)
        if lower not in Backend.backend_list:
            Backend.backend_list.append(lower)
        if devices is None:
            warnings.warn(
                f"Device capability of {name} unspecified, assuming `cpu` and `cuda` or `xpu`. "
                "Please specify it via the `devices` argument of `register_backend`.",
                stacklevel=2,
            )
            served = ["cpu", "cuda"]
        else:
            served = [devices] if isinstance(devices, str) else list(devices)
            for device in served:
                current = Backend.default_device_backend_map.get(device)
                if current is None or (current == "fake" and lower != "fake"):
                    Backend.default_device_backend_map[device] = lower
        Backend.backend_type_map[lower] = BackendType.CUSTOM
        Backend.backend_capability[lower] = served
        Backend._plugins[name.upper()] = Backend._BackendPlugin(func, extended_api)


class BackendConfig:
    """Which backend serves which device: of a name, or of "cpu:gloo,cuda:other"."""

    def __init__(self, backend: str) -> None:
        name = str(backend).lower()
        self.device_backend_map: dict[str, str]
        if name == Backend.UNDEFINED:
            self.device_backend_map = dict(Backend.default_device_backend_map)
        elif name in Backend.backend_list:
            self.device_backend_map = dict.fromkeys(Backend.backend_capability[name], Backend(name))
        elif ":" in name:
            self.device_backend_map = _pairs(name)
        else:
            warnings.warn(
                f"Device capability of {backend} unknown, assuming `cpu` and `cuda`. You can "
                "specify it in `device:backend` format in `init_process_group` call.",
                stacklevel=2,
            )
            self.device_backend_map = dict.fromkeys(("cpu", "cuda", "xpu"), Backend(name))

    def __repr__(self) -> str:
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())

    def get_device_backend_map(self) -> dict[str, str]:
        """Names of backends by type of device."""
        return self.device_backend_map


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in text.split(","):
        parts = pair.split(":")
        if len(parts) != 2:
            raise ValueError(
                f"Invalid device:backend pairing: {pair}. The custom backend string argument is "
                f"invalid: {text}. It must be in the format "
                '"<device_type1>:<backend1>,<device_type2>:<backend2>...". e.g. '
                "'cpu:gloo,cuda:nccl'"
            )
        if parts[0] in found:
            raise ValueError(f"Duplicate device type {parts[0]} in backend string: {text}.")
        found[parts[0]] = Backend(parts[1])
    return found


def get_default_backend_for_device(device: Any) -> str:
    """The name of the backend that serves a device if none is named."""
    kind = Device(device).type
    backend = Backend.default_device_backend_map.get(kind)
    if backend is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return backend


def is_backend_available(backend: str) -> bool:
    """Whether a backend can be used."""
    name = backend.lower()
    if name == Backend.NCCL:
        from tritorch.distributed.backends import nccl

        return nccl.is_available()
    if name == Backend.MPI:
        return importlib.util.find_spec("mpi4py") is not None
    return name in ("gloo", "fake", "threaded") or name.upper() in Backend._plugins


Backend.__module__ = BackendConfig.__module__ = "tritorch.distributed.distributed_c10d"
