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

from tritorch.compat import absent, names
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
    is_torchs = not path or names.is_module(path)
    if module.__name__ != renamed and is_torchs:
        sys.modules.setdefault(renamed, module)
        module.__name__ = renamed
        if names.is_package(path) and not hasattr(module, "__path__"):
            module.__path__ = []  # what is below it in PyTorch can be asked for
        for known, value in names.defined_elsewhere(path):
            vars(module).setdefault(known, value)  # programs look through `vars`
        listed = names.listed(path) if path else None
        if listed is not None:
            module.__all__ = listed  # type: ignore[attr-defined]
    private = []
    known_here = path if is_torchs else None
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__name__.startswith("_"):
            private.append(value)
        elif is_torchs or isinstance(
            value, type
        ):  # functions of ours are found where PyTorch's are
            _rename_object(value, known_here)
    if private:
        _rename_private(private, name, path, module)


def _rename_private(classes: list[type], name: str, path: str, module: types.ModuleType) -> None:
    """Private classes are known where they are: in PyTorch beside the public ones of this file."""
    beside = {v.__module__ for v in vars(module).values() if isinstance(v, type)}
    package = path.rpartition(".")[0]
    near = [place.partition(".")[2] for place in beside if place.startswith(f"torch.{package}.")]
    for each in classes:
        if vars(module).get(each.__name__) is not each:  # under another name: from elsewhere
            continue
        if each.__module__.partition(".")[0] == _PACKAGE:
            home = names.private_home(each.__name__, [path, *near])
            if home is not None:
                _move(each, f"torch.{home}".rstrip("."))
            elif each.__module__ == name:
                _rename_object(each)


def _move(value: Any, home: str) -> None:
    """A class or a function is in a module of PyTorch's, and so is what a class contains."""
    module = value.__module__
    if home == module:
        return
    try:
        value.__module__ = home
    except (AttributeError, TypeError):  # it cannot be changed
        return
    if isinstance(value, type):
        if home not in sys.modules:
            _find_file(home, module)
        known = sys.modules.get(home)
        if known is not None and value.__name__ == value.__qualname__:
            vars(known).setdefault(value.__name__, value)  # PyTorch's file may be several of ours
        for inner in vars(value).values():
            if callable(inner):
                if getattr(inner, "__module__", None) == module:
                    _move(inner, home)
                else:
                    _rename_object(inner)


def _rename_object(value: Any, seen_in: str | None = None) -> None:
    """A class or a function is where PyTorch defines it; what a class contains goes along.

    seen_in: a module of PyTorch's that has it here, if not where we define it."""
    if callable(value) and not isinstance(value, types.ModuleType):
        module = getattr(value, "__module__", None)
        if type(module) is str and module.partition(".")[0] == _PACKAGE:
            home = names.home_of(value, module)
            if home == module and seen_in is not None:
                found = names.defining(seen_in, getattr(value, "__name__", ""))
                home = module if found is None else f"torch.{found}"
            _move(value, home)


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
    made, path = absent.AbsentModule(name), name.partition(".")[2]
    for known, value in vars(contents).items():
        if not known.startswith("__") and (names.has_name(path, known) or not callable(value)):
            vars(made)[known] = value
    vars(made).update(names.defined_elsewhere(path))
    made.__file__ = contents.__file__
    sys.modules[name] = made
