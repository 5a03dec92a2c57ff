"""Optimizers whose state is divided among processes."""

from typing import TYPE_CHECKING

from tritorch.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.distributed.optim import zero_redundancy_optimizer as zero_redundancy_optimizer


__all__ = ["ZeroRedundancyOptimizer"]
