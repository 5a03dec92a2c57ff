"""Scopes: contexts that set something for a time, and are entered and left natively.

A Ctrl-C may arrive between any two bytecodes, so a context manager that sets something says what,
and the native half sets it and sets it back: Note [Scopes] in src/scopes.cpp.  A function that
would be a `contextlib.contextmanager` gives a Scope of its changes instead.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from tritorch import _C

Scope = _C.Scope
ScopeItself = _C.ScopeItself


class ScopeWhenMade(_C.ScopeWhenMade):
    """A Scope that sets when it is made, a call or a context: it takes what `changes` does.

    choices: the changes of False and of True, where a bool is all that it takes."""

    choices: Any = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "changes" in vars(cls):
            if "choices" not in vars(cls):
                cls.choices = None  # of a class above
            _, *parameters = inspect.signature(cls.changes).parameters.values()
            cls.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]


unrecorded = Scope((_C.set_grad_enabled, False))  # no gradients are recorded
recorded = Scope((_C.set_grad_enabled, True))
as_plain = Scope((_C.set_overrides, False))  # subclasses of Tensor do not override
overriding = Scope((_C.set_overrides, True))
unfollowed = Scope((_C.unfollow, 1))  # this thread's calls are made at once
# No garbage is looked for: what is made for a plan lives on, and to go through all objects that a
# program has, again and again, takes longer than to make it.
uncollected = Scope((_C.set_collecting, False))
unchanged = Scope()

ABOUT_TO_CHANGE = (_C.ambient_changes,)  # among changes: what compiled calls depend on is one


class Giving(Scope):
    """A Scope whose `with` gives a value."""

    def __init__(self, value: Any, *changes: Any) -> None:
        self.value, self.changes = value, changes

    def __enter__(self) -> Any:
        super().__enter__()
        return self.value


def set_back(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """The change that function(*args), which may be called twice, takes back."""
    return None, None, partial(function, *args)


def sets(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """The change that function(*args) makes, and one before it takes back."""
    return partial(function, *args), None, None


class _Made(Scope):
    """The result of a function of `scoped`: its scope is made when this is entered."""

    left_when_dropped = True  # as a generator ends

    def __init__(self, make: Callable[[], Scope]) -> None:
        self._make, self._value = make, None

    def changes(self) -> Any:
        scope = self._make()
        self._value = getattr(scope, "value", None)
        return (scope,)

    def __enter__(self) -> Any:
        super().__enter__()
        return self._value

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return inside(_Made(self._make))(function)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class that programs see which look at it."""
        return contextlib._GeneratorContextManager


def scoped(function: Callable[..., Scope]) -> Callable[..., Any]:
    """A function that makes a Scope, as `contextlib.contextmanager` has it: it runs when the
    context is entered, and the context is a decorator, too."""

    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> _Made:
        return _Made(partial(function, *args, **kwargs))

    return made


def inside(scope: Scope) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function runs inside of the scope."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with scope:
                return function(*args, **kwargs)

        return within

    return decorate
