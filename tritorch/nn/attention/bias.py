"""Causal masks of sequences of two lengths, as torch.nn.attention.bias: what is seen is counted
from the begins of both sequences, or from their ends."""

from __future__ import annotations

import enum
import warnings
from typing import Any

from tritorch.core.device import device as Device
from tritorch.core.dtype import bool_
from tritorch.core.tensor import Tensor
from tritorch.nn import functional
from tritorch.ops.shape import factory
from tritorch.ops.shape.joining import tril

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """From where a causal mask counts: the begins of both sequences, or their ends."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask that scaled_dot_product_attention takes as its attn_mask."""

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        super().__init__()
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > "
                "seq_len_kv!",
                stacklevel=2,
            )

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask itself, True where a key is seen."""
        where = Device("cpu") if device is None else device
        ones = factory.ones((self.seq_len_q, self.seq_len_kv), dtype=bool_, device=where)
        shift = self.seq_len_kv - self.seq_len_q
        return tril(ones, 0 if self.variant is CausalVariant.UPPER_LEFT else shift)

    @staticmethod
    def _dispatch(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: CausalBias, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Tensor:  # fmt: skip
        """Attention under a causal mask; without one in memory where that is the kernel's own."""
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        square = attn_mask.seq_len_q == attn_mask.seq_len_kv
        own = square or attn_mask.variant is CausalVariant.UPPER_LEFT
        mask = None if own else attn_mask._materialize(query.device)
        return functional.scaled_dot_product_attention(
            query, key, value, mask, dropout_p, own, scale=scale, enable_gqa=enable_gqa
        )

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is functional.scaled_dot_product_attention:
            return cls._dispatch(*args, **(kwargs or {}))
        default: Any = super()
        return default.__torch_function__(func, types, args, kwargs or {})

    def __repr__(self) -> str:  # type: ignore[override]
        return repr(self._materialize())


def causal_upper_left(*size: int) -> CausalBias:
    """The mask that counts from the begins: `is_causal=True`."""
    if len(size) != 2:
        raise AssertionError("causal_upper_left only supports 2D tensors")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """The mask that counts from the ends: the last query sees all keys."""
    if len(size) != 2:
        raise AssertionError("causal_lower_right only supports 2D tensors")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
