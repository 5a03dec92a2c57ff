"""Calls put off until their result is asked for, as `torch.jit._awaitable` makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tritorch.core.naming import as_native

__all__ = ["Await"]

W = TypeVar("W")


class NativeAwait:
    """The result of a call, computed when somebody needs it; its attributes are the result's."""

    _function: Callable[..., Any] | None
    _arguments: tuple[Any, ...]
    _result: list[Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Nobody makes one by its class: `torch.jit._awaitable` does."""
        name = "torch._C._Await" if cls is NativeAwait else cls.__name__
        raise TypeError(f"{name}: No constructor defined!")

    def fn(self) -> Callable[..., Any]:
        """The function."""
        if self._function is None:
            raise RuntimeError("Await constructed as awaitable_nowait does not have fn")
        return self._function

    def args(self) -> tuple[Any, ...]:
        """Its arguments; of a result that was there already, the result."""
        return self._arguments

    def type(self) -> Any:
        """The type of the result, as the scripting compiler writes it."""
        from tritorch.schema.infer import infer_type

        return infer_type(self.wait()).type()

    def is_nowait(self) -> bool:
        """True if the result was there already."""
        return self._function is None

    def wait(self) -> Any:
        """The result."""
        if not self._result:
            assert self._function is not None
            self._result.append(self._function(*self._arguments))
        return self._result[0]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.wait(), name, None)


def _made(function: Callable[..., Any] | None, arguments: tuple[Any, ...]) -> Any:
    """A call that is put off; without a function, the only argument is its result."""
    made = object.__new__(NativeAwait)
    made._function, made._arguments = function, arguments
    made._result = [] if function is not None else [arguments[0]]
    return made


def _awaitable(func: Callable[..., Any], *args: Any) -> Any:
    """A call that is put off."""
    if not callable(func):
        raise TypeError(f"Object of type '{type(func).__name__}' is not an instance of 'function'")
    return _made(func, args)


def _awaitable_nowait(o: Any) -> Any:
    """A result that is there already, as such a call."""
    return _made(None, (o,))


def _awaitable_wait(aw: Any) -> Any:
    """The result of a call that was put off."""
    if not isinstance(aw, NativeAwait):
        raise TypeError(
            "_awaitable_wait(): incompatible function arguments. The following argument types are "
            f"supported:\n    1. (arg0: torch._C._Await) -> object\n\nInvoked with: {aw!r}"
        )
    return aw.wait()


NativeAwait.__name__ = NativeAwait.__qualname__ = "_Await"
NativeAwait.__module__ = "tritorch._C"
as_native(NativeAwait, "torch._C._Await", final=False)


class _PyAwaitMeta(type):
    """The class of `_Await`."""


class _Await(NativeAwait, Generic[W], metaclass=_PyAwaitMeta):
    """The type of such a call in annotations, `_Await[int]`."""


_Await.__module__ = "tritorch.jit"
