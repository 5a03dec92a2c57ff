"""Programs written for PyTorch: `import torch` gives tritorch.

What PyTorch has and tritorch lacks can be imported; using it raises an error that names it
(`compat/absent.py` has the rules).
"""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import runpy
import sys
import threading
import types
import zipfile
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from tritorch.cli import commands
from tritorch.compat import absent, devices, metadata, names, renaming
from tritorch.core import naming
from tritorch.torch_version import TorchVersion


class _Finder:
    """Finds torch and all below it, as tritorch's modules, and torch's metadata."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package = name.partition(".")[0]
        if package == "tritorch":
            return _renamed(name, path, target)
        if package not in ("torch", "functorch"):
            return None
        try:
            present = importlib.util.find_spec(_ours(name)) is not None
        except ModuleNotFoundError:  # of a package that is not there either
            present = False
        if not present:
            return absent.find_module(name) if name.startswith("torch") else None
        return ModuleSpec(name, _Loader(), is_package=True)  # type: ignore[arg-type]

    @staticmethod
    def find_distributions(context: Any = None) -> Iterator[Any]:
        """What `importlib.metadata` says of torch: the version of the API that is offered."""
        if getattr(context, "name", None) in (None, "torch"):
            yield metadata.Stated()


def _renamed(name: str, path: Any, target: Any) -> ModuleSpec | None:
    """The spec of a module of tritorch's that takes torch's names when it is imported."""
    for finder in sys.meta_path:
        if finder is not _Finder and (spec := finder.find_spec(name, path, target)) is not None:
            if spec.loader is None:  # a folder without code
                return spec
            spec.loader = _Renaming(spec.loader)  # type: ignore[assignment]
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


def _ours(name: str) -> str:
    if name == "functorch":
        return "tritorch._functorch.deprecated"
    if name.startswith("functorch."):
        return f"tritorch._{name}"
    return "tritorch" + name.removeprefix("torch")


class _Loader:
    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(_ours(spec.name))
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
    tritorch.__version__ = TorchVersion(metadata.API)
    names.adopt(tritorch, absent.lacking)
    renaming.rename_all()  # from now on it speaks of torch.float32
    _in_spawned_processes_too()
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


class _Again:
    """Becomes a call of `as_torch` where it is unpickled."""

    def __reduce__(self) -> Any:
        return as_torch, ()


def _in_spawned_processes_too() -> None:
    """A spawned process imports the program anew, and before that reads what this adds to."""
    from multiprocessing import spawn

    prepare: Any = spawn.get_preparation_data
    if getattr(prepare, "_adds_tritorch", False):
        return

    def with_tritorch(name: str) -> dict[str, Any]:
        return {**prepare(name), "tritorch": _Again()}

    with_tritorch._adds_tritorch = True  # type: ignore[attr-defined]
    spawn.get_preparation_data = with_tritorch


_USAGE = "usage: python -m tritorch run [-m MODULE | -c CODE | SCRIPT | -] [ARGUMENT ...]"


def run(arguments: Sequence[str], aliased: bool = True) -> int:
    """`python -m tritorch run script.py args...`, as `python script.py args...` would.  aliased:
    whether `import torch` gives tritorch in it."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    first, rest = arguments[0], list(arguments[1:])
    try:
        commands.program([first, *rest])
    except commands.Refused as error:
        print(f"python -m tritorch run: {error}", file=sys.stderr)
        return 2
    if aliased:
        as_torch()
    try:
        if first == "-m":
            if aliased and rest[0].partition(".")[0] == "torch":  # a program of PyTorch's: ours
                rest[0] = _ours(rest[0])
            sys.argv, sys.path[:0] = rest, [""]
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif first == "-c":
            sys.argv, sys.path[:0] = ["-c", *rest[1:]], [""]
            _execute(rest[0], "<string>")
        elif first == "-":
            sys.argv, sys.path[:0] = ["-", *rest], [""]
            _execute(sys.stdin.read(), "<stdin>")
        elif Path(first).is_dir() or zipfile.is_zipfile(first):
            sys.argv = [first, *rest]
            runpy.run_path(first, run_name="__main__")
        else:
            sys.argv, sys.path[:0] = [first, *rest], [str(Path(first).resolve().parent)]
            _execute(Path(first).read_bytes(), first)
    except SystemExit:
        raise
    except BaseException as error:
        # Python shows where the program was, from its first line: not how it was started.
        trace = error.__traceback__
        while trace is not None and _starts_programs(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        error.__traceback__ = trace
        sys.excepthook(type(error), error, trace)
        if isinstance(error, KeyboardInterrupt):
            return 130
        return 1
    return 0


def _execute(source: str | bytes, file: str) -> None:
    """Runs a program as the module `__main__`."""
    main = types.ModuleType("__main__")
    if not file.startswith("<"):
        main.__file__ = file
    else:  # what a traceback shows of it
        text = source if isinstance(source, str) else source.decode()
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    vars(main)["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    exec(compile(source, file, "exec", dont_inherit=True), vars(main))


def _starts_programs(file: str) -> bool:
    return file in (__file__, runpy.__file__, "<frozen runpy>") or file.startswith(
        "<frozen importlib"
    )
