"""The backend `cudagraphs`: the package's own, launched as CUDA's graphs; plain on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.compat.torch_private._dynamo.backends.inductor import inductor
from tritorch.compat.torch_private._dynamo.backends.registry import register_backend
from tritorch.fx.graph_module import GraphModule


@register_backend
def cudagraphs(gm: GraphModule, example_inputs: Any = None, **kwargs: Any) -> Callable[..., Any]:
    """Compiles a graph in the mode `reduce-overhead`."""
    return inductor(gm, example_inputs, mode="reduce-overhead")
