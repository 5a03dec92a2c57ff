"""Partitioner divides a program among devices that are too small for all of it."""

from __future__ import annotations

import itertools
import math
import operator
from typing import TYPE_CHECKING, NamedTuple

from tritorch.fx.experimental.partitioner_utils import (
    Device as Device,
    NodeLatency as NodeLatency,
    Partition as Partition,
    PartitionerConfig as PartitionerConfig,
    PartitionMode as PartitionMode,
    get_extra_size_of as get_extra_size_of,
    get_latency_of_partitioned_graph as get_latency_of_partitioned_graph,
    get_partition_to_latency_mapping as get_partition_to_latency_mapping,
)
from tritorch.fx.graph_module import GraphModule as GraphModule
from tritorch.fx.node import Node as Node
from tritorch.fx.passes.graph_manipulation import get_size_of_all_nodes as get_size_of_all_nodes
from tritorch.fx.passes.split_module import split_module as split_module

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tritorch.nn.modules.module import Module

_NO_WORK = ("placeholder", "get_attr", "output")


class DAGNode:
    """A part as its users see it: its call, what it takes and gives, its devices and memory."""

    def __init__(
        self, submodule_node: Node, input_nodes: list[Node], output_nodes: list[Node],
        logical_device_ids: list[int], size_bytes: int,
    ) -> None:  # fmt: skip
        self.submodule_node = submodule_node
        self.input_nodes = input_nodes
        self.output_nodes = output_nodes
        self.logical_device_ids = logical_device_ids
        self.size_bytes = size_bytes

    def __str__(self) -> str:
        return str(self.submodule_node)


class DAG:
    """Parts in the order of their calls."""

    def __init__(self) -> None:
        self.nodes: list[DAGNode] = []

    def create_node(
        self, submodule_node: Node, input_nodes: list[Node], output_nodes: list[Node],
        logical_devices: list[int], size_bytes: int,
    ) -> None:  # fmt: skip
        """Adds a part."""
        self.nodes.append(
            DAGNode(submodule_node, input_nodes, output_nodes, logical_devices, size_bytes)
        )


class PartitionResult(NamedTuple):
    """Parts, and the module that calls them."""

    dag: DAG
    module_with_submodules: GraphModule


def reset_partition_device(partitions: list[Partition]) -> None:
    """Takes parts from their devices."""
    for each in partitions:
        each.logical_device_ids = []


def combine_two_partitions(
    partition_0: Partition, partition_1: Partition, partitions: list[Partition]
) -> None:
    """Puts one part in the place of two, last of all."""
    both = Partition(len(partitions))
    both.nodes = partition_0.nodes | partition_1.nodes
    both.recalculate_mem_size()
    partitions.append(both)
    partitions.remove(partition_0)
    partitions.remove(partition_1)
    reorganize_partitions(partitions)


def set_parents_and_children(partitions: list[Partition]) -> None:
    """Notes which parts take values of which."""
    owners: dict[Node, list[Partition]] = {}
    for each in partitions:
        each.parents, each.children = set(), set()
        for node in each.nodes:
            owners.setdefault(node, []).append(each)
    for each in partitions:
        users = {user for node in each.nodes for user in node.users}
        for user in users:
            for other in owners.get(user, ()):
                taken = (n for n in user.all_input_nodes if n in each.nodes)
                # inputs that both parts hold are no way from one to the other
                if other is not each and any(n not in other.nodes for n in taken):
                    each.children.add(other)
                    other.parents.add(each)


def reorganize_partitions(partitions: list[Partition]) -> None:
    """Numbers parts by their places, and notes parents and children."""
    for place, each in enumerate(partitions):
        each.partition_id = place
    set_parents_and_children(partitions)


def get_bfs_level_partition(partitions: list[Partition]) -> None:
    """Notes at each part how long the longest way to it is."""
    level, here = 0, {each for each in partitions if not each.parents}
    while here:
        for each in here:
            each.bfs_level = level
        here = {child for each in here for child in each.children}
        level += 1


def get_node_to_partition_mapping(partitions: list[Partition]) -> dict[Node, int]:
    """The number of each node's part."""
    return {node: each.partition_id for each in partitions for node in each.nodes}


def get_logical_id_to_device(devices: list[Device]) -> dict[int, Device]:
    """Devices by their numbers."""
    return {each.logical_id: each for each in devices}


