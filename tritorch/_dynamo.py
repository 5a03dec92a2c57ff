"""torch._dynamo, until there is a compiler: what programs set and call around torch.compile."""

from __future__ import annotations

import types
from typing import Any

from tritorch.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
)
from tritorch.jit import compile

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "optimize",
    "reset",
]


def optimize(*args: Any, **kwargs: Any) -> Any:
    """The function itself."""
    return compile()


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Sizes are never fixed."""


mark_static = maybe_mark_dynamic = mark_dynamic
config = types.SimpleNamespace(
    suppress_errors=False, cache_size_limit=8, recompile_limit=8, verbose=False
)
