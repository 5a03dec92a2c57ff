"""Devices: a type and, for CUDA, an index."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from tritorch import _C
from tritorch.core.naming import as_native, error_names, qualified
from tritorch.core.scopes import ABOUT_TO_CHANGE, ScopeItself
from tritorch.core.thread_state import carried

# PyTorch's types of devices; who has none of a kind can still name it.
_TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia",
    "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip


class _Renamed:
    """What a program calls the type of device that is nobody's (`rename_privateuse1_backend`)."""

    name = "privateuseone"


renamed = _Renamed()
STAND_INS: dict[str, str] = {}  # types of devices that are names of others: `lazy`


def _taken_apart(text: str, index: int | None) -> tuple[str, int | None]:
    """The type and the index of "cuda:1"; index: what was passed beside it."""
    if not text:
        raise RuntimeError("Device string must not be empty")
    match = re.fullmatch(r"([a-zA-Z_]+)(?::(0|[1-9]\d*))?", text)
    if match is None:
        raise RuntimeError(f"Invalid device string: '{text}'")
    if match[2] is None:
        return match[1], index
    if index is not None:
        raise RuntimeError(
            f"type (string) must not include an index because index was passed explicitly: {text}"
        )
    return match[1], int(match[2])


_UNSET: Any = object()  # an argument that was not passed


def _misfit(got: str) -> TypeError:
    return TypeError(
        f"device() received an invalid combination of arguments - got ({got}), but expected one "
        "of:\n * (torch.device device)\n * (str type, int index = -1)\n"
    )


def _from_keywords(type: Any, index: Any, other: dict[str, Any]) -> Any:
    """The first argument as `device(device=...)`, the only other name that it has."""
    if list(other) != ["device"] or type is not _UNSET or index is not None:
        got = "" if type is _UNSET else type.__class__.__name__
        named = [f"{key}={value.__class__.__name__}" for key, value in other.items()]
        raise _misfit(", ".join([got] * bool(got) + named))
    return other["device"]


def _as_index(index: Any, type: Any) -> int:
    """An index that is no plain int."""
    if not hasattr(index, "__index__"):
        raise TypeError(
            f"device(): argument 'index' (position 2) must be int, not {index.__class__.__name__}"
        )
    return index.__index__()


