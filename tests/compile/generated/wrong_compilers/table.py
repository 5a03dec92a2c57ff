"""The table of wrong compilers, and how they are made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tritorch as torch

Compiler = Callable[[Callable], Callable]

COMPILERS: dict[str, tuple[Compiler, str, str]] = {}
"""Every wrong compiler by what it does; in what the difference must be seen, a pattern; and a text
that programs have in which it does something else."""


def wrong(seen: str, text: str = "") -> Callable[[Compiler], Compiler]:
    """Puts a compiler into the table."""

    def put(compiler: Compiler) -> Compiler:
        COMPILERS[compiler.__name__] = compiler, seen, text
        return compiler

    return put


def around(seen: str, text: str = "") -> Callable[[Callable], Compiler]:
    """A compiler that runs the function in a context of (state, args); state outlives the calls."""

    def put(context: Callable) -> Compiler:
        manager = contextlib.contextmanager(context)

        def compiler(function: Callable) -> Callable:
            state: dict = {}

            def run(*args: Any, **kwargs: Any) -> Any:
                with manager(state, args):
                    return function(*args, **kwargs)

            return run

        compiler.__name__ = context.__name__
        return wrong(seen, text)(compiler)

    return put


def changed(seen: str) -> Callable[[Callable], Compiler]:
    """A compiler that changes each tensor of the results, as (tensor, args) -> tensor."""

    def put(change: Callable) -> Compiler:
        def compiler(function: Callable) -> Callable:
            return lambda *args: each(function(*args), lambda t: change(t, args))

        compiler.__name__ = change.__name__
        return wrong(seen)(compiler)

    return put


def each(value: Any, change: Callable) -> Any:
    """Nested containers with their tensors changed; one object stays one object."""
    known: dict[int, Any] = {}

    def walk(one: Any) -> Any:
        if isinstance(one, torch.Tensor):
            if id(one) not in known:
                known[id(one)] = change(one)
            return known[id(one)]
        if isinstance(one, dict):
            return {key: walk(inner) for key, inner in one.items()}
        return type(one)(walk(inner) for inner in one) if isinstance(one, list | tuple) else one

    return walk(value)


def plain(args: tuple) -> list:
    return [
        a for a in args if isinstance(a, torch.Tensor) and not (a.requires_grad or a.is_inference())
    ]


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Another attribute for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def without(kind: type) -> Iterator[None]:
    """A class of contexts that do nothing."""
    entering = replaced(kind, "__enter__", lambda self: self)
    with entering, replaced(kind, "__exit__", lambda self, *error: None):
        yield
