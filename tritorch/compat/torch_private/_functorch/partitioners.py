"""A graph of both passes, divided in two."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from tritorch.compilation.backward.partition import Choice, minimum_cut, within_budget
from tritorch.compilation.backward.saving import budget
from tritorch.core.tensor import Tensor
from tritorch.fx._lazy_graph_module import _make_graph_module
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_arg
from tritorch.schema import Tag


def default_partition(
    joint_module: GraphModule, _joint_inputs: Any, *, num_fwd_outputs: int, **options: Any
) -> tuple[GraphModule, GraphModule]:
    """The graphs of the forward and of the backward pass.

    The backward pass is what needs gradients of results, the inputs that are called tangents; what
    it uses of the rest is computed in the forward pass, which gives it behind its results."""
    return _Joint(joint_module, num_fwd_outputs).divided(None)


def min_cut_rematerialization_partition(
    joint_module: GraphModule, _joint_inputs: Any, compiler: str = "inductor", *,
    num_fwd_outputs: int, static_lifetime_input_indices: Sequence[int] | None = None,
) -> tuple[GraphModule, GraphModule]:  # fmt: skip
    """The graphs of the forward and of the backward pass, with as few bytes between them as a cut
    can have: views, casts and pointwise calls are made again of what is saved.

    With `config.activation_memory_budget` below 1 other calls are, too, but for draws and writes,
    in their order, until what is saved fits.  compiler changes nothing.
    static_lifetime_input_indices: inputs that live anyway, so that saving them is free."""
    joint = _Joint(joint_module, num_fwd_outputs)
    return joint.divided(joint.partition(set(static_lifetime_input_indices or ())))


class _Joint:
    """A graph of both passes.  late: what needs gradients; used: what that reads of the rest."""

    def __init__(self, module: GraphModule, num_fwd_outputs: int) -> None:
        self.module, self.nodes = module, list(module.graph.nodes)
        (output,) = (node for node in self.nodes if node.op == "output")
        results = list(output.args[0])
        self.results, self.gradients = results[:num_fwd_outputs], results[num_fwd_outputs:]
        inputs = [node for node in self.nodes if node.op == "placeholder"]
        self.tangents = [node for node in inputs if str(node.target).startswith("tangents")]
        self.late = _dependents(self.nodes, self.tangents)
        self.primals = [node for node in inputs if node not in self.late]
        used: dict[Node, None] = {}
        for node in self.nodes:
            if node in self.late and node.op not in ("placeholder", "output"):
                used.update(dict.fromkeys(x for x in node.all_input_nodes if x not in self.late))
        early = (x for x in self.gradients if isinstance(x, Node) and x not in self.late)
        used.update(dict.fromkeys(early))
        self.used = [node for node in used if node.op != "get_attr"]

    def divided(self, saved: set[Node] | None) -> tuple[GraphModule, GraphModule]:
        """Both graphs; saved: all that is used, or what that can be computed of."""
        kept = self.used if saved is None else [node for node in self.nodes if node in saved]
        given = [*self.results, *kept]
        first = _extracted(self.module, self.nodes, self.primals, given, "forward")
        inputs = [*kept, *self.tangents]
        second = _extracted(self.module, self.nodes, inputs, self.gradients, "backward")
        return first, second

    def partition(self, living: set[int]) -> set[Node]:
        """What to save, with the fewest bytes."""
        early = [node for node in self.nodes if node not in self.late and node.op != "output"]
        sizes = {node: _bytes(node) for node in early}
        sizes |= {node: 0 for i, node in enumerate(self.primals) if i in living}
        free = [node for node in early if _is_free(node)]
        others = [node for node in early if node not in set(free) and _is_repeatable(node)]

        def choose(allowed: set[Node]) -> set[Node]:
            return minimum_cut(
                {
                    node: Choice(
                        sizes[node], tuple(node.all_input_nodes) if node in allowed else None
                    )
                    for node in early
                },
                self.used,
            )

        total = lambda found: sum(sizes[node] or 0 for node in found)
        calls = [*free, *others]
        return within_budget(budget(), calls, len(free), len(calls), choose, total)


def _bytes(node: Node) -> int | None:
    """What saving a node's value takes; None for several values together, which are not saved."""
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)) or node.op == "get_attr":
        return None
    return value.numel() * value.element_size() if isinstance(value, Tensor) else 0


def _is_repeatable(node: Node) -> bool:
    """Whether a call gives the same bits each time, and writes nothing."""
    if node.op == "get_attr":
        return True
    if node.op != "call_function":
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return node.target is operator.getitem
    if schema.is_mutable:
        return False
    if any(each.alias_info is not None for each in schema.returns):
        return True
    record = getattr(node.target, "record", None)  # without one, nobody says whether it draws
    if record is None or record.kind == "random" or record.meets:
        return False
    return not any(a.name == "generator" for a in record.schema.arguments)


def _is_free(node: Node) -> bool:
    """Whether a call is one of element by element, a view, or shows a part of what there is."""
    if not _is_repeatable(node):
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return True
    shows = any(each.alias_info is not None for each in schema.returns)
    return shows or Tag.pointwise in node.target.tags


def _dependents(nodes: Iterable[Node], roots: Iterable[Node]) -> set[Node]:
    found = set(roots)
    for node in nodes:
        if node.op != "output" and any(x in found for x in node.all_input_nodes):
            found.add(node)
    return found


def _extracted(
    module: GraphModule, nodes: list[Node], inputs: list[Node], outputs: list[Any], name: str
) -> GraphModule:
    """The part of a graph that computes some nodes from others."""
    graph, copies = Graph(), dict[Node, Node]()
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta.update(node.meta)
    needed, pending = set(), [x for x in outputs if isinstance(x, Node)]
    while pending:
        node = pending.pop()
        if node not in needed and node not in copies:
            needed.add(node)
            pending += node.all_input_nodes
    for node in nodes:
        if node in needed:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(map_arg(list(outputs), copies.__getitem__))
    return _make_graph_module(module, graph, name)
