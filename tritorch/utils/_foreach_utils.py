"""Which tensors an optimizer steps together."""

from __future__ import annotations

from typing import Any

from tritorch.core.device import device as Device, renamed
from tritorch.core.tensor import Tensor

TensorListList = Any
Indices = Any
_foreach_supported_types = [Tensor]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Where there are kernels of many tensors, besides the CPU."""
    return ["cuda", "xpu", "mtia", renamed.name]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Where there are kernels of whole steps."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", renamed.name]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Any, with_indices: bool = False
) -> dict[Any, Any]:
    """Lists of tensors side by side, by the device and dtype of those in the first list."""
    groups: dict[Any, Any] = {}
    for place, row in enumerate(zip(*tensorlistlist)):
        first = next((x for x in tensorlistlist[0][place : place + 1] if x is not None), None)
        key = (None, None) if first is None else (first.device, first.dtype)
        lists, indices = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for into, each in zip(lists, row):
            into.append(each)
        if with_indices:
            indices.append(place)
    return groups


def _device_has_foreach_support(device: Device) -> bool:
    """Whether there are kernels of many tensors on a device."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Any], device: Device) -> bool:
    """Whether these can be stepped together there."""
    supported = all(t is None or type(t) in _foreach_supported_types for t in tensors)
    return _device_has_foreach_support(device) and supported
