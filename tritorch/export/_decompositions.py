"""Operators of a graph in smaller ones: the package's definitions, and a graph traced with them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from tritorch.autograd.grad_mode import no_grad
from tritorch.core.tensor import Tensor
from tritorch.export._signatures import is_mark
from tritorch.export._tracing import ExportMode, TracedGraph, nameless, since
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node, map_aggregate
from tritorch.nn.modules.module import Module
from tritorch.ops.record.overloads import OpOverload, namespace
from tritorch.schema import table as schemas


def _smaller(overload: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """The result of an operator by the definition of its record, or of its public function."""
    found = overload.decompose(*args, **kwargs)
    if found is NotImplemented:
        return overload._op(*args, **kwargs)
    returns = len(overload._schema.returns)
    if isinstance(found, Tensor) and returns > 1:
        return overload._op(*args, **kwargs)
    return found


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    """What stands for each of ATen's operators that is computed here and not of its core set."""
    core = schemas.core()
    found: dict[Any, Callable[..., Any]] = {}
    for name in schemas.names():
        for overload in schemas.overloads(name):
            if (name, overload) in core or name.endswith("_") or name[:2] == "__":
                continue
            each = getattr(getattr(namespace("aten"), name), overload or "default")
            if not each._schema.is_mutable:
                found[each] = functools.partial(_smaller, each)
    return found


class _Decomposing(ExportMode):
    """Makes nodes of the operators that a definition comes to, in smaller ones where it may."""

    def __init__(self, graph: TracedGraph, fakes: Any, chosen: dict[Any, Any]) -> None:
        super().__init__(graph, Module(), fakes)
        self.chosen = chosen
        self.opened: tuple[Any, ...] = ()  # the operators whose definitions run

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in self.opened and func in self.chosen:
            with self:
                found = self.by_definition(func, args, kwargs or {})
            if found is not NotImplemented:
                return found
        return super().__torch_dispatch__(func, types, args, kwargs)

    def by_definition(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """The result of an operator by what the table says; NotImplemented where that comes to
        operators that ATen has no names for, or writes."""
        graph: Any = self.graph
        last, start = graph._root._prev, len(self._journal)
        before, self.opened = self.opened, (*self.opened, func)
        try:
            found = self.chosen[func](*args, **kwargs)
        finally:
            self.opened = before
        function = self.chosen[func]
        ours = isinstance(function, functools.partial) and function.func is _smaller
        if ours and any(nameless(node) or _writes(node) for node in since(graph, last)):
            self._take_back(last, start)
            return NotImplemented
        return found


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def retraced(graph: Graph, chosen: dict[Any, Any], fakes: Any) -> Graph:
    """A graph whose operators are by what a table says of them."""
    made = TracedGraph()
    mode = _Decomposing(made, fakes, chosen)
    nodes: dict[Node, Any] = {}

    def value(x: Any) -> Any:
        new = nodes[x] if isinstance(x, Node) else x
        return new.meta["val"] if isinstance(new, Node) else new

    for node in graph.nodes:
        source = nodes.get(node.args[0]) if node.target is operator.getitem else None
        if isinstance(source, _Several):
            nodes[node] = source.items[node.args[1]]
            continue
        found = NotImplemented
        if isinstance(node.target, OpOverload) and node.target in chosen:
            args, kwargs = map_aggregate((node.args, node.kwargs), value)
            made.modules = list((node.meta.get("nn_module_stack") or {}).items())
            with no_grad(), fakes, mode:
                found = mode.by_definition(node.target, args, kwargs)
        if found is NotImplemented:
            nodes[node] = _copied(made, mode, node, nodes)
        elif isinstance(found, Tensor):
            nodes[node] = mode._argument(found)
        else:
            items = [mode._argument(x) if isinstance(x, Tensor) else x for x in found]
            nodes[node] = _Several(tuple(items))
    made.eliminate_dead_code(is_impure_node=_acts)
    return made


class _Several:
    """The nodes of several results."""

    def __init__(self, items: tuple[Any, ...]) -> None:
        self.items = items


def _acts(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return (
        node.op in ("placeholder", "output")
        or is_mark(node)
        or (schema is not None and (schema.is_mutable or not schema.returns or node.target.meets))
    )


def _copied(graph: Graph, mode: ExportMode, node: Node, nodes: dict[Node, Any]) -> Node:
    made = graph.node_copy(node, lambda x: nodes[x])
    found = made.meta.get("val")
    if isinstance(found, Tensor):
        mode.track(found, made)
    elif found is not None and not isinstance(found, (list, tuple, int, float, bool, str)):
        mode.track_number(found, made)
    return made
