"""Filters that are nearest to the others go (https://arxiv.org/abs/1811.00250)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tritorch
from tritorch import Tensor
from tritorch.ao.pruning._experimental.pruner.base_structured_sparsifier import (
    BaseStructuredSparsifier,
)
from tritorch.nn import Module

__all__ = ["FPGMPruner"]


class FPGMPruner(BaseStructuredSparsifier):
    """Masks the part `sparsity_level` of a weight's filters, those near the geometric median.

    `dist` is 1, 2 (default; the norm of differences) or a function of a matrix of flat filters.
    """

    def __init__(
        self,
        sparsity_level: float = 0.5,
        dist: Callable[[Tensor], Tensor] | int | None = None,
    ) -> None:
        if dist is None:
            dist = 2
        if callable(dist):
            self.dist_fn = dist
        elif dist in (1, 2):
            self.dist_fn = lambda x: tritorch.cdist(x, x, p=dist)
        else:
            raise NotImplementedError("Distance function is not yet implemented.")
        super().__init__(defaults={"sparsity_level": sparsity_level})

    def _compute_distance(self, t: Tensor) -> Tensor:
        """Sums of each filter's distances to the others."""
        return self.dist_fn(t.reshape(t.size(0), -1)).abs().sum(1)

    def update_mask(  # type: ignore[override]
        self, module: Module, tensor_name: str, sparsity_level: float, **kwargs: Any
    ) -> None:
        """Masks the filters."""
        weight = getattr(module, tensor_name)
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        if sparsity_level <= 0 or sparsity_level >= 1.0:
            mask.data = tritorch.full_like(mask, sparsity_level <= 0, dtype=tritorch.bool)
            return
        count = max(0, min(weight.shape[0], round(sparsity_level * weight.shape[0])))
        nearest = tritorch.topk(self._compute_distance(weight), k=count, largest=False).indices
        mask[nearest] = False
