"""Quantized modules whose weights are sparse in blocks."""

from tritorch.ao.nn.sparse.quantized import dynamic
from tritorch.ao.nn.sparse.quantized.linear import Linear, LinearPackedParams

__all__ = ["Linear", "LinearPackedParams", "dynamic"]
