"""An unpickler that asks an importer for classes and functions."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from tritorch.package.importer import Importer, attribute_of
from tritorch.serialization import names


class PackageUnpickler(pickle.Unpickler):
    """Finds what is PyTorch's in tritorch, all else where its importer does."""

    def __init__(self, importer: Importer, file: Any, refer: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self._importer = importer
        self._refer = refer

    def find_class(self, module: str, name: str) -> Any:
        """The object that a pickle refers to."""
        if module.partition(".")[0] == "torch":
            return names.resolve(module, name)
        return attribute_of(self._importer.import_module(module), name)

    def persistent_load(self, pid: Any) -> Any:
        """What is kept beside the pickle."""
        return self._refer(pid)
