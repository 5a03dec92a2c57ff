"""A sampler that gives each process of a group its own part of a dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tritorch import distributed
from tritorch.core.generator import Generator
from tritorch.ops.random.random import randperm
from tritorch.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index from `rank` on, shuffled alike in all processes.

    All get the same number: the first indices come again at the end, or `drop_last` leaves the last
    ones out. `set_epoch` before each epoch changes the order.
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None,
        shuffle: bool = True, seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        if num_replicas is None:
            num_replicas = int(distributed.get_world_size())
        if rank is None:
            rank = int(distributed.get_rank())
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            indices = randperm(count, generator=generator).tolist()
        else:
            indices = list(range(count))
        if len(indices) < self.total_size:
            indices = (indices * -(-self.total_size // len(indices)))[: self.total_size]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Another order, the same for all processes that set the same epoch."""
        self.epoch = epoch
