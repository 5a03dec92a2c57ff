"""An exported program as modules again, nested as the original ones were.

The nodes of each module are divided by the modules that they were traced in (`nn_module_stack`),
one module of the result for each call of an original one.  State is shared with the program.
"""

from __future__ import annotations

import abc
import copy
import operator
import sys
import warnings
from typing import Any, cast

from tritorch.core.scopes import Scope, scoped
from tritorch.core.tensor import Tensor
from tritorch.export._inputs import Inputs, place_of
from tritorch.export._unlift import Unlifting
from tritorch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from tritorch.fx._pytree import tree_flatten_spec
from tritorch.fx._symbolic_trace import is_fx_symbolic_tracing
from tritorch.fx.experimental._proxy_symbols import OPEN
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.interpreter import Interpreter
from tritorch.fx.node import Node, map_aggregate
from tritorch.nn.modules.module import Module
from tritorch.utils._pytree import (
    TreeSpec,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
)

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


_interprets = True


@scoped
def _disable_interpreter() -> Scope:
    """Inside, modules are made that run their graphs as code."""
    return Scope((sys.modules[__name__], "_interprets", False))


class _OfGraph(_Named):
    """A module with a graph; of several, the outermost."""

    graph: Graph
    _code: GraphModule | None = None

    def __init__(self) -> None:
        super().__init__()
        self._run_with_interpreter = _interprets

    def finalize(self) -> None:
        """Looks whether the graphs are whole, and makes code of them where that runs."""
        for module in self.modules():
            if isinstance(module, _OfGraph):
                module.graph.lint()
                if not module._run_with_interpreter:
                    module.__dict__["_code"] = GraphModule(module, module.graph)

    def run(self, *leaves: Any) -> Any:
        """Runs the graph."""
        if self._code is not None and not is_fx_symbolic_tracing():
            return type(self._code).forward(self, *leaves)
        return Interpreter(self, graph=self.graph).run(*leaves, enable_io_processing=False)

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
        return self.run(*args, *(kwargs[name] for name in names[len(args) :]))


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


_CALLED = (InterpreterModule, InterpreterModuleDispatcher)


# ---- dividing ------------------------------------------------------------------------------------


def _modules_of(node: Node) -> list[tuple[str, str]]:
    """The modules that a node was traced in, outermost first, without the program's own."""
    stack = node.meta.get("nn_module_stack") or {}
    return [(name, kind) for name, kind in stack.values() if name]


class _Division:
    """What all frames of a program share."""

    def __init__(self, lifted: Unlifting, entries: list[ModuleCallEntry]) -> None:
        self.state = lifted.root
        self.nodes = {old.name: new for old, new in lifted.nodes.items()}
        self.signatures = {entry.fqn: entry.signature for entry in entries if entry.fqn}

    def holder(self, name: str) -> Module:
        """The module of the program's state that has a name; without state an empty one."""
        found: Any = self.state
        for each in name.split("."):
            found = found._modules.get(each)
            if found is None:
                return Module()
        return cast(Module, found)

    def leaves(self, arguments: list[Any]) -> list[Any]:
        """What a signature names: nodes of the whole graph, and values."""
        return [self.nodes.get(x.name, getattr(x, "value", None)) for x in arguments]


