"""An exported program as modules again, nested as the original ones were.

The nodes of each module are divided by the modules that they were traced in (`nn_module_stack`),
one module of the result for each call of an original one.  State is shared with the program.
"""

from __future__ import annotations

import abc
import copy
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.export._unlift import Unlifting
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.interpreter import Interpreter
from tritorch.fx.node import Node
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter
from tritorch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

__all__ = [
    "FlatArgsAdapter", "InterpreterModule", "InterpreterModuleDispatcher", "UnflattenedModule",
    "unflatten",
]  # fmt: skip


class FlatArgsAdapter(abc.ABC):
    """Makes arguments of another structure those of the exported program."""

    @abc.abstractmethod
    def adapt(
        self, target_spec: TreeSpec, input_spec: TreeSpec, input_args: list[Any],
        metadata: dict[str, Any] | None = None, obj: Any | None = None,
    ) -> list[Any]:  # fmt: skip
        """The leaves that the program takes."""

    def get_flat_arg_paths(self) -> list[str]:
        """The places of the leaves that are used; all without any."""
        return []


class _Named(Module):
    _ty: str | None = None

    def type_name(self) -> str | None:
        """The class of the original module."""
        return self._ty


class _OfGraph(_Named):
    """A module with a graph; of several, the outermost."""

    graph: Graph

    def finalize(self) -> None:
        """Looks whether the graph is whole."""
        self.graph.lint()

    def print_readable(
        self, print_output: bool = True, include_stride: bool = False,
        include_device: bool = False, colored: bool = False,
    ) -> str:  # fmt: skip
        """The graph's code."""
        made = GraphModule(self, copy.deepcopy(self.graph))
        return made.print_readable(print_output, include_stride, include_device, colored)


class InterpreterModule(_OfGraph):
    """A module that runs a graph."""

    def __init__(self, graph: Graph, ty: str | None = None) -> None:
        super().__init__()
        self.graph = graph
        self._ty = ty
        graph.owning_module = self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the graph."""
        names = [node.target for node in self.graph.nodes if node.op == "placeholder"]
        given = [*args, *(kwargs[name] for name in names[len(args) :])]
        return Interpreter(self, graph=self.graph).run(*given, enable_io_processing=False)


class InterpreterModuleDispatcher(_Named):
    """A module that is called several times: one graph after the other."""

    def __init__(self, attrs: set[str], call_modules: list[InterpreterModule]) -> None:
        super().__init__()
        self._call_modules, self._num_calls = call_modules, 0
        self._ty = call_modules[0]._ty
        for name in attrs:
            setattr(self, name, getattr(call_modules[0], name))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the next graph."""
        module = self._call_modules[self._num_calls]
        self._num_calls = (self._num_calls + 1) % len(self._call_modules)
        return module(*args, **kwargs)

    def call_modules(self) -> list[InterpreterModule]:
        """The graphs' modules."""
        return self._call_modules


# ---- dividing ------------------------------------------------------------------------------------


def _modules_of(node: Node) -> list[tuple[str, str]]:
    """The modules that a node was traced in, outermost first, without the program's own."""
    stack = node.meta.get("nn_module_stack") or {}
    return [(name, kind) for name, kind in stack.values() if name]