def get_device_partition_stats(
    partitions: list[Partition], devices: list[Device]
) -> tuple[dict[Device, list[Partition]], dict[Device, int], list[Partition]]:
    """The parts on each device, the memory left on each, and the parts that are on none."""
    numbers = get_logical_id_to_device(devices)
    held: dict[Device, list[Partition]] = {each: [] for each in devices}
    left = {each: each.available_mem_bytes for each in devices}
    for part in partitions:
        for number in part.logical_device_ids:
            held[numbers[number]].append(part)
            left[numbers[number]] -= part.used_mem_bytes
    return held, left, [part for part in partitions if not part.logical_device_ids]


def get_device_to_partitions_mapping(partitions: list[Partition], devices: list[Device]) -> bool:
    """Puts each part that has no device on the fullest that has room for it; says if all fit."""
    held, left, homeless = get_device_partition_stats(partitions, devices)
    for part in homeless:
        for device in sorted(left, key=left.__getitem__):
            beside: set[Node] = set().union(*(each.nodes for each in held[device]))
            together = beside | part.nodes
            more = (
                sum(get_extra_size_of(node, together) for node in part.nodes)
                if beside
                else part.used_mem_bytes
            )
            if more < left[device]:
                held[device].append(part)
                left[device] -= more
                part.logical_device_ids.append(device.logical_id)
                break
        else:
            return False
    return True


def check_dependency(partition: Partition) -> bool:
    """Says if a part waits, by way of others, for itself."""
    seen: set[Partition] = set()
    todo = [partition]
    while todo:
        for child in todo.pop().children:
            if child is partition:
                return True
            if child not in seen:
                seen.add(child)
                todo.append(child)
    return False


