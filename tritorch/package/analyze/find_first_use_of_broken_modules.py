"""Where the modules come from that an export failed on."""

from __future__ import annotations

from tritorch.package._errors import PackagingError

__all__ = ["find_first_use_of_broken_modules"]


def find_first_use_of_broken_modules(exc: PackagingError) -> dict[str, list[str]]:
    """For each module that an export failed on, the modules that led to it when it was first met:
    {"m.n": ["a", "b", "m.n"]}."""
    if not isinstance(exc, PackagingError):
        raise AssertionError(f"exception must be a PackagingError, got {type(exc).__name__}")
    graph = exc.dependency_graph
    return {name: graph.first_path(name) for name, said in graph.nodes.items() if said.get("error")}
