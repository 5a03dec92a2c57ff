"""Fused dynamically quantized modules."""

from tritorch.ao.nn.intrinsic.quantized.dynamic.modules.linear_relu import LinearReLU

__all__ = ["LinearReLU"]
