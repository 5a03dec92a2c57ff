"""Compiled functions: callers of a follower, or of the function itself where a stance says so."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import weakref
from collections.abc import Callable
from typing import Any

from tritorch.compilation.follow import stances
from tritorch.compilation.follow.regions import Broken, Follower, Options, following
from tritorch.compilation.fuse import equal
from tritorch.compilation.tools import logs
from tritorch.core import profiling
from tritorch.core.profiling import events

_followers: weakref.WeakSet[Follower] = weakref.WeakSet()


def reset() -> None:
    """Forgets the traces of all compiled functions."""
    equal.forget()
    for follower in list(_followers):
        follower.reset()
        follower._limit_was_hit = False  # type: ignore[attr-defined]
        forget = getattr(follower.options.backend, "reset", None)
        if forget is not None:
            forget()


def is_in_region() -> bool:
    """True if this thread is in a compiled function; the steps of `torch._lazy` are none."""
    follower = following()
    return follower is not None and follower in _followers


def follower_of(function: Callable[..., Any], options: Options) -> Follower:
    """A follower that `reset` knows."""
    logs.watch()
    made = Follower(function, options)
    _followers.add(made)
    return made


_TRACING = "tritorch.fx._symbolic_trace"


def _is_traced() -> bool:
    """True if a Tracer of fx is at work, to which a compiled function is as the function itself."""
    tracing = sys.modules.get(_TRACING)
    return tracing is not None and tracing._is_fx_tracing_flag


def compiled_function(
    function: Callable[..., Any],
    options: Options,
    with_backend: Callable[[Any], Options],
    errors: bool | None = None,
) -> Callable[..., Any]:
    """A function whose calls are followed.

    with_backend: the same options for the backend that a stance forces.  errors: what
    `error_on_graph_break` is inside."""
    if _runs_later(function):

        @functools.wraps(function)
        def as_it_is(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return as_it_is

    follower = follower_of(function, options)
    forced: dict[Any, Follower] = {}

    def chosen() -> Callable[..., Any]:
        """The follower of a backend that a stance forces, or the function itself."""
        if _is_traced() or following() is not None:  # part of the region around
            return function
        stance = stances.current
        if stance.stance == "force_eager":
            return function
        if (backend := stance.backend) is None:
            return follower
        if backend not in forced:
            forced[backend] = follower_of(function, with_backend(backend))
        return forced[backend]

    modules = sys.modules
    title = f"Torch-Compiled Region: {getattr(function, '__qualname__', type(function).__name__)}"

    @functools.wraps(function)
    def compile_wrapper(*args: Any, **kwargs: Any) -> Any:
        event = events.begin(profiling.ANNOTATION, title) if events.enabled() else None
        try:
            if stances.plain and errors is None:  # in a region, `call` calls the function itself
                tracing = modules.get(_TRACING)
                if tracing is None or not tracing._is_fx_tracing_flag:
                    return follower.call(*args, **kwargs)
            with stances.errors_on_graph_break(errors):
                return chosen()(*args, **kwargs)
        except Broken as error:
            raise _unsupported(error) from None
        finally:
            if event is not None:
                events.end(event)

    compile_wrapper._follower = follower  # type: ignore[attr-defined]
    return compile_wrapper


def _runs_later(function: Callable[..., Any]) -> bool:
    """True if a call only begins a run: generators and coroutines run as they are."""
    kinds = (
        inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction,
    )  # fmt: skip
    return any(is_kind(function) for is_kind in kinds)


def _unsupported(error: Broken) -> Exception:
    from tritorch.compat.torch_private._dynamo.exc import Unsupported

    text = logs.broken(error.reason, error.source_line)
    return Unsupported(text, real_stack=logs.user_stack(error.source_line))


def replaced(options: Options, **changes: Any) -> Options:
    """Options with some others."""
    return dataclasses.replace(options, **changes)
