"""Graphs split between an accelerator and the CPU, by what the accelerator can run."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tritorch.autograd import no_grad
from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node
from tritorch.fx.passes.graph_drawer import FxGraphDrawer
from tritorch.fx.passes.graph_manipulation import get_size_of_node
from tritorch.fx.passes.operator_support import OperatorSupportBase
from tritorch.fx.passes.shape_prop import ShapeProp
from tritorch.fx.passes.split_utils import move_non_tensor_nodes_on_boundary, split_by_tags
from tritorch.fx.passes.tools_common import (
    CALLABLE_NODE_OPS,
    FxNetAccFusionsFinder,
    NodeList,
    NodeSet,
    get_node_target,
    is_node_output_tensor,
)

__all__ = [
    "FxNetAccNodesFinder", "FxNetSplitterInternalError", "NodeEvent", "NodeEventTracker",
    "SplitResult", "Subgraph", "generate_inputs_for_submodules",
]  # fmt: skip

DEFAULT_MIN_ACC_MODULE_SIZE = 1
DEFAULT_SKIP_FUSION = False
DEFAULT_ALLOW_NON_TENSOR = False
DUMP_PREFIX = os.environ.get("FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH", "_fx_net_tracker")
# "0" writes no files, "1" all events, "2" besides those of the nodes in ..._TRACKED_NODES, "3"
# those of nodes with more than one event.
TRACKER_MODE = os.environ.get("FX_NET_ACC_SPLITTER_TRACKER_MODE", "0")


class _SplitterSettingBase:
    """How a graph is split.

    min_acc_module_size: parts of fewer nodes go to the CPU.  skip_fusion: values that are no
    tensors may go from part to part.  allow_non_tensor: they may go between the accelerator and the
    CPU.  max_acc_splits: more parts are an error; -1 for any number."""

    def __init__(
        self, min_acc_module_size: int = DEFAULT_MIN_ACC_MODULE_SIZE,
        skip_fusion: bool = DEFAULT_SKIP_FUSION,
        allow_non_tensor: bool = DEFAULT_ALLOW_NON_TENSOR, max_acc_splits: int = -1,
        move_non_tensor_nodes_on_boundary: bool = False,
    ) -> None:  # fmt: skip
        self.min_acc_module_size = min_acc_module_size
        self.skip_fusion = skip_fusion
        self.allow_non_tensor = allow_non_tensor
        self.max_acc_splits = max_acc_splits
        self.move_non_tensor_nodes_on_boundary = move_non_tensor_nodes_on_boundary


# ---- events --------------------------------------------------------------------------------------


@compatibility(is_backward_compatible=False)
class NodeEvent:
    """Why a node runs where it does."""

    def __init__(self, source: Node, desc: str, dep: Node | None = None) -> None:
        self.source, self.desc, self.dep = source, desc, dep

    def to_str(self) -> str:
        """Its line."""
        return f"{self.source.name}: {self.desc} {self.dep.name if self.dep else '#'}"


@compatibility(is_backward_compatible=False)
class NodeEventTracker:
    """Keeps events, and writes them to files if it is told to."""

    def __init__(self, tracker_mode: int, dump_prefix: str) -> None:
        self.tracker_mode, self.dump_prefix = tracker_mode, dump_prefix
        self.events: list[NodeEvent] = []
        self.node_events: dict[str, list[int]] = {}
        self.writer: Callable[[str], Any] = print

    def add(self, node: Node, desc: str, dep: Node | None = None) -> None:
        """Notes an event."""
        self.node_events.setdefault(node.name, []).append(len(self.events))
        self.events.append(NodeEvent(node, desc, dep))

    def print_node(
        self, node_name: str, recursive: bool = False, tab: str = "",
        writer: Callable[[str], Any] | None = None,
    ) -> None:  # fmt: skip
        """Writes a node's events; recursive: and those of the nodes that they are because of."""
        writer = writer or self.writer
        for number in self.node_events.get(node_name, []):
            event = self.events[number]
            writer(tab + event.to_str())
            if recursive and event.dep is not None:
                self.print_node(event.dep.name, True, f"| {tab}", writer)

    def to_dict(self) -> dict[str, list[str]]:
        """The lines of each node."""
        return {
            name: [self.events[number].to_str() for number in numbers]
            for name, numbers in self.node_events.items()
        }

    def print_all(self, writer: Callable[[str], Any] | None = None) -> None:
        """Writes all events."""
        writer = writer or self.writer
        for name in self.node_events:
            writer(f"Node: {name}:")
            self.print_node(name, False, "  ", writer)

    def dump(self) -> None:
        """Writes the files that the mode asks for."""
        if self.tracker_mode >= 1:
            with open(f"{self.dump_prefix}_all.txt", "w") as file:
                self.print_all(lambda line: file.write(f"{line}\n"))
        if self.tracker_mode not in (2, 3):
            return
        if self.tracker_mode == 2:
            names = os.environ.get("FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES", "").split(",")
        else:
            names = [name for name, numbers in self.node_events.items() if len(numbers) > 1]
        with open(f"{self.dump_prefix}_nodes.txt", "w") as file:
            write = lambda line: file.write(f"{line}\n")
            for name in names:
                write(f"===== Tracking node {name} =====")
                self.print_node(name, True, "|-", write)
                write(f"===== End of tracking node {name} =====")


