"""torch.distributed, of which there is nothing yet but what programs ask of it.

A program that asks whether it is there goes on in one process; who asks for a rank learns, as in
PyTorch, that there is no group.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

__all__ = [
    "barrier", "destroy_process_group", "get_backend", "get_rank", "get_world_size", "is_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
]  # fmt: skip


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False: nobody can have."""
    return False


def is_nccl_available() -> bool:
    """False."""
    return False


def is_gloo_available() -> bool:
    """False."""
    return False


def is_mpi_available() -> bool:
    """False."""
    return False


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether torchrun has started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def _no_group() -> NoReturn:
    raise ValueError(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group."
    )


def get_rank(group: Any = None) -> int:
    """Refuses: there is no group whose number this process could have."""
    _no_group()


def get_world_size(group: Any = None) -> int:
    """Refuses: there is no group that could have a size."""
    _no_group()


def get_backend(group: Any = None) -> str:
    """Refuses: there is no group that could have a backend."""
    _no_group()


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> None:
    """Refuses: there is no group to wait for."""
    _no_group()


def destroy_process_group(group: Any = None) -> None:
    """Refuses: there is no group."""
    raise AssertionError("Process group cannot be None")
