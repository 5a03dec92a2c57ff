"""What belongs to a lazy device: its closures."""

from __future__ import annotations

from typing import Any, ClassVar

from tritorch.compat.torch_private._lazy import steps
from tritorch.core import locks


class DeviceContext:
    """A device, and what programs leave there."""

    _CONTEXTS: ClassVar[dict[str, DeviceContext]] = {}
    _CONTEXTS_LOCK = locks.lock()

    def __init__(self, device: str) -> None:
        self.device = device
        self.step_closures: list[Any] = []
        self.async_step_closures: list[Any] = []


def get_device_context(device: Any = None) -> DeviceContext:
    """The context of a device, by default of the one that computes."""
    name = steps.where().upper() if device is None else str(device)
    with DeviceContext._CONTEXTS_LOCK:
        return DeviceContext._CONTEXTS.setdefault(name, DeviceContext(name))
