"""A pickler that asks an importer for names, and knows afterwards which modules an object needs."""

from __future__ import annotations

import pickle
import types
from typing import Any, ClassVar

from tritorch.package.importer import (
    Importer,
    ObjMismatchError,
    ObjNotFoundError,
    sys_importer,
)
from tritorch.serialization import names
from tritorch.serialization.pickler import pickler_class

_Base: Any = pickler_class(pickle)


class PackagePickler(_Base):
    """Writes what is tritorch's by PyTorch's names, all else by its importer's."""

    dispatch: ClassVar[dict[Any, Any]] = dict(_Base.dispatch)

    def __init__(self, importer: Importer, file: Any, protocol: int, refer: Any) -> None:
        super().__init__(file, protocol, refer)
        self.importer = importer
        self.globals: list[tuple[str, str]] = []  # (module, name) of all that is referred to

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Writes a reference to a class, a function or what asks for it."""
        if names.path_of(obj) is not None:
            super().save_global(obj, name)
            return
        try:
            module_name, name = self.importer.get_name(obj, name)
        except (ObjNotFoundError, ObjMismatchError) as error:
            if self.importer is sys_importer:
                super().save_global(obj, name)  # which says it in pickle's words
            raise pickle.PicklingError(f"Can't pickle {obj}: {error}") from error
        self.write_global(obj, module_name, name, self.importer.import_module)

    dispatch[types.FunctionType] = save_global

    def write_global(self, obj: Any, module: str, name: str, find: Any) -> None:
        """Writes a reference to what a module has under a name, and notes it."""
        self.globals.append((module, name))
        super().write_global(obj, module, name, find)


def create_pickler(file: Any, importer: Importer, refer: Any, protocol: int = 4) -> PackagePickler:
    """A pickler into a file; refer: the reference to an object that is kept elsewhere, or None."""
    return PackagePickler(importer, file, protocol, refer)
