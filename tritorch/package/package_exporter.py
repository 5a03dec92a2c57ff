"""`PackageExporter`: writes code, objects and resources into an archive.

# Note [What goes into an archive]
Modules are nodes of a graph, pickles too (`<package.resource>`).  A module that something needs is
decided by the first pattern that its name matches: its source goes in (intern), it is imported
from where the archive is read (extern), something stands in for it (mock), or it may not be there
(deny).  What a source that goes in imports is needed as well.  Nothing of that is written before
`close`, which raises one error with all that went wrong.  Pickles and resources are written at
once.
"""

from __future__ import annotations

import importlib.machinery
import io
import linecache
import os
import platform
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType, TracebackType
from typing import IO, Any

from tritorch.autograd.nodes import RemovableHandle
from tritorch.core.storage import UntypedStorage
from tritorch.core.typed_storage import TypedStorage
from tritorch.package._digraph import DiGraph
from tritorch.package._errors import (
    _DISALLOWED_MODULES,
    EmptyMatchError,
    PackagingError,
    PackagingErrorReason,
)
from tritorch.package._importlib import _normalize_path
from tritorch.package._mangling import demangle, is_mangled
from tritorch.package._package_pickler import create_pickler
from tritorch.package._stdlib import is_stdlib_module
from tritorch.package.find_file_dependencies import find_files_source_depends_on
from tritorch.package.glob_group import GlobGroup, GlobPattern
from tritorch.package.importer import Importer, OrderedImporter, is_package, sys_importer
from tritorch.serialization import location_tag
from tritorch.serialization.rebuild import STORAGE_OF_DTYPE, storage_type
from tritorch.serialization.records import PyTorchFileWriter

__all__ = ["EmptyMatchError", "PackageExporter", "PackagingError", "PackagingErrorReason"]

ActionHook = Callable[["PackageExporter", str], None]
_gate_torchscript_serialization = True  # a switch of PyTorch's; there is no TorchScript here
_VERSION = 6  # of the format
_MOCK = """\
from _mock import MockedObject
def __getattr__(attr: str):
    return MockedObject(__name__ + '.' + attr, _suppress_err=True)
"""


class _ModuleProviderAction(Enum):
    """What is done with a module."""

    INTERN = 1
    EXTERN = 2
    MOCK = 3
    DENY = 4
    REPACKAGED_MOCK_MODULE = 5  # `_mock` of another archive: this one has its own
    SKIP = 6  # torch_package_importer, which every importer has


@dataclass
class _PatternInfo:
    """What is done with the modules that a pattern matches."""

    action: _ModuleProviderAction
    allow_empty: bool
    was_matched: bool = False


