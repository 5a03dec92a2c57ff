"""Modules that train for dynamic quantization."""

from tritorch.ao.nn.qat.dynamic.modules.linear import Linear

__all__ = ["Linear"]
