"""split_module: a graph as modules, each of the nodes that a callback gives one number.

parts = split_module(gm, root, lambda node: 0 if is_early(node) else 1)
parts.submod_0, parts.submod_1
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tritorch.fx._compatibility import compatibility
from tritorch.fx._lazy_graph_module import _make_graph_module
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_arg
from tritorch.fx.proxy import Proxy
from tritorch.nn.modules.module import Module

__all__ = ["Partition", "split_module", "split_module_simple"]


@compatibility(is_backward_compatible=True)
class Partition:
    """The nodes of one part, what they take from others, and what others take from them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: "
            f"{self.outputs},\n partitions depended on: {self.dependencies},\n partition "
            f"dependents: {self.dependents}"
        )


def _get_attr_from_qualname(mod: Any, qualname: str) -> Any:
    for part in qualname.split("."):
        if not hasattr(mod, part):
            raise AttributeError(f"Node target {qualname} not found!")
        mod = getattr(mod, part)
    return mod


def _switches() -> tuple[Any, Any, Any]:
    """The functions of a graph that switch gradients, and that begin and end autocast."""
    from tritorch import amp, autograd

    found = (
        getattr(autograd, "_set_grad_enabled", None), getattr(amp, "_enter_autocast", None),
        getattr(amp, "_exit_autocast", None),
    )  # fmt: skip
    return found


