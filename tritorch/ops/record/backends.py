"""Which function computes: tritorch.host.<family>.<name> or tritorch.gpu.<family>.<name>.

A function that the GPU lacks goes through the host (`gpu/by_host.py`).
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.core import locks, scopes

FOLDERS = {"cpu": "host", "gpu": "gpu"}


class Family:
    """The functions of one family on one device, found at first use."""

    def __init__(self, which: str, name: str) -> None:
        self._which, self._name = which, name

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        function = _find(self._which, self._name, name)
        setattr(self, name, function)
        return function


@functools.cache
def backend(which: str, family: str) -> Family:
    """The family's functions on "cpu" or "gpu"."""
    return Family(which, family)


def resolve(which: str, path: str) -> Callable[..., Any]:
    """The function behind "family.name"."""
    family, _, name = path.partition(".")
    return getattr(backend(which, family), name)


@functools.cache
def _modules(which: str) -> dict[str, str]:
    """The module of each family of a backend: families are named alone, not by their room."""
    spec = importlib.util.find_spec(f"tritorch.{FOLDERS[which]}")
    assert spec is not None and spec.origin is not None
    root = os.path.dirname(spec.origin)
    found = {}
    for folder, _, names in os.walk(root):
        rooms = folder[len(root) :].replace(os.sep, ".")
        for family in (name.removesuffix(".py") for name in names if name.endswith(".py")):
            if family != "__init__":
                found[family] = f"tritorch.{FOLDERS[which]}{rooms}.{family}"
    return found


def module_of(which: str, family: str) -> str | None:
    """The module that has a family's functions; None if the GPU has none of them."""
    return _modules(which).get(family)


def _find(which: str, family: str, name: str) -> Callable[..., Any]:
    module = module_of(which, family)
    if module is not None:
        with locks.importing:
            function = getattr(importlib.import_module(module), name, None)
        if function is not None:
            return _C.Quiet(function) if which == "cpu" else function
    if which == "cpu":
        raise NotImplementedError(f"tritorch.host.{family} has no {name}")
    from tritorch.gpu.by_host import through_host

    return through_host(f"{family}.{name}", _find("cpu", family, name))


def composed_backend(definition: Callable[..., Any]) -> Callable[..., Any]:
    """A backend function composed of public operators, for a record with gradients of its own."""

    def run(*args: Any) -> Any:
        given = [_C.wrap(a) if isinstance(a, _ARRAYS) else a for a in args]
        with scopes.unrecorded:
            return definition(*given)._array

    return cast(Callable[..., Any], _C.Parts(run))


_ARRAYS = (np.ndarray, _C.Array, MetaArray)
