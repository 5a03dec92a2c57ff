"""Functions are shown to be in the module that publishes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def exposed_in(module: str) -> Callable[[T], T]:
    """A decorator that says in which module a function is."""

    def decorate(thing: T) -> T:
        thing.__module__ = module
        return thing

    return decorate
