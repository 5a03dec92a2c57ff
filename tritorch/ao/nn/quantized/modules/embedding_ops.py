"""Embeddings with quantized weights; their results are floats."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn import qat
from tritorch.ao.nn.quantized.modules.utils import _hide_packed_params_repr, _quantize_weight
from tritorch.core.tensor import Tensor

__all__ = ["Embedding", "EmbeddingBag", "EmbeddingPackedParams"]


def _empty_rows(num_embeddings: int, embedding_dim: int, dtype: Any) -> Tensor:
    return torch._empty_per_channel_affine_quantized(
        [num_embeddings, embedding_dim], scales=torch.ones(num_embeddings, dtype=torch.float),
        zero_points=torch.zeros(num_embeddings, dtype=torch.float), axis=0, dtype=dtype,
    )  # fmt: skip


class EmbeddingPackedParams(nn.Module):
    """A weight, as the kernels want it."""

    _version = 1

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: Any = torch.quint8) -> None:
        super().__init__()
        self.dtype = dtype
        if dtype not in (torch.quint8, torch.quint4x2):
            raise NotImplementedError(
                "Unsupported dtype on quantized embedding! Supports quint8 and quint4x2. Got "
                f"dtype: {dtype}"
            )
        self.set_weight(_empty_rows(num_embeddings, embedding_dim, dtype))

    @torch.jit.export
    def set_weight(self, weight: torch.Tensor) -> None:
        """Packs it."""
        if self.dtype in [torch.quint8, torch.quint4x2]:
            self._packed_weight = torch.ops.quantized.embedding_bag_prepack(weight)
        else:
            raise NotImplementedError(
                "Unsupported dtype for quantized embedding prepack! Supports quint8 and quint4x2."
            )

    @torch.jit.export
    def _weight(self):  # type: ignore[no-untyped-def]
        if self.dtype in [torch.quint8, torch.quint4x2]:
            return torch.ops.quantized.embedding_bag_unpack(self._packed_weight)
        else:
            raise NotImplementedError(
                "Unsupported dtype for quantized embedding unpack! Supports quint8 and quint4x2."
            )

    def forward(self, x: Tensor) -> Tensor:
        """The input."""
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._weight()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys,
                                      unexpected_keys, error_msgs)  # fmt: skip

    def __repr__(self) -> str:
        return repr(self._weight())


def _observed(cls: Any, mod: Any, float_type: Any, qat_type: Any) -> tuple[Tensor, Any]:
    """A float module's weight, quantized as its observer says, and the dtype."""
    kind = float_type.__name__
    if hasattr(mod, "weight_fake_quant"):
        if qat_type is not None and type(mod) is not qat_type:
            raise AssertionError(
                f"nnq.{cls.__name__}.from_float with fake quant only works for {qat_type.__name__}"
            )
        observer = mod.weight_fake_quant
    else:
        if type(mod) is not float_type:
            raise AssertionError(f"nnq.{cls.__name__}.from_float only works for {kind}")
        if not hasattr(mod, "qconfig"):
            raise AssertionError(f"{kind} input float module must have qconfig defined")
        if mod.qconfig is not None and mod.qconfig.weight is not None:
            observer = mod.qconfig.weight()
        else:
            observer = torch.ao.quantization.float_qparams_weight_only_qconfig.weight()
    if observer.qscheme != torch.per_channel_affine_float_qparams:
        raise AssertionError(
            f"{kind} quantization is only supported with float_qparams_weight_only_qconfig."
        )
    if observer.dtype not in (torch.quint8, torch.quint4x2):
        raise AssertionError(
            f"The only supported dtype for nnq.{kind} is torch.quint8 and torch.quint4x2, got "
            f"{observer.dtype}"
        )
    observer(mod.weight)
    return _quantize_weight(mod.weight.float(), observer), observer.dtype


