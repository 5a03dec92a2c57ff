"""Names of files and modules, as importing takes them."""

from __future__ import annotations

import os


def _normalize_line_endings(source: bytes) -> bytes:
    return source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _normalize_path(path: str) -> str:
    """A file's name; ValueError for one with folders in front."""
    parent, name = os.path.split(path)
    if parent:
        raise ValueError(f"{path!r} must be only a file name")
    return name


def _resolve_name(name: str, package: str, level: int) -> str:
    """The module that `from ..name import` means in a package."""
    bits = package.rsplit(".", level - 1)
    if len(bits) < level:
        raise ValueError("attempted relative import beyond top-level package")
    return f"{bits[0]}.{name}" if name else bits[0]
