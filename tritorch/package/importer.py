"""Where modules are looked for: the program's, an archive's, or one after the other."""

from __future__ import annotations

import importlib
import logging
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from tritorch.package._mangling import demangle, get_mangle_prefix, is_mangled

__all__ = ["Importer", "ObjMismatchError", "ObjNotFoundError", "OrderedImporter"]
log = logging.getLogger(__name__)


class ObjNotFoundError(Exception):
    """An importer has no object of this name."""


class ObjMismatchError(Exception):
    """An importer has another object of this name."""


class Importer(ABC):
    """Finds modules by name, and names of objects by which they are found again:

    module, name = importer.get_name(obj)
    assert getattr(importer.import_module(module), name) is obj

    One name may be of several modules, each known to another importer."""

    modules: dict[str, ModuleType]

    @abstractmethod
    def import_module(self, module_name: str) -> ModuleType:
        """A module, as importlib.import_module gives it."""

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        """The module and the name under which this importer has an object.

        name: where pickle knows it already."""
        name = name or _reduced_name(obj) or getattr(obj, "__qualname__", None) or obj.__name__
        module_name = demangle(self.whichmodule(obj, name))
        try:
            found = attribute_of(self.import_module(module_name), name)
        except (ImportError, KeyError, AttributeError):
            raise ObjNotFoundError(f"{obj} was not found as {module_name}.{name}") from None
        if found is obj:
            return module_name, name
        theirs, other = self.whichmodule(obj, name), self.whichmodule(found, name)
        raise ObjMismatchError(
            f"\n\nThe object provided is from '{theirs}', which is coming from {_place(theirs)}."
            f"\nHowever, when we import '{other}', it's coming from {_place(other)}."
            f"\nTo fix this, make sure this 'PackageExporter's importer lists {_who(theirs)} before"
            f" {_who(other)}."
        )

    def whichmodule(self, obj: Any, name: str) -> str:
        """The name of the module that has an object; "__main__" if none is known to."""
        module_name = getattr(obj, "__module__", None)
        if module_name is not None:
            return module_name
        for module_name, module in self.modules.copy().items():
            if module_name not in ("__main__", "__mp_main__") and module is not None:
                try:
                    if attribute_of(module, name) is obj:
                        return module_name
                except AttributeError:
                    pass
        return "__main__"


def _reduced_name(obj: Any) -> str | None:
    """The name that an object asks to be pickled as."""
    if not obj or type(obj) in pickle._Pickler.dispatch:
        return None
    try:
        reduced = obj.__reduce__()
    except Exception:  # of a class, which wants an object, or of one that is not pickled
        return None
    return reduced if isinstance(reduced, str) else None


def attribute_of(module: Any, name: str) -> Any:
    """What a module has under a dotted name."""
    for part in name.split("."):
        if part == "<locals>":
            raise AttributeError(f"{name} of {module} is a function's own")
        module = getattr(module, part)
    return module


def is_package(module: Any) -> bool:
    """Whether modules may lie below one; one that is mocked has any attribute, this too."""
    return "__path__" in getattr(module, "__dict__", ())


def _place(module_name: str) -> str:
    known = is_mangled(module_name)
    return get_mangle_prefix(module_name) if known else "the current Python environment"


def _who(module_name: str) -> str:
    known = is_mangled(module_name)
    return f"the importer for {get_mangle_prefix(module_name)}" if known else "'sys_importer'"


class _SysImporter(Importer):
    """The program's modules."""

    def import_module(self, module_name: str) -> ModuleType:
        """A module of the program; tritorch for PyTorch where that is not installed."""
        try:
            return importlib.import_module(module_name)
        except ModuleNotFoundError:
            if module_name.partition(".")[0] != "torch":
                raise
            return importlib.import_module(f"tri{module_name}")

    def whichmodule(self, obj: Any, name: str) -> str:
        """The module that has an object, as pickle finds it."""
        said = getattr(obj, "__module__", None)
        return said if said is not None else pickle.whichmodule(obj, name)  # type: ignore[attr-defined]


sys_importer = _SysImporter()


class OrderedImporter(Importer):
    """Several importers, of which the first that knows something answers."""

    def __init__(self, *args: Importer) -> None:
        self._importers: Iterable[Importer] = list(args)

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        """The module and the name under which the first importer that knows an object has it."""
        for importer in self._importers:
            try:
                return importer.get_name(obj, name)
            except (ObjNotFoundError, ObjMismatchError) as error:
                log.warning(
                    "Tried to call get_name with obj %s, and name %s on %s and got %s",
                    obj, name, importer, error,
                )  # fmt: skip
        raise ObjNotFoundError(
            f"Could not find obj {obj} and name {name} in any of the importers {self._importers}"
        )

    def import_module(self, module_name: str) -> ModuleType:
        """The module of the first importer that has it."""
        last = ModuleNotFoundError(module_name)
        for importer in self._importers:
            if not isinstance(importer, Importer):
                raise TypeError(
                    f"{importer} is not a Importer. All importers in OrderedImporter must inherit "
                    f"from Importer."
                )
            try:
                module = importer.import_module(module_name)
            except ModuleNotFoundError as error:
                last = error
                continue
            if not _is_empty_package(module):
                return module
        raise last

    def whichmodule(self, obj: Any, name: str) -> str:
        """The module that has an object, by the first importer that knows it."""
        found = (importer.whichmodule(obj, name) for importer in self._importers)
        return next((module for module in found if module != "__main__"), "__main__")


def _is_empty_package(module: Any) -> bool:
    """Whether it is there only because an archive has something below it."""
    ours = getattr(module, "__torch_package__", False) and is_package(module)
    return bool(ours) and getattr(module, "__file__", None) is None
