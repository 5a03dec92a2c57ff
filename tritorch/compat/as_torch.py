"""Programs written for PyTorch: `import torch` gives tritorch.

What PyTorch has and tritorch lacks can be imported; using it raises an error that names it
(`compat/absent.py` has the rules).
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from typing import Any

from tritorch.compat import absent, devices, names, renaming
from tritorch.core import naming
from tritorch.torch_version import API, TorchVersion


class _Finder:
    """Finds torch and all below it, as tritorch's modules, and torch's metadata."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package = name.partition(".")[0]
        if package == "tritorch":
            return _wrapped(_Renaming, name, path, target)
        if name == _SPAWNING:
            return _wrapped(_Spawning, name, path, target)
        if package not in ("torch", "functorch"):
            return None
        try:
            present = importlib.util.find_spec(our_name(name)) is not None
        except ModuleNotFoundError:  # of a package that is not there either
            present = False
        if not present:
            return absent.find_module(name) if name.startswith("torch") else None
        return ModuleSpec(name, _Loader(), is_package=True)  # type: ignore[arg-type]

    @staticmethod
    def find_distributions(context: Any = None) -> Iterator[Any]:
        """What `importlib.metadata` says of torch: the version of the API that is offered."""
        if getattr(context, "name", None) in (None, "torch"):
            from tritorch.compat import metadata  # what asks has imported what that needs

            yield metadata.Stated()


def _wrapped(wrapper: Any, name: str, path: Any, target: Any) -> ModuleSpec | None:
    """The spec of a module as others find it, whose loader is wrapped."""
    for finder in sys.meta_path:
        if finder is not _Finder and (spec := finder.find_spec(name, path, target)) is not None:
            if spec.loader is None:  # a folder without code
                return spec
            spec.loader = wrapper(spec.loader)
            return spec
    return None


class _Importing(threading.local):
    """The modules whose import goes on in a thread, outermost first."""

    def __init__(self) -> None:
        self.depth = 0
        self.modules: list[tuple[str, types.ModuleType]] = []


_importing = _Importing()


class _Renaming:
    """The loader of a module, which then takes torch's names."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        spec: Any = module.__spec__
        spec.loader = module.__loader__ = self.loader
        _importing.modules.append((spec.name, module))
        _importing.depth += 1
        try:
            self.loader.exec_module(module)
        finally:
            _importing.depth -= 1
            if not _importing.depth:  # where a class is known must have been imported, too
                imported, _importing.modules = _importing.modules, []
                for name, each in imported:
                    renaming.rename(name, each)
                    names.adopt_one(each, absent.lacking)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


_SPAWNING = "multiprocessing.spawn"


class _Spawning:
    """The loader of the module that prepares spawned processes, which then have the alias too."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        spec: Any = module.__spec__
        spec.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        _alias_in_spawned_processes(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


class _Again:
    """Becomes a call of `as_torch` where it is unpickled."""

    def __reduce__(self) -> Any:
        return as_torch, ()


def _alias_in_spawned_processes(spawn: Any) -> None:
    """A spawned process imports the program anew, and before that reads what this adds to."""
    prepare = spawn.get_preparation_data
    if getattr(prepare, "_adds_tritorch", False):
        return

    def with_tritorch(name: str) -> dict[str, Any]:
        return {**prepare(name), "tritorch": _Again()}

    with_tritorch._adds_tritorch = True  # type: ignore[attr-defined]
    spawn.get_preparation_data = with_tritorch


def our_name(name: str) -> str:
    """A module of PyTorch's by its name here."""
    if name == "functorch":
        return "tritorch._functorch.deprecated"
    if name.startswith("functorch."):
        return f"tritorch._{name}"
    return "tritorch" + name.removeprefix("torch")


class _Loader:
    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(our_name(spec.name))
        names.adopt(module, absent.lacking)
        self.real = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self.real  # the import system has put torch's there


def as_torch() -> None:
    """From now on `import torch`, and its submodules, gives tritorch in this process."""
    tritorch = naming.package()
    if sys.modules.get("torch", tritorch) is not tritorch:
        raise RuntimeError("as_torch() comes too late: torch is imported already")
    if any(finder is _Finder for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder)
    sys.modules["torch"] = tritorch
    tritorch.__version__ = TorchVersion(API)
    names.adopt(tritorch, absent.lacking)
    renaming.rename_all()  # from now on it speaks of torch.float32
    if _SPAWNING in sys.modules:
        _alias_in_spawned_processes(sys.modules[_SPAWNING])
    if devices._is_device_backend_autoload_enabled():
        devices._import_device_backends()


class _Last:
    """Finds torch where no other finder does."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in ("torch", "functorch"):
            return None
        sys.meta_path.remove(_Last)
        as_torch()
        del sys.modules["torch"]  # else Python loads what is there once more, by its own spec
        return _Finder.find_spec(name, path, target)


def stand_in_for_none() -> None:
    """From now on `import torch` gives tritorch in this process, if no torch is installed.

    Nothing is called by torch's names before the program imports it."""
    sys.meta_path.append(_Last)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext tritorch` in a notebook: from now on `import torch` gives tritorch."""
    as_torch()
