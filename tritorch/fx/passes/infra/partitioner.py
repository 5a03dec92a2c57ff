"""CapabilityBasedPartitioner: the largest parts of a graph that a backend can run."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence

from tritorch.fx._naming import qualified_name
from tritorch.fx.graph_module import GraphModule as GraphModule
from tritorch.fx.node import Node as Node
from tritorch.fx.passes.operator_support import OperatorSupportBase as OperatorSupportBase
from tritorch.fx.passes.utils.fuser_utils import fuse_by_partitions as fuse_by_partitions


class Partition:
    """Nodes that become one, and their places counted from the graph's end."""

    def __init__(
        self, id: int | None = None, nodes: Iterable[Node] | None = None,
        node_orders: Iterable[int] | None = None,
    ) -> None:  # fmt: skip
        self.id = id
        self.nodes: dict[Node, int | None] = {}
        if nodes is not None and node_orders is not None:
            self.nodes = dict(zip(nodes, node_orders, strict=True))
        elif nodes is not None:
            self.nodes = dict.fromkeys(nodes)

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Takes a node in."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Takes a node out."""
        del self.nodes[node]

    def size(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)


def _calls(node: Node, names: Iterable[str]) -> bool:
    return node.op == "call_function" and qualified_name(node.target) in names


_GETITEM = "_operator.getitem"


class CapabilityBasedPartitioner:
    """Finds groups of supported nodes, each as large as it can be without a way out of it and back.

    allows_single_node_partition: groups of one node count, as do those of the functions in
    allowed_single_node_partition_ops.  non_compute_ops: functions that do not count as nodes.
    skip_horizontal_fusion: only nodes that take values of each other become one."""

    def __init__(
        self, graph_module: GraphModule, operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False, non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:  # fmt: skip
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops if non_compute_ops is not None else []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _is_node_supported(self, node: Node) -> bool:
        modules = dict(self.graph_module.named_modules())
        return self.operator_support.is_node_supported(modules, node)

    # ---- groups ---------------------------------------------------------------------------------

    def propose_partitions(self) -> list[Partition]:
        """The groups."""
        self._parts: dict[int, Partition] = {}
        self._home: dict[Node, int] = {}
        self._order: dict[int, int] = {}  # of a group, when its first node came
        modules = dict(self.graph_module.named_modules())
        numbers = itertools.count()
        for place, node in enumerate(reversed(self.graph_module.graph.nodes)):
            candidates: dict[int, None] = {}
            supported = self.operator_support.is_node_supported(modules, node)
            if supported:
                number = next(numbers)
                self._order[number] = number
                self._parts[number] = Partition(number, [node], [place])
                self._home[node] = number
                candidates[number] = None
            if not self.skip_horizontal_fusion:
                ordered = sorted(self._order.items(), key=operator.itemgetter(1))
                candidates |= dict.fromkeys(number for number, _ in ordered)
            elif supported:
                candidates |= {self._home[n]: None for n in node.users if n in self._home}
            if len(candidates) > 1:
                current, *others = candidates
                for other in others:
                    current = self._merged(current, other)
        for part in self._parts.values():
            part.nodes = dict(
                sorted(part.nodes.items(), key=lambda item: item[1] or 0, reverse=True)
            )
        self._keep_items_with_tuples()
        if not self.allows_single_node_partition:
            self._drop_single_nodes()
        return [part for part in self._parts.values() if part.size() > 0]

    def _merged(self, one: int, other: int) -> int:
        """Makes two groups one, if no way leads out of it and back; gives its number."""
        if self._leads_back(one, other):
            return one
        if len(self._parts[one].nodes) < len(self._parts[other].nodes):
            one, other = other, one
        gone = self._parts.pop(other)
        self._parts[one].nodes.update(gone.nodes)
        self._home.update(dict.fromkeys(gone.nodes, one))
        self._order[one] = min(self._order[one], self._order.pop(other))
        return one

    def _leads_back(self, one: int, other: int) -> bool:
        """Whether a way leads out of two groups and back, where other groups are one node each."""
        inside = {one, other}
        both = [*self._parts[one].nodes, *self._parts[other].nodes]
        waiting = [u for n in both for u in n.users if self._home.get(u) not in inside]
        seen: set[Node] = set()
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            home = self._home.get(node)
            if home in inside:
                return True
            group = [node] if home is None else list(self._parts[home].nodes)
            seen.update(group)
            waiting += [user for each in group for user in each.users if user not in seen]
        return False

    def _keep_items_with_tuples(self) -> None:
        """Puts getitem nodes where the tuple is made."""
        changed = True
        while changed:
            changed = False
            for node in self.graph_module.graph.nodes:
                if not all(_calls(user, (_GETITEM,)) for user in node.users):
                    continue
                home = self._home.get(node)
                for user in node.users:
                    if self._home.get(user) == home:
                        continue
                    changed = True
                    if user in self._home:
                        self._parts[self._home.pop(user)].remove_node(user)
                    if home is not None:
                        self._home[user] = home
                        self._parts[home].add_node(user)

    def _drop_single_nodes(self) -> None:
        free = {"torch.ops.aten.view", _GETITEM, *self.non_compute_ops}
        alone = set(self.allowed_single_node_partition_ops)
        for number, part in list(self._parts.items()):
            functions = [n for n in part.nodes if n.op == "call_function"]
            count = sum(not _calls(n, free) for n in functions)
            count += sum(_calls(n, alone) for n in functions)
            if count <= 1:
                del self._parts[number]

    # ---- what becomes of them -------------------------------------------------------------------

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """The graph module where each group is a call of a module."""
        return fuse_by_partitions(
            self.graph_module, [part.nodes for part in partitions], prefix=prefix
        )

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Takes functions that do not count out of the groups' begins and ends."""
        names = set(self.non_compute_ops)
        for part in partitions:
            inside = set(part.nodes)
            begins = self._edge(part, inside, names, lambda node: node.all_input_nodes)
            ends = self._edge(part, inside, names, lambda node: list(node.users))
            for node in begins | ends:
                part.nodes.pop(node, None)

    @staticmethod
    def _edge(part: Partition, inside: set[Node], names: set[str], near: object) -> set[Node]:
        """The nodes of a group between which and its edge there are none that count."""
        found: set[Node] = set()
        changed = True
        while changed:
            changed = False
            for node in part.nodes:
                if node in found or not _calls(node, names):
                    continue
                if all(n not in inside or n in found for n in near(node)):  # type: ignore[operator]
                    found.add(node)
                    changed = True
        return found

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Finds the groups and makes them calls."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)