class _Splitter:
    """One call of `split_module`."""

    def __init__(self, m: GraphModule, callback: Callable[[Node], Any], affix: str | None) -> None:
        self.m, self.callback, self.affix = m, callback, affix
        self.nodes = {node.name: node for node in m.graph.nodes}
        self.partitions: dict[str, Partition] = {}
        self.of: dict[Node, str] = {}
        # What switches a state, and the parts in which it is switched.
        self.autocasts: dict[Node, list[Any]] = {}
        self.exits: dict[Node, Node] = {}
        self.grads: dict[Node, list[Any]] = {}

    def name_of(self, number: Any) -> str:
        """The name of a part."""
        return str(number) if self.affix is None else f"{self.affix}_{number}"

    # ---- who is where ---------------------------------------------------------------------------

    def assign(self) -> None:
        """Puts each node into its part, and notes which states are switched in which."""
        grad_mode, enter, leave = _switches()
        switching = {f for f in (grad_mode, enter, leave) if f is not None}
        active_grad: Node | None = None
        active: list[Node] = []
        self.switches: set[Node] = set()
        for node in self.m.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            number = self.callback(node)
            name = self.name_of(number)
            part = self.partitions.setdefault(name, Partition(name))
            part.node_names.append(node.name)
            self.of[node] = name
            node._fx_partition = name
            if node.op == "call_function" and node.target in switching:
                self.switches.add(node)
                if node.target is grad_mode:
                    active_grad = node
                    self.grads[node] = [number]
                elif node.target is enter:
                    if any(isinstance(arg, Node) for arg in node.args):
                        raise AssertionError("Expected all args to be python constants, not Nodes")
                    active.append(node)
                    self.autocasts[node] = [number]
                else:
                    begin = node.args[0]
                    self.autocasts[begin].append(number)
                    active.remove(begin)
                    self.exits[begin] = node
            if active_grad is not None:
                self.grads[active_grad].append(number)
            for begin in active:
                self.autocasts[begin].append(number)
        if self.autocasts.keys() != self.exits.keys():
            raise AssertionError("autocast must exit")
        for regions in (self.autocasts, self.grads):
            for node, numbers in regions.items():
                regions[node] = sorted(set(numbers))

    def connect(self) -> None:
        """Notes what parts take from each other."""
        in_order = bool(self.autocasts or self.grads)
        highest: Any = -1
        for node in self.m.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                continue
            if node.op == "output":
                map_arg(node.args[0], lambda n: self.use(n, None))
                continue
            if in_order:
                number = self.callback(node)
                if highest > number:
                    raise AssertionError(
                        "autocast or set_grad_enabled require monotonically increasing "
                        f"partitions: highest: {highest}, this node's: {number}"
                    )
                highest = number
            if node not in self.switches:
                for used in node.all_input_nodes:
                    self.use(used, node)

    def use(self, defined: Node, user: Node | None) -> Node:
        """Notes that a part takes a value of another one."""
        home, place = self.of.get(defined), self.of.get(user) if user is not None else None
        if home == place:
            return defined
        if home is not None:
            self.partitions[home].outputs.setdefault(defined.name)
            if place is not None:
                self.partitions[home].dependents.setdefault(place)
        if place is not None:
            self.partitions[place].inputs.setdefault(defined.name)
            if home is not None:
                self.partitions[place].dependencies.setdefault(home)
        return defined

    def in_order(self) -> list[str]:
        """The parts, each after those of which it takes something."""
        ready = [name for name, part in self.partitions.items() if not part.dependencies]
        done = []
        while ready:
            name = ready.pop()
            done.append(name)
            for dependent in self.partitions[name].dependents:
                waiting = self.partitions[dependent].dependencies
                waiting.pop(name)
                if not waiting:
                    ready.append(dependent)
        if len(done) != len(self.partitions):
            raise RuntimeError("cycle exists between partitions!")
        return done

    # ---- the parts' graphs ----------------------------------------------------------------------

    def switch_again(self) -> None:
        """Begins a state, that another part switched, in each part where it goes on."""
        for regions in (self.autocasts, self.grads):
            for node, numbers in regions.items():
                self.partitions[self.name_of(numbers[0])].environment[node] = node
                for number in numbers[1:]:
                    part = self.partitions[self.name_of(number)]
                    made = part.graph.create_node(
                        node.op, node.target, tuple(node.args), {}, type_expr=node.type
                    )
                    made.meta = node.meta.copy()
                    part.environment[node] = made

    def switch_back(self) -> None:
        """Ends autocast in each part where it goes on after it."""
        for node in reversed(self.autocasts):
            leave = self.exits[node]
            for number in self.autocasts[node][:-1]:
                part = self.partitions[self.name_of(number)]
                made = part.graph.create_node(
                    leave.op, leave.target, (part.environment[node],), {}, type_expr=leave.type
                )
                made.meta = leave.meta.copy()

    def place_inputs(self, part: Partition, keep_name: bool) -> None:
        """Makes the inputs of a part; modules that it reads become its own."""
        kept: dict[str, None] = {}
        values: list[Node] = []
        modules: list[Node] = []
        for name in part.inputs:
            node = self.nodes[name]
            module = node.op == "get_attr" and isinstance(
                _get_attr_from_qualname(self.m, str(node.target)), Module
            )
            (modules if module else values).append(node)
        for number, node in enumerate(values):
            made = part.graph.placeholder(
                node.name if keep_name else f"arg_{number}", type_expr=node.type
            )
            made.meta = node.meta.copy()
            part.environment[node] = made
            kept[node.name] = None
        for node in modules:
            made = part.graph.get_attr(str(node.target))
            part.targets[str(node.target)] = _get_attr_from_qualname(self.m, str(node.target))
            made.meta = node.meta.copy()
            part.environment[node] = made
        part.inputs = kept

    def copy_nodes(self, names: dict[str, str] | None, keep_name: bool) -> None:
        """Copies the nodes into their parts."""
        for node in self.m.graph.nodes:
            if node not in self.of:
                continue
            part = self.partitions[self.of[node]]
            copied = part.environment
            target = node.target
            if node.op in ("call_module", "get_attr"):
                target = str(target).replace(".", "_")
                part.targets[target] = _get_attr_from_qualname(self.m, str(node.target))
                if names is not None:
                    names[f"{part.submod_name}.{target}"] = str(node.target)
            made = part.graph.create_node(
                node.op, target, map_arg(node.args, copied.__getitem__),
                map_arg(node.kwargs, copied.__getitem__), node.name if keep_name else None,
                node.type,
            )  # fmt: skip
            made.meta = node.meta.copy()
            copied[node] = made


