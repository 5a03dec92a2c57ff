"""Modules composed of parts that can be observed and quantized."""

from tritorch.ao.nn.quantizable.modules.activation import MultiheadAttention
from tritorch.ao.nn.quantizable.modules.rnn import LSTM, LSTMCell

__all__ = ["LSTM", "LSTMCell", "MultiheadAttention"]
