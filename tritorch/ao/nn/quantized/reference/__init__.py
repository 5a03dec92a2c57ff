"""Float modules that compute with quantized and dequantized weights."""

from tritorch.ao.nn.quantized.reference.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from tritorch.ao.nn.quantized.reference.modules.linear import Linear
from tritorch.ao.nn.quantized.reference.modules.rnn import GRU, LSTM, GRUCell, LSTMCell, RNNCell
from tritorch.ao.nn.quantized.reference.modules.sparse import Embedding, EmbeddingBag

__all__ = [
    "GRU",
    "LSTM",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Embedding",
    "EmbeddingBag",
    "GRUCell",
    "LSTMCell",
    "Linear",
    "RNNCell",
]
