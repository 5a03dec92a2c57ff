"""A program's graph without writes, and of smaller operators.

# Note [Writes as values]
Memory is a value that changes: a `Memory` has the node of what it holds now, a `View` the steps
that lead there from the memory's own.  Who reads a view after a write makes its steps again; who
writes one goes back along them, each step's inverse putting the new part into what it is a part of
(`_inverse.py`).  What inputs and buffers hold in the end is among the graph's outputs.
"""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Callable
from typing import Any

from tritorch.arrays.meta import mode_of
from tritorch.compat.torch_private._subclasses.fake_tensor import FakeTensorMode
from tritorch.core.tensor import Tensor
from tritorch.export import _inverse
from tritorch.export._signatures import is_mark, put_marks, renamed
from tritorch.export._trace import writes_statistics
from tritorch.export.graph_signature import (
    InputKind,
    OutputKind,
    OutputSpec,
    TensorArgument,
    argument_of,
)
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node, map_aggregate
from tritorch.ops.record.overloads import OpOverload, namespace
from tritorch.schema import table

_WRITTEN = {
    InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
    InputKind.CONSTANT_TENSOR: OutputKind.BUFFER_MUTATION,
    InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
}


@dataclasses.dataclass(eq=False)
class Memory:
    """What a piece of memory holds now, and how often it was written."""

    node: Node
    version: int = 0


@dataclasses.dataclass(frozen=True)
class Step:
    """An operator that shows memory, with its other arguments; item: which of its results."""

    target: OpOverload
    args: tuple[Any, ...]
    kwargs: Any
    item: int | None = None


@dataclasses.dataclass(eq=False)
class View:
    """A tensor: its memory, the steps to it from there, and its node when it was last read."""

    memory: Memory
    steps: tuple[Step, ...]
    node: Node
    version: int


