"""Names of `torch/__init__.py` for what it does before and around everything else."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = [
    "_TorchCompileAOTInductorWrapper", "_TorchCompileInductorWrapper", "_TorchCompileWrapper",
    "_load_global_deps", "_preload_cuda_deps", "_running_with_deploy", "get_file_path",
    "prepare_multiprocessing_environment",
]  # fmt: skip


def _load_global_deps() -> None:
    """Nothing: the extension needs no libraries of its own."""


def _preload_cuda_deps(err: OSError | None = None) -> None:
    """Nothing: the driver is loaded at first use."""


def _running_with_deploy() -> bool:
    """False: there is one interpreter."""
    return False


def get_file_path(*path_components: str) -> str:
    """A path below the package; PyTorch's own builds ask for it."""
    return os.path.join("", *path_components[1:]) if path_components else ""


def prepare_multiprocessing_environment(path: str) -> None:
    """Nothing to prepare."""


class _TorchCompileWrapper:
    """A backend of `torch.compile` with its options, comparable with others."""

    def __init__(
        self, backend: str | Callable[..., Any], mode: str | None, options: Any, dynamic: Any
    ) -> None:
        from tritorch.compat.torch_private._dynamo.backends.registry import lookup_backend

        if isinstance(backend, str):
            self.compiler_name: Any = backend
        else:
            self.compiler_name = getattr(backend, "__name__", str(backend))
        self.dynamic = dynamic
        self.compiler_fn = lookup_backend(backend)
        self.kwargs: dict[str, Any] = {}
        if mode and mode != "default":
            self.kwargs["mode"] = mode
        if options:
            self.kwargs["options"] = options

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _TorchCompileWrapper)
            and self.compiler_fn == other.compiler_fn
            and self.kwargs == other.kwargs
            and self.dynamic == other.dynamic
        )

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, model_: Any, inputs_: Any) -> Any:
        """The function that the backend makes of a graph."""
        return self.compiler_fn(model_, inputs_, **self.kwargs)

    def reset(self) -> None:
        """Asks the backend to forget what it made, if it can."""
        if hasattr(self.compiler_fn, "reset"):
            self.compiler_fn.reset()


class _TorchCompileInductorWrapper(_TorchCompileWrapper):
    """The default backend with its options."""

    def __init__(self, mode: str | None, options: Any, dynamic: Any) -> None:
        super().__init__("inductor", mode, options, dynamic)


class _TorchCompileAOTInductorWrapper(_TorchCompileInductorWrapper):
    """The same, for packages."""


for _class in (_TorchCompileWrapper, _TorchCompileInductorWrapper, _TorchCompileAOTInductorWrapper):
    _class.__module__ = "tritorch"
for _function in (_load_global_deps, _preload_cuda_deps, _running_with_deploy, get_file_path,
                  prepare_multiprocessing_environment):  # fmt: skip
    _function.__module__ = "tritorch"
