"""Dynamically quantized layers."""

from tritorch.ao.nn.quantized.dynamic.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from tritorch.ao.nn.quantized.dynamic.modules.linear import Linear
from tritorch.ao.nn.quantized.dynamic.modules.rnn import GRU, LSTM, GRUCell, LSTMCell, RNNCell

__all__ = [
    "GRU",
    "LSTM",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "GRUCell",
    "LSTMCell",
    "Linear",
    "RNNCell",
]
