"""Structured pruning: rows of linear layers and channels of convolutions that go, with what reads
them."""

from tritorch.ao.pruning._experimental.pruner.base_structured_sparsifier import (
    BaseStructuredSparsifier,
)
from tritorch.ao.pruning._experimental.pruner.FPGM_pruner import FPGMPruner
from tritorch.ao.pruning._experimental.pruner.lstm_saliency_pruner import LSTMSaliencyPruner
from tritorch.ao.pruning._experimental.pruner.parametrization import (
    BiasHook,
    FakeStructuredSparsity,
)
from tritorch.ao.pruning._experimental.pruner.saliency_pruner import SaliencyPruner
