"""Marks of what torch.fx promises to keep."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")
_BACK_COMPAT_OBJECTS: dict[Any, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[Any, None] = {}
_KEPT = "\n\n.. note::\n    Backwards-compatibility for this API is guaranteed.\n"
_MAY_CHANGE = "\n\n.. warning::\n    This API is experimental and is *NOT* backward-compatible.\n"


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """A decorator that marks a function or class as kept, or as one that may change."""

    def mark(thing: _T) -> _T:
        note = _KEPT if is_backward_compatible else _MAY_CHANGE
        thing.__doc__ = textwrap.dedent(thing.__doc__ or "") + note
        _MARKED_WITH_COMPATIBILITY.setdefault(thing)
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(thing)
        return thing

    return mark


def marked(names: dict[str, Any], module: str) -> None:
    """Marks a module's public classes and functions as ones that may change.

    A module calls it at its end with its globals; what was marked before stays as it is."""
    for name, thing in names.items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module:
            continue
        if callable(thing) and thing not in _MARKED_WITH_COMPATIBILITY:
            _MARKED_WITH_COMPATIBILITY.setdefault(thing)
