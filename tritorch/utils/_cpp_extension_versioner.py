"""Versions of extensions that a process builds more than once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """How often an extension was built anew, and of what the last time."""

    version: int
    hash: str


class ExtensionVersioner:
    """Counts, for each extension, how often what it is built of has changed.

    A library that was loaded cannot be loaded anew: the next version has another name."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def get_version(self, name: str) -> int | None:
        """The version that was built last; None before the first."""
        entry = self.entries.get(name)
        return None if entry is None else entry.version

    def bump_version_if_changed(
        self, name: str, source_files: Iterable[str], **conditions: Any
    ) -> int:
        """The version of these sources' contents under these conditions."""
        digest = hashlib.sha256(repr(sorted(conditions.items())).encode())
        for file in source_files:
            digest.update(hashlib.sha256(Path(file).read_bytes()).digest())
        found, entry = digest.hexdigest(), self.entries.get(name)
        if entry is None or entry.hash != found:
            entry = Entry(0 if entry is None else entry.version + 1, found)
            self.entries[name] = entry
        return entry.version
