"""The settings of a program, everywhere in the package: found by looking, not by a list."""

from __future__ import annotations

import gc
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import tritorch
from tritorch import _C
from tritorch.core import thread_state

_PLAIN = (bool, int, float, str, bytes, type(None), tritorch.dtype, tritorch.device)
_SEEN = (list, tuple, set, frozenset)


def _shown(value: Any) -> Any:
    """A value as it can be compared later: numbers and names as they are, containers by their
    items' identities, None for what says nothing of a state."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, _SEEN) and len(value) < 50:
        return type(value).__name__, tuple(_shown(x) or id(x) for x in value)
    return None


def _objects() -> Any:
    """Modules of the package, and the objects of its own classes that stand in them."""
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("tritorch") or not isinstance(module, types.ModuleType):
            continue
        yield name, vars(module)
        for key, value in list(vars(module).items()):
            if isinstance(value, (types.ModuleType, type)):
                continue
            if type(value).__module__.startswith("tritorch") or isinstance(value, threading.local):
                fields = getattr(value, "__dict__", None)
                if isinstance(fields, dict):
                    yield f"{name}.{key}", fields


class _Fields:
    """The fields of an object that say something of a state, read again only where they may be
    others: a constant is the same object, and who has as many names as before has the same."""

    def __init__(self, owner: str, fields: dict[str, Any]) -> None:
        self.owner, self.fields = owner, fields
        self.size = -1
        self.kept: list[tuple[str, str, Any, Any]] = []  # name, full name, value, as it is shown

    def read(self, found: dict[str, Any]) -> None:
        """Adds them, by their full names."""
        fields = self.fields
        if len(fields) != self.size:
            self.size = len(fields)
            self.kept = [
                (key, f"{self.owner}.{key}", value, shown)
                for key, value in list(fields.items())
                if not key.startswith("__") and (shown := _shown(value)) is not None
            ]
        for key, name, value, shown in self.kept:
            now = fields.get(key)
            same = now is value and isinstance(value, _PLAIN)
            found[name] = shown if same else _shown(now)


_known: dict[int, _Fields] = {}


def snapshot(anew: bool = False) -> dict[str, Any]:
    """The state of this thread and of the process, by name; anew: also of modules that are new."""
    if anew or not _known:
        for owner, fields in _objects():
            _known.setdefault(id(fields), _Fields(owner, fields))
    found: dict[str, Any] = {}
    for each in _known.values():
        each.read(found)
    for flag in thread_state._FLAGS:
        found[f"_C.{flag.__name__}"] = thread_state._read(flag)
    found["region"] = repr(_C.current_region())
    found["unfollowed, held back"] = _C.follow_counts()
    found["Tensor._a"] = "_a" in vars(tritorch.Tensor)
    found["gc"] = gc.isenabled()
    found["path"] = list(sys.path)
    found["warnings"] = repr(warnings.showwarning)
    found["default dtype"] = repr(tritorch.get_default_dtype())
    found["default device"] = repr(tritorch.get_default_device())
    found["cast"] = len(tritorch.amp.state.state.cast)
    if _C.driver_loaded():
        found["device"] = _C.current_device()
        found["stream"] = _C.current_stream(_C.current_device())
    return found


def steady(run: Callable[[], Any]) -> Callable[[], dict[str, Any]]:
    """A snapshot without what changes in runs that nothing interrupts (counts, caches, seeds)."""
    before = snapshot(anew=True)
    varying = set()
    for _ in range(2):
        run()
        after = snapshot(anew=True)
        varying |= {key for key in {*before, *after} if before.get(key) != after.get(key)}
        before = after
    return lambda: {key: value for key, value in snapshot().items() if key not in varying}


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The settings that differ, in words."""
    return [
        f"{key}: {before.get(key)} -> {after.get(key)}"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
        and not (key not in before and after[key] in ("None", "False", "0", ("list", ())))
    ]
