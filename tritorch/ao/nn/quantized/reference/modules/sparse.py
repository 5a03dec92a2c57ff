"""Reference modules of embeddings."""

from __future__ import annotations

from typing import Any

from tritorch import nn
from tritorch.ao.nn.quantized.reference.modules.utils import ReferenceQuantizedModule
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as F

__all__ = ["Embedding", "EmbeddingBag"]


class Embedding(nn.Embedding, ReferenceQuantizedModule):
    """An embedding with a weight that is rounded to what quantization gives."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Tensor | None = None, device: Any = None, dtype: Any = None,
        weight_qparams: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, _weight, device=device, dtype=dtype,
        )  # fmt: skip
        self._init_weight_qparams(weight_qparams, device)

    def _get_name(self) -> str:
        return "QuantizedEmbedding(Reference)"

    def forward(self, input: Tensor) -> Tensor:
        """The rows of the indices."""
        return F.embedding(
            input, self.get_weight(), self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, weight_qparams: Any) -> Any:
        """The reference module of a float one."""
        return cls(
            mod.num_embeddings, mod.embedding_dim, mod.padding_idx, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.sparse, mod.weight, mod.weight.device, mod.weight.dtype,
            weight_qparams,
        )  # fmt: skip


class EmbeddingBag(nn.EmbeddingBag, ReferenceQuantizedModule):
    """Bags of an embedding with a weight that is rounded to what quantization gives."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False,
        padding_idx: int | None = None, device: Any = None, dtype: Any = None,
        weight_qparams: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            _weight, include_last_offset, padding_idx, device=device, dtype=dtype,
        )  # fmt: skip
        self._init_weight_qparams(weight_qparams, device)

    def _get_name(self) -> str:
        return "QuantizedEmbedding(Reference)"

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """The reduced bags."""
        return F.embedding_bag(
            input, self.get_weight(), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
            self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    @classmethod
    def from_float(
        cls, mod: Any, weight_qparams: Any, use_precomputed_fake_quant: bool = False
    ) -> Any:
        """The reference module of a float one."""
        return cls(
            mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.mode, mod.sparse, mod.weight, mod.include_last_offset,
            mod.padding_idx, mod.weight.device, mod.weight.dtype, weight_qparams,
        )  # fmt: skip
