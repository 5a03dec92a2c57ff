"""Settings of lazy tensors."""

from __future__ import annotations

_force_fallback = ""


def get_force_fallback() -> str:
    """The operators that run at once, by name."""
    return _force_fallback


def set_force_fallback(configval: str) -> None:
    """Says which operators run at once; it is kept, and every call that can wait does."""
    global _force_fallback
    _force_fallback = configval


def set_reuse_ir(val: bool) -> None:
    """Whether graphs are found again without being made: they always are."""
