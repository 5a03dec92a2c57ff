#!/usr/bin/env python3
"""Run PyTorch's own test files under the alias, and count what passes.

    python tools/run_torch_tests.py --tests pytorch/test test_fx.py test_pytree.py
    python tools/run_torch_tests.py --tests pytorch/test test_fx.py -- -k proxy -x

The files are PyTorch's (a checkout's folder `test`), and what they import of
`torch.testing._internal` is read from an installed torch, of which nothing else is imported: every
other name is tritorch's.  Arguments after `--` go to pytest.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any


class _Internals:
    """Finds torch.testing._internal, and torchgen, in the installed torch's files."""

    def __init__(self, torch: Path) -> None:
        self.torch = torch

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] == "torchgen":
            place = self.torch.parent.joinpath(*name.split("."))
        elif name.startswith("torch.testing._internal"):
            place = self.torch.joinpath(*name.split(".")[1:])
        else:
            return None
        if (place / "__init__.py").exists():
            folder = [str(place)]
            return importlib.util.spec_from_file_location(
                name, place / "__init__.py", submodule_search_locations=folder
            )
        return importlib.util.spec_from_file_location(name, place.with_suffix(".py"))


class _Functorch:
    """Finds functorch, a package beside PyTorch's, as what torch.func has of it."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != "functorch":
            return None
        return importlib.machinery.ModuleSpec(name, _FunctorchLoader(), is_package=True)  # type: ignore[arg-type]


class _FunctorchLoader:
    def create_module(self, spec: Any) -> types.ModuleType:
        return types.ModuleType(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        from tritorch import func

        module.__getattr__ = lambda name: _of_functorch(func, module, name)  # type: ignore[method-assign]


def _of_functorch(func: Any, module: types.ModuleType, name: str) -> Any:
    """A name of functorch: torch.func's, or one that nobody has."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(func, name, None) or _Missing(f"{module.__name__}.{name}")


class _Missing:
    """What a test imports that tritorch lacks: an error when it is used."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.__name__ = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(f"{self._path}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _is_list(sys._getframe(1)):
            return _Missing(f"{self._path}()")
        raise NotImplementedError(f"tritorch has no {self._path} yet")


class _MissingModule(types.ModuleType):
    """torch._refs, whose functions PyTorch's list of operators names, and only some tests call."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(f"{self.__name__}.{name}")


def _is_list(frame: Any) -> bool:
    """Whether a frame is of a file that lists operators."""
    code = frame.f_code
    return any(map(code.co_filename.__contains__, LISTS))


def alias(internals: Path) -> None:
    """`import torch` gives tritorch from now on, but for PyTorch's helpers of tests."""
    from tritorch import _absent, _as_torch

    refuse = _absent.lacking

    def lacking(path: str, name: str) -> Any:
        """What is absent; where PyTorch's list of operators only names it, a stand-in."""
        frame = _absent._program()
        try:
            found = refuse(path, name)
        except _absent.MissingError:
            if not _is_list(frame):
                raise
        else:
            if not (_is_list(frame) and isinstance(found, _absent.AbsentName)):
                return found
        return _Missing(f"torch.{path}.{name}".replace("..", "."))

    # It looks for the program that asks in the frames that are not the package's: this is one.
    space = {**globals(), "__name__": _absent.__name__}
    _absent.lacking = types.FunctionType(
        lacking.__code__, space, "lacking", None, lacking.__closure__
    )
    _as_torch.as_torch()
    sys.meta_path.insert(0, _Internals(internals))  # type: ignore[arg-type]
    sys.meta_path.insert(0, _Functorch)  # type: ignore[arg-type]
    import packaging.version
    import torch

    vendored = types.ModuleType("torch._vendor")
    vendored.packaging = packaging  # type: ignore[attr-defined]
    sys.modules["torch._vendor"] = vendored
    sys.modules["torch._vendor.packaging"] = packaging
    sys.modules["torch._vendor.packaging.version"] = packaging.version
    native = types.ModuleType("torch.backends.python_native")
    native.available_dsls = []  # type: ignore[attr-defined]
    torch.backends.python_native = native
    if not hasattr(torch, "_refs"):
        for name in REFERENCES:
            sys.modules[name] = _MissingModule(name)
            path, _, last = name.rpartition(".")
            setattr(sys.modules[path], last, sys.modules[name])


# Files that name operators, absent ones too.
LISTS = ("_internal/common_methods_invocations.py", "_internal/opinfo/")
REFERENCES = (
    "torch._refs", "torch._refs.nn", "torch._refs.nn.functional", "torch._refs.fft",
    "torch._refs.linalg", "torch._refs.special",
)  # fmt: skip


def no_generated_names(folder: Path) -> None:
    """`expecttest` compares texts; without it they are compared by its one function here."""
    if importlib.util.find_spec("expecttest") is None:
        raise SystemExit("PyTorch's tests want the package expecttest")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", type=Path, required=True, help="PyTorch's folder `test`")
    parser.add_argument("--torch", type=Path, help="the folder of the installed torch")
    parser.add_argument("files", nargs="+")
    args, rest = parser.parse_known_args()
    found = importlib.util.find_spec("torch")
    torch = args.torch or Path(found.origin).parent  # type: ignore[union-attr, arg-type]
    alias(torch)
    sys.path.insert(0, str(args.tests))
    import pytest

    return pytest.main([*(str(args.tests / f) for f in args.files), "-p", "no:cacheprovider", *rest])


if __name__ == "__main__":
    sys.exit(main())
