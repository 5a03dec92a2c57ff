"""What a source imports, read from its text."""

from __future__ import annotations

import ast
import contextlib
from typing import Any

from tritorch.package._importlib import _resolve_name


def find_files_source_depends_on(src: str, package: str) -> list[tuple[str, str | None]]:
    """(module, name) of what a source in a package imports; None for the module as a whole.

    A name may be a submodule: who asks finds out."""
    visitor = _ExtractModuleReferences(package)
    visitor.visit(ast.parse(src))
    return [*visitor.references]


class _ExtractModuleReferences(ast.NodeVisitor):
    """Collects import statements and calls of `__import__` with constants."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.references: dict[tuple[str, str | None], bool] = {}

    def visit_Import(self, node: ast.Import) -> None:
        """`import a.b, c`"""
        for alias in node.names:
            self.references[alias.name, None] = True

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """`from ..a import b`"""
        self._note_names(node.module or "", node.level or 0, [alias.name for alias in node.names])

    def visit_Call(self, node: ast.Call) -> None:
        """`__import__("a.b", fromlist=["c"])`"""
        self.generic_visit(node)
        if getattr(node.func, "id", None) != "__import__":
            return
        arguments: dict[str, Any] = dict(zip(_IMPORT, node.args))
        arguments |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        with contextlib.suppress(ValueError, KeyError, TypeError):  # not constants
            name = ast.literal_eval(arguments["name"])
            names = ast.literal_eval(arguments["fromlist"]) if "fromlist" in arguments else ()
            level = ast.literal_eval(arguments["level"]) if "level" in arguments else 0
            if names:
                self._note_names(name, level, names)
            else:  # the name's first part is what such a call gives
                name = _resolve_name(name, self.package, level) if level else name
                self.references[name, None] = True
                if "." in name:
                    self.references[name.rpartition(".")[0], None] = True

    def _note_names(self, module: str, level: int, names: Any) -> None:
        module = _resolve_name(module, self.package, level) if level else module
        for name in names:
            self.references[module, None if name == "*" else name] = True


_IMPORT = ("name", "globals", "locals", "fromlist", "level")