class PackageExporter:
    """Writes an archive that `PackageImporter` reads, PyTorch's too.

    What is not said to come from elsewhere (`extern`) is in it: code is copied file by file, with
    all that it imports."""

    importer: Importer

    def __init__(
        self,
        f: Any,
        importer: Importer | Sequence[Importer] = sys_importer,
        debug: bool = False,
    ) -> None:
        """f: a path, or a binary file.  importer: where modules are looked for; of several, the
        first that has one.  debug: errors say how the exporter came to a module."""
        self.debug = debug
        is_path = isinstance(f, (str, os.PathLike))
        self.buffer: IO[bytes] | None = None if is_path else f
        if not isinstance(importer, Importer):
            if not isinstance(importer, Sequence):
                raise TypeError(
                    "importer arg should be an Importer or a sequence of Importers, got "
                    f"{type(importer)} instead."
                )
            importer = OrderedImporter(*importer)
        self.importer = importer
        self.zip_file = PyTorchFileWriter(os.fspath(f) if is_path else f)
        self.zip_file.set_min_version(_VERSION)
        self.dependency_graph = DiGraph()
        self.patterns: dict[GlobGroup, _PatternInfo] = {}
        # Kept alive: an id is of a living object alone.
        self.serialized_reduces: dict[int, tuple[Any, Any]] = {}
        self._storages: dict[int, tuple[int, UntypedStorage]] = {}
        self._extern_hooks: OrderedDict[int, ActionHook] = OrderedDict()
        self._mock_hooks: OrderedDict[int, ActionHook] = OrderedDict()
        self._intern_hooks: OrderedDict[int, ActionHook] = OrderedDict()
        self._written_files: set[str] = set()
        self._unique_id = 0

    # ---- sources ------------------------------------------------------------------------------

    def save_source_file(
        self, module_name: str, file_or_directory: str, dependencies: bool = True
    ) -> None:
        """Puts a file in as a module, or a folder's files as a package.

        dependencies: and what it imports."""
        path = Path(file_or_directory)
        if not path.is_dir():
            is_package = path.name == "__init__.py"
            self.save_source_string(module_name, _read_file(path), is_package, dependencies)
            return
        found = []
        for file in path.glob("**/*.py"):
            *parts, last = file.relative_to(path).with_suffix("").parts
            is_package = last == "__init__"
            name = ".".join([module_name, *parts, *([] if is_package else [last])])
            found.append((name, _read_file(file), is_package))
            # Before any of them is looked into: they need each other.
            self._provide(*found[-1])
        for each in found:
            self.save_source_string(*each, dependencies)

    def save_source_string(
        self, module_name: str, src: str, is_package: bool = False, dependencies: bool = True
    ) -> None:
        """Puts a text in as a module's source.

        is_package: modules and resources may lie below it.  dependencies: and what it imports."""
        self._provide(module_name, src, is_package)
        if dependencies:
            self._need_imports(src, module_name, is_package)

    def save_module(self, module_name: str, dependencies: bool = True) -> None:
        """Puts a module in, whose source the importer finds.

        dependencies: and what it imports."""
        if not isinstance(module_name, str):
            raise TypeError(
                "save_module() expects a string input, did you perhaps mean to pass `__name__`?"
            )
        self._intern_module(module_name, dependencies)

    def add_dependency(self, module_name: str, dependencies: bool = True) -> None:
        """Does with a module what the patterns say."""
        nodes = self.dependency_graph.nodes
        if nodes.get(module_name, {}).get("provided"):
            return
        settled = _SETTLED.get(module_name)
        if settled is None and self._can_implicitly_extern(module_name):
            settled = _ModuleProviderAction.EXTERN
        if settled is not None:
            self.dependency_graph.add_node(module_name, action=settled, provided=True)
            return
        info = self._pattern_of(module_name)
        if info is None:
            self.dependency_graph.add_node(module_name, error=PackagingErrorReason.NO_ACTION)
            return
        info.was_matched = True
        self.dependency_graph.add_node(module_name, action=info.action, provided=True)
        if info.action is _ModuleProviderAction.DENY:
            self.dependency_graph.add_node(module_name, error=PackagingErrorReason.DENIED)
        elif info.action is _ModuleProviderAction.INTERN:
            self._intern_module(module_name, dependencies)

    def get_unique_id(self) -> str:
        """A number that this archive has given to nobody else."""
        self._unique_id += 1
        return str(self._unique_id - 1)

    def _provide(self, name: str, source: str, is_package: bool) -> None:
        self.dependency_graph.add_node(
            name,
            source=source,
            is_package=is_package,
            provided=True,
            action=_ModuleProviderAction.INTERN,
        )

    def _intern_module(self, module_name: str, dependencies: bool) -> None:
        module = self._import_module(module_name)
        module_name = demangle(module_name)
        below = is_package(module)
        source = _source_of(module)
        if source is None:
            reason, context = _why_no_source(getattr(module, "__file__", None))
            self.dependency_graph.add_node(
                module_name,
                action=_ModuleProviderAction.INTERN,
                is_package=below,
                error=reason,
                error_context=context,
                provided=True,
            )
            return
        self._provide(module_name, source, below)
        if dependencies:
            self._need_imports(source, module_name, below)

    def _need_imports(self, source: str, module_name: str, is_package: bool) -> None:
        for needed in self._get_dependencies(source, module_name, is_package):
            self.dependency_graph.add_edge(module_name, needed)
            self.add_dependency(needed)

    def _get_dependencies(self, src: str, module_name: str, is_package: bool) -> list[str]:
        package = module_name if is_package else module_name.rpartition(".")[0] or module_name
        try:
            found = find_files_source_depends_on(src, package)
        except Exception as error:
            self.dependency_graph.add_node(
                module_name,
                error=PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED,
                error_context=str(error),
            )
            return []
        needed: dict[str, None] = {}
        for module, name in found:
            # Who imports a submodule does not need what its package defines.
            submodule = f"{module}.{name}"
            if name is not None and self._module_exists(submodule):
                needed[submodule] = None
            elif self._module_exists(module):
                needed[module] = None
        return [*needed]

    def _module_exists(self, module_name: str) -> bool:
        try:
            self._import_module(module_name)
        except Exception:  # whatever it raises when it is run
            return False
        return True

    def _import_module(self, module_name: str) -> ModuleType:
        try:
            return self.importer.import_module(module_name)
        except ModuleNotFoundError:
            if not is_mangled(module_name):
                raise
            raise ModuleNotFoundError(
                f"Module not found: '{module_name}'. Make sure the PackageImporter that created "
                f"this module is present in `self.importer`"
            ) from None

    def _can_implicitly_extern(self, module_name: str) -> bool:
        top = module_name.partition(".")[0]
        ours = top in ("torch", "tritorch")
        return ours or (top not in _DISALLOWED_MODULES and is_stdlib_module(top))

    def _pattern_of(self, module_name: str) -> _PatternInfo | None:
        matching = (i for pattern, i in self.patterns.items() if pattern.matches(module_name))
        return next(matching, None)

    # ---- objects and resources ----------------------------------------------------------------

    def save_pickle(
        self,
        package: str,
        resource: str,
        obj: Any,
        dependencies: bool = True,
        pickle_protocol: int = 3,
    ) -> None:
        """Puts an object in, as a pickle in a package.

        dependencies: and the modules of its classes."""
        if pickle_protocol not in (3, 4):
            raise AssertionError(
                f"torch.package only supports pickle protocols 3 and 4, got {pickle_protocol}"
            )
        data = io.BytesIO()
        pickler = create_pickler(data, self.importer, self._persistent_id, pickle_protocol)
        pickler.dump(obj)
        node = f"<{package}.{resource}>"
        self.dependency_graph.add_node(
            node, action=_ModuleProviderAction.INTERN, provided=True, is_pickle=True
        )
        if dependencies:
            used: dict[str, list[str]] = {}
            for module, name in pickler.globals:
                used.setdefault(module, []).append(name)
            for module, found in used.items():
                self.dependency_graph.add_edge(node, module)
                self._need_class(module, found, f"resource - `{resource}` in package `{package}`")
        self._write(self._filename(package, resource), data.getvalue())

    def _need_class(self, module: str, found: list[str], where: str) -> None:
        info = None if self._can_implicitly_extern(module) else self._pattern_of(module)
        if info is None or info.action is not _ModuleProviderAction.MOCK:
            self.add_dependency(module)
            return
        self.dependency_graph.add_node(
            module,
            action=_ModuleProviderAction.MOCK,
            error=PackagingErrorReason.MOCKED_BUT_STILL_USED,
            error_context=f"Object(s) '{found}' from module `{module}` was mocked out during "
            f"packaging but is being used in {where}. ",
            provided=True,
        )

    def save_text(self, package: str, resource: str, text: str) -> None:
        """Puts a text in, as a file in a package."""
        self.save_binary(package, resource, text.encode())

    def save_binary(self, package: str, resource: str, binary: bytes) -> None:
        """Puts bytes in, as a file in a package."""
        self._write(self._filename(package, resource), binary)

    def _persistent_id(self, obj: Any) -> Any:
        """The reference to a storage, or to an object that makes its own of an exporter."""
        if isinstance(obj, TypedStorage):
            name = STORAGE_OF_DTYPE.get(obj.dtype)
            if name is None:
                raise RuntimeError(f"a TypedStorage of {obj.dtype} has no name in PyTorch")
            return self._storage_id(obj._untyped_storage, storage_type(name), obj.size())
        if isinstance(obj, UntypedStorage):
            return self._storage_id(obj, UntypedStorage, obj.nbytes())
        if not hasattr(obj, "__reduce_package__") or isinstance(obj, type):
            return None
        known = self.serialized_reduces.get(id(obj))
        if known is None:
            reduced = ("reduce_package", id(obj), *obj.__reduce_package__(self))
            known = self.serialized_reduces[id(obj)] = (obj, reduced)
        return known[1]

    def _storage_id(self, storage: UntypedStorage, kind: Any, numel: int) -> Any:
        key = id(storage._shared)
        if key not in self._storages:
            number = len(self._storages)
            self._storages[key] = (number, storage)
            name = f".data/{number}.storage"
            self.zip_file.write_record(name, storage, storage.nbytes())
        return ("storage", kind, self._storages[key][0], location_tag(storage), numel)

    # ---- patterns and hooks -------------------------------------------------------------------

    def intern(
        self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True
    ) -> None:
        """Modules of these names go in, if something needs them.

        include, exclude: patterns as `GlobGroup` has them.  allow_empty: whether none may match."""
        self._add_pattern(_ModuleProviderAction.INTERN, include, exclude, allow_empty)

    def mock(
        self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True
    ) -> None:
        """Modules of these names are left out: what their users import are objects that are an
        error when they are used.  Arguments as in `intern`."""
        self._add_pattern(_ModuleProviderAction.MOCK, include, exclude, allow_empty)

    def extern(
        self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True
    ) -> None:
        """Modules of these names are left out: they are imported from the program that reads the
        archive.  Arguments as in `intern`."""
        self._add_pattern(_ModuleProviderAction.EXTERN, include, exclude, allow_empty)

    def deny(self, include: GlobPattern, *, exclude: GlobPattern = ()) -> None:
        """Modules of these names may not be needed: an error if one is."""
        self._add_pattern(_ModuleProviderAction.DENY, include, exclude, True)

    def _add_pattern(
        self, action: _ModuleProviderAction, include: GlobPattern, exclude: Any, allow_empty: bool
    ) -> None:
        self.patterns[GlobGroup(include, exclude=exclude)] = _PatternInfo(action, allow_empty)

    def register_extern_hook(self, hook: ActionHook) -> RemovableHandle:
        """Calls hook(exporter, module_name) for each module that is external, at the end.

        Gives a handle whose `remove()` takes it back."""
        return _registered(self._extern_hooks, hook)

    def register_mock_hook(self, hook: ActionHook) -> RemovableHandle:
        """The same for each module that is mocked."""
        return _registered(self._mock_hooks, hook)

    def register_intern_hook(self, hook: ActionHook) -> RemovableHandle:
        """The same for each module, and each pickle, that goes in."""
        return _registered(self._intern_hooks, hook)

    # ---- the end ------------------------------------------------------------------------------

    def __enter__(self) -> PackageExporter:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is None:
            self.close()
        else:  # a file that holds a part would be taken for a package
            self.zip_file.discard()

    def close(self) -> None:
        """Writes the modules and ends the archive; PackagingError if some cannot be in it."""
        try:
            self._validate_dependency_graph()
            self._execute_dependency_graph()
            self._write(".data/python_version", platform.python_version())
        except BaseException:
            self.zip_file.discard()
            raise
        self.zip_file.write_end_of_file()
        if self.buffer is not None:
            self.buffer.flush()

    def _validate_dependency_graph(self) -> None:
        if any("error" in said for said in self.dependency_graph.nodes.values()):
            raise PackagingError(self.dependency_graph, debug=self.debug)
        for pattern, info in self.patterns.items():
            if not info.allow_empty and not info.was_matched:
                raise EmptyMatchError(
                    f"Exporter did not match any modules to {pattern}, which was marked as "
                    f"allow_empty=False"
                )

    def _execute_dependency_graph(self) -> None:
        hooks = {
            _ModuleProviderAction.EXTERN: self._extern_hooks,
            _ModuleProviderAction.MOCK: self._mock_hooks,
            _ModuleProviderAction.INTERN: self._intern_hooks,
        }
        external = []
        for name, said in [*self.dependency_graph.nodes.items()]:
            action = said["action"]
            for hook in [*hooks.get(action, {}).values()]:
                hook(self, name)
            if action is _ModuleProviderAction.EXTERN:
                external.append(name)
            elif action is _ModuleProviderAction.MOCK:
                self._write_mock_file()
                module = self._import_module(name)
                self._write_source_string(name, _MOCK, is_package(module))
            elif action is _ModuleProviderAction.REPACKAGED_MOCK_MODULE:
                self._write_mock_file()
            elif action is _ModuleProviderAction.INTERN and not said.get("is_pickle"):
                self._write_source_string(name, said["source"], said["is_package"])
        self._write(".data/extern_modules", "\n".join(external) + "\n")

    def _write_mock_file(self) -> None:
        if "_mock.py" not in self._written_files:
            source = _read_file(Path(__file__).with_name("_mock.py"))
            self._write_source_string("_mock", source, is_package=False)

    def _write_source_string(self, module_name: str, src: str, is_package: bool = False) -> None:
        self._write(module_name.replace(".", "/") + ("/__init__.py" if is_package else ".py"), src)

    def _filename(self, package: str, resource: str) -> str:
        return f"{package.replace('.', '/')}/{_normalize_path(resource)}"

    def _write(self, filename: str, content: str | bytes) -> None:
        if filename in self._written_files:
            raise AssertionError(
                f"Tried to write file '{filename}', but it already exists in this archive. "
                "Please file a bug."
            )
        if is_mangled(filename):
            raise AssertionError(
                f"Tried to save a torch.package'd module as '{filename}'. Directly saving "
                f"torch.package'd modules is not allowed."
            )
        self._written_files.add(filename)
        data = content.encode() if isinstance(content, str) else content
        self.zip_file.write_record(filename, data, len(data))

    # ---- questions ----------------------------------------------------------------------------

    def dependency_graph_string(self) -> str:
        """Who needs whom, in dot's language."""
        return self.dependency_graph.to_dot()

    def externed_modules(self) -> list[str]:
        """The modules so far that are external."""
        return self._modules_with(_ModuleProviderAction.EXTERN)

    def interned_modules(self) -> list[str]:
        """The modules so far that go in."""
        return self._modules_with(_ModuleProviderAction.INTERN)

    def mocked_modules(self) -> list[str]:
        """The modules so far that are mocked."""
        return self._modules_with(_ModuleProviderAction.MOCK)

    def denied_modules(self) -> list[str]:
        """The modules so far that may not be needed, and are."""
        return self._modules_with(_ModuleProviderAction.DENY)

    def _modules_with(self, action: _ModuleProviderAction) -> list[str]:
        nodes = self.dependency_graph.nodes.items()
        return sorted(
            name for name, said in nodes if said.get("action") is action and "is_pickle" not in said
        )

    def get_rdeps(self, module_name: str) -> list[str]:
        """The modules, and pickles, that need a module."""
        graph = self.dependency_graph
        return [*graph.predecessors(module_name)] if module_name in graph else []

    def all_paths(self, src: str, dst: str) -> str:
        """By what ways one module needs another, in dot's language."""
        return self.dependency_graph.all_paths(src, dst)


# Modules that every archive has of its own, whatever patterns say.
_SETTLED = {
    "torch_package_importer": _ModuleProviderAction.SKIP,
    "_mock": _ModuleProviderAction.REPACKAGED_MOCK_MODULE,
}


def _registered(hooks: Any, hook: ActionHook) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def _source_of(module: Any) -> str | None:
    """A module's source, where its loader says that it is."""
    filename = getattr(module, "__file__", None)
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    if isinstance(loader, importlib.machinery.SourceFileLoader):
        try:
            filename = loader.get_filename(module.__name__)
        except ImportError:
            pass
    if not isinstance(filename, str) or not filename.endswith(".py"):
        return None
    return "".join(linecache.getlines(filename, module.__dict__))


def _why_no_source(filename: str | None) -> tuple[PackagingErrorReason, str | None]:
    if filename is None:
        return PackagingErrorReason.NO_DUNDER_FILE, None
    if filename.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
        return PackagingErrorReason.IS_EXTENSION_MODULE, None
    return PackagingErrorReason.SOURCE_FILE_NOT_FOUND, f"filename: {filename}"


def _read_file(filename: str | os.PathLike[str]) -> str:
    return Path(filename).read_bytes().decode()
