"""Dispatch modes: what sees every operator below autograd, as a call of its schema.

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            print(func)
            return func(*args, **(kwargs or {}))

Note [Watching] in `core/dispatching.py` says how operators come here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from tritorch.core import dispatching
from tritorch.core.dispatching import TorchDispatchMode as TorchDispatchMode
from tritorch.core.scopes import Giving, scoped
from tritorch.core.tensor import Tensor
from tritorch.ops.record.overloads import bind
from tritorch.schema.signature import FunctionSchema
from tritorch.schema.types import ListType


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that computes what it sees."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


# ---- the stack -----------------------------------------------------------------------------------


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether this thread is inside of a mode."""
    return bool(dispatching.entered.modes)


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    """Whether a mode is entered that sees the compiler's own calls."""
    return any(not mode.ignore_compile_internals() for mode in dispatching.entered.modes)


def any_torch_dispatch_mode_on_stack() -> bool:
    """Whether this thread is inside of a mode."""
    return bool(dispatching.entered.modes)


def _get_current_dispatch_mode() -> Any:
    """The innermost mode; None outside of all."""
    modes = dispatching.entered.modes
    return modes[-1] if modes else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    return list(dispatching.entered.modes)


def _len_torch_dispatch_stack() -> int:
    return len(dispatching.entered.modes)


def _push_mode(mode: Any) -> None:
    dispatching.enter(mode)


def _pop_mode(k: Any = None) -> Any:
    return dispatching.leave()


@scoped
def _pop_mode_temporarily(k: Any = None) -> Giving:
    return Giving(dispatching.entered.modes[-1], dispatching.without_modes(1))


@scoped
def _disable_current_modes() -> Giving:
    """No mode is entered inside."""
    return Giving(dispatching.entered.modes, dispatching.without_modes())


def _detect_infra_mode(key: Any) -> None:
    """None of PyTorch's compiler's modes exists here."""
    return None


# ---- subclasses with tensors inside --------------------------------------------------------------


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether a tensor of a subclass says which tensors are inside of it."""
    return (
        isinstance(t, Tensor)
        and type(t) is not Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether tensors of a subclass say which tensors are inside of them."""
    return (
        issubclass(t, Tensor)
        and t is not Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def transform_subclass(
    t: Any, callback: Callable[[str, Tensor], Tensor], outer_size: Any = None,
    outer_stride: Any = None,
) -> Any:  # fmt: skip
    """A tensor of the same subclass whose inner tensors are `callback(name, inner)`."""
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)
    if tuple(made.shape) != tuple(outer_size):
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape equal to "
            f"{outer_size}, but got: {made.shape}"
        )
    if tuple(made.stride()) != tuple(outer_stride):
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have stride equal to "
            f"{outer_stride}, but got: {made.stride()}"
        )
    return made


def _aliases(schema: FunctionSchema) -> tuple[dict[str, set[str]], list[set[str]]]:
    """The alias sets of each argument that is aliased or written, and those of each result."""
    arguments = {
        a.name: set(a.alias_info.before_set) for a in schema.arguments if a.alias_info is not None
    }
    return arguments, [_named_sets(r.alias_info) for r in schema.returns]


def _named_sets(aliases: Any) -> set[str]:
    """The alias sets of a result, or of what is inside of a list."""
    if aliases is None:
        return set()
    inner = _named_sets(aliases._contained)
    return {name for name in aliases.before_set if name != "*"} | inner


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What a subclass's `__torch_dispatch__` returns, made what the schema promises: results of
    forms in place are the very arguments, views share their arguments' storage."""
    arguments, results = _aliases(func._schema)
    values = bind(func._schema, args, kwargs or {})

    def argument_of(aliases: set[str]) -> Any:
        return next((values[n] for n, names in arguments.items() if names & aliases), None)

    def corrected(aliases: set[str], result: Any) -> Any:
        given = argument_of(aliases) if aliases else None
        if given is None or not isinstance(result, Tensor):
            return result
        if func._schema.is_mutable:
            return given
        if isinstance(given, Tensor) and result is not given:
            result._shared = given._shared
        return result

    if isinstance(out, (list, tuple)):
        kind = type(out)
        if len(results) == 1 != len(out) or isinstance(func._schema.returns[0].type, ListType):
            return kind(corrected(results[0], each) for each in out)
        return (
            kind(corrected(names, each) for names, each in zip(results, out))
            if len(results) == len(out)
            else out
        )
    return corrected(results[0], out) if results else out


def autograd_would_have_decomposed(func: Any, flat_args: Any) -> bool:
    """Whether PyTorch's autograd would have decomposed an operator: never, records are what
    autograd sees."""
    return False


def _disable_infra_mode(key: Any) -> contextlib.nullcontext[None]:
    return contextlib.nullcontext()


def is_mutable(func: Any) -> bool:
    """Whether an operator writes its arguments."""
    return func._schema.is_mutable
