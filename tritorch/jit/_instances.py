"""`torch.jit.isinstance`: the parts of containers are looked at too."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Container
from typing import Any

from tritorch.jit import internals as internal


def is_instance(obj: Any, target_type: Any) -> bool:
    """Tells if an object is of a type or one of several."""
    origin = typing.get_origin(target_type)
    if origin is None and isinstance(target_type, tuple):
        return any(is_instance(obj, each) for each in target_type)
    if origin is None and isinstance(target_type, Container) and not inspect.isclass(target_type):
        raise RuntimeError(
            "The second argument to `torch.jit.isinstance` must be a type or a tuple of types"
        )
    if target_type is None or target_type is typing.Optional:
        internal.raise_error_container_parameter_missing("Optional")
    if target_type in (list, dict, tuple, typing.List, typing.Dict, typing.Tuple):  # noqa: UP006
        name = getattr(target_type, "__name__", str(target_type)).capitalize()
        internal.raise_error_container_parameter_missing(name)
    if origin is not None or internal.is_union(target_type):
        return _of_container(obj, target_type, origin)
    return isinstance(obj, target_type)


def _of_container(obj: Any, target: Any, origin: Any) -> bool:
    args = typing.get_args(target)
    if internal.is_union(target):
        return any(obj is None if each is type(None) else is_instance(obj, each) for each in args)
    if not isinstance(obj, origin):
        return False
    if origin is list:
        internal.check_empty_containers(obj)
        return all(is_instance(item, args[0]) for item in obj)
    if origin is dict:
        internal.check_empty_containers(obj)
        return all(is_instance(k, args[0]) and is_instance(v, args[1]) for k, v in obj.items())
    if origin is tuple:
        if not obj and args not in ((), ((),)):
            internal.check_empty_containers(obj)
        if len(args) == 2 and args[1] is Ellipsis:
            return all(is_instance(item, args[0]) for item in obj)
        return len(obj) == len(args) and all(map(is_instance, obj, args))
    return True
