"""Settings of a module: names with values, which `patch` changes for a while."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import hashlib
import pickle
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tritorch.core.scopes import Scope

__all__ = ["ConfigModule", "ContextDecorator", "install_config_module"]


class ContextDecorator(Scope, contextlib.ContextDecorator):
    """The settings of a module, changed inside of a block, a function, or a class of tests."""

    def __init__(self, config: ConfigModule, changes: dict[str, Any]) -> None:
        self.config, self.settings = config, changes

    def changes(self) -> Any:
        own = self.config._own_names(self.settings)
        values = self.config._values
        before = {name: values[name] for name in own}
        return ((partial(values.update, own), None, partial(values.update, before)),)

    def __call__(self, function: Any) -> Any:
        """A function that runs inside; of a class, all its tests do."""
        if not isinstance(function, type):
            return super().__call__(function)
        for name, value in list(vars(function).items()):
            if name.startswith("test_") and callable(value):
                setattr(function, name, super().__call__(value))
        return function


class _Section:
    """The settings of a module whose names begin alike: `config.triton.cudagraphs`."""

    def __init__(self, config: ConfigModule, prefix: str) -> None:
        vars(self).update(_config=config, _prefix=prefix)

    def __getattr__(self, name: str) -> Any:
        return self._config._get(f"{self._prefix}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        self._config._set(f"{self._prefix}.{name}", value)

    def __dir__(self) -> list[str]:
        start = f"{self._prefix}."
        names = (n.removeprefix(start) for n in self._config._values if n.startswith(start))
        return sorted({name.partition(".")[0] for name in names})


class ConfigModule(types.ModuleType):
    """A module whose names are settings: others than those it was made with are errors."""

    _values: dict[str, Any]
    _default: dict[str, Any]
    _aliases: dict[str, str]
    _compile_ignored_keys: set[str]

    def _get(self, name: str) -> Any:
        name = self._aliases.get(name, name)
        if name in self._values:
            return self._values[name]
        if any(each.startswith(f"{name}.") for each in self._values):
            return _Section(self, name)
        raise AttributeError(f"{self.__name__}.{name} does not exist")

    def _own_names(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings by the names that they have here, not by those of aliases."""
        own = {self._aliases.get(name, name): value for name, value in settings.items()}
        for name in own:
            if name not in self._values:
                raise AttributeError(f"{self.__name__}.{name} does not exist")
        return own

    def _set(self, name: str, value: Any) -> None:
        name = self._aliases.get(name, name)
        if name not in self._values:
            raise AttributeError(f"{self.__name__}.{name} does not exist")
        self._values[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        try:
            return self._get(name)
        except AttributeError:
            lacking = vars(self).get("_lacking")
            if lacking is None:
                raise
            with contextlib.suppress(AttributeError):
                return lacking(name)
            raise

    def _adopted(self, lacking: Callable[[str], Any]) -> None:
        """`lacking` is asked for what is no setting."""
        vars(self)["_lacking"] = lacking

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or name in ConfigModule.__annotations__:
            super().__setattr__(name, value)
        else:
            self._set(name, value)

    def __delattr__(self, name: str) -> None:
        """The setting is its default again."""
        self._set(name, copy.deepcopy(self._default[self._aliases.get(name, name)]))

    def __dir__(self) -> list[str]:
        tops = {name.partition(".")[0] for name in (*self._values, *self._aliases)}
        return sorted({*super().__dir__(), *tops})

    def patch(
        self, arg1: str | dict[str, Any] | None = None, arg2: Any = None, **kwargs: Any
    ) -> ContextDecorator:
        """A scope with other settings: `patch("a", 1)`, `patch({"a": 1})`, `patch(a=1)`."""
        changes = kwargs or (arg1 if isinstance(arg1, dict) else {str(arg1): arg2})
        for name in changes:
            self._get(name)
        return ContextDecorator(self, dict(changes))

    def _make_closure_patcher(self, **changes: Any) -> Callable[[], Callable[[], None]]:
        """A function that changes settings, and returns one that takes it back."""

        def change() -> Callable[[], None]:
            scope = self.patch(changes)
            scope.__enter__()
            return functools.partial(scope.__exit__, None, None, None)

        return change

    def get_config_copy(self) -> dict[str, Any]:
        """All settings."""
        return copy.deepcopy(self._values)

    def shallow_copy_dict(self) -> dict[str, Any]:
        """All settings, their values themselves."""
        return dict(self._values)

    to_dict = get_config_copy

    def save_config(self) -> bytes:
        """All settings, as bytes."""
        return pickle.dumps(self._values, protocol=2)

    def save_config_portable(self, *, ignore_private_configs: bool = True) -> dict[str, Any]:
        """Those that are not the default, without those that begin with an underscore."""
        return {
            name: value
            for name, value in self._values.items()
            if value != self._default[name] and not (ignore_private_configs and name[0] == "_")
        }

    def codegen_config(self) -> str:
        """Statements that set what is not the default."""
        changed = self.save_config_portable(ignore_private_configs=False)
        return "\n".join(f"{self.__name__}.{name} = {value!r}" for name, value in changed.items())

    def get_hash(self) -> bytes:
        """A hash of all settings."""
        text = repr(sorted((name, repr(value)) for name, value in self._values.items()))
        return hashlib.md5(text.encode(), usedforsecurity=False).digest()

    def load_config(self, maybe_pickled_config: bytes | dict[str, Any]) -> None:
        """Sets many, as `save_config` or `get_config_copy` give them."""
        given = maybe_pickled_config
        if isinstance(given, bytes):
            given = _plain_pickle(given)
        for name, value in given.items():
            self._set(name, value)

    def get_type(self, config_name: str) -> type:
        """The type of a setting's default."""
        return type(self._default[self._aliases.get(config_name, config_name)])

    def is_default(self, name: str) -> bool:
        """Whether a setting is what it was first."""
        return bool(self._get(name) == self._default[self._aliases.get(name, name)])


class _Plain(pickle.Unpickler):
    """Numbers, texts and their collections: nothing that runs."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("builtins", "set"), ("__builtin__", "set")):
            return set
        raise pickle.UnpicklingError(f"settings hold no {module}.{name}")


def _plain_pickle(data: bytes) -> dict[str, Any]:
    import io

    found = _Plain(io.BytesIO(data)).load()
    if not isinstance(found, dict):
        raise TypeError(f"load_config(): expected settings, got {type(found).__name__}")
    return found


@functools.cache
def recorded() -> dict[str, tuple[dict[str, Any], dict[str, str]]]:
    """Of each of PyTorch's modules of settings: the defaults, and the names that are one."""
    found: dict[str, tuple[dict[str, Any], dict[str, str]]] = {}
    text = (Path(__file__).parents[1] / "compat" / "settings.txt").read_text(encoding="ascii")
    for line in text.splitlines()[1:]:
        if line.startswith("["):
            values, aliases = found.setdefault(line[1:-1], ({}, {}))
        elif " -> " in line:
            name, _, other = line.partition(" -> ")
            aliases[name] = other
        else:
            name, _, value = line.partition(" = ")
            values[name] = set() if value == "set()" else ast.literal_eval(value)
    return found


def install_config_module(module: Any) -> None:
    """Makes a module one of settings: what it defines, or what PyTorch's of its name has."""
    skipped = (types.ModuleType, types.FunctionType, type)
    own = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, skipped)
    }
    values, aliases = recorded().get(module.__name__.partition(".")[2], ({}, {}))
    for name in own:
        del vars(module)[name]
    vars(module).update(
        _values=copy.deepcopy(values) | own, _aliases=aliases, _compile_ignored_keys=set()
    )
    vars(module)["_default"] = copy.deepcopy(module._values)
    module.__class__ = ConfigModule
