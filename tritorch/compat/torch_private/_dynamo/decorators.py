"""What programs mark for a compiler: sizes, addresses, functions.

The marks of sizes and addresses are attributes under PyTorch's names, on the tensors themselves.
Python runs as it is, so that decorators which say how a function is to be read give it as it was.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from tritorch.compiler import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    disable as disable,
    set_stance as set_stance,
)
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor


class _DimRange(NamedTuple):
    """What the size of a dim may be."""

    dim: int
    min: int | None
    max: int | None


def _noted(t: Any, name: str, empty: Callable[[], Any]) -> Any:
    """The collection that an attribute holds, which is made if it is not there."""
    if not hasattr(t, name):
        setattr(t, name, empty())
    t._has_dynamo_dim_marking = True
    return getattr(t, name)


def _each(index: Any) -> tuple[int, ...]:
    if isinstance(index, int):
        return (index,)
    if not isinstance(index, (list, tuple)):
        raise AssertionError(f"Expected index to be int, list, or tuple, got {type(index)}")
    return tuple(index)


def mark_dynamic(
    t: Any, index: Any, *, hint_override: int | None = None, min: int | None = None,
    max: int | None = None, specialize_on: list[Any] | None = None,
) -> None:  # fmt: skip
    """The sizes of these dims differ from call to call, within bounds."""
    for i in _each(index):
        _noted(t, "_dynamo_dynamic_indices", set).add(i)
        _noted(t, "_dynamo_dynamic_range", set).add(_DimRange(i, min, max))
        _noted(t, "_specialize_on", dict)[i] = specialize_on or []
        if hint_override:
            _noted(t, "_dynamo_hint_overrides", dict)[i] = hint_override


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """The sizes of these dims may differ from call to call."""
    for i in _each(index):
        _noted(t, "_dynamo_weak_dynamic_indices", set).add(i)


def mark_unbacked(
    t: Any, index: Any, hint_override: int | None = None, strict: bool = False,
    specialize_on: list[Any] | None = None, shape_id: str | None = None, min: int | None = None,
    max: int | None = None,
) -> None:  # fmt: skip
    """Nothing may be concluded from the sizes of these dims."""
    for i in _each(index):
        if strict:
            _noted(t, "_dynamo_strict_unbacked_indices", set).add(i)
            continue
        _noted(t, "_dynamo_unbacked_indices", set).add(i)
        _noted(t, "_specialize_on", dict)[i] = specialize_on or []
        if hint_override:
            _noted(t, "_dynamo_hint_overrides", dict)[i] = hint_override
        if min is not None or max is not None:
            _noted(t, "_dynamo_unbacked_bounds", dict)[i] = (min, max)
        if shape_id is not None:
            _noted(t, "_dynamo_shape_ids", dict)[i] = shape_id


def mark_static(t: Any, index: Any = None) -> None:
    """These sizes, or all, are the same in each call; of a class of modules: its numbers are."""
    if not isinstance(t, Tensor):
        if isinstance(t, type):
            t._dynamo_marked_static = True  # type: ignore[attr-defined]
            return
        raise TypeError(f"mark_static expects a tensor/nn.Module class but received {type(t)}")
    for i in range(t.dim()) if index is None else _each(index):
        _noted(t, "_dynamo_static_indices", set).add(i)


def mark_static_address(t: Any, guard: bool = False) -> None:
    """The tensor is the same in each call, memory and all."""
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_static_address expects a tensor but received {type(t)}")
    t._dynamo_static_input_type = "guarded" if guard else "unguarded"  # type: ignore[attr-defined]


def graph_break(msg: str = "") -> None:
    """A graph ends here: what is pending is computed."""
    regions = sys.modules.get("tritorch.compilation.follow.regions")
    if regions is not None:
        regions.break_here(f"graph_break: {msg}" if msg else "graph_break")


def skip_frame(msg: str = "") -> None:
    """The function that calls this is not read by a compiler; it runs anyway."""


step_unsupported = skip_frame


class error_on_graph_break(Scope, contextlib.ContextDecorator):
    """Inside, a graph that ends before its function does is an error, or is none."""

    def __init__(self, error_on_graph_break: bool) -> None:
        self.errors = error_on_graph_break

    def changes(self) -> Any:
        from tritorch.compilation.follow.stances import errors_on_graph_break

        return (errors_on_graph_break(self.errors),)


def patch_dynamo_config(
    arg1: Any = None, arg2: Any = None, **kwargs: Any
) -> contextlib.ContextDecorator:
    """Settings of the compiler, changed inside."""
    from tritorch.compat.torch_private._dynamo import config

    return config.patch(arg1, arg2, **kwargs)


def dont_skip_tracing(fn: Any = None) -> Any:
    """The function itself, which is followed like any."""
    return dont_skip_tracing if fn is None else fn


def forbid_in_graph(fn: Any) -> Any:
    """Marks a function that no graph may hold."""
    if isinstance(fn, (list, tuple)):
        return [forbid_in_graph(each) for each in fn]
    if not callable(fn):
        raise AssertionError("forbid_in_graph applies only to callables")
    fn._dynamo_forbidden = True
    return fn


def disallow_in_graph(fn: Any) -> Any:
    """The function itself, at which a graph would end."""
    return [disallow_in_graph(each) for each in fn] if isinstance(fn, (list, tuple)) else fn


def substitute_in_graph(
    original_fn: Callable[..., Any], *, can_constant_fold_through: bool = False,
    skip_signature_check: bool = False, is_embedded_type: bool = False,
) -> Callable[[Any], Any]:  # fmt: skip
    """Decorates a function that stands for another in graphs; run eagerly, it is itself."""
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")
    return lambda traceable_fn: traceable_fn


def nonstrict_trace(traceable_fn: Any) -> Any:
    """The function itself, whose inside a graph would not see."""
    return traceable_fn


def skip(fn: Any = None) -> Any:
    """The function itself, which would not be compiled, though what it calls may be."""
    return skip if fn is None else fn


def run(fn: Any = None) -> Any:
    """A function that runs, inside of a region too, without being followed."""
    from tritorch.compat.torch_private._dynamo.eval_frame import RunOnlyContext

    return run if fn is None else RunOnlyContext()(fn)
