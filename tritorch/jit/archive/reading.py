"""Reading of archives: source on demand, attributes by a pickle that can name little.

# Note [Archives that nobody trusts]
An archive's source is compiled to graphs; no Python of it runs.  Its pickles are read by the
unpickler of `torch.load(weights_only=True)`, which beside tensors and containers makes objects of
the
archive's own classes.  Records may be compressed, so their sizes are bounded before they are
inflated (`MAX_INFLATED` together).  Files under `code/` are read by name, never from the disk.
"""

from __future__ import annotations

import ast
import io
import os
import warnings
import zlib
from collections.abc import Iterator
from pickle import UnpicklingError
from typing import Any

from tritorch.jit.archive.container import CodeArchive
from tritorch.jit.archive.unpickling import ScriptUnpickler
from tritorch.jit.frontend import text
from tritorch.jit.frontend.source import FrontendError, Source
from tritorch.jit.ir.function import CompilationUnit, GraphFunction
from tritorch.jit.ir.graph import Block
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.run.calls import call_of
from tritorch.jit.run.limits import Budget
from tritorch.serialization.loading import ZipStorages
from tritorch.serialization.locations import restorer


class Archive:
    """One archive: its unit, in which classes and functions appear as they are asked for."""

    def __init__(self, reader: CodeArchive, map_location: Any) -> None:
        self.reader = reader
        self.unit = CompilationUnit()
        self._restore = restorer(map_location)
        self.version = _version(reader)
        self.constants: list[Any] = []
        self._sources: dict[str, tuple[Source, dict[str, ast.stmt]] | None] = {}
        self.resolver = text.TextResolver(self.find, self.constants)
        self._opened: list[GraphFunction] = []

    # ---- source ----------------------------------------------------------------------------------

    def _source(self, qualifier: str) -> tuple[Source, dict[str, ast.stmt]] | None:
        """The source of a module of the archive, with its definitions by name."""
        if qualifier not in self._sources:
            self._sources[qualifier] = None
            name = f"code/{qualifier.replace('.', '/')}.py"
            if self.reader.has(name):
                written = self.reader.read(name).decode("utf-8", "replace")
                tree = text.parse(written)
                definitions: dict[str, ast.stmt] = {
                    node.name: node
                    for node in tree.body
                    if isinstance(node, (ast.FunctionDef, ast.ClassDef))
                }
                self._sources[qualifier] = Source(written, f"code/{qualifier}.py"), definitions
        return self._sources[qualifier]

    def find(self, name: str) -> Any:
        """The class or function of a qualified name; None if the archive has none."""
        found = self.unit.types.get(name) or self.unit.functions.get(name)
        if found is not None:
            return found
        qualifier, _, last = name.rpartition(".")
        if not qualifier:
            return None
        source = self._source(qualifier)
        node = None if source is None else source[1].get(last)
        if source is None or node is None:
            return None
        if isinstance(node, ast.ClassDef):
            made = text.class_type(node, name, source[0], self.resolver, self.unit)
            methods = getattr(made, "methods", {})
            self._opened += methods.values()
            return made
        assert isinstance(node, ast.FunctionDef)
        function = text.function(node, name, source[0], self.resolver, self.unit)
        self.unit.functions[name] = function
        self._opened.append(function)
        return function

    def compile_all(self) -> None:
        """Compiles everything that objects and functions named so far, so that errors come now."""
        missing: dict[str, None] = {}
        while self._opened:
            function = self._opened.pop(0)
            function.ensure_defined()
            missing |= dict.fromkeys(_missing_operators(function.graph))
        if missing:
            warnings.warn(
                "the archive names operators that tritorch does not have; what does not run them "
                f"works: {', '.join(missing)}",
                stacklevel=5,
            )

    # ---- pickles ---------------------------------------------------------------------------------

    def unpickle(self, name: str, folder: str) -> Any:
        """The object of a pickle; its tensors' storages are in a folder."""
        data = self.reader.read(name)

        self.reader.data_folder = folder
        storages = ZipStorages(self.reader, self._restore, None)
        unpickler = ScriptUnpickler(io.BytesIO(data), storages.persistent_load, size=len(data))
        unpickler.archive = self
        return unpickler.load()


def _missing_operators(block: Block) -> Iterator[str]:
    """The operators of a graph that nothing computes."""
    for node in block.nodes():
        schema = node._schema
        if schema is not None and not node._kind.startswith("prim::"):
            try:
                call_of(schema)
            except NotImplementedError:
                overload = schema.overload_name
                yield f"{schema.name}.{overload}" if overload else schema.name
        for inner in node._blocks:
            yield from _missing_operators(inner)


def _version(reader: CodeArchive) -> int:
    for name in ("version", ".data/version"):
        if reader.has(name):
            written = reader.read(name).strip()
            if not written.isdigit():
                raise RuntimeError("the archive's version is no number")
            version = int(written)
            if not 1 <= version <= MAX_VERSION:
                raise RuntimeError(
                    f"Attempted to read a PyTorch file with version {version}, but the maximum "
                    f"supported version for reading is {MAX_VERSION}. Your PyTorch installation "
                    "may be too old."
                )
            return version
    return 1


MAX_VERSION = 10
MAX_STEPS = 20_000_000  # nodes that `__setstate__` methods may run


def load_object(
    f: Any, map_location: Any = None, extra_files: dict[str, Any] | None = None
) -> ScriptObjectData:
    """The module of an archive in a file or at a path; fills in the extra files that are asked "
    "for."""
    if isinstance(f, (str, os.PathLike)):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {f} is a directory")
        with open(f, "rb") as file:
            return _load(file, map_location, extra_files)
    return _load(io.BytesIO(f.read()), map_location, extra_files)


def _load(file: Any, map_location: Any, extra_files: dict[str, Any] | None) -> ScriptObjectData:
    try:
        archive = Archive(CodeArchive(file), map_location)
        if not archive.reader.has("constants.pkl"):
            if archive.reader.has("model.json"):
                raise RuntimeError(
                    "archives of PyTorch before 1.0 (model.json) cannot be read; save the model "
                    "again with a newer PyTorch"
                )
            raise RuntimeError(
                "PytorchStreamReader failed locating file constants.pkl: file not found"
            )
        archive.constants += archive.unpickle("constants.pkl", "constants")
        from tritorch.jit.frontend.upgraders import reading

        with reading(archive.version), Budget(MAX_STEPS):
            found = archive.unpickle("data.pkl", "data")
            archive.compile_all()
    except (RecursionError, MemoryError, zlib.error, OverflowError, UnpicklingError) as error:
        raise RuntimeError(f"the archive cannot be read: {type(error).__name__}: {error}") from None
    except FrontendError as error:  # a construct of Python that TorchScript lacks
        raise RuntimeError(str(error)) from None
    if not isinstance(found, ScriptObjectData) or not found.type.is_module_type:
        raise RuntimeError("the archive's data is no module")
    for name in extra_files or {}:
        path = f"extra/{name}"
        if archive.reader.has(path):
            data = archive.reader.read(path)
            assert extra_files is not None
            extra_files[name] = data
    return found
