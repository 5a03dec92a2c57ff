"""Names of modules that live in archives: `<torch_package_0>.foo.bar` is foo.bar of the first one.

Two archives, and the program, may each have a module of one name.  `__name__`, and so `__module__`
of classes, has the archive in front, so that no two are taken for one; everything that is looked up
inside of an archive goes by the plain name.
"""

from __future__ import annotations

import itertools
import re

_numbers = itertools.count()
_MANGLED = re.compile(r"<torch_package_\d+>")


class PackageMangler:
    """Puts the name of one archive in front of its modules' names."""

    def __init__(self) -> None:
        self._mangle_parent = f"<torch_package_{next(_numbers)}>"

    def mangle(self, name: str) -> str:
        """A module's name with the archive's in front."""
        if not name:
            raise AssertionError("name must not be empty")
        return f"{self._mangle_parent}.{name}"

    def demangle(self, mangled: str) -> str:
        """The plain name, if it has this archive's in front; other names are as they are."""
        return mangled.removeprefix(f"{self._mangle_parent}.")

    def parent_name(self) -> str:
        """The archive's name."""
        return self._mangle_parent


def is_mangled(name: str) -> bool:
    """Whether a name has an archive's in front."""
    return bool(_MANGLED.match(name))


def demangle(name: str) -> str:
    """The plain name, whichever archive's is in front; "" of an archive's own."""
    return name.partition(".")[2] if is_mangled(name) else name


def get_mangle_prefix(name: str) -> str:
    """The archive's name in front; a plain name as it is."""
    return name.partition(".")[0] if is_mangled(name) else name
