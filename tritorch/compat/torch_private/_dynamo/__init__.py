"""torch._dynamo: what programs set and call around torch.compile."""

from __future__ import annotations

import importlib
from typing import Any

from tritorch.compat.torch_private._dynamo import config, exc
from tritorch.compat.torch_private._dynamo._exported import export
from tritorch.compat.torch_private._dynamo.backends.registry import lookup_backend, register_backend
from tritorch.compat.torch_private._dynamo.decorators import (
    disallow_in_graph,
    dont_skip_tracing,
    error_on_graph_break,
    forbid_in_graph,
    graph_break,
    mark_dynamic,
    mark_static,
    mark_static_address,
    mark_unbacked,
    maybe_mark_dynamic,
    nonstrict_trace,
    patch_dynamo_config,
    run,
    set_stance,
    skip_frame,
    substitute_in_graph,
)
from tritorch.compat.torch_private._dynamo.eval_frame import (
    OptimizedModule,
    explain,
    optimize,
    optimize_assert,
)
from tritorch.compat.torch_private._dynamo.utils import compile_times
from tritorch.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
)

_LATE = ("backends", "output_graph", "testing")  # imported when they are first asked for
__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "compile_times",
    "config",
    "disable",
    "disallow_in_graph",
    "dont_skip_tracing",
    "error_on_graph_break",
    "exc",
    "explain",
    "export",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "optimize",
    "optimize_assert",
    "patch_dynamo_config",
    "register_backend",
    "reset",
    "run",
    "set_stance",
    "skip_frame",
    "substitute_in_graph",
]


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return importlib.import_module(f"tritorch._dynamo.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
