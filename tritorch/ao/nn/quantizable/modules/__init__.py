"""Recurrent and attention modules for static quantization."""

from tritorch.ao.nn.quantizable.modules.activation import MultiheadAttention
from tritorch.ao.nn.quantizable.modules.rnn import LSTM, LSTMCell

__all__ = ["LSTM", "LSTMCell", "MultiheadAttention"]
