"""Kernels of packages, where launches look for compiled ones."""

from __future__ import annotations

from typing import Any

from tritorch.triton import cache, keys


def attach(archive: Any) -> None:
    """Lets launches find a package's kernels, if they are of this version's sources."""
    if archive.kernels == keys.sources_digest():
        cache.attach(lambda target, key: cache.Entry.from_bytes(archive.kernel(target, key)))
