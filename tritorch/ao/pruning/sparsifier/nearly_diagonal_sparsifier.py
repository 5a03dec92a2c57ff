"""Masks that keep a band around the main diagonal."""

from __future__ import annotations

from typing import Any

import tritorch
from tritorch.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier
from tritorch.nn import Module


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Keeps the `nearliness` diagonals (an odd number) that are nearest to the main one."""

    def __init__(self, nearliness: int = 1) -> None:
        super().__init__(defaults={"nearliness": nearliness})

    def update_mask(  # type: ignore[override]
        self, module: Module, tensor_name: str, nearliness: int, **kwargs: Any
    ) -> None:
        """Writes the band into the mask."""
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        mask.data = tritorch.zeros_like(mask)
        if nearliness <= 0:
            return
        if nearliness % 2 == 0:
            raise ValueError("nearliness can only be an odd number")
        reach = nearliness // 2
        if reach >= min(getattr(module, tensor_name).shape):
            raise ValueError("nearliness cannot be larger than the dimensions of tensor.")
        mask.data = tritorch.ones_like(mask).tril(reach).triu(-reach)
