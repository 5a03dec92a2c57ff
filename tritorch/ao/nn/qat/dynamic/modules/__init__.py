"""Layers for quantization-aware training of dynamically quantized models."""

from tritorch.ao.nn.qat.dynamic.modules.linear import Linear

__all__ = ["Linear"]