# ---- where nodes run -----------------------------------------------------------------------------


@compatibility(is_backward_compatible=False)
class FxNetAccNodesFinder:
    """Finds the nodes that an accelerator runs: those that it supports, and that neither take nor
    give what is no tensor to nodes on the CPU."""

    def __init__(
        self, module: GraphModule, operator_support: OperatorSupportBase, allow_non_tensor: bool
    ) -> None:
        self.module = module
        self.operator_support = operator_support
        self.allow_non_tensor = allow_non_tensor
        self.acc_nodes: NodeSet = set()
        self.tracker = NodeEventTracker(int(TRACKER_MODE), DUMP_PREFIX)

    def reduce_acc_nodes_non_tensor_input_helper(self, cpu_worklist: NodeList) -> None:
        """Leaves nodes to the CPU that take what is no tensor from these, and so on."""
        while cpu_worklist:
            node = cpu_worklist.pop(0)
            for user in node.users:
                if user not in self.acc_nodes:
                    continue
                self.acc_nodes.remove(user)
                self.tracker.add(user, "acc_del|user_of_new_cpu_node", node)
                if not is_node_output_tensor(user):
                    self.tracker.add(user, "new_cpu_node|non_tensor_output")
                    cpu_worklist.append(user)

    def reduce_acc_nodes_non_tensor_input(self) -> None:
        """Leaves nodes to the CPU that take what is no tensor from there."""
        first = [
            node
            for node in self.module.graph.nodes
            if node.op in CALLABLE_NODE_OPS
            and node not in self.acc_nodes
            and not is_node_output_tensor(node)
        ]
        for node in first:
            self.tracker.add(node, "new_cpu_node|callable_non_tensor_input")
        self.reduce_acc_nodes_non_tensor_input_helper(first)

    def reduce_acc_nodes_non_tensor_output(self) -> None:
        """Leaves nodes to the CPU that give there what is no tensor."""
        while True:
            found: NodeList = []
            for node in self.acc_nodes:
                if is_node_output_tensor(node):
                    continue
                user = next((user for user in node.users if user not in self.acc_nodes), None)
                if user is not None:
                    found.append(node)
                    self.tracker.add(node, "acc_del|non_tensor_output_with_cpu_user", user)
            if not found:
                return
            self.acc_nodes -= set(found)
            self.reduce_acc_nodes_non_tensor_input_helper(found)

    def __call__(self) -> NodeSet:
        """The nodes."""
        modules = dict(self.module.named_modules())
        self.acc_nodes = set()
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                self.tracker.add(node, "init_cpu|not_callable")
            elif not self.operator_support.is_node_supported(modules, node):
                self.tracker.add(node, "init_cpu|operator_support")
            else:
                self.tracker.add(node, "init_acc|callable_and_operator_supported")
                self.acc_nodes.add(node)
        if not self.allow_non_tensor:
            self.reduce_acc_nodes_non_tensor_input()
            self.reduce_acc_nodes_non_tensor_output()
        self.tracker.dump()
        return self.acc_nodes


