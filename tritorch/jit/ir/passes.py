"""Changes of graphs that callers ask for: calls in line, constants, dead code, common code."""

from __future__ import annotations

from tritorch.jit.ir.graph import Block, Graph, Node


def inlined(graph: Graph) -> Graph:
    """A copy of a graph with the graphs of called functions and methods in place of the calls."""
    copy = graph.copy()
    inline(copy)
    return copy


def inline(graph: Graph) -> None:
    """Puts the graphs of called functions in place of the calls."""
    _inline_block(graph, graph, 0)


_DEPTH = 200


def _inline_block(graph: Graph, block: Block, depth: int) -> None:
    if depth > _DEPTH:
        raise RecursionError("functions call each other without end")
    for node in list(block.nodes()):
        for inner in node._blocks:
            _inline_block(graph, inner, depth)
        callee = node.function
        if callee is None or node._kind not in ("prim::CallFunction", "prim::CallMethod"):
            continue
        if node._kind == "prim::CallMethod":
            # The object's type decides, where only an interface is known.
            arguments = node._inputs
        else:
            arguments = node._inputs[1:]
        body = callee.graph.copy()
        _inline_block(body, body, depth + 1)
        point = graph._insert
        graph.setInsertPoint(node)
        results = graph.insertGraph(body, arguments)
        graph._insert = point
        for old, new in zip(node._outputs, results):
            old.replaceAllUsesWith(new)
        constant = node._inputs[0]._node if node._kind == "prim::CallFunction" else None
        node.destroy()
        if constant is not None and not constant.hasUses():
            constant.destroy()


_EFFECTS = {"prim::Print", "prim::RaiseException", "prim::SetAttr", "aten::warn", "prim::Enter",
            "prim::Exit", "prim::PythonOp", "prim::CallFunction", "prim::CallMethod", "prim::fork",
            "aten::wait", "prim::awaitable", "prim::rpc_async", "aten::manual_seed"}  # fmt: skip


def has_effects(node: Node) -> bool:
    """Tells if a node does more than compute its outputs."""
    if node._kind in _EFFECTS or node._kind.endswith("_") or node._kind == "prim::Loop":
        return True
    schema = node._schema
    if schema is not None and (schema.is_mutable or not schema._returns):
        return True
    if any(has_effects(inner) for block in node._blocks for inner in block.nodes()):
        return True
    return schema is None and not node._kind.startswith("prim::")


def eliminate_dead_code(block: Block) -> None:
    """Destroys the nodes whose outputs nothing reads and that have no effects."""
    for node in list(block.nodes())[::-1]:
        for inner in node._blocks:
            eliminate_dead_code(inner)
        if not node.hasUses() and not has_effects(node):
            node.destroy()
