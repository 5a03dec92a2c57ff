"""Schedulers of data sparsifiers."""

from tritorch.ao.pruning._experimental.data_scheduler.base_data_scheduler import BaseDataScheduler

__all__ = ["BaseDataScheduler"]
