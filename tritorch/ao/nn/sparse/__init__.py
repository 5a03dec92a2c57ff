"""Modules with sparse weights."""

from tritorch.ao.nn.sparse import quantized as quantized
