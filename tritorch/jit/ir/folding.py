"""Simplifications of graphs that callers ask for by name: constants, common code, no-ops."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.jit.ir.graph import Block, Graph, Node, Value
from tritorch.jit.ir.operators import is_random
from tritorch.jit.ir.passes import eliminate_dead_code, has_effects
from tritorch.schema import types

_CONTAINERS = {"prim::ListConstruct", "prim::DictConstruct"}


def fold_constants(graph: Graph) -> None:
    """Replaces nodes whose inputs are constants by their results."""
    _fold_block(graph)
    eliminate_dead_code(graph)


def _fold_block(block: Block) -> None:
    for node in list(block.nodes()):
        if node._kind == "prim::If" and isinstance(node._inputs[0].toIValue(), bool):
            _take_branch(node)
            continue
        for inner in node._blocks:
            _fold_block(inner)
        if _can_fold(node):
            _fold(node)


def _can_fold(node: Node) -> bool:
    return (
        not node._blocks
        and len(node._outputs) == 1
        and node._kind.startswith(("aten::", "prim::"))
        and node._kind not in ("prim::Constant", "prim::CreateObject", "prim::Uninitialized")
        and node._kind not in _CONTAINERS
        and node.function is None
        and not has_effects(node)
        and not is_random(node._kind)
        and bool(node._inputs)
        and all(value.is_constant() for value in node._inputs)
    )


def _fold(node: Node) -> None:
    """Computes a node by itself, and puts a constant in its place."""
    from tritorch.jit.run.executor import compile_graph

    graph = Graph()
    values = {value: graph.insertConstant(value.toIValue(), value._type) for value in node._inputs}
    copied = graph.append(graph.createClone(node, dict(values)))
    graph.registerOutput(copied._outputs[0])
    try:
        result = compile_graph(graph, "constant")()
    except Exception:
        return  # it fails where it runs
    if not isinstance(result, (int, float, complex, str, bool, tuple, Tensor, type(None))):
        return
    constant = node._graph.create("prim::Constant")
    constant.source = node.source
    if result is not None:
        constant.set("value", result)
    constant.insertBefore(node)
    made = constant._outputs[0].setType(node._outputs[0]._type)
    node._outputs[0].replaceAllUsesWith(made)


def _take_branch(node: Node) -> None:
    """Puts the nodes of the branch that runs in place of an `if`."""
    block = node._blocks[0 if node._inputs[0].toIValue() else 1]
    _fold_block(block)
    for inner in list(block.nodes()):
        inner.moveBefore(node)
    for value, output in zip(block._return._inputs, node._outputs):
        output.replaceAllUsesWith(value)
    block._return.removeAllInputs()
    node.destroy()


def pool_constants(graph: Graph) -> None:
    """Keeps each constant once, at the beginning of the graph."""
    known: dict[Any, Value] = {}
    _pool(graph, graph, known)


def _constant_key(node: Node) -> Any:
    value = node.constant()
    kind = node._outputs[0]._type.annotation_str
    if isinstance(value, (bool, int, float, complex, str)) or value is None:
        return (kind, type(value).__name__, repr(value), id(node.function))
    return (kind, id(value), id(node.function))


def _pool(graph: Graph, block: Block, known: dict[Any, Value]) -> None:
    for node in list(block.nodes()):
        for inner in node._blocks:
            _pool(graph, inner, known)
        if node._kind != "prim::Constant":
            continue
        key = _constant_key(node)
        if key in known:
            node._outputs[0].replaceAllUsesWith(known[key])
            node.destroy()
            continue
        if known:
            last = next(reversed(known.values()))._node
            node.moveAfter(last)
        else:
            first = graph._param._next
            if first is not None and first is not node:
                node.moveBefore(first)
        known[key] = node._outputs[0]


def eliminate_common(graph: Graph) -> bool:
    """Computes equal expressions once; tells if any were found."""
    return _common(graph, {})


def _common(block: Block, outer: dict[Any, Node]) -> bool:
    known, found = dict(outer), False
    for node in list(block.nodes()):
        if node._blocks:
            for inner in node._blocks:
                found |= _common(inner, known)
            continue
        if has_effects(node) or is_random(node._kind) or node._kind in _CONTAINERS:
            continue
        if node._kind == "prim::Constant":
            key: Any = ("constant", _constant_key(node))
        else:
            if any(isinstance(v._type, (types.ListType, types.DictType)) for v in node._outputs):
                continue
            attributes = tuple((k, repr(v)) for k, v in node._attributes.items())
            key = (node._kind, tuple(map(id, node._inputs)), attributes)
        if key in known:
            node.replaceAllUsesWith(known[key])
            node.destroy()
            found = True
        else:
            known[key] = node
    return found


def simplify(graph: Graph) -> None:
    """Removes nodes that do nothing: casts to what a value is, parts of tuples that are known."""
    for node in _every(graph):
        if node._kind in ("prim::unchecked_cast", "prim::unchecked_unwrap_optional"):
            if node._inputs[0]._type == node._outputs[0]._type:
                node._outputs[0].replaceAllUsesWith(node._inputs[0])
        elif node._kind == "prim::TupleUnpack":
            source = node._inputs[0]._node
            if source._kind == "prim::TupleConstruct":
                for output, value in zip(node._outputs, source._inputs):
                    output.replaceAllUsesWith(value)
        elif node._kind == "prim::TupleIndex":
            source, at = node._inputs[0]._node, node._inputs[1].toIValue()
            if source._kind == "prim::TupleConstruct" and isinstance(at, int):
                node._outputs[0].replaceAllUsesWith(source._inputs[at])
    eliminate_dead_code(graph)


def _every(block: Block) -> list[Node]:
    found = []
    for node in block.nodes():
        found.append(node)
        for inner in node._blocks:
            found += _every(inner)
    return found


def canonical(graph: Graph) -> Graph:
    """A copy whose values have numbers in order, and names only where inputs have them."""
    copy = graph.copy()
    for node in _every(copy):
        for value in node._outputs:
            value.setDebugName("")
    return copy
