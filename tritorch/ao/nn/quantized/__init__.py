"""Quantized modules: integer weights and activations."""

from tritorch.ao.nn.quantized import functional as functional
from tritorch.ao.nn.quantized.modules import *  # noqa: F403
from tritorch.ao.nn.quantized.modules import MaxPool2d as MaxPool2d, __all__ as __all__
