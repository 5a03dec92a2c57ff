"""Contexts that decorate functions and generators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tritorch.autograd import grad_mode
from tritorch.autograd.grad_mode import _Mode as _DecoratorContextManager

__all__ = ["context_decorator"]


class _Made(_DecoratorContextManager):
    """Enters what a function makes."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.clone = make  # type: ignore[method-assign]


def _wrap_generator(ctx_factory: Callable[[], Any], func: Callable[..., Any]) -> Any:
    """A generator that is inside of a context whenever it runs."""
    return grad_mode._wrap_generator(_Made(ctx_factory), func)


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Any:
    """A function that is called inside of a context, or of what a function makes one of."""
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(
            f"Passed in {ctx} is both callable and also a valid context manager (has __enter__), "
            "making it ambiguous which interface to use.  If you intended to pass a context "
            "manager factory, rewrite your call as context_decorator(lambda: ctx()); if you "
            "intended to pass a context manager directly, rewrite your call as "
            "context_decorator(lambda: ctx)"
        )
    make = ctx if callable(ctx) else lambda: ctx
    if inspect.isclass(func):
        raise RuntimeError(
            "Cannot decorate classes; it is ambiguous whether or not only the constructor or all "
            "methods should have the context manager applied; additionally, decorating a class at "
            "definition-site will prevent use of the identifier as a conventional type.  To "
            "specify which methods to decorate, decorate each of them individually."
        )
    if inspect.isgeneratorfunction(func):
        return _wrap_generator(make, func)

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return inside


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One whose class decorates too, as `@no_grad`."""

    def __new__(cls, orig_func: Any = None) -> Any:
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)
