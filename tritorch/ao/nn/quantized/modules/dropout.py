"""Dropout of quantized models, which do not train."""

from __future__ import annotations

from typing import Any

from tritorch import nn
from tritorch.core.tensor import Tensor

__all__ = ["Dropout"]


class Dropout(nn.Dropout):
    """The input as it is."""

    def forward(self, input: Tensor) -> Tensor:
        """The input."""
        return input

    def _get_name(self) -> str:
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of a float one."""
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        """The quantized module of a float one."""
        return cls(mod.p, mod.inplace)
