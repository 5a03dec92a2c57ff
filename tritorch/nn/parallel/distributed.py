"""`DistributedDataParallel`, which stands on `tritorch.distributed`: found when it is asked for."""

from __future__ import annotations

__all__ = ["DistributedDataParallel"]  # noqa: F822  (found when it is asked for)


def __getattr__(name: str) -> object:
    if name == "DistributedDataParallel":
        from tritorch.distributed.ddp.module import DistributedDataParallel

        return DistributedDataParallel
    if name == "_dump_DDP_relevant_env_vars":
        from tritorch.distributed.ddp import statistics

        return statistics._dump_DDP_relevant_env_vars
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
