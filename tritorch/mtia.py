"""Meta's accelerators, which tritorch does not support: what torch.mtia is where there are none."""

from __future__ import annotations

from typing import Any

from tritorch.compat import missing_devices
from tritorch.xpu import (
    device_count,
    empty_cache,
    get_rng_state_all,
    is_available,
    is_initialized,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
)

__all__ = [
    "MTIAGraph", "attach_out_of_memory_observer",
    "current_device", "current_stream", "default_stream", "device", "device_count",
    "empty_cache", "get_device_capability", "get_device_properties", "get_rng_state",
    "get_rng_state_all", "graph", "graph_pool_handle", "init", "initial_seed", "is_available",
    "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "memory_allocated", "memory_stats", "record_memory_history",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state",
    "set_rng_state_all", "set_stream", "snapshot",
    "stream", "synchronize",
]  # fmt: skip


def is_bf16_supported() -> bool:
    """True, as PyTorch says without a device too."""
    return True


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Nothing."""
    return {}


memory_allocated = max_memory_allocated = missing_devices.zero
reset_peak_memory_stats = record_memory_history = missing_devices.nothing
device = missing_devices.NoDevice


def _refusal(name: str, of_driver: str) -> Any:
    words = f"Cannot execute {of_driver}() without MTIA backend."
    return missing_devices.refusal(RuntimeError, words, name)


def _absent(name: str) -> Any:
    words = (
        "Torch not compiled with MTIA enabled. Ensure you have `import "
        "mtia.host_runtime.torch_mtia.dynamic_library` in your python src file and include "
        "`//mtia/host_runtime/torch_mtia:torch_mtia` as your target dependency!"
    )
    return missing_devices.refusal(AssertionError, words, name)


init, get_rng_state, initial_seed = map(_absent, ("init", "get_rng_state", "initial_seed"))
set_rng_state = _absent("set_rng_state")
current_device = _refusal("current_device", "getCurrentDevice")
current_stream = _refusal("current_stream", "getCurrentDevice")
default_stream = _refusal("default_stream", "getCurrentDevice")
stream = _refusal("stream", "getCurrentDevice")
synchronize = _refusal("synchronize", "getCurrentDevice")
set_device = _refusal("set_device", "setCurrentDevice")
get_device_capability = _refusal("get_device_capability", "getDeviceCapability")
get_device_properties = _refusal("get_device_properties", "getDeviceProperties")
graph_pool_handle = _refusal("graph_pool_handle", "graphPoolHandle")
snapshot = _refusal("snapshot", "memorySnapshot")
MTIAGraph = _refusal("MTIAGraph", "mtiagraphCreate")
graph = _refusal("graph", "getCurrentDevice")
set_stream = _refusal("set_stream", "setCurrentStream")
attach_out_of_memory_observer = _refusal(
    "attach_out_of_memory_observer", "attachOutOfMemoryObserver"
)


def set_rng_state_all(new_states: Any) -> None:
    """Of no device: what states there are is refused."""
    for state in new_states:
        set_rng_state(state)