class Embedding(nn.Module):
    """The rows of a quantized weight, as floats."""

    _version = 1

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Tensor | None = None, dtype: Any = torch.quint8,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.dtype = dtype
        shape = [num_embeddings, embedding_dim]
        if _weight is None:
            _weight = _empty_rows(num_embeddings, embedding_dim, torch.quint8)
        elif list(_weight.shape) != shape:
            raise AssertionError(
                "Shape of weight does not match num_embeddings and embedding_dim: expected "
                f"{shape}, got {list(_weight.shape)}"
            )
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        self._packed_params.set_weight(_weight)

    def forward(self, indices: Tensor) -> Tensor:
        """The rows of the indices."""
        if self.dtype == torch.quint4x2:
            return torch.ops.quantized.embedding_4bit(self._packed_params._packed_weight, indices)
        else:
            return torch.ops.quantized.embedding_byte(self._packed_params._packed_weight, indices)

    def _get_name(self) -> str:
        return "QuantizedEmbedding"

    def __repr__(self) -> str:
        return _hide_packed_params_repr(self, EmbeddingPackedParams)

    def extra_repr(self) -> str:
        """Sizes, the dtype and the scheme."""
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, "
            f"dtype={self._packed_params.dtype}, qscheme={self.weight().qscheme()}"
        )

    def set_weight(self, w: torch.Tensor) -> None:
        """Packs a weight."""
        self._packed_params.set_weight(w)

    def weight(self):  # type: ignore[no-untyped-def]
        """The weight."""
        return self._packed_params._weight()

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of a float one, or of one that was trained for it."""
        weight, _ = _observed(cls, mod, nn.Embedding, qat.Embedding)
        qembedding = Embedding(mod.num_embeddings, mod.embedding_dim)
        qembedding.set_weight(weight)
        return qembedding

    @classmethod
    def from_reference(cls, ref_embedding: Any) -> Any:
        """The quantized module of a reference module."""
        ref = ref_embedding
        return cls(
            ref.num_embeddings, ref.embedding_dim, ref.padding_idx, ref.max_norm, ref.norm_type,
            ref.scale_grad_by_freq, ref.sparse, ref.get_quantized_weight(), ref.weight_dtype,
        )  # fmt: skip


class EmbeddingBag(Embedding):
    """Sums of rows of a quantized weight, as floats."""

    _version = 1

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "sum",
        sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False,
        dtype: Any = torch.quint8,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode = mode
        self.pruned_weights = False
        self.include_last_offset = include_last_offset
        self.dtype = dtype

    def forward(
        self,
        indices: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
        compressed_indices_mapping: Tensor | None = None,
    ) -> Tensor:
        """The sums of the bags."""
        if self.dtype == torch.quint4x2:
            return torch.ops.quantized.embedding_bag_4bit(
                self._packed_params._packed_weight, indices, offsets, False, 0,
                self.pruned_weights, per_sample_weights, compressed_indices_mapping,
                self.include_last_offset,
            )  # fmt: skip
        else:
            return torch.ops.quantized.embedding_bag_byte(
                self._packed_params._packed_weight, indices, offsets, False, 0,
                self.pruned_weights, per_sample_weights, compressed_indices_mapping,
                self.include_last_offset,
            )  # fmt: skip

    def _get_name(self) -> str:
        return "QuantizedEmbeddingBag"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of a float one, or of one that was trained for it."""
        weight, dtype = _observed(cls, mod, nn.EmbeddingBag, None)
        bag = EmbeddingBag(
            mod.num_embeddings, mod.embedding_dim, max_norm=mod.max_norm, norm_type=mod.norm_type,
            scale_grad_by_freq=mod.scale_grad_by_freq, mode=mod.mode, sparse=mod.sparse,
            include_last_offset=mod.include_last_offset, dtype=dtype,
        )  # fmt: skip
        bag.set_weight(weight)
        return bag

    @classmethod
    def from_reference(cls, ref_embedding_bag: Any) -> Any:
        """The quantized module of a reference module."""
        ref = ref_embedding_bag
        return cls(
            ref.num_embeddings, ref.embedding_dim, ref.max_norm, ref.norm_type,
            ref.scale_grad_by_freq, ref.mode, ref.sparse, ref.get_quantized_weight(),
            ref.include_last_offset, ref.weight_dtype,
        )  # fmt: skip
