"""Small compilers for AOT graphs: they run, print or script them."""

from __future__ import annotations

from typing import Any

from tritorch.compat.torch_private._functorch.aot_autograd import make_boxed_compiler, nop as nop
from tritorch.fx.graph_module import GraphModule


def print_compile(fx_g: GraphModule, _: Any) -> GraphModule:
    """Prints the code of a graph, and leaves it as it is."""
    print(fx_g.code)
    return fx_g


@make_boxed_compiler
def ts_compile(fx_g: GraphModule, inps: Any) -> Any:
    """Runs a graph through torch.jit.script."""
    from tritorch import jit

    return jit.script(fx_g)
