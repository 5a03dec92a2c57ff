"""torch._C._nn: what `Module.to` asks of its arguments."""

from __future__ import annotations

from typing import Any

from tritorch.core.device import device as Device
from tritorch.nn.modules import module


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory_format) of the forms of `to`."""
    device, dtype, non_blocking, memory_format = module._parse_to(*args, **kwargs)
    return None if device is None else Device(device), dtype, non_blocking, memory_format
