"""Overriding functions of tensors from other classes, as in torch.overrides.

A class with a `__torch_function__` class method is asked whenever an object of it is an argument; a
`TorchFunctionMode` is asked about every call while it is entered.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

from tritorch import _C
from tritorch.core import gates, scopes
from tritorch.core.dispatching import recording
from tritorch.core.scopes import Scope, ScopeItself
from tritorch.core.tensor import Tensor, is_tensor, typename

_P = ParamSpec("_P")
_R = TypeVar("_R")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether an argument, or a function mode, overrides."""
    if gates.modes.skip_one:
        gates.modes.skip_one = False
        return False
    return bool(gates.modes.stack) or _C.has_override(*relevant_args)


def has_torch_function_unary(arg: Any) -> bool:
    """`has_torch_function((arg,))`."""
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function(args)`."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the override of a function answers, for functions written in Python."""
    overloaded = gates.overloaded_arguments(relevant_args) if _C.overrides_enabled() else []
    return gates.override(public_api, overloaded, args, kwargs)


def redispatch_function(func: Any, types: Any, args: Sequence[Any], kwargs: Any) -> Any:
    """The function itself, for use in an override: what it calls in turn is overridden again."""
    if isinstance(func, _C.Gate):
        return func.__wrapped__(*args, **(kwargs or {}))
    with Scope((gates.modes, "skip_one", True)):
        return func(*args, **(kwargs or {}))


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """Makes a function overridable; `dispatcher` says which of its arguments count."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


# ---- modes ---------------------------------------------------------------------------------------


class TorchFunctionMode(ScopeItself):
    """While entered, its `__torch_function__` is asked about every function of tensors.

    Inside `__torch_function__` the mode itself is off, so that calling `func` does not come back.
    """

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError

    def changes(self) -> Any:
        return gates.stack_changes([*gates.modes.stack, self])

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A new mode, to be entered."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class enable_reentrant_dispatch(Scope):
    """Inside an override, subclasses and modes are asked again, and gradients are recorded as they
    were where the operator was called."""

    def changes(self) -> Any:
        grad = recording.above or _C.is_grad_enabled()
        return (_C.set_overrides, True), (_C.set_grad_enabled, grad)


def _get_current_function_mode_stack() -> list[Any]:
    """The modes that are entered, the last one asked first."""
    return list(gates.modes.stack)


def _get_current_function_mode() -> Any:
    return gates.modes.stack[-1] if gates.modes.stack else None


def _push_mode(mode: Any) -> None:
    gates.push_mode(mode)


def _pop_mode() -> Any:
    return gates.pop_mode()


def _pop_mode_temporarily() -> Scope:
    """Inside, the last mode is not asked."""
    *rest, mode = gates.modes.stack
    return scopes.Giving(mode, *gates.stack_changes(rest))


def _enable_torch_function() -> Scope:
    """Inside, subclasses are asked, whatever is around."""
    return scopes.overriding


def _get_overloaded_args(
    relevant_args: Iterable[Any], get_type_fn: Callable[[Any], type] | None = None
) -> list[Any]:
    """Arguments whose classes override, one of each class: subclasses first, else in order."""
    kind = type if get_type_fn is None else get_type_fn
    found: list[Any] = []
    for arg in relevant_args if _C.overrides_enabled() else ():
        cls = kind(arg)
        override = getattr(cls, "__torch_function__", None)
        seen = [kind(each) for each in found]
        if override is None or override is _C._disabled_torch_function_impl or cls in seen:
            continue
        before = (i for i, each in enumerate(seen) if issubclass(cls, each))
        found.insert(next(before, len(found)), arg)
    return found


def _disable_user_warnings(
    func: Callable[_P, _R], regex: str = ".*is deprecated, please use.*", module: str = "torch"
) -> Callable[_P, _R]:
    """The function, without the warnings of a module whose text matches."""

    @functools.wraps(func)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", regex, UserWarning, module)
            return func(*args, **kwargs)

    return wrapper


# ---- what can be overridden ----------------------------------------------------------------------


def _modules() -> dict[str, Any]:
    import importlib

    importlib.import_module("tritorch.nn.functional")  # publishes its functions
    return {
        name: Tensor if name == "tritorch.Tensor" else importlib.import_module(name)
        for name in list(gates.GATES)
    }


def get_overridable_functions() -> dict[Any, list[Any]]:
    """By module or class: the functions that call overrides, properties' `__get__` among them."""
    found = {
        module: list(gates.GATES[name].values())
        for name, module in _modules().items()
    }  # fmt: skip
    found[Tensor] += [plain.__get__ for plain in gates._properties().values()]
    return found


def get_ignored_functions() -> set[Any]:
    """Public functions that make tensors or ask about them without ever calling overrides."""
    names = {name for module in gates.GATES.values() for name in module}
    top = _modules()["tritorch"]
    ignored = {
        value
        for name, value in vars(top).items()
        if inspect.isroutine(value) and not name.startswith("_") and name not in names
    }
    ignored |= {getattr(Tensor, name) for name in gates.UNGATED}
    return ignored | {is_tensor, typename}


def get_testing_overrides() -> dict[Any, Callable[..., Any]]:
    """For each overridable function, one with the same arguments that returns -1."""
    return {
        function: _double(function)
        for functions in get_overridable_functions().values()
        for function in functions
    }


def _double(function: Any) -> Callable[..., Any]:
    def double(*args: Any, **kwargs: Any) -> int:
        return -1

    try:
        double.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    except ValueError:  # a property's access: native
        pass
    double.__name__ = getattr(function, "__name__", "double")
    return double


def resolve_name(f: Any) -> str | None:
    """The name of an overridable function ("torch.Tensor.add"), None for others."""
    if isinstance(f, _C.Gate):
        return f"{f.__module__}.{f.__qualname__}".replace("tritorch", "torch", 1)
    for name, plain in gates._properties().items():
        if f in (plain.__get__, plain.__set__):
            return f"torch.Tensor.{name}.{f.__name__}"
    return None


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor or has `__torch_function__`."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is a method of Tensor or the access to one of its properties."""
    methods = gates.GATES["tritorch.Tensor"].values()
    if isinstance(func, _C.Gate):
        return any(func is method for method in methods)
    return getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__")
