"""Calls that are put off: in eager mode they run when their result is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tritorch.compat.torch_private._awaits import _Await

W = TypeVar("W")


def _awaitable(func: Callable[..., W], *args: Any) -> _Await[W]:
    """A call that is put off."""
    return _Await(func, args, False)


def _awaitable_nowait(o: W) -> _Await[W]:
    """A result that is there already, as such a call."""
    return _Await(lambda: o, (), True)


def _awaitable_wait(aw: _Await[W]) -> W:
    """The result of a call that was put off."""
    return aw.wait()
