"""Calls that are put off: in eager mode they run when their result is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tritorch.compat.torch_private import _awaits
from tritorch.compat.torch_private._awaits import _Await as _Await

W = TypeVar("W")


def _awaitable(func: Callable[..., W], *args: Any, **kwargs: Any) -> _Await[W]:
    """A call that is put off."""
    return _awaits._awaitable(func, *args, **kwargs)


def _awaitable_nowait(o: W) -> _Await[W]:
    """A result that is there already, as such a call."""
    return _awaits._awaitable_nowait(o)


def _awaitable_wait(aw: _Await[W]) -> W:
    """The result of a call that was put off."""
    return _awaits._awaitable_wait(aw)


# What calls of them are in scripts.
_awaitable_nowait._script_operator = "prim::awaitable_nowait"  # type: ignore[attr-defined]
_awaitable_wait._script_operator = "prim::awaitable_wait"  # type: ignore[attr-defined]
