"""The device on which constructors make tensors, as a context."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tritorch.core.device import device as Device
from tritorch.core.defaults import get_default_device


def set_device(device: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator within whose functions constructors make tensors on a device."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with Device(device):
                return function(*args, **kwargs)

        return wrapper

    return decorate


CURRENT_DEVICE = None


def device_or_default(device: Any = None) -> Any:
    """The device given, or the one of constructors."""
    return get_default_device() if device is None else Device(device)