def fakes_of(graph: Graph) -> FakeTensorMode:
    """The mode of a graph's descriptions."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, Tensor):
            mode = mode_of(value._array)
            if isinstance(mode, FakeTensorMode):
                return mode
    return FakeTensorMode(allow_non_fake_inputs=True)


class Functional:
    """Copies a graph without its writes."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.fakes = Graph(), fakes_of(graph)
        self.views: dict[Node, Any] = {}  # of the old graph's nodes: a View, a tuple, or a node
        self.meta: dict[str, Any] = {}
        self.placed: list[Node] = []

    # ---- nodes --------------------------------------------------------------------------------

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """A new node, and what it gives."""
        packet = getattr(target, "overloadpacket", target)
        name = self.graph._target_to_str(packet.__name__)
        node: Node = self.graph.create_node("call_function", target, args, kwargs, name)
        values = map_aggregate((args, kwargs), _value)
        with self.fakes:
            node.meta = dict(self.meta)
            node.meta["val"] = target(*values[0], **values[1])
        return node

    def view_of(self, node: Node) -> View:
        """A tensor that is a memory's own."""
        return View(Memory(node), (), node, 0)

    def read(self, old: Any) -> Any:
        """The node that an old one's value is in now."""
        found = self.views[old]
        return self.current(found) if isinstance(found, View) else found

    def current(self, view: View) -> Node:
        """The node of a tensor, made again after a write."""
        if view.version != view.memory.version:
            node = view.memory.node
            for step in view.steps:
                node = self.step(step, node)
            view.node, view.version = node, view.memory.version
        return view.node

    def step(self, step: Step, node: Node) -> Node:
        """One step of a view."""
        made = self.call(step.target, node, *step.args, **step.kwargs)
        return made if step.item is None else self.call(operator.getitem, made, step.item)

    def write(self, view: View, new: Node) -> None:
        """Has a view's memory hold a new value there."""
        before = view.node.meta["val"]
        value = new.meta["val"]
        if value.dtype != before.dtype:
            new = self.call(namespace("aten")._to_copy.default, new, dtype=before.dtype)
        wholes: list[Node] = []
        for place in range(len(view.steps)):
            whole = self.step(view.steps[place - 1], wholes[-1]) if place else view.memory.node
            wholes.append(whole)
        part = new
        for step, whole in zip(reversed(view.steps), reversed(wholes), strict=True):
            part = _inverse.put_back(self, step, whole, part)
        view.memory.node = part
        view.memory.version += 1
        view.node, view.version = new, view.memory.version

    # ---- the old graph ------------------------------------------------------------------------

    def copy(self, node: Node) -> None:
        """Takes over one node."""
        self.meta = {key: value for key, value in node.meta.items() if key != "val"}
        if node.op == "placeholder":
            made = self.graph.node_copy(node)
            self.placed.append(made)
            tensor = isinstance(node.meta.get("val"), Tensor)
            self.views[node] = self.view_of(made) if tensor else made
        elif node.op == "get_attr":
            self.views[node] = self.graph.node_copy(node)
        elif node.target is operator.getitem:
            self._item(node)
        elif isinstance(node.target, OpOverload):
            self._operator(node, node.target)
        else:
            self._plain(node)

    def _item(self, node: Node) -> None:
        source = self.views[node.args[0]]
        if isinstance(source, tuple):
            self.views[node] = source[node.args[1]]
        else:
            self._plain(node)

    def _plain(self, node: Node) -> None:
        made = self.graph.node_copy(node, self.read)
        self.views[node] = self.view_of(made) if isinstance(made.meta.get("val"), Tensor) else made

    def _operator(self, node: Node, target: OpOverload) -> None:
        schema = target._schema
        written = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
        if writes_statistics(node):
            self._norm(node)
        elif written:
            self._write(node, target, written)
        elif any(r.alias_info is not None for r in schema.returns) and self._aliases(node):
            self._view(node, target)
        else:
            self._plain(node)

    def _aliases(self, node: Node) -> bool:
        """Whether an operator that may show its input's memory does."""
        args, kwargs = map_aggregate((node.args, node.kwargs), _value)
        with self.fakes:
            out = node.target(*args, **kwargs)
        first = out if isinstance(out, Tensor) else out[0] if out else None
        if first is None or not isinstance(args[0], Tensor):
            return False
        return first._array.memory is args[0]._array.memory

    def _view(self, node: Node, target: OpOverload) -> None:
        source = self.views[node.args[0]]
        args = tuple(map_aggregate(node.args[1:], self._new))
        kwargs = map_aggregate(node.kwargs, self._new)
        made: Any = self.graph.call_function(target, (self.current(source), *args), kwargs)
        made.meta = dict(node.meta)
        if isinstance(node.meta["val"], Tensor):
            steps = (*source.steps, Step(target, args, kwargs))
            self.views[node] = View(source.memory, steps, made, source.memory.version)
            return
        items = []
        for place, value in enumerate(node.meta["val"]):
            item = self.graph.call_function(operator.getitem, (made, place))
            item.meta = {**self.meta, "val": value}
            steps = (*source.steps, Step(target, args, kwargs, place))
            items.append(View(source.memory, steps, item, source.memory.version))
        self.views[node] = tuple(items)

    def _new(self, x: Any) -> Any:
        return self.read(x) if isinstance(x, Node) else x

    def _write(self, node: Node, target: OpOverload, written: list[str]) -> None:
        values = {
            a.name: node.kwargs[a.name] if a.name in node.kwargs else node.args[i]
            for i, a in enumerate(target._schema.arguments)
            if a.name in node.kwargs or (not a.kwarg_only and i < len(node.args))
        }
        views = [self.views[values[name]] for name in written]
        if target._schema.name.endswith(("detach_", "requires_grad_")):
            self.views[node] = views[0]
            return
        pure = _pure(target, written)
        args = [self._new(x) if not isinstance(x, (list, tuple)) else map_aggregate(x, self._new)
                for x in node.args]  # fmt: skip
        kwargs = {n: map_aggregate(x, self._new) for n, x in node.kwargs.items()
                  if not (pure is not None and n in written)}  # fmt: skip
        if pure is not None and len(views) == 1:
            new = [self.call(pure, *args, **kwargs)]
        else:
            new = self._on_copies(target, values, written, views)
        for view, value in zip(views, new, strict=True):
            self.write(view, value)
        returns = len(target._schema.returns)
        self.views[node] = views[0] if returns == 1 else tuple(views) if returns else new[0]

    def _on_copies(
        self, target: OpOverload, values: dict[str, Any], written: list[str], views: list[View]
    ) -> list[Node]:
        """What an operator writes, by a call on copies of it."""
        copies = {
            name: self.call(namespace("aten").clone.default, self.current(view))
            for name, view in zip(written, views, strict=True)
        }
        given = {
            name: copies[name] if name in copies else map_aggregate(x, self._new)
            for name, x in values.items()
        }
        self.call(target, **given)
        return list(copies.values())

    def _norm(self, node: Node) -> None:
        """A norm that updates its running statistics: as one that gives them."""
        names = [a.name for a in node.target._schema.arguments]
        given = dict(zip(names, node.args, strict=False))
        statistics = [self.views[given[name]] for name in ("running_mean", "running_var")]
        args = [self._new(given[name]) for name in (
            "input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps",
        )]  # fmt: skip
        norm = namespace("aten")._native_batch_norm_legit_functional.default
        made = self.call(norm, *args)
        items = [self.call(operator.getitem, made, place) for place in (0, 3, 4)]
        self.views[node] = self.view_of(items[0])
        for view, new in zip(statistics, items[1:], strict=True):
            self.write(view, new)