@compatibility(is_backward_compatible=True)
def split_module(
    m: GraphModule, root_m: Module, split_callback: Callable[[Node], Any],
    qualname_map: dict[str, str] | None = None, keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False, keep_original_input_name: bool = True,
    *, partition_affix: str | None = None, tuple_return: bool = False,
) -> GraphModule:  # fmt: skip
    """A module whose graph calls one for each number that `split_callback` gives.

    qualname_map: filled with the former dotted name of each of the parts' attributes.
    keep_original_order: parts are called in the order in which they first come, not only after
    those of which they take something.  tuple_return: parts with one result give a tuple too."""
    work = _Splitter(m, split_callback, partition_affix)
    work.assign()
    work.connect()
    first_come = list(work.partitions)
    order = work.in_order()
    work.switch_again()
    for name in order:
        work.place_inputs(work.partitions[name], keep_original_input_name)
    work.copy_nodes(qualname_map, bool(keep_original_node_name))
    work.switch_back()
    return _whole(
        work, first_come if keep_original_order else order, bool(keep_original_order),
        bool(keep_original_node_name), tuple_return,
    )  # fmt: skip


def _whole(
    work: _Splitter, order: list[str], as_needed: bool, keep_name: bool, tuple_return: bool
) -> GraphModule:
    """The module that calls the parts; as_needed: it reads an attribute where it is first used."""
    graph = Graph()
    values: dict[str, Node] = {}
    targets: dict[str, Any] = {}

    def read(node: Node) -> None:
        if node.name in values:
            return
        if node.op == "placeholder":
            if keep_name:
                made = graph.create_node("placeholder", node.name, node.args, type_expr=node.type)
            else:
                default = node.args[0] if node.args else inspect.Signature.empty
                made = graph.placeholder(str(node.target), node.type, default)
        else:
            made = graph.get_attr(str(node.target))
            targets[str(node.target)] = _get_attr_from_qualname(work.m, str(node.target))
        made.meta = node.meta.copy()
        values[node.name] = made

    for node in work.m.graph.nodes:
        wanted = ("placeholder",) if as_needed and order else ("placeholder", "get_attr")
        if node.op in wanted:
            read(node)
    for name in order:
        part = work.partitions[name]
        results = tuple(part.environment[work.nodes[each]] for each in part.outputs)
        part.graph.output(results[0] if len(results) == 1 and not tuple_return else results)
        for each in part.inputs:
            if work.nodes[each].op in ("placeholder", "get_attr"):
                read(work.nodes[each])
        targets[part.submod_name] = _make_graph_module(part.targets, part.graph)
        call = graph.call_module(part.submod_name, tuple(values[each] for each in part.inputs))
        if len(results) == 1 and not tuple_return:
            values[next(iter(part.outputs))] = call
        else:
            for place, each in enumerate(part.outputs):
                values[each] = Proxy(call)[place].node  # type: ignore[index]
    for node in work.m.graph.nodes:
        if node.op == "output":
            for used in node.all_input_nodes:
                if used.op == "get_attr":
                    read(used)
            graph.output(map_arg(node.args[0], lambda n: values[n.name]))
    made = _make_graph_module(targets, graph)
    made.meta["partition_names"] = {part.submod_name for part in work.partitions.values()}
    return made


@compatibility(is_backward_compatible=False)
def split_module_simple(
    m: GraphModule, node_to_partition: dict[Node, int], *, partition_affix: str | None = None
) -> GraphModule:
    """The same by a dict, for graphs that read no attributes; parts in the order of their first
    nodes."""
    return split_module(
        m, m, lambda node: node_to_partition[node], keep_original_order=True,
        partition_affix=partition_affix,
    )  # fmt: skip
