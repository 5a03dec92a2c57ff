"""Apple's GPUs, which tritorch does not support: what torch.mps is where there are none."""

from __future__ import annotations

from typing import Any

from tritorch.compat import missing_devices

__all__ = [
    "Event", "compile_shader", "current_allocated_memory", "device_count",
    "driver_allocated_memory", "empty_cache", "get_rng_state", "is_available", "load_metallib",
    "manual_seed", "recommended_max_memory", "seed", "set_per_process_memory_fraction",
    "set_rng_state", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Does nothing without a device."""


def empty_cache() -> None:
    """Does nothing without a device."""


def _refusal(name: str, of_driver: str) -> Any:
    words = f"Cannot execute {of_driver}() without MPS backend."
    return missing_devices.refusal(RuntimeError, words, name)


seed = _refusal("seed", "getDefaultGenerator")
get_rng_state = _refusal("get_rng_state", "getDefaultGenerator")
set_rng_state = _refusal("set_rng_state", "getDefaultGenerator")
synchronize = _refusal("synchronize", "deviceSynchronize")
current_allocated_memory = _refusal("current_allocated_memory", "getCurrentAllocatedMemory")
driver_allocated_memory = _refusal("driver_allocated_memory", "getDriverAllocatedMemory")
recommended_max_memory = _refusal("recommended_max_memory", "getRecommendedMaxMemory")
set_per_process_memory_fraction = _refusal("set_per_process_memory_fraction", "setMemoryFraction")
Event = _refusal("Event", "acquireEvent")
compile_shader = load_metallib = missing_devices.refusal(
    RuntimeError, "MPS is not available", "compile_shader"
)
