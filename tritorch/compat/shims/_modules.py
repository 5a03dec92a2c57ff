"""Modules of a shim, and the metadata of the package that it stands in for."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from importlib import metadata
from importlib.machinery import ModuleSpec
from typing import Any


class _Stated(metadata.Distribution):
    """The distribution that a shim stands in for."""

    def __init__(self, name: str, version: str) -> None:
        self._texts = {
            "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            f"Summary: a shim of {name} by tritorch\n"
        }

    def read_text(self, filename: str) -> str | None:
        return self._texts.get(filename)

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"a shim has no files: {path}")


class _Finder:
    """Says of a shim's package what is there, and by name what is not."""

    def __init__(self, package: str, version: str) -> None:
        self.package, self.version = package, version

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.startswith(self.package + "."):
            raise ModuleNotFoundError(
                f"No module named {name!r}: tritorch's shim of {self.package} does not serve it "
                "(docs/packages.md)", name=name,
            )  # fmt: skip
        return None

    def find_distributions(self, context: Any = None) -> Iterator[metadata.Distribution]:
        wanted = getattr(context, "name", None)
        if wanted is None or wanted.replace("-", "_") == self.package:
            yield _Stated(self.package, self.version)


def add(package: str, version: str, contents: dict[str, dict[str, Any]]) -> None:
    """Makes modules by their paths below the package ("" for itself), with these names in them."""
    for path, names in contents.items():
        full = f"{package}.{path}".rstrip(".")
        module = types.ModuleType(full, f"{full}, a shim by tritorch")
        module.__spec__ = ModuleSpec(full, None, is_package=True)
        vars(module).update(names, __path__=[], __tritorch_shim__=True)
        sys.modules[full] = module
        above, _, name = full.rpartition(".")
        if above:
            setattr(sys.modules[above], name, module)
    sys.modules[package].__version__ = version  # type: ignore[attr-defined]
    sys.meta_path.insert(0, _Finder(package, version))
