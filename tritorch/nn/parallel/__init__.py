"""Modules on several devices, as in torch.nn.parallel; here on one."""

from tritorch.nn.parallel.data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "data_parallel"]
