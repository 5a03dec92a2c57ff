"""Modules on several GPUs of one process, as in torch.nn.parallel."""

from typing import TYPE_CHECKING

from tritorch.nn.parallel.data_parallel import DataParallel, data_parallel
from tritorch.nn.parallel.parallel_apply import parallel_apply as parallel_apply
from tritorch.nn.parallel.replicate import replicate
from tritorch.nn.parallel.scatter_gather import gather, scatter

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.nn.parallel import comm as comm, scatter_gather as scatter_gather
    from tritorch.nn.parallel.distributed import (
        DistributedDataParallel as DistributedDataParallel,
    )


__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply",
    "replicate", "scatter",
]  # fmt: skip


def _come_late(name: str) -> object:
    if name == "DistributedDataParallel":
        from tritorch.nn.parallel import distributed

        return distributed.DistributedDataParallel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # to checkers every name would be one
    __getattr__ = _come_late
