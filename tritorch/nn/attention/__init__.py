"""Which implementation scaled_dot_product_attention may use, as in torch.nn.attention."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator
from typing import Any

from tritorch.core.scopes import Scope, scoped
from tritorch.ops.nn import attention as _attention

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "activate_flash_attention_impl",
    "current_flash_attention_impl", "list_flash_attention_impls", "register_flash_attention_impl",
    "restore_flash_attention_impl", "sdpa_kernel",
]  # fmt: skip

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """The implementations by PyTorch's names.  There are two: MATH is the composed definition,
    every other one the fused kernel."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __repr__(self) -> str:
        return f"<SDPBackend.{self.name}: {self.value}>"

    def __str__(self) -> str:
        return f"SDPBackend.{self.name}"


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    return [SDPBackend(number) for number in _attention.allowed()]


@scoped
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Scope:
    """Within it, attention uses one of these; the first that can, if they are in order."""
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    chosen = [backends] if isinstance(backends, SDPBackend) else list(dict.fromkeys(backends))
    return _attention.allowing(tuple(map(int, chosen)), set_priority)


# ---- flash attention's implementations -----------------------------------------------------------

_implementations: dict[str, Callable[..., Any]] = {}
_active: str | None = None


def register_flash_attention_impl(impl: str, *, register_fn: Callable[..., Any]) -> None:
    """Makes an implementation known; `register_fn` is called when it is activated."""
    _implementations[impl] = register_fn


def list_flash_attention_impls() -> list[str]:
    """The known ones; tritorch's own kernel has no name."""
    return sorted(_implementations)


def current_flash_attention_impl() -> str | None:
    """The active one, None for tritorch's own."""
    return _active


def activate_flash_attention_impl(impl: str) -> None:
    """Calls the function with which an implementation was registered."""
    global _active
    if impl not in _implementations:
        raise ValueError(
            f"Unknown flash attention impl '{impl}'. Available implementations: "
            f"{list_flash_attention_impls()}"
        )
    if _active != impl:
        restore_flash_attention_impl()
        _undo.append(_implementations[impl]())
        _active = impl


_undo: list[Any] = []


def restore_flash_attention_impl() -> None:
    """Back to tritorch's own kernel."""
    global _active
    while _undo:
        handle = _undo.pop()
        if handle is not None:
            handle.remove()
    _active = None
