"""What parts of a graph cost on devices: memory, and time on the longest way through them."""

from __future__ import annotations

import enum
from typing import NamedTuple

from tritorch.fx.node import Node as Node

_STORED = ("placeholder", "get_attr")


class Partition:
    """Nodes that run on the same devices."""

    def __init__(self, partition_id: int) -> None:
        self.nodes: set[Node] = set()
        self.partition_id = partition_id
        self.parents: set[Partition] = set()
        self.children: set[Partition] = set()
        self.bfs_level = -1
        self.used_mem_bytes = 0
        self.logical_device_ids: list[int] = []

    def __str__(self) -> str:
        return str(self.partition_id)

    def recalculate_mem_size(self) -> None:
        """Counts its memory again."""
        self.used_mem_bytes = sum(get_extra_size_of(node, self.nodes) for node in self.nodes)

    def add_node(self, node: Node) -> None:
        """Takes a node in, with the inputs and parameters that it reads."""
        self.nodes |= {n for n in node.all_input_nodes if n.op in _STORED}
        self.nodes.add(node)
        self.recalculate_mem_size()

    def remove_node(self, node: Node) -> None:
        """Takes a node out, with what only it reads."""
        if node not in self.nodes:
            return
        self.nodes.remove(node)
        for each in node.all_input_nodes:
            if each.op in _STORED and not any(user in self.nodes for user in each.users):
                self.nodes.discard(each)
        self.recalculate_mem_size()


class Device(NamedTuple):
    """A device: its name, its memory, and its number."""

    name: str
    available_mem_bytes: int
    logical_id: int


class NodeLatency(NamedTuple):
    """How long a node takes for memory, and to compute."""

    mem_latency_sec: float
    computer_latency_sec: float


class PartitionLatency(NamedTuple):
    """The same of a part, and how long it takes: the longer of the two at each node."""

    mem_latency_sec: float
    computer_latency_sec: float
    overall_latency_sec: float


class PartitionMode(enum.Enum):
    """What decides where nodes run."""

    size_based = 0
    sparse_nn = 1
    cost_aware = 2
    kl_based = 3
    aot_based = 4


_NO_LATENCIES: dict[Node, NodeLatency] = {}
_NO_PARTS: dict[Node, int] = {}
_NO_DEVICES: dict[int, list[int]] = {}


class PartitionerConfig(NamedTuple):
    """Devices, and what is known of nodes."""

    devices: list[Device]
    mode: PartitionMode = PartitionMode.size_based
    transfer_rate_bytes_per_sec: float = 0.0
    node_to_latency_mapping: dict[Node, NodeLatency] = _NO_LATENCIES
    node_to_partition_mapping: dict[Node, int] = _NO_PARTS
    partition_to_logical_device_mapping: dict[int, list[int]] = _NO_DEVICES
    saturate_host: bool = False


def get_extra_size_of(node: Node, nodes: set[Node]) -> int:
    """The bytes that a node adds to nodes: its own, and those of what it takes from others."""
    sizes = [getattr(n, "size_bytes", None) for n in node.all_input_nodes if n not in nodes]
    own = getattr(node, "size_bytes", None)
    if own is None or None in sizes:
        raise RuntimeError("node has no size_bytes attr")
    return own.total_size + sum(size.output_size for size in sizes)  # type: ignore[union-attr]


_NO_TIME = PartitionLatency(0.0, 0.0, 0.0)


def get_latency_of_one_partition(
    partition: Partition, node_to_latency_mapping: dict[Node, NodeLatency]
) -> PartitionLatency:
    """The time of the longest way through a part."""
    known: dict[Node, PartitionLatency] = {}

    def from_here(node: Node) -> PartitionLatency:
        """The longest way that begins at a node."""
        if node not in known:
            memory, compute = node_to_latency_mapping[node]
            users = [from_here(user) for user in node.users if user in partition.nodes]
            rest = max(users, key=lambda way: way.overall_latency_sec, default=_NO_TIME)
            known[node] = PartitionLatency(
                memory + rest.mem_latency_sec,
                compute + rest.computer_latency_sec,
                max(memory, compute) + rest.overall_latency_sec,
            )
        return known[node]

    def is_first(node: Node) -> bool:
        inner = (n in partition.nodes and n.op not in _STORED for n in node.all_input_nodes)
        return node.op not in _STORED and not any(inner)

    ways = [from_here(node) for node in partition.nodes if is_first(node)]
    return max(ways, key=lambda way: way.overall_latency_sec, default=_NO_TIME)


def get_partition_to_latency_mapping(
    partitions: list[Partition], node_to_latency_mapping: dict[Node, NodeLatency]
) -> dict[Partition, PartitionLatency]:
    """The times of parts."""
    return {
        each: get_latency_of_one_partition(each, node_to_latency_mapping) for each in partitions
    }


def get_comm_latency_between(
    parent_partition: Partition, child_partition: Partition, transfer_rate_bytes_per_sec: float
) -> float:
    """How long it takes to bring what one part takes from another to its devices."""
    devices = parent_partition.logical_device_ids
    if devices and devices == child_partition.logical_device_ids:
        return 0.0
    taken = {
        n for node in child_partition.nodes for n in node.all_input_nodes
        if n in parent_partition.nodes
    }  # fmt: skip
    sizes = (getattr(node, "size_bytes", None) for node in taken)
    return sum(s.output_size for s in sizes if s is not None) / transfer_rate_bytes_per_sec


def get_latency_of_partitioned_graph(
    partitions: list[Partition], partition_to_latency_mapping: dict[Partition, PartitionLatency],
    transfer_rate_bytes_per_sec: float,
) -> float:  # fmt: skip
    """The time of the longest way through all parts."""
    known: dict[Partition, float] = {}

    def from_here(part: Partition) -> float:
        if part not in known:
            rest = (
                get_comm_latency_between(part, child, transfer_rate_bytes_per_sec)
                + from_here(child)
                for child in part.children
            )
            own = partition_to_latency_mapping[part].overall_latency_sec
            known[part] = own + max(rest, default=0.0)
        return known[part]

    return max((from_here(part) for part in partitions if not part.parents), default=0.0)
