"""Intel's GPUs, which tritorch does not support: what torch.xpu is where there are none."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "current_device", "device_count", "empty_cache", "get_device_capability", "get_device_name",
    "get_device_properties", "init", "is_available", "is_bf16_supported", "is_initialized",
    "manual_seed", "manual_seed_all", "seed", "seed_all", "set_device", "synchronize",
]  # fmt: skip


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


def manual_seed(seed: int) -> None:
    """Does nothing without a device."""


def seed() -> None:
    """Does nothing without a device."""


manual_seed_all, seed_all = manual_seed, seed


def empty_cache() -> None:
    """Does nothing without a device."""


def init(*args: Any, **kwargs: Any) -> NoReturn:
    """Says that there are none."""
    raise AssertionError("Torch not compiled with XPU enabled")


current_device = set_device = synchronize = init
get_device_name = get_device_properties = get_device_capability = init
