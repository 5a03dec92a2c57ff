"""What calls of modules are given and give, in terms of a graph's nodes.

# Note [Marks of calls]
A call whose signature is to be kept leaves two nodes in the graph while it is traced, before and
after what it computes: marks, which take the leaves of its arguments or of its results and give
nothing.  A pass over the graph takes them along as it takes any node, so they say what the values
are called where the module was called, whatever is written or replaced.  Outside of passes a
program has no marks but the names (`ModuleCallSignature`); they are put back for the next pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tritorch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from tritorch.export.graph_signature import argument_of
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node
from tritorch.utils._pytree import tree_flatten

GIVEN, RETURNED = "given", "returned"


def mark(call: str, which: str, leaves: list[Any]) -> None:
    """What a mark calls.  call: the module's name, with `@n` after the first call."""


def is_mark(node: Node) -> bool:
    """Whether a node is a mark, which passes must keep."""
    return node.target is mark


class Marking:
    """Marks the calls of some modules while a program is traced."""

    def __init__(self, names: tuple[str, ...], node_of: Callable[[Any], Any]) -> None:
        """node_of: what a value of the run is in the graph."""
        self.names, self._node_of = frozenset(names), node_of
        self.specs: dict[str, list[Any]] = {}  # by call: of arguments, of results

    def note(self, graph: Graph, call: str, which: str, value: Any) -> None:
        """Leaves a mark for one call, if it is of such a module."""
        if call.partition("@")[0] in self.names:
            leaves, spec = tree_flatten(value)
            self.specs.setdefault(call, []).append(spec)
            nodes = [self._node_of(leaf) for leaf in leaves]
            graph.call_function(mark, (call, which, nodes)).meta["val"] = None


def put_marks(graph: Graph, entries: list[ModuleCallEntry]) -> None:
    """Leaves the marks of the calls that have signatures."""
    nodes = list(graph.nodes)
    named = {node.name: node for node in nodes}
    inside: dict[str, list[Node]] = {}
    for node in nodes:
        for call, _ in (node.meta.get("nn_module_stack") or {}).values():
            inside.setdefault(call, []).append(node)
    places = {node: i for i, node in enumerate(nodes)}
    for entry in entries:
        if not entry.fqn or (signature := entry.signature) is None:
            continue
        given = [_value(each, named) for each in signature.inputs]
        returned = [_value(each, named) for each in signature.outputs]
        computed = inside.get(entry.fqn)
        if computed:
            before, after = computed[0], computed[-1].next
        else:  # it gives what it was given
            known = [x for x in (*given, *returned) if isinstance(x, Node)]
            before = after = _body(max(known, key=places.__getitem__, default=nodes[0]).next)
        for place, which, leaves in ((before, GIVEN, given), (after, RETURNED, returned)):
            with graph.inserting_before(place):
                graph.call_function(mark, (entry.fqn, which, leaves)).meta["val"] = None


def _body(node: Node) -> Node:
    """The node, or the first one after the graph's inputs."""
    while node.op == "placeholder":
        node = node.next
    return node


def _value(argument: Any, named: dict[str, Node]) -> Any:
    return named[argument.name] if argument.name else argument.value


def take_marks(graph: Graph) -> dict[str, list[list[Any]]]:
    """Takes the marks out of a graph; by call, what it is given and what it gives."""
    found: dict[str, list[list[Any]]] = {}
    for node in list(graph.nodes):
        if is_mark(node):
            call, _, leaves = node.args
            found.setdefault(call, []).append([argument_of(leaf) for leaf in leaves])
            graph.erase_node(node)
    return found


def entries_of(marking: Marking, graph: Graph) -> dict[str, ModuleCallSignature]:
    """The signatures of the calls that were marked, without the marks."""
    found = {}
    for call, (given, returned) in take_marks(graph).items():
        in_spec, out_spec = marking.specs[call]
        found[call] = ModuleCallSignature(given, returned, in_spec, out_spec)
    return found


def renamed(graph: Graph, entries: list[ModuleCallEntry]) -> list[ModuleCallEntry]:
    """The entries as a pass has left their marks, without the marks."""
    found, made = take_marks(graph), []
    for entry in entries:
        if entry.signature is not None and entry.fqn in found:
            given, returned = found[entry.fqn]
            signature = dataclasses.replace(entry.signature, inputs=given, outputs=returned)
            entry = ModuleCallEntry(entry.fqn, signature)
        made.append(entry)
    return made