class _Frame:
    """The nodes of one call of a module, as a graph; those of modules inside become calls."""

    def __init__(self, depth: int, nodes: list[Node], owner: Module, prefix: str) -> None:
        self.depth, self.owner, self.prefix = depth, owner, prefix
        self.graph = Graph()
        self.known: dict[Node, Node] = {}
        self.inputs: list[Node] = []  # of the outer graph
        self.inside = set(nodes)
        self._divide(nodes)

    def value(self, node: Node) -> Node:
        """A value of the outer graph in this one; from outside it is an input."""
        if node not in self.known:
            with self.graph.inserting_before(self._first()):
                made = self.graph.placeholder(node.name)
            made.meta = dict(node.meta)
            self.known[node] = made
            self.inputs.append(node)
        return self.known[node]

    def _first(self) -> Node:
        body = [node for node in self.graph.nodes if node.op != "placeholder"]
        return body[0] if body else self.graph._root

    def _divide(self, nodes: list[Node]) -> None:
        place = 0
        while place < len(nodes):
            stack = _modules_of(nodes[place])
            if len(stack) <= self.depth:
                self.known[nodes[place]] = self.graph.node_copy(nodes[place], self.value)
                place += 1
                continue
            entry, end = stack[self.depth], place
            while end < len(nodes) and _modules_of(nodes[end])[self.depth :][:1] == [entry]:
                end += 1
            self._call(entry, nodes[place:end])
            place = end

    def _call(self, entry: tuple[str, str], nodes: list[Node]) -> None:
        name, kind = entry
        plain = name.partition("@")[0]
        within = name.removeprefix(f"{self.prefix}.") if self.prefix else name
        module = InterpreterModule(Graph(), kind)
        _attach(self.owner, within, module)
        inner = _Frame(self.depth + 1, nodes, module, plain)
        outputs = [n for n in nodes if any(user not in inner.inside for user in n.users)]
        inner.graph.output(tuple(inner.known[n] for n in outputs))
        module.graph = inner.graph
        inner.graph.owning_module = module
        given = tuple(self.value(n) for n in inner.inputs)
        made = self.graph.call_module(within, given)
        for place, node in enumerate(outputs):
            item = self.graph.call_function(_item, (made, place))
            item.meta = dict(node.meta)
            self.known[node] = item


def _item(values: Any, place: int) -> Any:
    return values[place]


def _attach(root: Module, name: str, module: Module) -> None:
    """Puts a module at its place, with what stands there already."""
    owner = root
    *parents, last = name.split(".")
    for each in parents:
        if each not in owner._modules:
            owner.add_module(each, _Named())
        owner = owner._modules[each]
    there = owner._modules.get(last)
    if there is not None:
        for table in ("_parameters", "_buffers", "_modules"):
            module.__dict__[table].update(there.__dict__[table])
        module.__dict__["_non_persistent_buffers_set"] |= there._non_persistent_buffers_set
    owner._modules[last] = module


class UnflattenedModule(_OfGraph):
    """The modules of an exported program, which is called as the original one."""

    def __init__(
        self, export_module: Any, flat_args_adapter: FlatArgsAdapter | None = None
    ) -> None:
        super().__init__()
        self.module_call_graph = copy.deepcopy(export_module.module_call_graph)
        self.flat_args_adapter = flat_args_adapter
        self.graph_signature = export_module.graph_signature
        signature = self.module_call_graph[0].signature
        self.in_spec, self.out_spec = signature.in_spec, signature.out_spec
        lifted = Unlifting(export_module)
        for table in ("_parameters", "_buffers", "_modules"):
            self.__dict__[table].update(lifted.root.__dict__[table])
        self._non_persistent_buffers_set |= lifted.root._non_persistent_buffers_set
        for name, value in lifted.root.__dict__.items():
            if isinstance(value, (Tensor, Module)) and not isinstance(value, Parameter):
                setattr(self, name, value)
        nodes = [n for n in lifted.graph.nodes if n.op not in ("placeholder", "output")]
        frame = _Frame(0, [], self, "")
        for node in lifted.inputs:
            made = frame.graph.placeholder(node.name)
            made.meta = dict(node.meta)
            frame.known[node] = made
        frame.inside = set(nodes)
        frame._divide(nodes)
        (returned,) = next(iter(reversed(lifted.graph.nodes))).args
        given = tuple(frame.value(x) if isinstance(x, Node) else x for x in returned)
        frame.graph.output(given)
        self.graph = frame.graph
        self.graph.owning_module = self

    def process_forward_inputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The leaves of a call's arguments."""
        wanted = self.in_spec.children()[1].context or []
        if set(wanted) == set(kwargs):
            kwargs = {name: kwargs[name] for name in wanted}
        leaves, spec = tree_flatten((args, kwargs))
        if spec == self.in_spec:
            return leaves
        if self.flat_args_adapter is None:
            raise TypeError(
                "There is no flat args adapter specified. Are you sure you are calling this with "
                "the right arguments?"
            )
        return self.flat_args_adapter.adapt(self.in_spec, spec, leaves, None, self)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program."""
        leaves = self.process_forward_inputs(*args, **kwargs)
        found = Interpreter(self, graph=self.graph).run(*leaves, enable_io_processing=False)
        return tree_unflatten(found, self.out_spec)


def unflatten(module: Any, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """The modules of an exported program."""
    made = UnflattenedModule(module, flat_args_adapter)
    made.finalize()
    return made
