"""Which of PyTorch's libraries a program prefers: tritorch's kernels do the work of all of them."""

from __future__ import annotations

import enum
from typing import Any

from tritorch import _C


class _LinalgBackend(enum.Enum):
    """Libraries of linear algebra."""

    Default = 0
    Cusolver = 1
    Magma = 2


class _BlasBackend(enum.Enum):
    """Libraries of products of matrices."""

    Default = 0
    Cublas = 1
    Cublaslt = 2
    Ck = 3


class _ROCmFABackend(enum.Enum):
    """Libraries of attention on AMD's GPUs."""

    Default = 0
    AOTriton = 1
    Ck = 2


_ONLY_WITH_CUDA: dict[Any, str] = {
    _LinalgBackend.Cusolver: "cuSOLVER", _LinalgBackend.Magma: "MAGMA",
    _BlasBackend.Cublaslt: "cuBLASLt",
}  # fmt: skip


class Library:
    """A preference: kept, and told."""

    def __init__(self, preferred: enum.Enum, **aliases: str) -> None:
        self.standard = preferred
        self.preferred, self.kinds = preferred, type(preferred)
        self.names: dict[str, Any] = {kind.name.lower(): kind for kind in self.kinds}
        for name, kind in aliases.items():
            at = list(self.names).index(kind) + 1
            items = list(self.names.items())
            self.names = dict([*items[:at], (name, self.names[kind]), *items[at:]])

    def choose(self, backend: Any = None) -> Any:
        """The preferred one, after it was set, where one is given.  Without a GPU only those can
        be set that PyTorch has without CUDA."""
        if isinstance(backend, str):
            if backend not in self.names:
                raise RuntimeError(f"Unknown input value. Choose from: {', '.join(self.names)}.")
            backend = self.names[backend]
        if backend is not None:
            if not isinstance(backend, self.kinds):
                if self.kinds is _ROCmFABackend:
                    raise ValueError(f"Unknown input value. Choose from: {', '.join(self.names)}.")
                raise RuntimeError("Unknown input value type.")
            shown = _ONLY_WITH_CUDA.get(backend)
            if shown is not None and not _C.device_count():
                raise RuntimeError(
                    f"Cannot set preferred backend to {shown} if PyTorch has not been compiled "
                    f"with {shown}."
                )
            self.preferred = self.standard if backend.name == "Default" else backend
        return self.preferred


linalg = Library(_LinalgBackend.Default)
blas = Library(_BlasBackend.Cublas, hipblas="cublas", hipblaslt="cublaslt")
attention = Library(_ROCmFABackend.Default)
