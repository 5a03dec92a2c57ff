"""`DistributedDataParallel`, which stands on `tritorch.distributed`: found when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["DistributedDataParallel"]


def _come_late(name: str) -> object:
    if name == "DistributedDataParallel":
        from tritorch.distributed.ddp.module import DistributedDataParallel

        return DistributedDataParallel
    if name == "_dump_DDP_relevant_env_vars":
        from tritorch.distributed.ddp import statistics

        return statistics._dump_DDP_relevant_env_vars
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if TYPE_CHECKING:
    from tritorch.distributed.ddp.module import DistributedDataParallel as DistributedDataParallel
else:  # to checkers every name would be one
    __getattr__ = _come_late
