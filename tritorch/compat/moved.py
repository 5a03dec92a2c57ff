"""Modules under two paths: where their file is, and where programs, pickles and packages look.

PyTorch's private modules are files of `compat/torch_private/` and have PyTorch's paths as their
names: `tritorch._dynamo`.  Modules of our own that earlier versions had at another path are listed
in `moved.txt`, by the folder that they left and the one that has them: `old new: name
former_name=name ...`.  Both paths give one module.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

_PACKAGE = "tritorch."
_PRIVATE = "tritorch.compat.torch_private."
_FOLDER = os.path.dirname(__file__)


@functools.cache
def _moved() -> dict[str, str]:
    """The present path of each module or package that moved, below tritorch."""
    found = {}
    with open(os.path.join(_FOLDER, "moved.txt"), encoding="ascii") as file:
        lines = file.read().splitlines()
    for line in lines:
        folders, _, names = line.partition(": ")
        old, new = (folder.strip(".") for folder in folders.split())
        for name in names.split():
            former, _, present = name.partition("=")
            found[f"{old}.{former}".strip(".")] = f"{new}.{present or former}".strip(".")
    return found


def home_of(name: str) -> str | None:
    """The name of the module that another name stands for: "tritorch.triton" for
    "tritorch.triton"; None for a name that is no other module's."""
    if name.startswith(_PRIVATE):
        return _PACKAGE + name.removeprefix(_PRIVATE)
    former, below = name.removeprefix(_PACKAGE), ""
    while former:
        present = _moved().get(former)
        if present is not None:
            return f"{_PACKAGE}{present}{below}"
        former, _, last = former.rpartition(".")
        below = f".{last}{below}"
    return None


def is_private(name: str) -> bool:
    """Says if `tritorch.<name>` is a private module of PyTorch's."""
    if not name.startswith("_") or name == "__init__":
        return False
    path = os.path.join(_FOLDER, "torch_private", name)
    return os.path.exists(f"{path}.py") or os.path.exists(os.path.join(path, "__init__.py"))


class _Loader:
    """Loads a module by its own name."""

    def __init__(self, home: str) -> None:
        self.home = home

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(self.home)
        self.real = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self.real  # the import system has put the other name's there


class Finder:
    """Finds the modules of `home_of`."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(_PACKAGE):
            return None
        home = home_of(name)
        if home is None or importlib.util.find_spec(home) is None:
            return None
        return ModuleSpec(name, _Loader(home))  # type: ignore[arg-type]


def install(package: list[str]) -> None:
    """From now on both paths of a module can be imported.

    package: the folders in which modules of `tritorch` are looked for."""
    package.append(os.path.join(_FOLDER, "torch_private"))
    sys.meta_path.insert(0, Finder)
