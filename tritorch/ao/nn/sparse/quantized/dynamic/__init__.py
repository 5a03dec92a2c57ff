"""Dynamically quantized modules whose weights are sparse in blocks."""

from tritorch.ao.nn.sparse.quantized.dynamic.linear import Linear

__all__ = ["Linear"]
