"""Operators that are declared by name, and told later what computes them (former functions; now
`torch.library.custom_op`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tritorch.compat.torch_private._custom_op.impl import (
    _custom_op_with_schema,
    _find_custom_op,
    named_as,
    parse_qualname,
    validate_namespace,
)
from tritorch.compat.torch_private._library.infer_schema import infer_schema
from tritorch.library import get_ctx, register_fake

__all__ = [
    "custom_op",
    "get_ctx",
    "impl",
    "impl_abstract",
    "impl_backward",
    "impl_save_for_backward",
]

Decorator = Callable[[Callable[..., Any]], Any]


def custom_op(qualname: str, func_or_schema: Any = None) -> Any:
    """Declares an operator by a function's annotations, or by a schema."""
    validate_namespace(parse_qualname(qualname)[0])

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        named_as(qualname, function)
        _custom_op_with_schema(qualname, infer_schema(function, mutates_args=()))
        return function

    if func_or_schema is None:
        return declare
    if isinstance(func_or_schema, str):
        return _custom_op_with_schema(qualname, func_or_schema) and None
    return declare(func_or_schema)


def _applied(register: Decorator, func: Callable[..., Any] | None) -> Any:
    """The decorator, or what it makes of a function that is given already."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        register(function)
        return function

    return decorate if func is None else decorate(func)


def impl(
    qualname: str, *, device_types: str | Iterable[str] = ("cpu", "cuda"),
    func: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """Registers what computes an operator on kinds of devices."""

    def register(function: Callable[..., Any]) -> None:
        found = _find_custom_op(qualname, also_check_torch_library=True)
        found.impl(device_types, _stacklevel=4)(function)

    return _applied(register, func)


def impl_abstract(qualname: str, *, func: Callable[..., Any] | None = None) -> Any:
    """Registers what an operator's results look like."""
    return register_fake(qualname, func, _stacklevel=2)


def impl_save_for_backward(qualname: str, *, func: Callable[..., Any] | None = None) -> Any:
    """Registers what an operator's gradient needs: `save(inputs, output)`."""

    def register(function: Callable[..., Any]) -> None:
        found = _find_custom_op(qualname, also_check_torch_library=True)
        found.impl_save_for_backward(_stacklevel=4)(function)

    return _applied(register, func)


def impl_backward(
    qualname: str, output_differentiability: Any = None, *, func: Callable[..., Any] | None = None
) -> Any:
    """Registers an operator's gradients by name: `backward(ctx, saved, *grads)`."""

    def register(function: Callable[..., Any]) -> None:
        found = _find_custom_op(qualname, also_check_torch_library=True)
        found.impl_backward(output_differentiability, _stacklevel=4)(function)

    return _applied(register, func)


def _destroy(qualname: str) -> None:
    """Takes an operator back."""
    _find_custom_op(qualname)._destroy()
