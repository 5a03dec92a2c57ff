"""Arguments of calls in the order of what is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.fx.node import Node
from tritorch.ops.record.overloads import OpOverload

__all__ = ["ArgsKwargsPair", "normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    """Arguments by position and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _parameters(target: Any) -> list[tuple[str, Any, Any]] | None:
    """(name, default, kind) of each parameter; None where a call can take others."""
    if isinstance(target, OpOverload):
        kind = inspect.Parameter
        return [
            ("input" if a.name == "self" else a.name,
             a.default_value if a.has_default_value() else kind.empty,
             kind.KEYWORD_ONLY if a.kwarg_only else kind.POSITIONAL_OR_KEYWORD)
            for a in target._schema.arguments
        ]  # fmt: skip
    plain = target.__wrapped__ if isinstance(target, _C.Gate) else target
    try:
        found = inspect.signature(plain).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found):
        return None
    return [(p.name, p.default, p.kind) for p in found]


def _normalized(
    parameters: list[tuple[str, Any, Any]], args: Any, kwargs: Any, only_kwargs: bool
) -> ArgsKwargsPair | None:
    values: dict[str, Any] = dict(kwargs)
    names = [n for n, _, kind in parameters if kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(args) > len(names):
        return None
    for name, value in zip(names, args):
        if name in values:
            return None
        values[name] = value
    if values.keys() - {n for n, _, _ in parameters}:
        return None
    made: dict[str, Any] = {}
    for name, default, _ in parameters:
        if name in values:
            made[name] = values[name]
        elif default is inspect.Parameter.empty:
            return None
        else:
            made[name] = default
    if only_kwargs:
        return ArgsKwargsPair((), made)
    given = [made.pop(name) for name in names[: len(args)]]
    return ArgsKwargsPair(tuple(given), made)


def normalize_function(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    arg_types: Any = None, kwarg_types: Any = None, normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:  # fmt: skip
    """A function's arguments with its defaults; None where it does not say them."""
    parameters = _parameters(target)
    if parameters is None:
        return None
    return _normalized(parameters, args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: Any, target: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:  # fmt: skip
    """A submodule's arguments with the defaults of its forward."""
    module = root.get_submodule(target)
    parameters = _parameters(type(module).forward)
    if parameters is None:
        return None
    return _normalized(parameters[1:], args, kwargs or {}, normalize_to_only_use_kwargs)


def aligned_arguments(a: Node, b: Node) -> tuple[Any, Any] | None:
    """The arguments of two calls of one function as values of the same parameters."""
    if a.op != "call_function":
        return None
    first = normalize_function(a.target, a.args, a.kwargs, None, None, True)
    second = normalize_function(b.target, b.args, b.kwargs, None, None, True)
    return None if first is None or second is None else (first.kwargs, second.kwargs)
