"""Apple's GPUs, which tritorch does not support: what torch.mps is where there are none."""

from __future__ import annotations

__all__ = ["device_count", "is_available", "manual_seed", "seed"]


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Does nothing without a device."""


def seed() -> None:
    """Does nothing without a device."""
