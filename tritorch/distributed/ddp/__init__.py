"""Data parallelism: a model in each process, whose gradients are averaged."""

from tritorch.distributed.ddp.buckets import GradBucket
from tritorch.distributed.ddp.module import DistributedDataParallel

__all__ = ["DistributedDataParallel", "GradBucket"]
