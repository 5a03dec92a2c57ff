"""`torch.classes`: classes of C++ libraries, of which none can be loaded here."""

from __future__ import annotations

import types
from typing import Any


class _ClassNamespace(types.ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__("tritorch.classes" + name)
        self.name = name

    def __getattr__(self, attr: str) -> Any:
        raise RuntimeError(
            f"Tried to instantiate class '{self.name}.{attr}', but it does not exist! "
            "Ensure that it is registered via torch::class_"
        )


class _Classes(types.ModuleType):
    __file__ = "_classes.py"

    def __init__(self) -> None:
        super().__init__("tritorch.classes")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        namespace = _ClassNamespace(name)
        setattr(self, name, namespace)
        return namespace

    @property
    def loaded_libraries(self) -> set[str]:
        """The libraries loaded: none."""
        return set()

    def load_library(self, path: str) -> None:
        """Refuses: a library of PyTorch needs PyTorch's C++."""
        raise OSError(f"Could not load this library: {path}: it is built against PyTorch's C++")


classes = _Classes()
