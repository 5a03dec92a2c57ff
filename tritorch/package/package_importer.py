"""`PackageImporter`: modules, objects and resources of an archive.

# Note [Modules of archives]
Each importer has modules of its own, in `modules`; `sys.modules` knows nothing of them.  Code of
the archive runs with `__import__` replaced by the importer's, so what it imports is found here too:
in the archive, or, of what the archive says is external, in the program.  What of that is
PyTorch's is tritorch, whether or not the program calls it torch.  `__name__` of these modules has
the archive in front (`_mangling.py`), `__spec__.name` has not.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import importlib.util
import inspect
import io
import linecache
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from weakref import WeakValueDictionary

from tritorch.core import naming
from tritorch.core.storage import UntypedStorage
from tritorch.package._directory_reader import DirectoryReader
from tritorch.package._importlib import _normalize_line_endings, _normalize_path
from tritorch.package._mangling import PackageMangler, demangle
from tritorch.package._package_unpickler import PackageUnpickler
from tritorch.package._resources import _PackageResourceReader
from tritorch.package.file_structure_representation import (
    Directory,
    _create_directory_from_file_list,
)
from tritorch.package.glob_group import GlobPattern
from tritorch.package.importer import Importer, is_package
from tritorch.serialization import rebuild
from tritorch.serialization.loading import storage_reference
from tritorch.serialization.locations import restorer
from tritorch.serialization.records import PyTorchFileReader

__all__ = ["PackageImporter"]

# What generated code and tensors need, whoever wrote the archive forgot to say so.
IMPLICIT_IMPORT_ALLOWLIST: Iterable[str] = (
    "numpy", "numpy.core", "numpy.core._multiarray_umath", "builtins",
)  # fmt: skip
# What modules have had under other names, which old archives ask for.
EXTERN_IMPORT_COMPAT_NAME_MAPPING: dict[str, dict[str, Any]] = {"numpy": {"str": str, "bool": bool}}


class PackageImporter(Importer):
    """Reads an archive that `PackageExporter` wrote, tritorch's or PyTorch's."""

    modules: dict[str, Any]  # those that were imported so far

    def __init__(
        self,
        file_or_buffer: Any,
        module_allowed: Callable[[str], bool] = lambda module_name: True,
    ) -> None:
        """file_or_buffer: a path of an archive or of the folder that one was unpacked to, a
        seekable binary file, or a PyTorchFileReader.  module_allowed: whether an external module
        may be used; ImportError if one may not."""
        self.zip_reader, self.filename = _reader_of(file_or_buffer)
        self.modules = {}
        self._files: dict[str, str] = {}  # the record of each module
        self._packages: set[str] = set()  # what has something below it
        self.extern_modules = self.zip_reader.get_record(".data/extern_modules").decode().split()
        for name in self.extern_modules:
            if not module_allowed(name):
                raise ImportError(
                    f"package '{file_or_buffer}' needs the external module '{name}' but that "
                    f"module has been disallowed"
                )
        self._external = frozenset(self.extern_modules)
        for name in self.extern_modules:
            if not self._is_external(name.rpartition(".")[0]):
                self._add_folders(name.split(".")[:-1], name)
        for name in self.zip_reader.get_all_records():
            self._add_file(name)
        self.patched_builtins = {**vars(builtins), "__import__": self.__import__}
        self.modules["torch_package_importer"] = self  # how code of the archive finds its files
        self._mangler = PackageMangler()
        self.storage_context: Any = None  # while something is loaded: its storages
        self.last_map_location: Any = None
        _find_sources_of_packages()

    # ---- what is in the archive ---------------------------------------------------------------

    def _add_file(self, filename: str) -> None:
        *folders, last = filename.split("/")
        if folders[:1] == [".data"]:
            return
        self._add_folders(folders, filename)
        stem, suffix = os.path.splitext(last)
        if suffix != ".py":
            return
        if stem == "__init__":
            self._files[".".join(folders)] = filename
        else:
            name = ".".join([*folders, stem])
            self._files[name] = filename
            self._packages.discard(name)

    def _add_folders(self, folders: list[str], what: str) -> None:
        for end in range(1, len(folders) + 1):
            name = ".".join(folders[:end])
            if name in self._external:
                raise ImportError(
                    f"inconsistent module structure. package contains a module file {what} that is "
                    f"a subpackage of a module marked external."
                )
            if not self._files.get(name, "__init__.py").endswith("__init__.py"):
                raise ImportError(
                    f"inconsistent module structure. module {name} is not a package, but has "
                    f"submodules"
                )
            self._packages.add(name)

    def _is_external(self, name: str) -> bool:
        """Whether a module, or a package that it is in, is external."""
        while name:
            if name in self._external:
                return True
            name = name.rpartition(".")[0]
        return False

    def file_structure(
        self, *, include: GlobPattern = "**", exclude: GlobPattern = ()
    ) -> Directory:
        """The files of the archive as a tree, those whose paths are meant: "**/*.py"."""
        files = self.zip_reader.get_all_records()
        return _create_directory_from_file_list(self.filename, files, include, exclude)

    def python_version(self) -> str | None:
        """The version of Python that wrote the archive, None if it does not say."""
        name = ".data/python_version"
        found = self.zip_reader.has_record(name)
        return self.zip_reader.get_record(name).decode().strip() if found else None

    def id(self) -> str:
        """What this importer's modules have in front of their names: "<torch_package_0>"."""
        return self._mangler.parent_name()

    # ---- modules ------------------------------------------------------------------------------

    def import_module(self, name: str, package: Any = None) -> Any:
        """A module of the archive, or one that it says is external."""
        return self._find_and_load(self._mangler.demangle(name))

    def __import__(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        """What import statements call in code of the archive."""
        full = name
        if level:
            full = importlib.util.resolve_name("." * level + name, globals["__package__"])
        module = self._find_and_load(full)
        if fromlist:
            self._load_submodules(module, full, fromlist)
            return module
        if not level:
            return self._find_and_load(name.partition(".")[0])
        return self.modules[full.removesuffix("." + name.partition(".")[2])] if name else module

    def _load_submodules(self, module: Any, full: str, names: Iterable[Any]) -> None:
        """`from module import names`: those that are submodules become attributes."""
        if not is_package(module):
            return
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"Item in ``from list'' must be str, not {type(name).__name__}")
            if name == "*":
                self._load_submodules(module, full, getattr(module, "__all__", ()))
            elif not hasattr(module, name):
                try:
                    self._find_and_load(f"{full}.{name}")
                except ModuleNotFoundError as error:
                    if error.name != f"{full}.{name}":
                        raise

    def _find_and_load(self, name: str) -> Any:
        if not name:
            raise ValueError("Empty module name")
        try:
            return self.modules[name]
        except KeyError:
            pass
        parent, _, last = name.rpartition(".")
        if parent:
            above = self._find_and_load(parent)
            if name in self.modules:  # it imports what is below it
                return self.modules[name]
            if not is_package(above):
                return self._below_no_package(above, parent, name)
        module = self._load_external(name) if self._is_external(name) else self._load(name)
        if parent and getattr(above, "__loader__", None) is self:
            setattr(above, last, module)
        return module

    def _below_no_package(self, above: Any, parent: str, name: str) -> Any:
        """A module that the program has below one that is no package: os.path, or a part of an
        extension."""
        known = sys.modules.get(name, getattr(above, name.rpartition(".")[2], None))
        is_module = name in sys.modules or isinstance(known, ModuleType)
        if isinstance(getattr(above, "__loader__", None), importlib.machinery.ExtensionFileLoader):
            if name not in self.extern_modules:
                raise ModuleNotFoundError(
                    f"No module named {name!r}; {name!r} is a c extension module which was not "
                    f"externed. C extension modules need to be externed by the PackageExporter in "
                    f"order to be used as we do not support interning them.",
                    name=name,
                )
            if not is_module:
                raise ModuleNotFoundError(
                    f"No module named {name!r}; {parent!r} is a c extension package which does not "
                    f"contain {name!r}.",
                    name=name,
                )
        if is_module and self._is_external(name):
            self.modules[name] = known
            return known
        raise ModuleNotFoundError(
            f"No module named {name!r}; {parent!r} is not a package", name=name
        )

    def _load_external(self, name: str) -> Any:
        """A module of the program; tritorch for PyTorch, under whichever name."""
        ours = name.partition(".")[0] == "torch"
        is_alias = sys.modules.get("torch") is naming.package()
        module = importlib.import_module(f"tri{name}" if ours and not is_alias else name)
        for former, value in EXTERN_IMPORT_COMPAT_NAME_MAPPING.get(name, {}).items():
            vars(module).setdefault(former, value)
        self.modules[name] = module
        return module

    def _load(self, name: str) -> Any:
        if name not in self._files and name not in self._packages:
            if name in IMPLICIT_IMPORT_ALLOWLIST:
                return self._load_external(name)
            raise ModuleNotFoundError(
                f'No module named "{name}" in self-contained archive "{self.filename}" and the '
                f"module is also not in the list of allowed external modules: "
                f"{self.extern_modules}",
                name=name,
            )
        return self._make_module(name, self._files.get(name))

    def _make_module(self, name: str, filename: str | None) -> Any:
        spec = importlib.machinery.ModuleSpec(
            name,
            self,  # type: ignore[arg-type]
            origin="<package_importer>",
            is_package=name in self._packages,
        )
        module = importlib.util.module_from_spec(spec)
        shown = self._mangler.mangle(filename) if filename else None
        module.__name__ = self._mangler.mangle(name)
        space = vars(module)
        space["__file__"], space["__cached__"] = shown, None
        space["__builtins__"] = self.patched_builtins
        space["__torch_package__"] = True
        self.modules[name] = _package_imported_modules[module.__name__] = module
        if filename is None or shown is None:
            return module
        linecache.lazycache(shown, space)  # for tracebacks and inspect
        source = _normalize_line_endings(self.zip_reader.get_record(filename))
        try:
            exec(compile(source, shown, "exec", dont_inherit=True), space)
        except BaseException:
            self.modules.pop(name, None)  # as Python does: the next import runs it again
            raise
        return self.modules[name]

    def get_source(self, module_name: str) -> str:
        """A module's source; linecache asks for it, also while the module fails."""
        filename = self._files.get(demangle(module_name))
        if filename is None:
            raise ImportError(f"no source of {module_name} in {self.filename}", name=module_name)
        return self.zip_reader.get_record(filename).decode()

    # ---- files --------------------------------------------------------------------------------

    def load_binary(self, package: str, resource: str) -> bytes:
        """A file of a package."""
        return self.zip_reader.get_record(self._zipfile_path(package, resource))

    def load_text(
        self, package: str, resource: str, encoding: str = "utf-8", errors: str = "strict"
    ) -> str:
        """A file of a package, as text."""
        return self.load_binary(package, resource).decode(encoding, errors)

    def get_resource_reader(self, fullname: str) -> Any:
        """What importlib.resources reads a package's files by."""
        try:
            package = self._get_package(fullname)
        except ImportError:
            return None
        ours = getattr(package, "__loader__", None) is self
        return _PackageResourceReader(self, fullname) if ours else None

    def _get_package(self, package: Any) -> Any:
        module = package if hasattr(package, "__spec__") else self.import_module(package)
        if module.__spec__.submodule_search_locations is None:
            shown = package if isinstance(package, str) else module.__spec__.name
            raise TypeError(f"{shown!r} is not a package")
        return module

    def _zipfile_path(self, package: Any, resource: str | None = None) -> str:
        module = self._get_package(package)
        if getattr(module, "__loader__", None) is not self:
            raise AssertionError(f"{module.__name__} is not a package of the archive")
        folder = demangle(module.__name__).replace(".", "/")
        return folder if resource is None else f"{folder}/{_normalize_path(resource)}"

    # ---- objects ------------------------------------------------------------------------------

    def Unpickler(self, file: Any, refer: Callable[[Any], Any]) -> PackageUnpickler:
        """What reads this archive's pickles; refer: what is kept beside them."""
        return PackageUnpickler(self, file, refer)

    def load_pickle(self, package: str, resource: str, map_location: Any = None) -> Any:
        """An object of a package.

        map_location: where tensors go, as in `load`."""
        record = self.zip_reader.get_record(self._zipfile_path(package, resource))
        restore = restorer(map_location)
        storages: dict[str, Any] = {}
        made: dict[Any, Any] = {}

        def refer(pid: Any) -> Any:
            if pid[0] in ("storage", b"storage"):
                return self._storage(pid, storages, restore)
            if pid[0] not in ("reduce_package", b"reduce_package"):
                raise AssertionError(
                    f"Unknown typename for persistent_load, expected 'storage' or "
                    f"'reduce_package' but got '{pid[0]}'"
                )
            key, function, args = pid[1:] if len(pid) == 4 else (object(), *pid[1:])
            if key not in made:
                made[key] = function(self, *args)
            return made[key]

        with self._loading(storages, map_location):
            return self.Unpickler(io.BytesIO(record), refer).load()

    @contextmanager
    def _loading(self, storages: Any, map_location: Any) -> Iterator[None]:
        before = self.storage_context, self.last_map_location
        self.storage_context, self.last_map_location = storages, map_location
        try:
            yield
        finally:
            self.storage_context, self.last_map_location = before

    def _storage(self, pid: Any, storages: dict[str, Any], restore: Any) -> Any:
        key = str(pid[2])
        kind, _, location, numel = storage_reference((*pid[:2], key, *pid[3:]), 5)
        if key not in storages:
            name = f".data/{key}.storage"
            storage = self.zip_reader.get_storage_from_record(name, numel, kind).untyped_storage()
            if self._is_swapped() and pid[1] is not UntypedStorage:
                rebuild.byteswap(storage._elements(rebuild.dtypes.uint8), kind)
            storages[key] = restore(storage, location)
        return rebuild.typed(storages[key], kind)

    def _is_swapped(self) -> bool:
        """Whether numbers in the archive are in the other order of bytes."""
        order = "byteorder"
        here = sys.byteorder.encode()
        return self.zip_reader.has_record(order) and self.zip_reader.get_record(order) != here


def _reader_of(file_or_buffer: Any) -> tuple[Any, str]:
    if isinstance(file_or_buffer, PyTorchFileReader):
        return file_or_buffer, "<pytorch_file_reader>"
    if not isinstance(file_or_buffer, (str, os.PathLike)):
        return PyTorchFileReader(file_or_buffer), "<binary>"
    path = os.fspath(file_or_buffer)
    return (DirectoryReader if os.path.isdir(path) else PyTorchFileReader)(path), path


# All modules of all importers, by their names with the archive in front.
_package_imported_modules: WeakValueDictionary[str, ModuleType] = WeakValueDictionary()


def _find_sources_of_packages() -> None:
    """Lets `inspect` find the files of classes whose modules are not in `sys.modules`."""
    plain: Any = inspect.getfile
    if hasattr(plain, "knows_packages"):
        return

    def getfile(object: Any) -> str:
        """The file that an object was defined in."""
        module = _package_imported_modules.get(getattr(object, "__module__", None) or "")
        if inspect.isclass(object) and module is not None and module.__file__:
            return module.__file__
        return plain(object)

    getfile.knows_packages = True  # type: ignore[attr-defined]
    inspect.getfile = getfile
