"""What keeps modules out of an archive, and the errors that say so, all at once."""

from __future__ import annotations

from collections import defaultdict
from enum import Enum

from tritorch.package._digraph import DiGraph

# Of Python's own library, but with so much power over the system that an archive may use them
# only when its author says so.
_DISALLOWED_MODULES = ["sys", "io"]
_NOTE = (
    "      Note: While we usually use modules in the python standard library from the local "
    "environment, `{0}` has a lot of system level access and therefore can pose a security risk. "
    "We heavily recommend removing `{0}` from your packaged code. However, if that is not "
    'possible, add it to the extern list by calling PackageExporter.extern("`{0}`")\n'
)


class PackagingErrorReason(Enum):
    """Why a module cannot be in an archive."""

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__}.{self.name}>"

    IS_EXTENSION_MODULE = (
        "Module is a C extension module. torch.package supports Python modules only."
    )
    NO_DUNDER_FILE = "Module had no __file__ defined."
    SOURCE_FILE_NOT_FOUND = "Module had a __file__, but we could not find it in your filesystem."
    DEPENDENCY_RESOLUTION_FAILED = "Dependency resolution failed."
    NO_ACTION = "Module did not match against any action pattern. Extern, mock, or intern it."
    DENIED = "Module was denied by a pattern."
    MOCKED_BUT_STILL_USED = (
        "Module was mocked out, but is still being used in the package. Please intern or extern "
        "the mocked modules if objects are supposed to be in the package."
    )


class EmptyMatchError(Exception):
    """A pattern with `allow_empty=False` has met no module."""


class PackagingError(Exception):
    """An archive cannot be written; the text has every module that stands in the way, by reason.

    debug: and by which modules the exporter came to it.  `dependency_graph` has all of it."""

    def __init__(self, dependency_graph: DiGraph, debug: bool = False) -> None:
        broken: dict[PackagingErrorReason, list[str]] = defaultdict(list)
        for name, said in dependency_graph.nodes.items():
            if said.get("error") is not None:
                broken[said["error"]].append(name)
        lines = ["\n"]
        for reason, modules in broken.items():
            lines.append(f"* {reason.value}\n")
            for name in modules:
                lines.append(f"    {name}\n")
                context = dependency_graph.nodes[name].get("error_context")
                if context is not None:
                    lines.append(f"      Context: {context}\n")
                if name in _DISALLOWED_MODULES:
                    lines.append(_NOTE.format(name))
                if debug:
                    path = " -> ".join(dependency_graph.first_path(name))
                    lines.append(f"      A path to {name}: {path}\n")
        if not debug:
            lines.append(
                "\nSet debug=True when invoking PackageExporter for a visualization of where broken"
                " modules are coming from!\n"
            )
        self.dependency_graph = dependency_graph
        super().__init__("".join(lines))