@compatibility(is_backward_compatible=False)
class FxNetSplitterInternalError(Exception):
    """A graph that could not be split."""


@compatibility(is_backward_compatible=False)
@dataclasses.dataclass
class Subgraph:
    """Nodes that run together, and whether on the accelerator."""

    is_acc: bool
    nodes: NodeList
    device_ordinal: int | None = None


@compatibility(is_backward_compatible=False)
class SplitResult(NamedTuple):
    """The module that calls the parts, their inputs, and how those on the CPU are called."""

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


@compatibility(is_backward_compatible=False)
def generate_inputs_for_submodules(
    model: Any, inputs: Sequence[Any], target_submodules: Iterable[str], deepcopy: bool = False
) -> dict[str, Any]:
    """What each of a model's modules of these names is called with, when the model is."""
    wanted = set(target_submodules)
    names = {module: name for name, module in model.named_modules()}
    found: dict[str, Any] = {}

    def note(module: Any, given: Any) -> None:
        found[names[module]] = copy.deepcopy(given) if deepcopy else given

    handles = [
        module.register_forward_pre_hook(note)
        for name, module in model.named_modules()
        if name in wanted
    ]
    try:
        with no_grad():
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


class _SplitterBase:
    """Splits a graph module: calling it gives the module that calls the parts.

    A subclass says what becomes of the accelerator's parts (`_lower_model_to_backend`)."""

    # Bytes in a second between the CPU and an accelerator, for the estimates of `split_preview`.
    PCIe_BW = 100 * 2**30

    def __init__(
        self, module: GraphModule, sample_input: Sequence[Any],
        operator_support: OperatorSupportBase, settings: _SplitterSettingBase,
        non_acc_submodule_name: str = "_run_on_cpu_", return_tuple: bool = False,
        nodes_finder: Any = None,
    ) -> None:  # fmt: skip
        if not isinstance(module, GraphModule):
            raise AssertionError(f"Expected GraphModule, got {type(module)}")
        self.module = module
        ShapeProp(module).propagate(*sample_input)
        self.settings = settings
        self.operator_support = operator_support
        self.sample_input = sample_input
        finder = nodes_finder or FxNetAccNodesFinder(
            module, operator_support, settings.allow_non_tensor
        )
        self.acc_nodes = finder()
        self.fusions: dict[Node, NodeSet] = {}
        if not settings.skip_fusion:
            self.fusions = FxNetAccFusionsFinder(module, self.acc_nodes)()
        self.deps = self.find_deps()
        self.update_deps_for_fusions()
        self.non_acc_submodule_name = non_acc_submodule_name
        self._node_submodule_map: dict[str, str] = {}
        self._return_tuple = return_tuple
        self.tags: list[str] = []

    def get_node_submodule_map(self) -> dict[str, str]:
        """The part that each node is in, by names."""
        return self._node_submodule_map

    # ---- what depends on what -------------------------------------------------------------------

    def find_deps(self) -> dict[Node, NodeSet]:
        """The nodes whose values each node takes."""
        deps: dict[Node, NodeSet] = defaultdict(set)
        for node in self.module.graph.nodes:
            if node.op in CALLABLE_NODE_OPS:
                for user in node.users:
                    if user.op != "output":
                        deps[user].add(node)
        return deps

    def update_deps_for_fusions(self) -> None:
        """Makes each node of a group wait for what any of them waits for, and others for all."""
        for node, group in self.fusions.items():
            for other in group:
                self.deps[node].update(self.deps[other] - group)
                for user in other.users:
                    if user not in group:
                        self.deps[user].add(node)

    def find_reverse_deps(self, tag_id: int | None = None) -> dict[Node, NodeSet]:
        """The nodes that take each node's value; tag_id: those in parts before this one."""
        found: dict[Node, NodeSet] = defaultdict(set)
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            for user in node.users:
                if user.op in CALLABLE_NODE_OPS and (
                    tag_id is None or int(user.tag.split("_")[-1]) < tag_id
                ):
                    found[node].add(user)
        return found

    def update_reverse_deps_for_fusions(self, deps: dict[Node, NodeSet]) -> None:
        """The same, where the nodes of a group are one."""
        done: NodeSet = set()
        for node, group in self.fusions.items():
            if node in done:
                continue
            users = {user for each in group for user in deps[each]} - group
            for each in group:
                deps[each] = users
                for arg in each.all_input_nodes:
                    if arg not in group:
                        deps[arg].update(group)
                done.add(each)

    def find_parent_nodes_of_subgraph(self, tag: str) -> NodeSet:
        """The nodes outside of a part whose values it takes."""
        return {
            arg
            for node in self.module.graph.nodes
            if node.op in CALLABLE_NODE_OPS and node.tag == tag
            for arg in node.all_input_nodes
            if arg.op in CALLABLE_NODE_OPS and arg.tag != tag
        }

    def extend_acc_subgraph(self, tag: str) -> None:
        """Takes nodes that an accelerator runs, and that only a part of it needs, into that."""
        deps = self.find_reverse_deps(tag_id=int(tag.rsplit("_", maxsplit=1)[-1]))
        self.update_reverse_deps_for_fusions(deps)
        parents = self.find_parent_nodes_of_subgraph(tag)
        visited: NodeSet = set()
        while parents:
            node = next((n for n in parents if deps[n] <= visited and n in self.acc_nodes), None)
            if node is None:
                break
            node.tag = tag
            parents.remove(node)
            visited.add(node)
            parents |= self.fusions.get(node, set()) - visited
            parents |= {
                arg
                for arg in node.all_input_nodes
                if arg.op in CALLABLE_NODE_OPS and arg not in visited
            }

    # ---- parts ----------------------------------------------------------------------------------

    def starter_nodes(self) -> tuple[NodeSet, NodeSet]:
        """The nodes with which the CPU's parts can begin, and the accelerator's."""
        cpu: NodeSet = set()
        acc: NodeSet = set()
        for node in self.module.graph.nodes:
            if node.op == "call_function" and not node.all_input_nodes:
                (acc if node in self.acc_nodes else cpu).add(node)
            if node.op in ("placeholder", "get_attr"):
                for user in node.users:
                    if user.op in CALLABLE_NODE_OPS:
                        (acc if user in self.acc_nodes else cpu).add(user)
        return cpu, acc

    def put_nodes_into_subgraphs(self) -> list[Subgraph]:
        """The parts, as few as can be when the two take turns."""
        cpu, acc = self.starter_nodes()
        visited: NodeSet = set()
        order = {node: place for place, node in enumerate(self.module.graph.nodes)}
        on_acc = not any(not self.deps[node] for node in cpu)
        nodes: NodeList = []
        parts: list[Subgraph] = []
        while cpu or acc:
            current = acc if on_acc else cpu
            ready = [n for n in current if self.deps[n] <= visited]
            if not ready:
                if not nodes:
                    raise FxNetSplitterInternalError("Subgraph can't be empty")
                parts.append(Subgraph(on_acc, nodes))
                on_acc, nodes = not on_acc, []
                continue
            node = min(ready, key=order.__getitem__)
            current.remove(node)
            visited.add(node)
            nodes.append(node)
            group = self.fusions.get(node, set()) - visited
            (acc if node in self.acc_nodes else cpu).update(group)
            for user in node.users:
                if user.op in CALLABLE_NODE_OPS and user not in visited:
                    (acc if user in self.acc_nodes else cpu).add(user)
        if nodes:
            parts.append(Subgraph(on_acc, nodes))
        if not parts:
            raise FxNetSplitterInternalError("Couldn't create subgraphs")
        return parts

    def remove_small_acc_subgraphs(self, subgraphs: list[Subgraph]) -> list[Subgraph]:
        """The parts, without those of the accelerator that are too small: the CPU has them."""
        kept: list[Subgraph] = []
        for part in subgraphs:
            small = part.is_acc and len(part.nodes) < self.settings.min_acc_module_size
            if small:
                print(
                    "Eliminating acc subgraph because it's smaller than the threshold: "
                    f"{len(part.nodes)} < {self.settings.min_acc_module_size}"
                )
            if small and not kept:
                part.is_acc = False
                kept.append(part)
            elif kept and (small or not (part.is_acc or kept[-1].is_acc)):
                kept[-1].nodes.extend(part.nodes)
            else:
                kept.append(part)
        return kept

    def tag(self, subgraphs: list[Subgraph]) -> None:
        """Gives nodes the names of their parts."""
        self.tags = []
        for part in subgraphs:
            stem = "_run_on_acc_" if part.is_acc else self.non_acc_submodule_name
            tag = f"{stem}{len(self.tags)}"
            self.tags.append(tag)
            for node in part.nodes:
                if hasattr(node, "tag"):
                    raise FxNetSplitterInternalError(f"Node {node} was already tagged")
                node.tag = tag
                self._node_submodule_map[node.name] = tag

    def split(self, remove_tag: bool = False) -> GraphModule:
        """The module that calls the parts."""
        made = split_by_tags(self.module, self.tags, return_tuple=self._return_tuple)
        if remove_tag:
            for node in self.module.graph.nodes:
                if hasattr(node, "tag"):
                    del node.tag
        return made

    def __call__(self) -> GraphModule:
        """Splits the module."""
        parts = self.put_nodes_into_subgraphs()
        if self.settings.move_non_tensor_nodes_on_boundary:
            move_non_tensor_nodes_on_boundary(parts)
        parts = self.remove_small_acc_subgraphs(parts)
        count = sum(part.is_acc for part in parts)
        print(f"Got {count} acc subgraphs and {len(parts) - count} non-acc subgraphs")
        self.tag(parts)
        return self.split()

    def generate_split_results(self) -> SplitResult:
        """The module that calls the parts, with their inputs."""
        made = self()
        names = [name for name, _ in made.named_children()]
        if 0 < self.settings.max_acc_splits < len(names):
            raise ValueError(
                "Cannot fulfill max_acc_splits limit. This may cause split fragmentation and "
                "result in performance issues."
            )
        inputs = generate_inputs_for_submodules(made, self.sample_input, names)
        return SplitResult(made, inputs, self.non_acc_submodule_name)

    # ---- reports --------------------------------------------------------------------------------

    def _lower_model_to_backend(self, mod: GraphModule, inputs: Any) -> Any:
        """What the accelerator runs for a part: the part itself here."""
        return mod

    def _find_culprit(self, mod: GraphModule, inputs: Any) -> str:
        """Why that could not be made."""
        return "Unable to find a culprit because _find_culprit() function is not implemented."

    def _draw_graph_based_on_node_support(self, mod: GraphModule, supported: NodeList) -> None:
        """Draws the graph, with what the accelerator supports in green."""

        class Drawer(FxGraphDrawer):
            """Colours by what is supported."""

            def _get_node_style(self, node: Node) -> dict[str, str]:
                style = super()._get_node_style(node)
                plain = "crimson" if node.op in CALLABLE_NODE_OPS else "AliceBlue"
                style["fillcolor"] = "chartreuse1" if node in supported else plain
                return style

        drawing = Drawer(mod, "node_support", ignore_getattr=True).get_main_dot_graph()
        drawing.write_raw("node_support.dot")

    def node_support_preview(self, dump_graph: bool = False) -> str:
        """A list of what is supported and what is not; dump_graph: with a drawing in a file."""
        modules = dict(self.module.named_modules())
        kinds: dict[bool, dict[str, set[Any]]] = {True: defaultdict(set), False: defaultdict(set)}
        supported: NodeList = []

        def dtype(arg: Any) -> Any:
            return (
                getattr(arg.meta.get("tensor_meta"), "dtype", None)
                if isinstance(arg, Node)
                else None
            )

        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            by_place = [dtype(arg) for arg in node.args]
            while by_place and by_place[-1] is None:
                by_place.pop()
            by_name = tuple((k, dtype(v)) for k, v in node.kwargs.items() if isinstance(v, Node))
            fits = self.operator_support.is_node_supported(modules, node)
            if fits:
                supported.append(node)
            kinds[fits][get_node_target(modules, node)].add((tuple(by_place), by_name))
        if dump_graph:
            self._draw_graph_based_on_node_support(self.module, supported)
        text = ""
        for fits, word in ((True, "Supported"), (False, "Unsupported")):
            text += f"\n{word} node types in the model:\n"
            for target, found in kinds[fits].items():
                for by_place, by_name in found:
                    text += f"{target}: ({by_place}, {dict(by_name)})\n"
        print(text)
        return text

    def split_preview(self, dump_graph: bool = False) -> str:
        """A report of the parts: how large they are, and what goes between them."""

        def counted(parts: list[Subgraph], when: str) -> str:
            acc = sum(part.is_acc for part in parts)
            return (
                f"{when} removing small acc subgraphs, total {len(parts)} subgraphs are created: "
                f"{acc} acc subgraphs and {len(parts) - acc} cpu subgraphs.\n"
            )

        parts = self.put_nodes_into_subgraphs()
        text = counted(parts, "Before")
        parts = self.remove_small_acc_subgraphs(parts)
        text += counted(parts, "After")
        for number, part in enumerate(parts):
            stem = "_run_on_acc_" if part.is_acc else self.non_acc_submodule_name
            text += f"{stem}{number}: {len(part.nodes)} node(s)\n"
        self.tag(parts)
        made = self.split(remove_tag=True)
        made.eval()
        if dump_graph:
            drawer = FxGraphDrawer(made, "preview", ignore_getattr=True)
            for name, drawing in drawer.get_all_dot_graphs().items():
                drawing.write_raw(f"{name}.dot")
        slowest, rate = "", float(self.PCIe_BW)
        calls = [n for n in made.graph.nodes if n.op == "call_module" and "acc" in str(n.target)]
        for node in calls:
            more, found = self._part_report(made, str(node.target))
            text += more
            if found < rate:
                rate, slowest = found, str(node.target)
        text += (
            f"\nTheoretical max qps (bounds by PCIe bandwidth) for this model is {rate}, "
            f"bottleneck is submodule {slowest}."
        )
        print(text)
        return text

    def _part_report(self, made: GraphModule, name: str) -> tuple[str, float]:
        """The lines of one part, and how often in a second its inputs and outputs can go over."""
        part = getattr(made, name)
        inputs = generate_inputs_for_submodules(made, self.sample_input, [name])[name]
        ShapeProp(part).propagate(*inputs)
        text = f"\nProcessing acc submodule {name}\n"

        def total(nodes: NodeList, kind: str) -> int:
            nonlocal text
            text += f"Checking {kind.lower()}s...\n"
            size = 0
            for node in nodes:
                if is_node_output_tensor(node):
                    size += get_size_of_node(part, node).output_size
                else:
                    text += (
                        f"{kind} {node.name} is not a tensor, this might cause problems during "
                        "lowering!\n"
                    )
            return size

        taken = total([n for n in part.graph.nodes if n.op == "placeholder"], "Input")
        given = total(part.graph.output_node().all_input_nodes, "Output")
        rate = self.PCIe_BW / max(taken, given, 1)
        text += (
            f"Total input size in bytes is {taken}, total output size in bytes is {given}, "
            f"theoretical max qps (bounds by PCIe bandwidth) for this submodule is {rate}.\n"
        )
        try:
            lowered = self._lower_model_to_backend(part, inputs)
        except RuntimeError:
            text += "Run into an error during lowering!\n" + self._find_culprit(part, inputs)
            return text, rate
        try:
            lowered(*inputs)
        except RuntimeError:
            text += "Run into an error during inference!\n" + self._find_culprit(part, inputs)
        else:
            text += "Lowering and running succeed!\n"
        return text, rate
