"""Fused modules with quantized weights and float activations."""

from tritorch.ao.nn.intrinsic.quantized.dynamic.modules.linear_relu import LinearReLU

__all__ = ["LinearReLU"]
