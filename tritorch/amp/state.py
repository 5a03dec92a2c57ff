"""What autocast is set to, in this thread."""

from __future__ import annotations

import threading
from typing import Any

from tritorch import _C
from tritorch.core.deprecation import deprecated
from tritorch.core.device import device as Device
from tritorch.core.dtype import bfloat16, dtype, float16
from tritorch.core.scopes import ABOUT_TO_CHANGE
from tritorch.core.thread_state import carried


class _State(threading.local):
    def __init__(self) -> None:
        self.enabled = {"cpu": False, "cuda": False}
        self.dtypes = {"cpu": bfloat16, "cuda": float16}
        self.caches = True
        self.nesting = 0
        self.cast: dict[Any, Any] = {}  # parameters' casts, kept until the outermost region ends


state = carried(_State())


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows a type of device."""
    kind = Device(device_type).type
    return kind in state.enabled or kind in _away.set


def _known(
    device_type: Any,
    words: str = "unknown device type for autocast in get_autocast_dispatch_key_from_device_type",
) -> str:
    if device_type not in state.enabled:
        device_type = Device(device_type).type  # "cuda:0"; it says what is no type at all
        if device_type not in state.enabled:
            raise RuntimeError(words)
    return device_type


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether functions of tensors on a type of device are autocast; by default on the GPU."""
    if device_type in _away.set:
        return _away.set[device_type][0]
    return state.enabled[_known(device_type or "cuda")]


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Turns autocast on or off; with one argument, on the GPU."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    if device_type in _away.set:
        _away.set[device_type] = (bool(enabled), _away.set[device_type][1])
        return
    _C.ambient_changes()
    state.enabled[_known(device_type)] = bool(enabled)
    _C.set_autocast(any(state.enabled.values()))


def get_autocast_dtype(device_type: str) -> dtype:
    """The dtype that autocast lowers to."""
    if device_type in _away.set:
        return _away.set[device_type][1]
    return state.dtypes[_known(device_type, "unsupported scalarType")]


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Sets the dtype that autocast lowers to."""
    if device_type in _away.set:
        _away.set[device_type] = (_away.set[device_type][0], dtype)
        return
    _C.ambient_changes()
    state.dtypes[_known(device_type)] = dtype


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept for their next use in a region."""
    return state.caches


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether casts of parameters are kept for their next use in a region."""
    _C.ambient_changes()
    state.caches = bool(enabled)


def clear_autocast_cache() -> None:
    """Forgets the casts of parameters."""
    state.cast.clear()


def autocast_increment_nesting() -> int:
    """One region deeper."""
    state.nesting += 1
    return state.nesting


def autocast_decrement_nesting() -> int:
    """Out of a region; the caller clears the cache when none is left."""
    state.nesting -= 1
    return state.nesting


def state_changes(device_type: str, enabled: bool, dtype: dtype, caches: bool) -> Any:
    """The changes of a region: Note [Scopes].  The outermost one has casts of its own."""
    nesting = (state, "nesting", state.nesting + 1)
    cast = (state, "cast", state.cast if state.nesting else {})
    kept = (ABOUT_TO_CHANGE, (state, "caches", bool(caches)), nesting, cast)
    if device_type in _away.set:
        return (*kept, (_away, "set", {**_away.set, device_type: (bool(enabled), dtype)}))
    kind = _known(device_type)
    on = {**state.enabled, kind: bool(enabled)}
    return (
        *kept,
        (state, "enabled", on),
        (state, "dtypes", {**state.dtypes, kind: dtype}),
        (_C.set_autocast, any(on.values())),
    )


# ---- devices that are not here -------------------------------------------------------------------


# Programs switch autocast for them on and off; there is no tensor on one that it could act on.
class _Away:
    def __init__(self) -> None:
        self.set: dict[str, tuple[bool, dtype]] = {
            **dict.fromkeys(("ipu", "mps", "mtia", "privateuseone", "xpu"), (False, float16)),
            **dict.fromkeys(("hpu", "maia", "xla"), (False, bfloat16)),
        }


_away = _Away()


def is_autocast_ipu_enabled() -> bool:
    """What `set_autocast_ipu_enabled` was given last."""
    return _away.set["ipu"][0]


def set_autocast_ipu_enabled(enabled: bool) -> None:
    """Kept for IPUs, of which there are none."""
    _away.set["ipu"] = (bool(enabled), _away.set["ipu"][1])


def get_autocast_ipu_dtype() -> dtype:
    """The dtype that autocast would lower to on an IPU."""
    return _away.set["ipu"][1]


def set_autocast_ipu_dtype(dtype: dtype) -> None:
    """Sets the dtype that autocast would lower to on an IPU."""
    _away.set["ipu"] = (_away.set["ipu"][0], dtype)


def is_autocast_xla_enabled() -> bool:
    """What `set_autocast_xla_enabled` was given last."""
    return _away.set["xla"][0]


def set_autocast_xla_enabled(enabled: bool) -> None:
    """Kept for XLA's devices, of which there are none."""
    _away.set["xla"] = (bool(enabled), _away.set["xla"][1])


def get_autocast_xla_dtype() -> dtype:
    """The dtype that autocast would lower to on XLA's devices."""
    return _away.set["xla"][1]


def set_autocast_xla_dtype(dtype: dtype) -> None:
    """Sets the dtype that autocast would lower to on XLA's devices."""
    _away.set["xla"] = (_away.set["xla"][0], dtype)


# ---- older names ---------------------------------------------------------------------------------


@deprecated(
    "torch.is_autocast_cpu_enabled() is deprecated. Please use "
    "torch.is_autocast_enabled('cpu') instead.",
    DeprecationWarning,
)
def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled("cpu")`."""
    return is_autocast_enabled("cpu")


@deprecated(
    "torch.set_autocast_cpu_enabled(enabled) is deprecated. Please use "
    "torch.set_autocast_enabled('cpu', enabled) instead.",
    DeprecationWarning,
)
def set_autocast_cpu_enabled(enabled: bool) -> None:
    """`set_autocast_enabled("cpu", enabled)`."""
    set_autocast_enabled("cpu", enabled)


@deprecated(
    "torch.get_autocast_cpu_dtype() is deprecated. Please use torch.get_autocast_dtype('cpu') "
    "instead.",
    DeprecationWarning,
)
def get_autocast_cpu_dtype() -> dtype:
    """`get_autocast_dtype("cpu")`."""
    return get_autocast_dtype("cpu")


@deprecated(
    "torch.set_autocast_cpu_dtype(dtype) is deprecated. Please use "
    "torch.set_autocast_dtype('cpu', dtype) instead.",
    DeprecationWarning,
)
def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """`set_autocast_dtype("cpu", dtype)`."""
    set_autocast_dtype("cpu", dtype)


@deprecated(
    "torch.get_autocast_gpu_dtype() is deprecated. Please use "
    "torch.get_autocast_dtype('cuda') instead.",
    DeprecationWarning,
)
def get_autocast_gpu_dtype() -> dtype:
    """`get_autocast_dtype("cuda")`."""
    return get_autocast_dtype("cuda")


@deprecated(
    "torch.set_autocast_gpu_dtype(dtype) is deprecated. Please use "
    "torch.set_autocast_dtype('cuda', dtype) instead.",
    DeprecationWarning,
)
def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """`set_autocast_dtype("cuda", dtype)`."""
    set_autocast_dtype("cuda", dtype)
