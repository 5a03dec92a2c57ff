"""torch.fx: programs as graphs of calls, which other programs read and change."""

from tritorch.fx import (
    graph_module,
    immutable_collections,
    interpreter,
    node,
    operator_schemas,
    proxy as _proxy,
    subgraph_rewriter,
    tensor_type,
    traceback,
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
