"""Rows with the smallest L1 norms go."""

from __future__ import annotations

from typing import Any

from tritorch.ao.pruning._experimental.pruner.base_structured_sparsifier import (
    BaseStructuredSparsifier,
)
from tritorch.nn import Module


class SaliencyPruner(BaseStructuredSparsifier):
    """Masks the part `sparsity_level` of a weight's rows, those with the smallest L1 norms."""

    def update_mask(self, module: Module, tensor_name: str, **kwargs: Any) -> None:
        """Masks the rows."""
        weights = getattr(module, tensor_name)
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        if weights.dim() <= 1:
            raise Exception("Structured pruning can only be applied to a 2+dim weight tensor!")
        saliency = -weights.norm(dim=tuple(range(1, weights.dim())), p=1)
        if saliency.shape != mask.shape:
            raise AssertionError(
                f"saliency shape ({saliency.shape}) must match mask shape ({mask.shape})"
            )
        pruned = saliency.topk(int(len(mask) * kwargs["sparsity_level"])).indices
        mask.data[pruned] = False
