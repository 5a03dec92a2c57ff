"""Exchange of tensors with other libraries, as in torch.utils.dlpack."""

from __future__ import annotations

import enum
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.ops import factory

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """The kinds of memory that `__dlpack_device__` names."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor in the memory of another library's, or of a capsule, which is used up."""
    return factory.from_dlpack(ext_tensor)


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of DLPack with the tensor's memory."""
    return tensor.__dlpack__()
