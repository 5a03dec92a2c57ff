"""merge_matmul: products with the same right-hand side become one."""

from __future__ import annotations

import itertools
import operator
from typing import Any

from tritorch.fx._symbolic_trace import symbolic_trace as symbolic_trace
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node as Node
from tritorch.fx.passes.tools_common import legalize_graph as legalize_graph
from tritorch.fx.proxy import Proxy


def split_result_tensors(result: Any, inputs: list[Any]) -> tuple[Any, ...]:
    """The rows of a result that belong to each of the inputs that were put together."""
    from tritorch.fx._naming import public

    traced = isinstance(result, Proxy)  # rows are not known
    return public("split")(result, [0 if traced else x.shape[0] for x in inputs])


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """Whether a node depends on another one, or may do so further away than is looked."""
    if a == b:
        return True
    if not a.all_input_nodes:
        return False
    if search_depth == 0:
        return True
    return any(may_depend_on(each, b, search_depth - 1) for each in a.all_input_nodes)


def are_nodes_independent(nodes: list[Node]) -> bool:
    """Whether no node depends on another one."""
    pairs = itertools.permutations(nodes, 2)
    return not any(may_depend_on(one, other) for one, other in pairs)


def merge_matmul(in_mod: Any) -> GraphModule:
    """A module, traced, in which calls of torch.matmul with one right-hand side are one."""
    from tritorch.fx._naming import public

    matmul, cat = public("matmul"), public("cat")
    gm = symbolic_trace(in_mod)
    by_right: dict[Any, list[Node]] = {}
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is matmul:
            right = node.args[1]
            key = right.target if right.op == "get_attr" else right
            by_right.setdefault(key, []).append(node)
    for right, products in by_right.items():
        if len(products) < 2 or not are_nodes_independent(products):
            continue
        lefts = [product.args[0] for product in products]
        shared = gm.graph.get_attr(right) if isinstance(right, str) else right
        joined = gm.graph.call_function(cat, (lefts,), {})
        product = gm.graph.call_function(matmul, (joined, shared), {})
        parts = gm.graph.call_function(split_result_tensors, (product, lefts), {})
        for place, old in enumerate(products):
            item = gm.graph.call_function(operator.getitem, (parts, place), {})
            old.replace_all_uses_with(item)
            gm.graph.erase_node(old)
        legalize_graph(gm)
    gm.recompile()
    gm.graph.lint()
    return gm
