"""Settings that are attributes of a module, as `torch.backends.cudnn.benchmark = True`."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from tritorch.core.scopes import Scope, scoped, set_back, sets


class _Freedom:
    """Whether a program may set flags outside of a `with flags(...)`."""

    frozen = False
    exchanging = False


def disable_global_flags() -> None:
    """From now on a flag is set by `with flags(...)` alone, which sets it back."""
    _Freedom.frozen = True


def flags_frozen() -> bool:
    """Whether flags can be set by `with flags(...)` alone."""
    return _Freedom.frozen and not _Freedom.exchanging


class Flag:
    """A setting: of one type, kept, and told to `effect` where it changes what tritorch does.

    With `read`, it is what that says; otherwise what it was set to.
    """

    def __init__(
        self,
        value: Any,
        kind: Any = None,
        effect: Callable[[Any], None] | None = None,
        read: Callable[[], Any] | None = None,
        free: bool = False,
    ) -> None:
        """free: it can be set after `disable_global_flags` too."""
        self.value, self.effect, self.read, self.free = value, effect, read, free
        self.kind = type(value) if kind is None else kind

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.owner = name, owner.__name__
        self._shown = f"{owner.__module__.replace('tritorch', 'torch')}"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.value if self.read is None else self.read()

    def __set__(self, instance: Any, value: Any) -> None:
        # As in PyTorch, those of an object in a module (torch.backends.cuda.matmul) stay free.
        if isinstance(instance, types.ModuleType) and flags_frozen() and not self.free:
            raise RuntimeError(
                f"not allowed to set {self._shown} flags after disable_global_flags; please use "
                "flags() context manager instead"
            )
        if not isinstance(value, self.kind) or (self.kind is int and isinstance(value, bool)):
            raise RuntimeError(
                f"set_{self.name}_{self.owner} expects a {self.kind.__name__}, but got "
                f"{type(value).__name__}"
            )
        if self.effect is not None:
            self.effect(value)
        self.value = value


class Strict:
    """Settings that are attributes of an object, which takes no others."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            raise AttributeError(f"Unknown attribute {name}")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Unknown attribute {name}")


def install(module: str, flags: type) -> None:
    """Makes the Flags in a class the attributes of a module."""
    name = flags.__name__
    sys.modules[module].__class__ = type(name, (flags, types.ModuleType), {})


def exchange(owner: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Sets those that are not None, and tells what they were."""
    before = {name: getattr(owner, name) for name in values}
    with Scope((_Freedom, "exchanging", True)):
        for name, value in values.items():
            if value is not None:
                setattr(owner, name, value)
    return before


@scoped
def within(owner: Any, values: dict[str, Any]) -> Scope:
    """Sets those that are not None, and sets them back."""
    before = {name: getattr(owner, name) for name in values}
    # The last that was set goes first: one may ask for another.
    back = {n: v for n, v in reversed(before.items()) if values[n] is not None}
    return Scope(set_back(exchange, owner, back), sets(exchange, owner, values))