class _Frame:
    """The nodes of one call of a module, as a graph; those of modules inside become calls."""

    def __init__(
        self, division: _Division, nodes: list[Node], owner: _OfGraph, prefix: str = "",
        depth: int = 0,
    ) -> None:  # fmt: skip
        self.division, self.nodes, self.owner = division, nodes, owner
        self.prefix, self.depth, self.graph = prefix, depth, owner.graph
        self.known: dict[Node, Any] = {}  # by nodes of the whole graph
        self.inputs: list[Node] = []  # of the whole graph: what is no argument by a signature
        self.inside = set(nodes)
        self.calls: dict[str, list[InterpreterModule]] = {}
        self.is_signed = False  # whether it has the arguments that a signature says

    # ---- values -------------------------------------------------------------------------------

    def value(self, x: Any) -> Any:
        """A value of the whole graph in this one; from outside it is an input."""
        if isinstance(x, Node) and x not in self.known:
            self.known[x] = self._from_outside(x)
        return self.known[x] if isinstance(x, Node) else x

    def _from_outside(self, node: Node) -> Node:
        if node.op == "get_attr":
            made = self.graph.create_node("get_attr", self._attribute(str(node.target)))
        elif self.is_signed and self._is_number_of_known(node):
            return self.graph.node_copy(node, self.value)
        else:
            with self.graph.inserting_before(self._body()):
                made = self.graph.placeholder(node.name)
            self.inputs.append(node)
        made.meta = dict(node.meta)
        return made

    def _is_number_of_known(self, node: Node) -> bool:
        """Whether a number follows from what is here, so that it need not be an argument."""
        return node in self.known or (
            node.op == "call_function"
            and isinstance(node.meta.get("val"), OPEN)
            and all(map(self._is_number_of_known, node.all_input_nodes))
        )

    def _body(self) -> Node:
        body = (node for node in self.graph.nodes if node.op != "placeholder")
        return next(body, self.graph._root)

    def _attribute(self, name: str) -> str:
        """Where a piece of state is in the module; another module's is kept beside its own."""
        if not self.prefix:
            return name
        if name.startswith(f"{self.prefix}."):
            return name.removeprefix(f"{self.prefix}.")
        path, _, last = name.rpartition(".")
        return self._keep(
            f"_of_{name.replace('.', '_')}", getattr(self.division.state.get_submodule(path), last)
        )

    def _keep(self, name: str, value: Any) -> str:
        self.owner.__dict__[name] = value
        return name

    def _spec(self, spec: TreeSpec) -> Node:
        specs = {k: v for k, v in vars(self.owner).items() if isinstance(v, TreeSpec)}
        name = next((k for k, v in specs.items() if v == spec), None)
        name = name or self._keep(f"_spec_{len(specs)}", spec)
        return self.graph.create_node("get_attr", name)

    def leaves(self, value: Any, spec: TreeSpec) -> list[Any]:
        """The leaves of a value that nodes make up."""
        found, plain = tree_flatten(value)
        if plain == spec:
            return found
        flat = self.graph.call_function(tree_flatten_spec, (value, self._spec(spec)))
        return [self.graph.call_function(_item, (flat, i)) for i in range(spec.num_leaves)]

    def tree(self, leaves: list[Any], spec: TreeSpec) -> Any:
        """A value of leaves."""
        if _is_plain(spec):
            return tree_unflatten(leaves, spec)
        return self.graph.call_function(tree_unflatten, (leaves, self._spec(spec)))

    # ---- by signatures ------------------------------------------------------------------------

    def take(self, signature: ModuleCallSignature) -> None:
        """Takes the arguments that a signature says."""
        self.is_signed = True
        args, kwargs = signature.in_spec.children()
        placed = [self.graph.placeholder(f"_positional_arg_{i}") for i in range(args.num_children)]
        named = {name: self.graph.placeholder(name) for name in kwargs.context or []}
        given = self.division.leaves(signature.inputs)
        for node, leaf in zip(given, self.leaves((tuple(placed), named), signature.in_spec)):
            if isinstance(node, Node):
                leaf.meta = dict(node.meta)
                self.known.setdefault(node, leaf)

    def give(self, signature: ModuleCallSignature) -> None:
        """Gives the results that a signature says."""
        found = [self.value(x) for x in self.division.leaves(signature.outputs)]
        self.graph.output(self.tree(found, signature.out_spec))

    # ---- nodes --------------------------------------------------------------------------------

    def divide(self) -> None:
        """Takes over the nodes, those of inner modules as calls."""
        place = 0
        while place < len(self.nodes):
            stack = _modules_of(self.nodes[place])
            if len(stack) <= self.depth:
                node = self.nodes[place]
                self.known[node] = self.graph.node_copy(node, self.value)
                place += 1
                continue
            entry, end = stack[self.depth], place
            while end < len(self.nodes) and (
                _modules_of(self.nodes[end])[self.depth :][:1] == [entry]
            ):
                end += 1
            self._call(entry, self.nodes[place:end])
            place = end
        for within, modules in self.calls.items():
            _attach(self.owner, within, _called_in_turn(modules))

    def _call(self, entry: tuple[str, str], nodes: list[Node]) -> None:
        name, kind = entry
        plain = name.partition("@")[0]
        within = plain.removeprefix(f"{self.prefix}.") if self.prefix else plain
        signature = self.division.signatures.get(name)
        inner = self._inner(plain, kind, nodes, signature)
        if inner is None:
            warnings.warn(
                f"unflatten: the signature of {name} cannot be preserved, since it uses or makes "
                "values that are not among its arguments and results",
                stacklevel=2,
            )
            signature, inner = None, self._inner(plain, kind, nodes, None)
        assert inner is not None
        earlier = self.calls.setdefault(within, [])
        made = inner.owner
        assert isinstance(made, InterpreterModule)
        earlier.append(next((each for each in earlier if _key(each) == _key(made)), made))
        if signature is not None:
            self._call_by(signature, within, inner)
            return
        call = self._module_call(within, tuple(map(self.value, inner.inputs)), {})
        outputs = inner.outputs()
        values = tuple(node.meta.get("val") for node in outputs)
        call.meta["val"] = values[0] if len(values) == 1 else values
        for place, node in enumerate(outputs):
            item = call if len(outputs) == 1 else self.graph.call_function(_item, (call, place))
            item.meta = dict(node.meta)
            self.known[node] = item

    def _module_call(self, within: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        """A call of a module that will stand there at the end."""
        return self.graph.create_node("call_module", within, args, kwargs)

    def _call_by(self, signature: ModuleCallSignature, within: str, inner: _Frame) -> None:
        leaves = iter([self.value(x) for x in self.division.leaves(signature.inputs)])

        def next_of(spec: TreeSpec) -> Any:
            return self.tree([next(leaves) for _ in range(spec.num_leaves)], spec)

        args, kwargs = signature.in_spec.children()
        given = tuple(map(next_of, args.children()))
        named = dict(zip(kwargs.context or [], map(next_of, kwargs.children())))
        call = self._module_call(within, given, named)
        nodes = self.division.leaves(signature.outputs)
        for node, item in zip(nodes, self.leaves(call, signature.out_spec)):
            if node in inner.inside:
                item.meta = dict(node.meta)
                self.known[node] = item

    def _inner(
        self, plain: str, kind: str, nodes: list[Node], signature: ModuleCallSignature | None
    ) -> _Frame | None:
        """The frame of a call; None if it has not the signature."""
        module = _with_state_of(self.division.holder(plain), InterpreterModule(Graph(), kind))
        inner = _Frame(self.division, nodes, module, plain, self.depth + 1)
        if signature is None:
            inner.divide()
            found = tuple(inner.known[node] for node in inner.outputs())
            inner.graph.output(found[0] if len(found) == 1 else found)
            return inner
        inner.take(signature)
        inner.divide()
        inner.give(signature)
        results = {x for x in self.division.leaves(signature.outputs) if isinstance(x, Node)}
        return inner if not inner.inputs and results.issuperset(inner.outputs()) else None

    def outputs(self) -> list[Node]:
        """What others need of it."""
        return [n for n in self.nodes if any(user not in self.inside for user in n.users)]


def _begin_again(module: Module) -> None:
    """Has modules that are called several times start with the first call's graph."""
    for each in module.modules():
        if isinstance(each, InterpreterModuleDispatcher):
            each._num_calls = 0
            for inner in each.call_modules():
                _begin_again(inner)


def _item(values: Any, place: int) -> Any:
    return values[place]


def _is_plain(spec: TreeSpec) -> bool:
    """Whether a structure is of the classes that arguments of nodes may be."""
    if spec.is_leaf():
        return True
    return spec.type in (tuple, list, dict) and all(map(_is_plain, spec.children()))


def _with_state_of(module: Module, to: Any) -> Any:
    """A module with another one's state, and that of those inside, which they share."""
    for table in ("_parameters", "_buffers", "_non_persistent_buffers_set"):
        to.__dict__[table].update(module.__dict__[table])
    for name, value in module.__dict__.items():
        if isinstance(value, Tensor):
            to.__dict__[name] = value
    for name, inner in module._modules.items():
        if inner is not None:
            is_graph = isinstance(inner, GraphModule)
            to._modules[name] = inner if is_graph else _with_state_of(inner, _Named())
    return to


def _key(module: InterpreterModule) -> list[Any]:
    """Equal for modules that compute the same of the same state."""
    places = {node: f"%{place}" for place, node in enumerate(module.graph.nodes)}
    found = []
    for node in module.graph.nodes:
        target: Any = None
        if node.op == "call_module":
            inner = module.get_submodule(str(node.target))
            target = _key(inner) if isinstance(inner, InterpreterModule) else id(inner)
        elif node.op == "get_attr":
            target = operator.attrgetter(str(node.target))(module)
            target = target if isinstance(target, TreeSpec) else id(target)
        elif node.op == "call_function":
            target = node.target
        given = map_aggregate(
            (node.args, node.kwargs), lambda x: places[x] if isinstance(x, Node) else x
        )
        found.append((node.op, target, repr(given)))
    return found


def _restore_aliases(root: Module, names: list[str]) -> None:
    """Gives modules further names that the program has for them, and the program's order.

    Those of one state are one module."""
    called = {_state(module): module for module in root.modules() if isinstance(module, _CALLED)}
    for name in names:
        path, _, last = name.rpartition(".")
        try:
            owner = root.get_submodule(path)
        except AttributeError:
            continue
        module = owner._modules.get(last)
        if module is not None and not isinstance(module, _CALLED) and (state := _state(module)):
            module = called.get(state, module)
        if module is not None:
            owner._modules.pop(last)
            owner._modules[last] = module


def _state(module: Module) -> tuple[Any, ...]:
    """What tells the state of one module from another one's."""
    tensors = (*module.named_parameters(), *module.named_buffers())
    return tuple((name, id(tensor)) for name, tensor in tensors)


def _called_in_turn(modules: list[InterpreterModule]) -> _Named:
    """The module that computes each call of several."""
    first = modules[0]
    if all(each is first for each in modules):
        return first
    state = {
        name for table in ("_parameters", "_buffers", "_modules") for name in vars(first)[table]
    }
    return InterpreterModuleDispatcher(state, modules)


def _attach(root: Module, name: str, module: _Named) -> None:
    """Puts a module at its place."""
    owner = root
    *parents, last = name.split(".")
    for each in parents:
        if each not in owner._modules:
            owner.add_module(each, _Named())
        inner = owner._modules[each]
        assert inner is not None
        owner = inner
    if (there := owner._modules.get(last)) is not None:
        _keep_calls(there, module, name)
    owner._modules[last] = module


def _keep_calls(there: Module, module: Module, name: str) -> None:
    """Takes over the modules inside of what a module replaces that are called from elsewhere."""
    if isinstance(there, _CALLED) and isinstance(module, _CALLED) and (
        type(there) is not type(module) or not isinstance(there, InterpreterModule)
        or _key(there) != _key(cast(InterpreterModule, module))
    ):  # fmt: skip
        raise NotImplementedError(f"unflatten: two modules call {name}, and not in the same way")
    for each, inner in there._modules.items():
        mine = module._modules.get(each)
        if inner is None or mine is None:
            continue
        if isinstance(inner, _CALLED) and not isinstance(mine, _CALLED):
            module._modules[each] = inner
        else:
            _keep_calls(inner, mine, f"{name}.{each}")


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
        _with_state_of(lifted.root, self)
        self.graph = Graph()
        nodes = [n for n in lifted.graph.nodes if n.op == "call_function"]
        frame = _Frame(_Division(lifted, self.module_call_graph), nodes, self)
        self._inputs = Inputs(
            [node.meta["val"] for node in lifted.inputs], export_module.range_constraints
        )
        for node in lifted.inputs:
            made = self.graph.placeholder(node.name)
            made.meta = dict(node.meta)
            frame.known[node] = made
        frame.divide()
        (returned,) = next(iter(reversed(lifted.graph.nodes))).args
        self.graph.output(tuple(map(frame.value, returned)))
        self.graph.owning_module = self
        _restore_aliases(self, [entry.fqn for entry in self.module_call_graph[1:]])

    def process_forward_inputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The leaves of a call's arguments."""
        wanted = self.in_spec.children()[1].context or []
        if set(wanted) == set(kwargs):
            kwargs = {name: kwargs[name] for name in wanted}
        found, spec = tree_flatten_with_path((args, kwargs))
        leaves, places = [leaf for _, leaf in found], [place_of(path) for path, _ in found]
        if is_fx_symbolic_tracing():
            return leaves
        if spec == self.in_spec:
            self._inputs.require(places, leaves)
            return leaves
        if self.flat_args_adapter is None:
            raise TypeError(
                "There is no flat args adapter specified. Are you sure you are calling this with "
                "the right arguments?"
            )
        leaves = self.flat_args_adapter.adapt(self.in_spec, spec, leaves, None, self)
        places = self.flat_args_adapter.get_flat_arg_paths()
        self._inputs.require(places or ["<unknown location>"] * len(leaves), leaves)
        return leaves

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program."""
        leaves = self.process_forward_inputs(*args, **kwargs)
        try:
            found = self.run(*leaves)
        except BaseException:
            _begin_again(self)
            raise
        if is_fx_symbolic_tracing():
            return found[0] if isinstance(found, tuple) and len(found) == 1 else found
        return tree_unflatten(found, self.out_spec)


def unflatten(module: Any, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """The modules of an exported program."""
    made = UnflattenedModule(module, flat_args_adapter)
    made.finalize()
    return made
