"""Questions about annotations and functions that the compiler asks, as `torch._jit_internal` has
them."""

from __future__ import annotations

import enum
import inspect
import types
import typing
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Final, NoReturn, Optional, Union, get_args, get_origin

from tritorch.compat.torch_private._awaits import _Await
from tritorch.futures import Future
from tritorch.nn import names
from tritorch.nn.names import (
    BroadcastingList1 as BroadcastingList1,
    BroadcastingList2 as BroadcastingList2,
    BroadcastingList3 as BroadcastingList3,
    BroadcastingListCls as BroadcastingListCls,
)

BroadcastingList4 = BroadcastingListCls()
BroadcastingList5 = BroadcastingListCls()
BroadcastingList6 = BroadcastingListCls()
BuiltinUnionType = types.UnionType

# What a function that `boolean_dispatch` made chooses from.
boolean_dispatched: weakref.WeakKeyDictionary[Callable[..., Any], dict[str, Any]]
boolean_dispatched = weakref.WeakKeyDictionary()


class FunctionModifiers:
    """The ways in which a compiler treats a function."""

    UNUSED = "unused (ignored and replaced with raising of an exception)"
    IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
    EXPORT = "export (compile this function even if nothing calls it)"
    DEFAULT = "default (compile if called from an exported function / forward)"
    COPY_TO_SCRIPT_WRAPPER = (
        "if this method is not scripted, copy the python method onto the scripted model"
    )
    _DROP = "_drop (function is fully ignored, declaration can be unscriptable)"


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Callable[..., Any],
    if_false: Callable[..., Any], module_name: str | None, func_name: str | None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that calls one of two, by the value of one of its arguments."""
    made = names.boolean_dispatch(
        arg_name, arg_index, default, if_true, if_false, module_name, func_name
    )
    if_true.__doc__ = if_false.__doc__ = made.__doc__
    boolean_dispatched[made] = {
        "if_true": if_true,
        "if_false": if_false,
        "index": arg_index,
        "default": default,
        "arg_name": arg_name,
    }
    return made


def _try_get_dispatched_fn(fn: Any) -> dict[str, Any] | None:
    return boolean_dispatched.get(fn) if callable(fn) else None


# ---- annotations ---------------------------------------------------------------------------------


def raise_error_container_parameter_missing(target_type: str) -> NoReturn:
    """Refuses a container's annotation that does not say what it contains."""
    # PyTorch's texts differ by more than a letter.
    if target_type.endswith("ict"):
        raise RuntimeError(
            f"Attempted to use {target_type} without contained types. Please add contained type, "
            f"e.g. {target_type}[int, int]"
        )
    raise RuntimeError(
        f"Attempted to use {target_type} without a contained type. Please add a contained type, "
        f"e.g. {target_type}[int]"
    )


def _is_container(ann: Any, bare: Any, origin: type) -> bool:
    if ann is bare:
        raise_error_container_parameter_missing(origin.__name__.capitalize())
    module = getattr(ann, "__module__", None)
    return module in ("builtins", "typing") and get_origin(ann) is origin


def is_tuple(ann: Any) -> bool:
    """True if an annotation is a tuple."""
    return _is_container(ann, typing.Tuple, tuple)  # noqa: UP006


def is_list(ann: Any) -> bool:
    """True if an annotation is a list."""
    return _is_container(ann, typing.List, list)  # noqa: UP006


def is_dict(ann: Any) -> bool:
    """True if an annotation is a dict."""
    return _is_container(ann, typing.Dict, dict)  # noqa: UP006


def is_union(ann: Any) -> bool:
    """True if an annotation is one of several, `Union[int, str]` or `int | str`."""
    if ann is Union:
        raise_error_container_parameter_missing("Union")
    return isinstance(ann, types.UnionType) or get_origin(ann) is Union


def is_optional(ann: Any) -> bool:
    """True if an annotation is one type or None."""
    if ann is Optional:
        raise_error_container_parameter_missing("Optional")
    args = get_args(ann)
    return is_union(ann) and len(args) == 2 and type(None) in args


def is_future(ann: Any) -> bool:
    """True if an annotation is a Future."""
    if ann is Future:
        raise RuntimeError(
            "Attempted to use Future without a contained type. Please add a contained type, e.g. "
            "Future[int]"
        )
    return get_origin(ann) is Future


def is_await(ann: Any) -> bool:
    """True if an annotation is an _Await, of something or of anything."""
    return ann is _Await or get_origin(ann) is _Await


def is_final(ann: Any) -> bool:
    """True if an annotation is Final, of something or alone."""
    module = getattr(ann, "__module__", None)
    known = module in ("typing", "typing_extensions")
    return known and (get_origin(ann) is Final or isinstance(ann, type(Final)))


def is_rref_instance(obj: Any) -> bool:
    """False: there are no remote references."""
    return False


# ---- questions about functions and classes -------------------------------------------------------


def _qualified_name(obj: Any, mangle_name: bool = True) -> str:
    """The name of a class or an enumeration's member where names must be unique: below
    `__torch__`, with what is no identifier replaced."""
    if hasattr(obj, "_jit_override_qualname"):
        return obj._jit_override_qualname
    name = getattr(obj, "__name__", None) or (obj.name if isinstance(obj, enum.Enum) else None)
    if not name:
        raise RuntimeError("Could not get name of python class object")
    name = "_lambda" if name == "<lambda>" else name
    module = obj.__module__
    if module is None:
        raise RuntimeError(
            f"Could not get qualified name for class '{name}': __module__ can't be None."
        )
    if mangle_name:
        plain = module.replace("<", "_").replace(">", "_")
        module = "__torch__" if module == "__main__" else f"__torch__.{plain}"
    if "." in name:
        raise RuntimeError(
            f"Could not get qualified name for class '{name}': '{name}' is not a valid identifier"
        )
    return f"{module}.{name}"


def get_callable_argument_names(fn: Any) -> list[str]:
    """The arguments that may be given by position or by name; none if that cannot be told."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except Exception:
        return []
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


def get_closure(fn: Any) -> dict[str, Any]:
    """The names that a function sees: the globals, and the variables of functions around it."""
    cells = zip(fn.__code__.co_freevars, fn.__closure__ or ())
    return {**fn.__globals__, **{name: cell.cell_contents for name, cell in cells}}


def is_static_fn(cls: type, fn: str) -> bool:
    """True if a class has a static method of this name."""
    return isinstance(inspect.getattr_static(cls, fn, default=None), staticmethod)


def get_static_fn(cls: type, fn: str) -> Any:
    """The function of a static method."""
    return inspect.getattr_static(cls, fn).__func__


def _is_exception(obj: Any) -> bool:
    return inspect.isclass(obj) and issubclass(obj, Exception)


def is_library(value: Any, part: str = "") -> bool:
    """Tells if a class or function is the library's own, or of one part of it such as "nn".

    Its modules have PyTorch's names where `torch` is an alias of the library.
    """
    first, _, rest = (getattr(value, "__module__", None) or "").partition(".")
    return first in ("tritorch", "torch") and (
        rest == part or rest.startswith(f"{part}.") or not part
    )


def check_empty_containers(obj: Any) -> None:
    """Warns of a container without elements, whose type nobody can tell."""
    if isinstance(obj, (list, dict, tuple)) and not obj:
        warnings.warn(
            "The inner type of a container is lost when calling torch.jit.isinstance in eager "
            "mode. For example, List[int] would become list and therefore falsely return True for "
            "List[float] or List[str].",
            stacklevel=5,
        )
