"""The typed legacy classes of sparse tensors on a GPU, `torch.cuda.sparse.FloatTensor`."""

from __future__ import annotations

from typing import Any

from tritorch.core import legacy

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name in legacy.CUDA_SPARSE_TYPES:
        return legacy.CUDA_SPARSE_TYPES[name]
    raise AttributeError(f"module 'tritorch.cuda.sparse' has no attribute {name!r}")
