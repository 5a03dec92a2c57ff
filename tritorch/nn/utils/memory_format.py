"""Convolution weights in a memory format."""

from __future__ import annotations

from typing import Any

from tritorch.nn.modules.module import Module


def _convert(module: Module, memory_format: Any, ndim: int, names: tuple[str, ...]) -> Module:
    for child in module.modules():
        weight = getattr(child, "weight", None)
        if type(child).__name__ in names and weight is not None and weight.ndim == ndim:
            weight.data = weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Of all 2-d convolutions below a module."""
    return _convert(module, memory_format, 4, ("Conv2d", "ConvTranspose2d"))


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Of all 3-d convolutions below a module."""
    return _convert(module, memory_format, 5, ("Conv3d", "ConvTranspose3d"))
