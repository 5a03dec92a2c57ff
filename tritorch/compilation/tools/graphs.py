"""Segments as graphs of fx: a node for each call, with the targets that symbolic tracing records.

Where calls recorded no gradients, though others did, nodes turn them off and on, as in PyTorch's
graphs.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tritorch import _C
from tritorch.compat.torch_private._subclasses.fake_tensor import FakeTensorMode
from tritorch.compilation.follow.calls import Call, Segment, Slot, SourceLine, slots_of
from tritorch.compilation.tools.backing import records
from tritorch.compilation.tools.logs import user_stack
from tritorch.core.tensor import Tensor
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, base_types, has_side_effect
from tritorch.nn.modules.module import Module
from tritorch.ops.shape.factory import empty_strided

_METHODS = "Tensor."
_native: Any = _C
_set_gradients = has_side_effect(_native._set_grad_enabled)


def target_of(gate: Any) -> tuple[str, Any, Callable[[Any], Any]]:
    """A node's kind and target for a gate, and the order of the arguments.

    Methods are called by name, Python's operators are functions of the module `operator`,
    properties are read by `getattr`, and overloads are themselves."""
    qualname, name = gate.__qualname__, gate.__name__
    if "::" in qualname:
        return "call_function", gate.shown, _same
    if not qualname.startswith(_METHODS):
        return "call_function", gate, _same
    if qualname.count(".") == 2:  # Tensor.T.__get__
        attribute = qualname.split(".")[1]
        access = {"__get__": getattr, "__set__": setattr, "__delete__": delattr}[name]
        return "call_function", access, lambda args: (args[0], attribute, *args[1:][:1])
    if name.startswith("__"):
        if hasattr(operator, name):
            return "call_function", getattr(operator, name), _same
        reflected = f"__{name[3:]}"  # __rsub__
        if name.startswith("__r") and hasattr(operator, reflected):
            return "call_function", getattr(operator, reflected), lambda args: (args[1], args[0])
    return "call_method", name, _same


def _same(args: Any) -> Any:
    return args


def filled(nested: Any, value: Callable[[int], Any]) -> Any:
    """Arguments with something in place of each slot."""
    if type(nested) is Slot:
        return value(nested.index)
    if isinstance(nested, (tuple, list)):
        items = [filled(each, value) for each in nested]
        kind: Any = type(nested)
        return kind._make(items) if hasattr(kind, "_make") else kind(items)
    if isinstance(nested, dict):
        return {key: filled(each, value) for key, each in nested.items()}
    if isinstance(nested, slice):
        return slice(*(filled(each, value) for each in (nested.start, nested.stop, nested.step)))
    return nested


class _Writer:
    """Makes the nodes of one segment."""

    def __init__(self, segment: Segment, names: Mapping[int, str]) -> None:
        self.segment, self.graph, self.root = segment, Graph(), Module()
        self.nodes: dict[int, Node] = {}
        self.gradients = records(segment)
        self.fakes = FakeTensorMode(allow_non_fake_inputs=True)
        for place, index in enumerate(segment.inputs):
            node = self.graph.placeholder(names.get(index, f"arg{place}"))
            self._is(node, index)

    def _is(self, node: Node, index: int) -> None:
        self.nodes[index] = node
        self._set_example(node, self._example(index))

    def _set_example(self, node: Node, example: Any) -> None:
        node.meta["val"] = node.meta["example_value"] = example

    def _example(self, index: int) -> Any:
        spec = self.segment.specs[index]
        with self.fakes:
            fake = empty_strided(spec.shape, spec.stride, dtype=spec.dtype, device=spec.device)
        return fake.requires_grad_() if spec.requires_grad else fake

    def _argument(self, value: Any) -> Any:
        """A value as a node holds it; what no code can write is an attribute of the module."""
        if type(value) is Slot:
            return self.nodes[value.index]
        if isinstance(value, (tuple, list)):
            items = [self._argument(each) for each in value]
            kind: Any = type(value)
            if hasattr(kind, "_make"):
                return kind._make(items)
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            return {key: self._argument(each) for key, each in value.items()}
        if isinstance(value, slice):
            return slice(*map(self._argument, (value.start, value.stop, value.step)))
        if value is None or value is ... or isinstance(value, (*base_types, enum.Enum)):
            return value
        name = f"_constant{sum(node.op == 'get_attr' for node in self.graph.nodes)}"
        if isinstance(value, Tensor):
            self.root.register_buffer(name, value, persistent=False)
        else:
            setattr(self.root, name, value)
        return self.graph.get_attr(name)

    def mode(self, gradients: bool) -> None:
        """A node that turns gradients on or off, if they are not so."""
        if gradients != self.gradients:
            self.graph.call_function(_set_gradients, (gradients,))
            self.gradients = gradients

    def call(self, call: Call) -> None:
        """The node of a call, and those of the items of what it gives."""
        kind, target, order = target_of(call.gate)
        self.mode(call.gradients)
        args, kwargs = self._argument(order(call.args)), self._argument(call.kwargs)
        trace = stack_trace(call.source_line)
        node = self.graph.create_node(kind, target, tuple(args), kwargs)
        if trace:
            node.stack_trace = trace
        self._results(node, call.results, trace)

    def _results(self, node: Node, results: Any, trace: str | None) -> None:
        if type(results) is Slot:
            self._is(node, results.index)
            return
        if not isinstance(results, (tuple, list)):
            return
        for place, each in enumerate(results):
            if slots_of(each):
                item = self.graph.call_function(operator.getitem, (node, place))
                if trace:
                    item.stack_trace = trace
                self._results(item, each, trace)
        self._set_example(node, filled(results, lambda i: self.nodes[i].meta["val"]))


def stack_trace(place: SourceLine | None) -> str | None:
    """The user's line as a traceback writes it."""
    if place is None:
        return None
    return "".join(user_stack(place).format()).rstrip()


def graph_module(segment: Segment, names: Mapping[int, str] | None = None) -> GraphModule:
    """A segment as a module of fx: its inputs in order of first use, its outputs as a tuple.

    names: of inputs, by slot."""
    writer = _Writer(segment, names or {})
    begun = writer.gradients
    for call in segment.calls:
        writer.call(call)
    writer.mode(begun)
    node = writer.graph.output(tuple(writer.nodes[i] for i in segment.outputs))
    writer._set_example(node, tuple(x.meta.get("val") for x in node.all_input_nodes))
    return GraphModule(writer.root, writer.graph)


def is_call(node: Node) -> bool:
    """True if a node calls something of the program."""
    return node.op in ("call_function", "call_method", "call_module")


def operators(module: GraphModule) -> list[Any]:
    """The targets of the nodes of a graph that are calls."""
    return [node.target for node in module.graph.nodes if is_call(node)]
