"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.ops.shape.joining import cat


def _check(param: Tensor, device: object) -> object:
    if device is not None and param.device != device:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported."
        )
    return param.device


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters."""
    device, parts = None, []
    for param in parameters:
        device = _check(param, device)
        parts.append(param.view(-1))
    return cat(parts)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Any]) -> None:
    """Writes the slices of a vector into the parameters."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    device, start = None, 0
    for param in parameters:
        device = _check(param, device)
        count = param.numel()
        param.data = vec[start : start + count].view_as(param).data
        start += count
