"""Modules whose weights are fake-quantized while they train."""

from tritorch.ao.nn.qat.modules.conv import Conv1d, Conv2d, Conv3d
from tritorch.ao.nn.qat.modules.embedding_ops import Embedding, EmbeddingBag
from tritorch.ao.nn.qat.modules.linear import Linear

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear"]
