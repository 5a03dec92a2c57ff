"""Quantized layers."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch.ao.nn.quantized.modules.activation import (
    ELU,
    Hardswish,
    LeakyReLU,
    MultiheadAttention,
    PReLU,
    ReLU6,
    Sigmoid,
    Softmax,
)
from tritorch.ao.nn.quantized.modules.batchnorm import BatchNorm2d, BatchNorm3d
from tritorch.ao.nn.quantized.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from tritorch.ao.nn.quantized.modules.dropout import Dropout
from tritorch.ao.nn.quantized.modules.embedding_ops import Embedding, EmbeddingBag
from tritorch.ao.nn.quantized.modules.functional_modules import (
    FloatFunctional,
    FXFloatFunctional,
    QFunctional,
)
from tritorch.ao.nn.quantized.modules.linear import Linear
from tritorch.ao.nn.quantized.modules.normalization import (
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
)
from tritorch.ao.nn.quantized.modules.rnn import LSTM
from tritorch.ao.nn.quantized.modules.utils import qparams_of
from tritorch.nn import MaxPool2d as MaxPool2d

__all__ = [
    "ELU",
    "LSTM",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "DeQuantize",
    "Dropout",
    "Embedding",
    "EmbeddingBag",
    "FXFloatFunctional",
    "FloatFunctional",
    "GroupNorm",
    "Hardswish",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MultiheadAttention",
    "PReLU",
    "QFunctional",
    "Quantize",
    "ReLU6",
    "Sigmoid",
    "Softmax",
]  # fmt: skip


class Quantize(torch.nn.Module):
    """Quantizes floats with a scale and a zero point."""

    scale: torch.Tensor
    zero_point: torch.Tensor

    def __init__(self, scale: Any, zero_point: Any, dtype: Any, factory_kwargs: Any = None) -> None:
        where = torch.nn.factory_kwargs(factory_kwargs)
        super().__init__()
        self.register_buffer("scale", torch.tensor([scale], **where))
        self.register_buffer(
            "zero_point", torch.tensor([zero_point], **{**where, "dtype": torch.long})
        )
        self.dtype = dtype

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """The quantized tensor."""
        return torch.quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module of an observed QuantStub."""
        if not hasattr(mod, "activation_post_process"):
            raise AssertionError(
                f"Module {type(mod).__name__} must have activation_post_process attribute"
            )
        scale, zero_point = qparams_of(mod)
        return Quantize(scale, zero_point, mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        """The scale, the zero point and the dtype."""
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(torch.nn.Module):
    """Gives the floats of a quantized tensor."""

    def forward(self, Xq: torch.Tensor) -> torch.Tensor:
        """The floats."""
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module of a DeQuantStub."""
        return DeQuantize()
