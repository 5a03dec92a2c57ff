"""Modules on several GPUs of one process, as in torch.nn.parallel."""

from tritorch.nn.parallel.data_parallel import DataParallel, data_parallel
from tritorch.nn.parallel.parallel_apply import parallel_apply as parallel_apply
from tritorch.nn.parallel.replicate import replicate
from tritorch.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply",
    "replicate", "scatter",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name == "DistributedDataParallel":
        from tritorch.nn.parallel import distributed

        return distributed.DistributedDataParallel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
