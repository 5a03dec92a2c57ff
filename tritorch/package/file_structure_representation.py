"""An archive's files as a tree, to be looked at."""

from __future__ import annotations

from collections.abc import Iterable

from tritorch.package.glob_group import GlobGroup, GlobPattern

__all__ = ["Directory"]


class Directory:
    """A folder with its children by name, or a file, which has none."""

    def __init__(self, name: str, is_dir: bool) -> None:
        self.name = name
        self.is_dir = is_dir
        self.children: dict[str, Directory] = {}

    def _add_file(self, file_path: str) -> None:
        folder = self
        *folders, name = file_path.split("/")
        for each in folders:
            folder = folder.children.setdefault(each, Directory(each, True))
        folder.children[name] = Directory(name, False)

    def has_file(self, filename: str) -> bool:
        """Whether there is a file, or a folder, of this path."""
        found: Directory | None = self
        for part in filename.split("/"):
            found = found.children.get(part) if found is not None else None
        return found is not None

    def __str__(self) -> str:
        return "".join(self._lines("", "─── ", "    "))

    def _lines(self, before: str, mark: str, below: str) -> Iterable[str]:
        """A line for each file, folders first; mark, below: what leads to it and into it."""
        yield f"{before}{mark}{self.name}\n"
        shown = sorted(self.children.values(), key=lambda each: (not each.is_dir, each.name))
        for child in shown:
            last = child is shown[-1]
            marks = ("└── ", "    ") if last else ("├── ", "│   ")
            yield from child._lines(before + below, *marks)


def _create_directory_from_file_list(
    filename: str,
    file_list: Iterable[str],
    include: GlobPattern = "**",
    exclude: GlobPattern = (),
) -> Directory:
    """A folder of the files whose paths are meant."""
    wanted = GlobGroup(include, exclude=exclude, separator="/")
    top = Directory(filename, True)
    for file in file_list:
        if wanted.matches(file):
            top._add_file(file)
    return top
