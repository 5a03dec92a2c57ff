"""Decorators for pipes: names for the functional form, determinism, checks of types."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from typing import Any

from tritorch.core.scopes import ScopeWhenMade
from tritorch.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

_KINDS = (IterDataPipe, MapDataPipe)
_determinism = False
_validation = True


class functional_datapipe:
    """`@functional_datapipe("name")` makes a pipe's class a method of all pipes of its kind."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        for kind in _KINDS:
            if issubclass(cls, kind):
                kind.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
        return cls


class guaranteed_datapipes_determinism(ScopeWhenMade):
    """`with guaranteed_datapipes_determinism():` refuses pipes that say they are random."""

    def changes(self, mode: bool = True) -> Any:
        return ((sys.modules[__name__], "_determinism", mode),)


class non_deterministic:
    """Marks a pipe's class as random, always or where a function of its arguments says so."""

    def __init__(self, arg: Any) -> None:
        self.cls: Any = None
        self.deterministic_fn: Callable[..., bool] = lambda *args, **kwargs: True
        if inspect.isclass(arg):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(
                    f"Only `IterDataPipe` can be decorated with `non_deterministic`, but "
                    f"{arg.__name__} is found"
                )
            self.cls = arg
        elif callable(arg):
            self.deterministic_fn = arg
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is not None:
            return self._make(*args, **kwargs)
        if len(args) != 1 or not (inspect.isclass(args[0]) and issubclass(args[0], IterDataPipe)):
            raise TypeError(
                f"Only `IterDataPipe` can be decorated, but {getattr(args[0], '__name__', args[0])}"
                f" is found"
            )
        self.cls = args[0]
        return self._make

    def _make(self, *args: Any, **kwargs: Any) -> Any:
        if _determinism and self.deterministic_fn(*args, **kwargs):
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic, but you set "
                f"'guaranteed_datapipes_determinism'. You can turn off determinism for this "
                f"DataPipe if that is acceptable for your application"
            )
        return self.cls(*args, **kwargs)


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Checks that arguments that are annotated as pipes are pipes."""
    signature = inspect.signature(f)
    hints: dict[str, Any] = {}

    @functools.wraps(f)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not hints:
            with contextlib.suppress(NameError):
                hints.update(typing.get_type_hints(f))
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            hint = typing.get_origin(hints.get(name)) or hints.get(name)
            if inspect.isclass(hint) and issubclass(hint, _KINDS) and not isinstance(value, hint):
                raise TypeError(
                    f"Expected argument '{name}' as a {hint.__name__}, but found {type(value)}"
                )
        return f(*args, **kwargs)

    return checked


class runtime_validation_disabled(ScopeWhenMade):
    """`with runtime_validation_disabled():` leaves out what runtime_validation checks."""

    def changes(self) -> Any:
        return ((sys.modules[__name__], "_validation", False),)


def _declared_type(pipe: Any) -> Any:
    """T of `class Pipe(IterDataPipe[T])`, where it is a class."""
    for cls in type(pipe).__mro__:
        for base in cls.__dict__.get("__orig_bases__", ()):
            if typing.get_origin(base) in _KINDS:
                (found,) = typing.get_args(base)
                return typing.get_origin(found) or found
    return None


def runtime_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Checks what `__iter__` of a `class Pipe(IterDataPipe[T])` yields."""
    if f.__name__ != "__iter__":
        raise TypeError(f"Can not decorate function {f.__name__} with 'runtime_validation'")

    @functools.wraps(f)
    def checked(self: Any) -> Iterator[Any]:
        kind = _declared_type(self)
        for item in f(self):
            if _validation and inspect.isclass(kind) and not isinstance(item, kind):
                raise RuntimeError(
                    f"Expected an instance as subtype of {kind}, but found {item} of type "
                    f"{type(item)}"
                )
            yield item

    return checked