class device(ScopeItself):
    """`device("cuda:1")`, `device("cuda", 1)`, `device("cpu")`, `device(1)` (a CUDA index)."""

    __slots__ = ("backend", "index", "type")

    _told_by_value = True
    backend: str  # what computes: the type, but "meta" for a device that is only pretended
    type: str
    index: int | None

    def __init__(
        self, type: str | int | device = _UNSET, index: int | None = None, *more: Any, **other: Any
    ) -> None:
        if more:
            raise _misfit(", ".join(each.__class__.__name__ for each in (type, index, *more)))
        if other or type is _UNSET:
            type = _from_keywords(type, index, other)
        if index.__class__ is not int and index is not None:
            index = _as_index(index, type)
        if isinstance(type, device):
            if index is not None:
                raise TypeError(
                    "device(): argument 'type' (position 1) must be str, not torch.device"
                )
            index = type.index
            type = type.type
        elif hasattr(type, "__index__") and not isinstance(type, (bool, _C.TensorBase)):
            index = type.__index__()
            if index >= 0 and not _C.device_count():
                raise RuntimeError("Cannot access accelerator device when none is available.")
            type = "cuda"
        elif isinstance(type, (str, bytes)):
            if isinstance(type, bytes):
                type = type.decode()
            if type not in _TYPES:
                type, index = _taken_apart(type, index)
        elif index is not None:
            kind = error_names.get(type.__class__, type.__class__.__name__)
            raise TypeError(f"device(): argument 'type' (position 1) must be str, not {kind}")
        else:
            raise _misfit(type.__class__.__name__)
        if type not in _TYPES:
            if type != renamed.name:
                raise RuntimeError(
                    f"Expected one of {', '.join(_TYPES)} device type at start of device string: "
                    f"{type}"
                )
        elif type == "privateuseone":
            type = renamed.name
        elif type in STAND_INS:
            type = STAND_INS[type]
        if index is not None:
            if index < 0:
                raise RuntimeError("Device index must not be negative")
            index = (index + 128) % 256 - 128  # PyTorch keeps it in a byte
            if index < 0:
                index = None if index == -1 else index
        object.__setattr__(self, "backend", type)
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "index", index)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'tritorch.device' objects is not writable")

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (
            ")" if self.index is None else f", index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def _unordered(self, other: object) -> bool:
        raise TypeError("comparison not implemented")

    __lt__ = __le__ = __gt__ = __ge__ = _unordered

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type,) if self.index is None else (self.type, self.index)

    def changes(self) -> Any:
        """`with device("cuda"):` factories make their tensors here."""
        return device_changes(self)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As a decorator: the function runs inside `with device(...)`."""

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside


device.__module__ = "tritorch"


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.devices: list[device] = []  # `with device(...)`, innermost last


entered = carried(_Scopes())


def device_changes(where: device) -> tuple[Any, ...]:
    """The changes of `with where:`, Note [Scopes]."""
    return ABOUT_TO_CHANGE, (entered, "devices", [*entered.devices, where])


class PretendedDevice(device):
    """The device that a fake tensor says it is on; equal to the real one."""

    __slots__ = ("mode",)

    mode: Any  # the FakeTensorMode that made it

    def __init__(self, where: device, mode: Any) -> None:
        super().__init__(where.type, where.index)
        object.__setattr__(self, "backend", "meta")
        object.__setattr__(self, "mode", mode)


as_native(device, "torch.device")


class _Pretence(threading.local):
    mode: Any = None  # the FakeTensorMode that is entered


pretence = carried(_Pretence())
pretending: list[Any] = []  # the modes that any thread has entered: mostly none


def pretence_changes(mode: Any) -> tuple[Any, ...]:
    """The changes in which a mode pretends devices, Note [Scopes]."""
    add, drop = partial(pretending.append, mode), partial(pretending.remove, mode)
    return (_C.withhold_plans, 1), (add, None, drop), (pretence, "mode", mode)


_HERE = ("cpu", "cuda", "meta")
_BACKENDS = {"mkldnn": "Mkldnn", "opengl": "OpenGL", "opencl": "OpenCL", "vulkan": "Vulkan",
             "lazy": "Lazy"}  # fmt: skip


def _without(kind: str) -> Exception:
    """The error of who wants a tensor on a device of which there is none."""
    if kind in ("xpu", "mtia"):
        return AssertionError(f"Torch not compiled with {kind.upper()} enabled")
    if kind in ("hpu", renamed.name):
        return ModuleNotFoundError(f"No module named '{qualified(kind)}'")
    backend = _BACKENDS.get(kind, kind.upper())
    return NotImplementedError(
        f"Could not run 'aten::empty.memory_format' with arguments from the '{backend}' backend: "
        "tritorch computes on the CPU and on NVIDIA's GPUs."
    )


def resolved(where: Any) -> device:
    """A device object with an index: the current GPU's if none was given.

    Inside of a FakeTensorMode it is a pretended one, without asking the driver."""
    if type(where) not in (device, PretendedDevice):
        where = device(where)
    pretends = pretending and pretence.mode is not None and where.type != "meta"
    if pretends and type(where) is device:
        index = 0 if where.type == "cuda" and where.index is None else where.index
        return PretendedDevice(device(where.type, index), pretence.mode)
    if where.type not in _HERE and type(where) is device:
        raise _without(where.type)
    if where.type == "cuda" and where.index is None:
        return device("cuda", _C.current_device())
    return where


def cuda_index(where: Any) -> int:
    """The index behind an int, string, device or None (the current device)."""
    if where is None:
        return _C.current_device()
    if isinstance(where, int) and not isinstance(where, bool):
        return _C.current_device() if where < 0 else where
    resolved = where if isinstance(where, device) else device(where)
    if resolved.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {resolved}")
    return _C.current_device() if resolved.index is None else resolved.index
