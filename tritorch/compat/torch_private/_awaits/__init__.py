"""Calls put off until their result is asked for, as `torch.jit._awaitable` makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["_Await"]

W = TypeVar("W")


class _Await(Generic[W]):
    """The result of a call, computed when somebody needs it; its attributes are the result's."""

    def __init__(
        self, function: Callable[..., W], arguments: tuple[Any, ...], nowait: bool
    ) -> None:
        self._function, self._arguments, self._nowait = function, arguments, nowait
        self._result: list[W] = []

    def fn(self) -> Callable[..., W]:
        """The function."""
        return self._function

    def args(self) -> tuple[Any, ...]:
        """Its arguments."""
        return self._arguments

    def is_nowait(self) -> bool:
        """Whether the result was given."""
        return self._nowait

    def wait(self) -> W:
        """The result."""
        if not self._result:
            self._result.append(self._function(*self._arguments))
        return self._result[0]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.wait(), name)
