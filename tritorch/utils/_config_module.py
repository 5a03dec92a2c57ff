"""Settings of a module: names with values, which `patch` changes for a while."""

from __future__ import annotations

import contextlib
import copy
import types
from typing import Any

__all__ = ["ConfigModule", "ContextDecorator", "install_config_module"]


class ContextDecorator(contextlib.ContextDecorator):
    """The settings of a module, changed inside of a block, a function, or a class of tests."""

    def __init__(self, config: ConfigModule, changes: dict[str, Any]) -> None:
        self.config, self.changes = config, changes
        self.before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self.before.append({name: getattr(self.config, name) for name in self.changes})
        for name, value in self.changes.items():
            setattr(self.config, name, value)

    def __exit__(self, *exception: object) -> None:
        for name, value in self.before.pop().items():
            setattr(self.config, name, value)

    def __call__(self, function: Any) -> Any:
        """A function that runs inside; of a class, all its tests do."""
        if not isinstance(function, type):
            return super().__call__(function)
        for name, value in list(vars(function).items()):
            if name.startswith("test_") and callable(value):
                setattr(function, name, super().__call__(value))
        return function


class ConfigModule(types.ModuleType):
    """A module whose names without underscore, functions and modules are settings."""

    def _names(self) -> list[str]:
        skipped = (types.ModuleType, types.FunctionType, type)
        return [
            name
            for name, value in vars(self).items()
            if not name.startswith("_") and not isinstance(value, skipped)
        ]

    def patch(
        self, arg1: str | dict[str, Any] | None = None, arg2: Any = None, **kwargs: Any
    ) -> ContextDecorator:
        """A scope with other settings: `patch("a", 1)`, `patch({"a": 1})`, `patch(a=1)`."""
        changes = kwargs or (arg1 if isinstance(arg1, dict) else {str(arg1): arg2})
        for name in changes:
            if name not in self._names():
                raise AttributeError(f"{self.__name__}.{name} does not exist")
        return ContextDecorator(self, dict(changes))

    def get_config_copy(self) -> dict[str, Any]:
        """All settings."""
        return {name: copy.deepcopy(getattr(self, name)) for name in self._names()}

    shallow_copy_dict = to_dict = get_config_copy

    def load_config(self, config: dict[str, Any]) -> None:
        """Sets many."""
        for name, value in config.items():
            setattr(self, name, value)

    def is_default(self, name: str) -> bool:
        """Whether a setting is what it was first."""
        return getattr(self, name) == self._default[name]


def install_config_module(module: Any) -> None:
    """Makes a module one of settings."""
    module.__class__ = ConfigModule
    module._default = module.get_config_copy()
