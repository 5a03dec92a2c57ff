"""The names of PyTorch, as tools/record_names.py wrote them down.

They tell what tritorch lacks yet from what nobody has; `tritorch.fft` says which.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Lacking = Callable[[str, str], Any]  # of a module's path below torch, and a name


@functools.cache
def _text() -> str:
    return (Path(__file__).parent / "_names.txt").read_text()


@functools.cache
def _line(path: str) -> list[str] | None:
    """The names of a module, with "!" before some; [] if all that is known is that it exists."""
    start = _text().find(f"\n{path}:")
    if start < 0:
        return None
    start += len(path) + 2
    return _text()[start : _text().index("\n", start)].split()


def has_module(path: str) -> bool:
    """Whether PyTorch has the module of this path below torch, as far as is known."""
    parts = path.split(".")
    return is_module(path) or [] in (_line(".".join(parts[:i])) for i in range(1, len(parts)))


def is_module(path: str) -> bool:
    """Whether it is recorded as a module, not only below one whose contents are unknown."""
    return _line(path) is not None


def may_have(path: str, name: str) -> bool:
    """Whether a module that exists has the name, as far as is known."""
    return not _line(path) or has_name(path, name)


def has_name(path: str, name: str) -> bool:
    """Whether PyTorch's module has this name; False if its names are not recorded."""
    names = _line(path) or ()
    return name in names or f"!{name}" in names or is_module(f"{path}.{name}".lstrip("."))


def elsewhere(path: str, name: str) -> Any:
    """What a module of PyTorch has and tritorch keeps in another file; else AttributeError.

    PyTorch's torch.nn.modules.batchnorm.BatchNorm1d is torch.nn.BatchNorm1d too; its _BatchNorm is
    then where tritorch's BatchNorm1d is.
    """
    names = _line(path) or []
    if name in names:
        for package in _above(path):
            if name in vars(package):
                return getattr(package, name)
        for neighbour in names:
            for package in _above(path):
                home = getattr(vars(package).get(neighbour), "__module__", None)
                if home in sys.modules and name in vars(sys.modules[home]):
                    return getattr(sys.modules[home], name)
    raise AttributeError(name)


def is_spread(path: str) -> bool:
    """Whether tritorch has what is in a module, or part of it, in other files."""
    for name in _line(path) or ():
        with contextlib.suppress(AttributeError):
            elsewhere(path, name)
            return True
    return False


def _above(path: str) -> Iterator[types.ModuleType]:
    """The packages of tritorch around a module, the innermost first."""
    while path:
        path = path.rpartition(".")[0]
        module = sys.modules.get(f"tritorch.{path}".rstrip("."))
        if module is not None:
            yield module


def refuse(path: str, name: str) -> Any:
    """Says that PyTorch has the name and tritorch lacks it."""
    module, dotted = (f"{top}.{path}".rstrip(".") for top in ("tritorch", "torch"))
    raise AttributeError(
        f"module '{module}' has no attribute {name!r}: PyTorch has {dotted}.{name}, tritorch does "
        "not yet"
    )


def adopt(module: types.ModuleType, lacking: Lacking = refuse) -> None:
    """A module of tritorch, and those below it, answer by `lacking` for what PyTorch has."""
    prefix = module.__name__ + "."
    for name, found in list(sys.modules.items()):
        if found is module or (name.startswith(prefix) and isinstance(found, types.ModuleType)):
            _adopt_one(found, lacking)


def _adopt_one(module: types.ModuleType, lacking: Lacking) -> None:
    own: Any = module.__dict__.get("__getattr__")
    if hasattr(own, "lacking"):
        own.lacking = lacking
        return
    path = module.__name__.removeprefix("tritorch").removeprefix(".")

    def lookup(name: str) -> Any:
        error = None
        if own is not None:
            try:
                found = own(name)
            except AttributeError as raised:
                error = raised
            else:
                if isinstance(found, types.ModuleType):  # imported when it is first asked for
                    adopt(found, lookup.lacking)  # type: ignore[attr-defined]
                return found
        if not name.startswith("__") and has_name(path, name):
            return lookup.lacking(path, name)  # type: ignore[attr-defined]
        raise error or AttributeError(f"module '{module.__name__}' has no attribute {name!r}")

    lookup.lacking = lacking  # type: ignore[attr-defined]
    module.__dict__["__getattr__"] = lookup
