"""Torch's names for what is tritorch's, in a program that says torch.

There `torch.nn.Linear` says that it is `torch.nn.modules.linear.Linear`: so it stands in reprs,
tracebacks, warnings, pickles and in what packages compare.  Each module of tritorch's is named
after torch when `as_torch` is called, or when it is imported later; each class after the module in
which PyTorch defines it, which need not be cut as ours are (`torch.distributions.normal`).  What
PyTorch does not have keeps its name.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from tritorch import _absent, _names
from tritorch.core import gates, naming

_PACKAGE = "tritorch"


def rename_all() -> None:
    """Every module of tritorch's that is imported is torch's."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == _PACKAGE and isinstance(module, types.ModuleType):
            rename(name, module)
    for published in gates.GATES.values():
        for gate in published.values():
            _rename_object(gate)


def rename(name: str, module: types.ModuleType) -> None:
    """A module that PyTorch has is known by its name there, and so is what it contains."""
    renamed = naming.torch_name(name)
    path = renamed.partition(".")[2]
    if module.__name__ != renamed and (not path or _names.is_module(path)):
        sys.modules.setdefault(renamed, module)
        module.__name__ = renamed
        if _names.is_package(path) and not hasattr(module, "__path__"):
            module.__path__ = []  # what is below it in PyTorch can be asked for
        for known, value in _names.defined_elsewhere(path):
            vars(module).setdefault(known, value)  # programs look through `vars`
    for value in list(vars(module).values()):
        _rename_object(value)


def _rename_object(value: Any) -> None:
    """A class or a function is where PyTorch defines it; what a class contains goes along."""
    if not callable(value) or isinstance(value, types.ModuleType):
        return
    module = getattr(value, "__module__", None)
    if type(module) is not str or module.partition(".")[0] != _PACKAGE:
        return
    home = _names.home_of(value, module)
    try:
        value.__module__ = home
    except (AttributeError, TypeError):  # it cannot be changed
        return
    if isinstance(value, type):
        if home not in sys.modules:
            _find_file(home, module)
        for inner in vars(value).values():
            _rename_object(inner)


def _find_file(home: str, module: str) -> None:
    """The module of PyTorch's in which a class is: ours of that name, or one made for it."""
    ours = f"tri{home}"
    if ours in sys.modules:
        rename(ours, sys.modules[ours])
    elif module in sys.modules:
        _make_file(home, sys.modules[module])


def _make_file(name: str, contents: types.ModuleType) -> None:
    """A module of PyTorch's whose contents are in a file of ours by another name.

    Annotations are read in it, and programs look through it: it has what PyTorch's has.
    """
    made, path = _absent.AbsentModule(name), name.partition(".")[2]
    for known, value in vars(contents).items():
        if not known.startswith("__") and (_names.has_name(path, known) or not callable(value)):
            vars(made)[known] = value
    vars(made).update(_names.defined_elsewhere(path))
    made.__file__ = contents.__file__
    sys.modules[name] = made
