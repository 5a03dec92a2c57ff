"""Modules on several GPUs of one process, as in torch.nn.parallel."""

from tritorch.nn.parallel.data_parallel import DataParallel, data_parallel
from tritorch.nn.parallel.parallel_apply import parallel_apply as parallel_apply
from tritorch.nn.parallel.replicate import replicate
from tritorch.nn.parallel.scatter_gather import gather, scatter

__all__ = ["DataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]