def _value(x: Any) -> Any:
    return x.meta["val"] if isinstance(x, Node) else x


def _pure(target: OpOverload, written: list[str]) -> OpOverload | None:
    """The operator that gives what another one writes."""
    stem = target._schema.name.partition("::")[2]
    space = target.namespace
    if space != "aten" or len(written) > 1:
        return None
    overload = target._schema.overload_name
    if any(a.is_out for a in target._schema.arguments):
        plain = "" if overload == "out" else overload.removesuffix("_out")
        wanted = [plain, overload, *table.overloads(stem)]
    elif stem.endswith("_"):
        stem, wanted = stem[:-1], [overload]
    else:
        return None
    for name in wanted:
        if name in table.overloads(stem):
            found = getattr(getattr(namespace("aten"), stem), name or "default")
            if not found._schema.is_mutable and _computed(found):
                return found
    return None


def _computed(overload: OpOverload) -> bool:
    try:
        return overload._op is not None
    except NotImplementedError:
        return False


# ---- programs ------------------------------------------------------------------------------------


def functional(program: Any) -> tuple[Graph, list[OutputSpec]]:
    """A program's graph without writes, and what its outputs are."""
    made = Functional(program.graph)
    inputs: dict[Node, Any] = {}
    specs = iter(program.graph_signature.input_specs)
    for node in program.graph.nodes:
        if node.op == "output":
            break
        made.copy(node)
        if node.op == "placeholder":
            inputs[node] = next(specs)
    returned: list[Any] = []
    outputs: list[OutputSpec] = []
    for placed, spec in inputs.items():
        view = made.views[placed]
        if isinstance(view, View) and view.memory.version:
            returned.append(made.current(view))
            target = spec.arg.name if spec.kind is InputKind.USER_INPUT else spec.target
            name = TensorArgument(returned[-1].name)
            outputs.append(OutputSpec(_WRITTEN[spec.kind], name, target))
    (given,) = node.args
    for value, spec in zip(given, program.graph_signature.output_specs, strict=True):
        new = made.read(value) if isinstance(value, Node) else value
        returned.append(new)
        outputs.append(OutputSpec(spec.kind, argument_of(new), spec.target))
    made.graph.output(tuple(returned))
    made.graph.eliminate_dead_code(
        is_impure_node=lambda n: n.op in ("placeholder", "output") or _acts(n)
    )
    return made.graph, outputs


def _acts(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return is_mark(node) or (
        schema is not None and (schema.is_mutable or not schema.returns or node.target.meets)
    )


def decomposed(program: Any, decompositions: dict[Any, Callable[..., Any]] | None) -> Any:
    """A program without writes, of smaller operators."""
    from tritorch.export._decompositions import retraced
    from tritorch.export.exported_program import default_decompositions
    from tritorch.export.graph_signature import ExportGraphSignature
    from tritorch.fx.graph_module import GraphModule

    calls, marked = program.module_call_graph, program
    if any(entry.signature is not None for entry in calls[1:]):
        marked = program._update(copy.deepcopy(program.graph_module), program.graph_signature)
        put_marks(marked.graph, calls)
    graph, outputs = functional(marked)
    signature = ExportGraphSignature(list(program.graph_signature.input_specs), outputs)
    chosen = default_decompositions() if decompositions is None else decompositions
    if len(chosen):
        graph = retraced(graph, chosen, fakes_of(graph))
        last = next(iter(reversed(graph.nodes)))
        signature = ExportGraphSignature(list(signature.input_specs), [
            OutputSpec(spec.kind, argument_of(x), spec.target)
            for spec, x in zip(outputs, last.args[0], strict=True)
        ])  # fmt: skip
    root = program.graph_module
    calls = renamed(graph, calls)
    made = program._update(GraphModule(root, graph, "GraphModule"), signature)
    made._module_call_graph = calls
    return made
