"""Embeddings with fake-quantized weights."""

from __future__ import annotations

from typing import Any, ClassVar

from tritorch import nn
from tritorch.ao.nn.qat.modules._checks import check_float, check_rows, copied, required
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as F

__all__ = ["Embedding", "EmbeddingBag"]


def _check(cls: Any, mod: Any, what: str) -> None:
    if type(mod) is not cls._FLOAT_MODULE:
        raise AssertionError(
            f" qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}"
        )
    check_float(mod)
    check_rows(mod.qconfig, what)


class Embedding(nn.Embedding):
    """An embedding; `weight_fake_quant` rounds its weight as quantization will."""

    _FLOAT_MODULE: ClassVar[Any] = nn.Embedding

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Any = None, device: Any = None, dtype: Any = None,
        qconfig: Any = None,
    ) -> None:  # fmt: skip
        where = {"device": device, "dtype": dtype}
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type,
                         scale_grad_by_freq, sparse, _weight, **where)  # fmt: skip
        self.qconfig = required(qconfig)
        check_rows(qconfig, "Embedding")
        self.weight_fake_quant = qconfig.weight(factory_kwargs=where)

    def forward(self, input: Tensor) -> Tensor:
        """The rows of the indices."""
        return F.embedding(
            input, self.weight_fake_quant(self.weight), self.padding_idx, self.max_norm,
            self.norm_type, self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that trains the weight of a float one."""
        _check(cls, mod, "Embedding")
        return cls(
            mod.num_embeddings, mod.embedding_dim, mod.padding_idx, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.sparse, mod.weight, qconfig=mod.qconfig,
        )  # fmt: skip

    def to_float(self) -> Any:
        """The float module with the same weight."""
        embedding = nn.Embedding(
            self.num_embeddings, self.embedding_dim, self.padding_idx, self.max_norm,
            self.norm_type, self.scale_grad_by_freq, self.sparse, None,
        )  # fmt: skip
        embedding.weight = copied(self.weight)
        return embedding.train(self.training)


class EmbeddingBag(nn.EmbeddingBag):
    """Bags of an embedding; `weight_fake_quant` rounds its weight as quantization will."""

    _FLOAT_MODULE: ClassVar[Any] = nn.EmbeddingBag

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, _weight: Any = None, include_last_offset: bool = False,
        padding_idx: int | None = None, qconfig: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        where = {"device": device, "dtype": dtype}
        super().__init__(
            num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            _weight, include_last_offset, padding_idx, **where,
        )  # fmt: skip
        self.qconfig = required(qconfig)
        check_rows(qconfig, "Embedding Bag")
        self.weight_fake_quant = qconfig.weight(factory_kwargs=where)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """The reduced bags."""
        return F.embedding_bag(
            input, self.weight_fake_quant(self.weight), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
            self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that trains the weight of a float one."""
        _check(cls, mod, "Embedding Bag")
        return cls(
            mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.mode, mod.sparse, mod.weight, mod.include_last_offset,
            mod.padding_idx, qconfig=mod.qconfig,
        )  # fmt: skip

    def to_float(self) -> Any:
        """The float module with the same weight."""
        bag = nn.EmbeddingBag(
            self.num_embeddings, self.embedding_dim, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, None, self.include_last_offset,
            self.padding_idx,
        )  # fmt: skip
        bag.weight = copied(self.weight)
        return bag.train(self.training)
