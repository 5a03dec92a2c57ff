"""torch.fx: programs as graphs of calls, which other programs read and change."""

from typing import TYPE_CHECKING

from tritorch.fx import (
    graph_module as graph_module,
    immutable_collections as immutable_collections,
    interpreter as interpreter,
    node as node,
    operator_schemas as operator_schemas,
    proxy as _proxy,
    subgraph_rewriter as subgraph_rewriter,
    tensor_type as tensor_type,
    traceback as traceback,
)
from tritorch.fx._symbolic_trace import (
    PH,
    ProxyableClassMeta,
    Tracer,
    symbolic_trace,
    wrap,
)
from tritorch.fx.graph import CodeGen, Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.interpreter import Interpreter, Transformer
from tritorch.fx.node import Node, has_side_effect, map_arg
from tritorch.fx.proxy import Proxy
from tritorch.fx.subgraph_rewriter import replace_pattern

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.fx import (
        config as config,
        experimental as experimental,
        graph as graph,
        proxy as proxy,
    )


__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
