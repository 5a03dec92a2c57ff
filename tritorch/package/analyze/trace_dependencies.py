"""Which modules run when a function is called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

__all__ = ["trace_dependencies"]


def trace_dependencies(
    callable: Callable[..., Any], inputs: Iterable[tuple[Any, ...]]
) -> list[str]:
    """The names of the modules whose functions run while a function is called with each of some
    inputs."""
    used: dict[str, None] = {}

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and (module := _module_of(frame)):
            used[module] = None

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for each in inputs:
            callable(*each)
    finally:
        sys.setprofile(before)
    return [*used]


def _module_of(frame: FrameType) -> str | None:
    """The module of the function that runs in a frame: of one of its globals, of its locals, or a
    method of its `self`."""
    name = frame.f_code.co_name
    for space in (frame.f_globals, frame.f_locals):
        if name in space:
            return getattr(space[name], "__module__", None)
    return getattr(getattr(frame.f_locals.get("self"), name, None), "__module__", None)
