"""Rows of an LSTM's gates with the smallest L1 norms go."""

from __future__ import annotations

from typing import Any

import tritorch
from tritorch.ao.pruning._experimental.pruner.base_structured_sparsifier import (
    BaseStructuredSparsifier,
)
from tritorch.ao.pruning._experimental.pruner.parametrization import FakeStructuredSparsity
from tritorch.nn import Module


class LSTMSaliencyPruner(BaseStructuredSparsifier):
    """Masks the part `sparsity_level` of the rows of each gate of a packed LSTM weight.

    A weight has the rows of four gates; each loses as many, so that they stay of one size.
    """

    def update_mask(self, module: Module, tensor_name: str, **kwargs: Any) -> None:
        """Masks the rows of each gate."""
        weights = getattr(module, tensor_name)
        for parametrization in getattr(module.parametrizations, tensor_name):
            if not isinstance(parametrization, FakeStructuredSparsity):
                continue
            mask = parametrization.mask
            if weights.dim() <= 1:
                raise Exception("Structured pruning can only be applied to a 2+dim weight tensor!")
            saliency = weights.norm(dim=tuple(range(1, weights.dim())), p=1)
            gate = len(mask) // 4
            for kept, norms in zip(tritorch.split(mask, gate), tritorch.split(saliency, gate)):
                count = int(len(kept) * kwargs["sparsity_level"])
                kept.data[norms.topk(count, largest=False, sorted=False).indices] = False
