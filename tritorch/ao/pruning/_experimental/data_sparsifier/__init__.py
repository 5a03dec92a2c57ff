"""Sparsifiers of tensors, parameters and embeddings outside a model."""

from tritorch.ao.pruning._experimental.data_sparsifier.base_data_sparsifier import (
    BaseDataSparsifier,
)
from tritorch.ao.pruning._experimental.data_sparsifier.data_norm_sparsifier import (
    DataNormSparsifier,
)

__all__ = ["BaseDataSparsifier", "DataNormSparsifier"]
