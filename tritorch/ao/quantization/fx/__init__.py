"""Quantization of graphs."""

from tritorch.ao.quantization.fx.convert import convert
from tritorch.ao.quantization.fx.fuse import fuse
from tritorch.ao.quantization.fx.prepare import prepare
