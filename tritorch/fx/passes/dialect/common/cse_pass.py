"""CSEPass: what is computed twice is computed once."""

from __future__ import annotations

from typing import Any

from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph import Graph as Graph
from tritorch.fx.graph_module import GraphModule as GraphModule
from tritorch.fx.node import Node as Node
from tritorch.fx.passes.infra.pass_base import PassBase as PassBase, PassResult as PassResult
from tritorch.ops.record.overloads import namespace
from tritorch.utils._pytree import tree_flatten as tree_flatten

__all__ = ["CSEPass", "get_CSE_banned_ops"]

_DRAWS = (
    "dropout", "_fused_dropout", "_standard_gamma", "bernoulli", "multinomial", "native_dropout",
    "normal", "poisson", "binomial", "rrelu", "rand_like", "rand", "randint", "randn", "randperm",
)  # fmt: skip
_WRITES = (
    "add_", "sub_", "mul_", "div_", "pow_", "lerp_", "relu_", "sigmoid_", "tanh_",
)  # fmt: skip
_aten = namespace("aten")
rand_ops = {getattr(_aten, name) for name in _DRAWS if hasattr(_aten, name)}
inplace_ops = {getattr(_aten, name) for name in _WRITES if hasattr(_aten, name)}


@compatibility(is_backward_compatible=False)
def get_CSE_banned_ops() -> set[Any]:
    """The operators of which no call may stand for another: draws, and writes."""
    return rand_ops | inplace_ops


@compatibility(is_backward_compatible=False)
class CSEPass(PassBase):
    """Lets one node stand for all that call the same function with the same arguments.

    banned_ops: operators whose calls are left alone, as two of them are not the same."""

    def __init__(self, banned_ops: set[Any] | None = None) -> None:
        self.banned_ops = banned_ops or set()
        super().__init__()

    def call(self, graph_module: GraphModule) -> PassResult:
        """A new module of the graph where nothing is computed twice."""
        made = Graph()
        copies: dict[Node, Node] = {}
        known: dict[Any, Node] = {}
        modified = False
        for node in graph_module.graph.nodes:
            key = None
            packet = getattr(node.target, "overloadpacket", node.target)
            fixed = node.op in ("placeholder", "output", "get_attr")
            fixed |= getattr(node.target, "meets", False)  # other processes wait for each call
            if not fixed and packet not in self.banned_ops:
                leaves, spec = tree_flatten((node.args, node.kwargs))
                renamed = tuple(copies.get(x, x) if isinstance(x, Node) else x for x in leaves)
                # 1, 1.0 and True are equal, and not the same argument.
                key = (node.target, renamed, tuple(map(type, renamed)), str(spec))
            if key is not None and key in known:
                copies[node] = known[key]
                modified = True
                continue
            copies[node] = made.node_copy(node, lambda n: copies[n])
            if key is not None:
                known[key] = copies[node]
        if not modified:
            return PassResult(graph_module, False)
        return PassResult(GraphModule(graph_module, made), True)
