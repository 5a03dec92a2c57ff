"""Exchange of tensors with other libraries, as in torch.utils.dlpack."""

from __future__ import annotations

from typing import Any

from tritorch.core.memory_kinds import DLDeviceType
from tritorch.core.tensor import Tensor
from tritorch.ops.shape import factory

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor in the memory of another library's, or of a capsule, which is used up."""
    return factory.from_dlpack(ext_tensor)


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of DLPack with the tensor's memory."""
    return tensor.detach().__dlpack__()
