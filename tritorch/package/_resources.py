"""Files beside the modules of an archive, as importlib.resources reads them."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

from tritorch.package._directory_reader import DirectoryReader


class _PackageResourceReader:
    """The files of one package of an archive (importlib.abc.ResourceReader)."""

    def __init__(self, importer: Any, fullname: str) -> None:
        self.importer = importer
        self.fullname = fullname

    def open_resource(self, resource: str) -> io.BytesIO:
        """A file, open."""
        return io.BytesIO(self.importer.load_binary(self.fullname, resource))

    def resource_path(self, resource: str) -> str:
        """A file's path, which it has in an unpacked archive alone."""
        reader, path = self.importer.zip_reader, self._path(resource)
        if isinstance(reader, DirectoryReader) and reader.has_record(path):
            return os.path.join(reader.directory, path)
        raise FileNotFoundError(path)

    def is_resource(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return self.importer.zip_reader.has_record(self._path(name))

    def contents(self) -> Iterator[str]:
        """The names of files, and of folders."""
        folder = f"{self.importer._zipfile_path(self.fullname)}/"
        files = self.importer.zip_reader.get_all_records()
        below = (name.removeprefix(folder) for name in files if name.startswith(folder))
        return iter(dict.fromkeys(name.partition("/")[0] for name in below))

    def _path(self, name: str) -> str:
        return self.importer._zipfile_path(self.fullname, name)
