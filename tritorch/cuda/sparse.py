"""The typed legacy classes of sparse tensors on a GPU, `torch.cuda.sparse.FloatTensor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tritorch.core import legacy

if TYPE_CHECKING:  # what is made at run time
    from tritorch.cuda.sparse_made import *  # noqa: F403


__all__: list[str] = []


def _come_late(name: str) -> Any:
    if name in legacy.CUDA_SPARSE_TYPES:
        return legacy.CUDA_SPARSE_TYPES[name]
    raise AttributeError(f"module 'tritorch.cuda.sparse' has no attribute {name!r}")


if not TYPE_CHECKING:  # to checkers every name would be one
    __getattr__ = _come_late
