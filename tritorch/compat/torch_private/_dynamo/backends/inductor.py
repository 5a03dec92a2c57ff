"""The package's own backend, by PyTorch's name for its own.

`compile` does not come here: a follower knows the segment and needs no graph.  Programs that look
the backend up, or wrap it in one of theirs, have a graph, which runs as a region of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.compat.torch_private._dynamo.backends.registry import (
    register_backend,
    register_experimental_backend,
)
from tritorch.fx.graph_module import GraphModule


@register_backend
def inductor(gm: GraphModule, example_inputs: Any = None, **kwargs: Any) -> Callable[..., Any]:
    """Compiles a graph with the package's own compiler."""
    from tritorch.compat.torch_private._inductor import compile_graph

    return compile_graph(gm, kwargs.get("mode"), kwargs.get("options") or {})


def _absent(package: str) -> Any:
    """A backend of another compiler, which has to be installed, and knows PyTorch's graphs."""

    def backend(gm: GraphModule, example_inputs: Any, **kwargs: Any) -> Any:
        raise ImportError(f"the backend {package!r} is {package}'s own, for PyTorch's TorchScript")

    backend.__name__ = package
    return backend


for _package in ("tvm", "openxla"):
    register_backend(_absent(_package), name=_package)
register_experimental_backend(_absent("openxla_eval"), name="openxla_eval")
