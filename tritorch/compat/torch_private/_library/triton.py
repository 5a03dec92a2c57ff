"""Operators that launch a program's own Triton kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import partial
from typing import Any

from tritorch.compat.torch_private._library.custom_ops import custom_op
from tritorch.core.scopes import Scope, scoped

_wrapping = ContextVar("wrapping", default=True)


def is_wrap_triton_enabled() -> bool:
    """True unless `set_wrap_triton_enabled(False)` is around the call."""
    return _wrapping.get()


@scoped
def set_wrap_triton_enabled(enabled: bool) -> Scope:
    """Sets whether `wrap_triton` gives a kernel that graphs may record, within the block.

    The result is the kernel itself in either case: graphs record the operators around it."""
    before = _wrapping.get()
    return Scope((partial(_wrapping.set, enabled), None, partial(_wrapping.set, before)))


def wrap_triton(triton_kernel: Any, /) -> Any:
    """The kernel itself: launches inside of an operator are its own business."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    if not isinstance(triton_kernel, (JITFunction, Autotuner)):
        raise RuntimeError(
            "wrap_triton only works on functions annotated with triton.jit or triton.autotune"
        )
    return triton_kernel


def triton_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    schema: str | None = None,
) -> Any:
    """`custom_op` for a function that launches Triton kernels: on every device where they run."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)
