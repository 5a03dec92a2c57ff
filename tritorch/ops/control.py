"""Control flow by what tensors hold."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor


def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """true_fn(*operands) or false_fn(*operands), by a bool or a tensor with one element."""
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    return true_fn(*operands) if pred else false_fn(*operands)
