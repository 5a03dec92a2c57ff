"""Intel's GPUs, which tritorch does not support: what torch.xpu is where there are none."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from tritorch.compat import missing_devices

__all__ = [
    "Event", "MemPool", "Stream", "StreamContext", "XPUGraph", "XPUPluggableAllocator",
    "can_device_access_peer", "change_current_allocator", "clock_rate", "current_device",
    "current_stream", "device", "device_count", "device_memory_used", "device_of", "empty_cache",
    "get_arch_list", "get_device_capability", "get_device_name", "get_device_properties",
    "get_gencode_flags", "get_per_process_memory_fraction", "get_rng_state", "get_rng_state_all",
    "get_stream_from_external", "graph", "graph_pool_handle", "init", "initial_seed",
    "is_available", "is_bf16_supported", "is_current_stream_capturing", "is_initialized",
    "is_tf32_supported", "make_graphed_callables", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_reserved", "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict",
    "memory_usage", "power_draw", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
    "seed", "seed_all", "set_device",
    "set_per_process_memory_fraction", "set_rng_state", "set_rng_state_all", "set_stream",
    "stream", "synchronize", "temperature", "use_mem_pool", "utilization",
]  # fmt: skip

default_generators: tuple[Any, ...] = ()
Event, Stream, MemPool = (missing_devices.dummy(name) for name in ("Event", "Stream", "MemPool"))
XPUGraph = missing_devices.dummy("XPUGraph")


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False without a device."""
    return False


def is_tf32_supported() -> bool:
    """False without a device."""
    return False


def get_arch_list() -> list[str]:
    """None."""
    return []


def get_gencode_flags() -> str:
    """None."""
    return ""


def manual_seed(seed: int) -> None:
    """Does nothing without a device."""


def seed() -> None:
    """Does nothing without a device."""


def manual_seed_all(seed: int) -> None:
    """Does nothing without a device."""


def seed_all() -> None:
    """Does nothing without a device."""


def get_rng_state_all() -> list[Any]:
    """Of no device."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Of no device: what states there are is refused."""
    for state in new_states:
        set_rng_state(state)


def empty_cache() -> None:
    """Does nothing without a device."""


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Nothing."""
    return OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Nothing."""
    return {}


def memory_snapshot(mempool_id: Any = None) -> list[Any]:
    """Nothing."""
    return []


memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = (
    missing_devices.zero
)
device = device_of = StreamContext = missing_devices.NoDevice


def stream(stream: Any) -> Any:
    """A scope in which a stream would be current."""
    return StreamContext(stream)


def _refusal(name: str) -> Any:
    return missing_devices.refusal(AssertionError, "Torch not compiled with XPU enabled", name)


init, current_device, set_device = map(_refusal, ("init", "current_device", "set_device"))
synchronize, current_stream, set_stream = map(
    _refusal, ("synchronize", "current_stream", "set_stream")
)
get_device_name, get_device_properties, get_device_capability = map(
    _refusal, ("get_device_name", "get_device_properties", "get_device_capability")
)
get_stream_from_external, initial_seed = map(_refusal, ("get_stream_from_external", "initial_seed"))
get_rng_state, set_rng_state = map(_refusal, ("get_rng_state", "set_rng_state"))
mem_get_info, get_per_process_memory_fraction, set_per_process_memory_fraction = map(
    _refusal,
    ("mem_get_info", "get_per_process_memory_fraction", "set_per_process_memory_fraction"),
)
can_device_access_peer, change_current_allocator, make_graphed_callables = map(
    _refusal, ("can_device_access_peer", "change_current_allocator", "make_graphed_callables")
)
reset_accumulated_memory_stats, reset_peak_memory_stats = map(
    _refusal, ("reset_accumulated_memory_stats", "reset_peak_memory_stats")
)
graph, use_mem_pool = map(_refusal, ("graph", "use_mem_pool"))
graph_pool_handle = missing_devices.dummy("_xpu_graph_pool_handle")
is_current_stream_capturing = missing_devices.dummy("_xpu_isCurrentStreamCapturing")
XPUPluggableAllocator = missing_devices.dummy("XPUPluggableAllocator")


def _sensor(name: str) -> Any:
    words = "pyzes is required; install it with 'pip install pyzes'."
    return missing_devices.refusal(ImportError, words, name)


clock_rate, device_memory_used, memory_usage = map(
    _sensor, ("clock_rate", "device_memory_used", "memory_usage")
)
power_draw, temperature, utilization = map(_sensor, ("power_draw", "temperature", "utilization"))
