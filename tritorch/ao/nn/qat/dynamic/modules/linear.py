"""Linear maps that train for dynamic quantization."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch.ao.nn import qat

__all__ = ["Linear"]


class Linear(qat.Linear):
    """A linear map with a fake-quantized weight, whose inputs will be quantized as they come."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        if not torch.ao.quantization.qconfig._activation_is_memoryless(qconfig):
            raise ValueError(
                "Dynamic QAT requires a memoryless observer.This means a MovingAverage observer "
                "with averaging constant equal to 1"
            )
