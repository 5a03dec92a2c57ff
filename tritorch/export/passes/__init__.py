"""Passes over exported programs."""

from __future__ import annotations

from typing import Any

from tritorch.core.device import device as Device
from tritorch.core.tensor import Tensor
from tritorch.nn.parameter import Parameter

__all__ = ["move_to_device_pass"]


def move_to_device_pass(ep: Any, location: Any) -> Any:
    """The program on another device; location: the device, or one for each that there is."""

    def moved(device: Any) -> Any:
        if isinstance(location, dict):
            return location.get(str(device), device)
        return location

    def state(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        other = value.detach().to(moved(value.device))
        return Parameter(other, value.requires_grad) if isinstance(value, Parameter) else other

    for table in (ep.state_dict, ep.constants):
        table.update({name: state(value) for name, value in table.items()})
    for node in ep.graph.nodes:
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": Device(moved(node.kwargs["device"]))}
    ep.graph_module.recompile()
    return ep