class Partitioner:
    """Divides a module among devices: by size alone, by what parts cost, or as it is told."""

    def __init__(self) -> None:
        self.partitions: list[Partition] = []
        self.node_to_partition: dict[Node, int] = {}
        self.devices: list[Device] = []

    def partition_graph(
        self, fx_module: GraphModule, torch_module: Module, partitioner_config: PartitionerConfig
    ) -> PartitionResult:
        """Divides a module whose nodes' sizes are known (get_size_of_all_nodes)."""
        config = partitioner_config
        self.graph_module, self.torch_module = fx_module, torch_module
        self.devices = config.devices
        if not self.devices:
            raise RuntimeError("No devices")
        get_size_of_all_nodes(fx_module)
        if not self._work():
            raise RuntimeError("No Partition since no operations in the module")
        sizes = (n.size_bytes for n in fx_module.graph.nodes if n.op != "output")
        total = sum(size.total_size for size in sizes)
        largest = max(self.devices, key=lambda device: device.available_mem_bytes)
        if config.mode is PartitionMode.aot_based:
            self.aot_based_partition(
                config.node_to_partition_mapping, config.partition_to_logical_device_mapping
            )
        elif total <= largest.available_mem_bytes:
            self.find_single_partition(total, logical_device_id=largest.logical_id)
        elif total > sum(device.available_mem_bytes for device in self.devices):
            raise RuntimeError("Devices do not have enough memory for the module")
        elif config.mode is PartitionMode.sparse_nn:
            if len({device.available_mem_bytes for device in self.devices}) != 1:
                raise RuntimeError("All devices must have same memory size!")
            self.sparse_nn_partition(largest.available_mem_bytes)
        elif config.mode is PartitionMode.cost_aware:
            self.cost_aware_partition(
                config.transfer_rate_bytes_per_sec, config.node_to_latency_mapping
            )
        elif config.mode is PartitionMode.kl_based:
            self.kl_based_partition(
                config.transfer_rate_bytes_per_sec, config.node_to_latency_mapping
            )
        else:
            self.size_based_partition()
        if config.saturate_host:
            self.saturate_host()
        divided = self.do_partition()
        return PartitionResult(self.dump_dag(divided), divided)

    def find_single_partition(self, total_size_of_graph: int, logical_device_id: int = 0) -> None:
        """Puts the whole module on one device."""
        whole = self.create_partition()
        whole.nodes = {node for node in self.graph_module.graph.nodes if node.op != "output"}
        whole.used_mem_bytes = total_size_of_graph
        whole.logical_device_ids = [logical_device_id]
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def size_based_partition(self) -> None:
        """Fills device after device; what is left goes, node by node, where there is room."""
        free = list(self.devices)
        part, left = None, 0
        for node in self._work():
            if len(self.partitions) > len(self.devices):
                self.create_single_node_partition(node)
                continue
            more = get_extra_size_of(node, set() if part is None else part.nodes)
            if part is None or left < more:
                if part is not None and len(self.partitions) == len(self.devices):
                    self.create_single_node_partition(node)
                    continue
                more = get_extra_size_of(node, set())
                device = next((d for d in free if d.available_mem_bytes >= more), None)
                if device is None:
                    raise RuntimeError(f"{node} is too large to fit any device")
                free.remove(device)
                part, left = self.create_partition(), device.available_mem_bytes
                part.logical_device_ids.append(device.logical_id)
            part.add_node(node)
            left -= more
        reorganize_partitions(self.partitions)
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)
        if not get_device_to_partitions_mapping(self.partitions, self.devices):
            raise RuntimeError("Cannot Get a Valid Partition to Logical Device Mapping")

    def saturate_host(self) -> None:
        """Puts copies of all parts on idle devices, as often as they hold them all."""
        held, left, homeless = get_device_partition_stats(self.partitions, self.devices)
        if homeless:
            raise AssertionError(
                f"Expect no_device_partitions has 0 device, but get {len(homeless)}"
            )
        used = [device for device in self.devices if held[device]]
        idle = [device for device in self.devices if not held[device]]
        while len(used) <= len(idle):
            rest, copies = list(idle), []
            for device in used:
                need = device.available_mem_bytes - left[device]
                fitting = [each for each in rest if each.available_mem_bytes >= need]
                if not fitting:
                    return
                copy = min(fitting, key=lambda each: each.available_mem_bytes)
                rest.remove(copy)
                copies.append((copy, device))
            idle = rest
            for copy, device in copies:
                for part in held[device]:
                    part.logical_device_ids.append(copy.logical_id)

    def do_partition(self) -> GraphModule:
        """Makes the module that calls the parts."""
        return split_module(
            self.graph_module, self.torch_module, self.node_to_partition.__getitem__
        )

    def dump_dag(self, module_with_submodules: GraphModule) -> DAG:
        """Describes the calls of parts."""
        dag = DAG()
        parts = {each.partition_id: each for each in self.partitions}
        for node in module_with_submodules.graph.nodes:
            if node.op in _NO_WORK or node.target is operator.getitem:
                continue
            part = parts[int(node.name.rpartition("_")[2])]
            # several results are read by getitem's nodes
            results = list(node.users) if len(node.users) > 1 else [node]
            dag.create_node(
                node, node.all_input_nodes, results, part.logical_device_ids, part.used_mem_bytes
            )
        return dag

    def create_partition(self) -> Partition:
        """Adds a part that is empty."""
        self.partitions.append(Partition(len(self.partitions)))
        return self.partitions[-1]

    def create_single_node_partition(self, node: Node) -> None:
        """Adds a part of one node."""
        self.create_partition().add_node(node)

    def sparse_nn_partition(self, available_mem_bytes: int) -> None:
        """Divides embeddings among devices of one size, all of which hold the rest of the module.

        A part has embeddings alone or none; parts near each other become one where they fit.
        """
        kinds: dict[bool, list[Partition]] = {False: [], True: []}
        part, embeds = self.create_partition(), False
        for node in self._work():
            if self._is_embedding(node) is not embeds:
                if part.used_mem_bytes:
                    kinds[embeds].append(part)
                    part = self.create_partition()
                embeds = not embeds
            if get_extra_size_of(node, part.nodes) + part.used_mem_bytes > available_mem_bytes:
                kinds[embeds].append(part)
                part = self.create_partition()
                if get_extra_size_of(node, part.nodes) > available_mem_bytes:
                    raise RuntimeError(f"{node.target} is too large to fit into a device")
            part.add_node(node)
        kinds[embeds].append(part)
        set_parents_and_children(self.partitions)
        for parts in kinds.values():
            while self._combine_smallest(parts, available_mem_bytes):
                pass
        if len(kinds[True]) > len(self.devices):
            raise RuntimeError(
                f"Need {len(kinds[True])} devices, but only {len(self.devices)} provided"
            )
        rest = sum(each.used_mem_bytes for each in kinds[False])
        occupied = []
        for device, each in zip(self.devices, kinds[True], strict=False):
            if rest + each.used_mem_bytes > available_mem_bytes:
                raise RuntimeError(
                    f"partition_{each.partition_id}(embedding partition) and non embedding"
                    " partitions can not fit into one device"
                )
            each.logical_device_ids = [device.logical_id]
            occupied.append(device.logical_id)
        for each in kinds[False]:
            each.logical_device_ids = occupied
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def cost_aware_partition(
        self, transfer_rate_bytes_per_sec: float, node_to_latency_mapping: dict[Node, NodeLatency]
    ) -> None:
        """Joins parts, of one node each at first, as long as the module gets no slower by it."""
        known = (transfer_rate_bytes_per_sec, node_to_latency_mapping)
        for node in self._work():
            self.create_single_node_partition(node)
        set_parents_and_children(self.partitions)
        get_bfs_level_partition(self.partitions)
        while len(self.partitions) > 1:
            least, pair = _latency(self.partitions, *known), None
            for one, other in itertools.combinations(list(self.partitions), 2):
                near = abs(one.bfs_level - other.bfs_level) <= 1
                if not (near or one in other.parents or one in other.children):
                    continue
                tried = list(self.partitions)
                combine_two_partitions(one, other, tried)
                cost = self._placed_latency(tried, tried[-1:], *known)
                if cost <= least:
                    least, pair = cost, (one, other)
                reorganize_partitions(self.partitions)
            if pair is not None:
                combine_two_partitions(*pair, self.partitions)
            get_bfs_level_partition(self.partitions)
            self._place()
            if pair is None:
                break
        self._place()
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def kl_based_partition(
        self, transfer_rate_bytes_per_sec: float, node_to_latency_mapping: dict[Node, NodeLatency]
    ) -> None:
        """Begins with parts by size; moves each node, or exchanges it, where that is fastest.

        This is Kernighan's and Lin's way to cut graphs.
        """
        known = (transfer_rate_bytes_per_sec, node_to_latency_mapping)
        self.size_based_partition()
        least = _latency(self.partitions, *known)
        for node in self._work():
            home = next(each for each in self.partitions if node in each.nodes)
            best: tuple[Node | None, Partition] | None = None
            for other in self.partitions:
                if other is home:
                    continue
                for partner in (*(n for n in other.nodes if n.op not in _NO_WORK), None):
                    _exchange(node, partner, home, other)
                    reorganize_partitions(self.partitions)
                    cost = self._placed_latency(self.partitions, (home, other), *known)
                    if cost < least:
                        least, best = cost, (partner, other)
                    _exchange(partner, node, home, other)
            if best is not None:
                _exchange(node, best[0], home, best[1])
            reorganize_partitions(self.partitions)
        self._place()
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def aot_based_partition(
        self, node_to_partition_mapping: dict[Node, int],
        partition_to_logical_device_mapping: dict[int, list[int]],
    ) -> None:  # fmt: skip
        """Makes the parts that it is told, on the devices that it is told."""
        self.node_to_partition = node_to_partition_mapping
        parts: dict[int, Partition] = {}
        for node, number in node_to_partition_mapping.items():
            if number not in parts:
                parts[number] = Partition(number)
                parts[number].logical_device_ids = partition_to_logical_device_mapping[number]
                self.partitions.append(parts[number])
            parts[number].add_node(node)

    def _work(self) -> list[Node]:
        return [node for node in self.graph_module.graph.nodes if node.op not in _NO_WORK]

    def _place(self) -> None:
        reorganize_partitions(self.partitions)
        reset_partition_device(self.partitions)
        get_device_to_partitions_mapping(self.partitions, self.devices)

    def _placed_latency(
        self, parts: list[Partition], changed: Iterable[Partition],
        rate: float, latencies: dict[Node, NodeLatency],
    ) -> float:  # fmt: skip
        """The latency of parts put on devices anew; infinite if they do not fit or form a ring."""
        if any(check_dependency(each) for each in changed):
            return math.inf
        reset_partition_device(parts)
        if not get_device_to_partitions_mapping(parts, self.devices):
            return math.inf
        return _latency(parts, rate, latencies)

    def _is_embedding(self, node: Node) -> bool:
        """Whether a node calls a module beside or inside embeddings."""
        if node.op != "call_module":
            return False
        first = self.graph_module.get_submodule(str(node.target).partition(".")[0])
        return any("Embedding" in type(module).__name__ for module in first.modules())

    def _combine_smallest(self, parts: list[Partition], available: int) -> bool:
        """Joins the smallest of parts with the largest near it that leaves it room."""
        smallest, *others = sorted(parts, key=lambda part: part.used_mem_bytes)
        get_bfs_level_partition(self.partitions)
        for other in reversed(others):
            if abs(smallest.bfs_level - other.bfs_level) <= 1:
                nodes = smallest.nodes | other.nodes
                if sum(get_extra_size_of(node, nodes) for node in nodes) <= available:
                    combine_two_partitions(other, smallest, self.partitions)
                    parts.remove(smallest)
                    parts.remove(other)
                    parts.append(self.partitions[-1])
                    return True
        return False


def _latency(parts: list[Partition], rate: float, latencies: dict[Node, NodeLatency]) -> float:
    each = get_partition_to_latency_mapping(parts, latencies)
    return get_latency_of_partitioned_graph(parts, each, rate)


def _exchange(node: Node | None, partner: Node | None, home: Partition, other: Partition) -> None:
    """Moves a node from its part to another, and its partner the other way."""
    if node is not None:
        home.remove_node(node)
        other.add_node(node)
    if partner is not None:
        other.remove_node(partner)
        home.add_node(partner)
