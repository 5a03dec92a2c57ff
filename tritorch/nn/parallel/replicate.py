"""Copies of a module on several GPUs, whose gradients come back to the module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.core.device import cuda_index, device as Device
from tritorch.nn.modules.module import Module

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """A copy of a module for each GPU.

    Their parameters are copies that remember where they come from: a pass back through a replica
    adds to the gradients of the module; with `detach` they do not."""
    return [_replica(network, Device("cuda", cuda_index(d)), detach) for d in devices]


def _replica(network: Module, where: Device, detach: bool) -> Module:
    copies: dict[int, Any] = {}

    def moved(tensor: Any, keep: bool) -> Any:
        if id(tensor) not in copies:
            source = tensor if keep else tensor.detach()
            copies[id(tensor)] = (
                source.view_as(source) if source.device == where else source.to(where)
            )
        return copies[id(tensor)]

    replicas = {module: module._replicate_for_data_parallel() for module in network.modules()}
    for module, replica in replicas.items():
        replica._former_parameters = {}
        for name, child in module._modules.items():
            replica._modules[name] = None if child is None else replicas[child]
        for name, parameter in module._parameters.items():
            if parameter is None:
                replica._parameters[name] = None
                continue
            copy = moved(parameter, not detach)
            replica.__dict__[name] = copy  # no parameter: it is no leaf
            replica._former_parameters[name] = copy
        for name, buffer in module._buffers.items():
            keep = buffer is not None and buffer.requires_grad and not detach
            replica._buffers[name] = None if buffer is None else moved(buffer, keep)
    return replicas[network]
