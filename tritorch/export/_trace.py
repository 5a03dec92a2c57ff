"""From a module and its arguments to an exported program: runs until all sizes are settled."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from tritorch.arrays.symbolic import SymInt
from tritorch.autograd.grad_mode import no_grad
from tritorch.compat.torch_private._subclasses.fake_tensor import FakeTensorMode, as_it_is
from tritorch.core.tensor import Tensor
from tritorch.export import _lifting
from tritorch.export._environment import Decision, ExportEnv, Plan, Range
from tritorch.export._signatures import Marking, entries_of, is_mark
from tritorch.export._state import exporting
from tritorch.export._tracing import (
    ExportMode,
    TracedGraph,
    describe_numbers,
    output_nodes,
    run_traced,
    watching_modules,
)
from tritorch.export._violations import require_none
from tritorch.export.dynamic_shapes import combined, specified
from tritorch.export.exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
)
from tritorch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
    argument_of,
)
from tritorch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from tritorch.fx.node import Node
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter
from tritorch.ops.record.overloads import namespace
from tritorch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path, tree_unflatten

_RUNS = 24  # of one export: each settles a size at least


class Traced:
    """One run of a program."""

    def __init__(
        self, module: Module, args: Any, kwargs: Any, plan: Plan, names: list[str],
        preserved: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """preserved: the modules whose calls' signatures are kept."""
        self.module, self.plan, self.names = module, plan, names
        self.env = ExportEnv()
        self.symbols = plan.symbols(self.env)
        self.fakes = FakeTensorMode(
            allow_non_fake_inputs=True, shape_env=self.env, static_shapes=True, export=True
        )
        self.graph, self.root = TracedGraph(), Module()
        self.mode = ExportMode(self.graph, self.root, self.fakes)
        self.marking = Marking(preserved, self.mode._argument)
        self.inputs: list[InputSpec] = []
        self.state: dict[int, Tensor] = {}  # what stands in for a parameter or a buffer
        self._place_state()
        self.leaves, self.spec = tree_flatten((args, kwargs))
        given = [self._place_leaf(i, leaf) for i, leaf in enumerate(self.leaves)]
        self.count = len(self.graph.nodes)
        self._run(*tree_unflatten(given, self.spec))

    # ---- inputs -------------------------------------------------------------------------------

    def _placeholder(self, name: str, value: Any) -> Node:
        node = self.graph.create_node("placeholder", name, name=name)
        node.meta["val"] = value
        if isinstance(value, Tensor):
            self.mode.track(value, node)
            self.mode.describe(value, node)
            node.meta["val"].requires_grad_(value.requires_grad)
        return node

    def _place_state(self) -> None:
        parameters, buffers, hidden = _lifting.state_of(self.module)
        for kind, letter, table in (
            (InputKind.PARAMETER, "p", parameters), (InputKind.BUFFER, "b", buffers),
        ):  # fmt: skip
            for name, tensor in table.items():
                fake = self.state.get(id(tensor))
                if fake is None:
                    fake = self.state[id(tensor)] = self.fakes.from_tensor(tensor)
                node = self._placeholder(f"{letter}_{_lifting.written_name(name)}", fake)
                persistent = name not in hidden if kind is InputKind.BUFFER else None
                self.inputs.append(InputSpec(kind, TensorArgument(node.name), name, persistent))
        self.constants: dict[str, Any] = {name: buffers[name] for name in sorted(hidden)}
        self.state_dict = {**parameters, **{k: v for k, v in buffers.items() if k not in hidden}}

    def _place_leaf(self, place: int, leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            sizes = [self.plan.size(place, d, self.symbols, n) for d, n in enumerate(leaf.shape)]
            static = not any(isinstance(n, SymInt) for n in sizes)
            given = (
                self.fakes.from_tensor(leaf)
                if static
                else self.fakes.with_sizes(leaf, tuple(sizes))
            )
            node = self._placeholder(self.names[place], given)
        else:
            given = self.plan.size(place, -1, self.symbols, leaf)
            node = self._placeholder(self.names[place], given)
            if isinstance(given, SymInt):
                self.mode.track_number(given, node)
        self.inputs.append(InputSpec(InputKind.USER_INPUT, argument_of(node), None))
        return given

    # ---- the run ------------------------------------------------------------------------------

    def _run(self, args: Any, kwargs: Any) -> None:
        swapped = _lifting.Swapped(self.module, self.state)
        watching = watching_modules(self.graph, self.module, self.marking)
        with exporting(), no_grad(), swapped.entered(), watching:
            out = run_traced(self.mode, self.module, args, kwargs)
        leaves, self.out_spec = tree_flatten(out)
        returned = output_nodes(self.mode, leaves)
        for before, now in swapped.assigned:
            copy = namespace("aten").copy_.default
            nodes = self.mode._argument(before), self.mode._argument(now)
            self.graph.call_function(copy, nodes).meta["val"] = before
        last = self.graph.output(tuple(returned))
        self._lift()
        returned = last.args[0]
        self.graph.eliminate_dead_code(is_impure_node=_stays)
        describe_numbers(self.graph)
        self.signatures = entries_of(self.marking, self.graph)
        self.outputs = [
            OutputSpec(OutputKind.USER_OUTPUT, argument_of(node), None) for node in returned
        ]

    def _lift(self) -> None:
        """Makes inputs of tensors that the run has met."""
        names = _lifting.attribute_names(self.module)
        users = [node for node in self.graph.nodes if node.op == "placeholder"][len(self.inputs) :]
        states = sum(spec.kind is not InputKind.USER_INPUT for spec in self.inputs)
        placed = [node for node in self.graph.nodes if node.op == "placeholder"]
        first = placed[states] if len(placed) > states else _after(self.graph, placed)
        lifted = 0
        known: dict[int, str] = {}
        assert not users
        for node in [n for n in self.graph.nodes if n.op == "get_attr"]:
            value = getattr(self.root, node.target, None)
            if not isinstance(value, Tensor):
                continue
            if not node.users:
                self.graph.erase_node(node)
                continue
            name = known.get(id(value))
            if name is None:
                name = names.get(id(value))
                if name is None:
                    name = f"lifted_tensor_{lifted}"
                    lifted += 1
                known[id(value)] = name
            with self.graph.inserting_before(first):
                made = self.graph.create_node(
                    "placeholder", f"c_{_lifting.written_name(name)}",
                    name=f"c_{_lifting.written_name(name)}",
                )  # fmt: skip
            with as_it_is():
                made.meta["val"] = self.fakes.from_tensor(value.detach())
            node.replace_all_uses_with(made)
            self.graph.erase_node(node)
            delattr(self.root, node.target)
            kind = (
                InputKind.PARAMETER if isinstance(value, Parameter) else InputKind.CONSTANT_TENSOR
            )
            self.inputs.insert(states, InputSpec(kind, TensorArgument(made.name), name))
            states += 1
            (self.state_dict if kind is InputKind.PARAMETER else self.constants)[name] = value

    @property
    def decisions(self) -> list[Decision]:
        """What the run decided by this run's sizes."""
        return list(self.env.decisions.values())


def _after(graph: Any, placed: list[Node]) -> Node:
    """The node before which further inputs go."""
    return placed[-1].next if placed else next(iter(graph.nodes))


def _stays(node: Node) -> bool:
    """Whether a node does something though nobody uses what it gives."""
    if node.op in ("placeholder", "output") or is_mark(node):
        return True
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return (
            node.op == "call_function" and getattr(node.target, "namespace", "") == "higher_order"
        )
    target: Any = node.target
    return schema.is_mutable or not schema.returns or target.meets or writes_statistics(node)


def writes_statistics(node: Node) -> bool:
    """Whether a node is a norm that updates its running statistics, which no schema says."""
    given = {a.name: v for a, v in zip(node.target._schema.arguments, node.args)}
    trains = given.get("training", given.get("use_input_stats"))
    return trains is True and isinstance(given.get("running_mean"), Node)


# ---- export --------------------------------------------------------------------------------------


def _sources(arguments: dict[str, Any]) -> list[str]:
    paths: list[Any] = [path for path, _ in tree_flatten_with_path(arguments)[0]]
    return [f"L['{path[0].key}']{keystr(path[1:])}" for path in paths]


def settled(
    module: Module, args: Any, kwargs: Any, shapes: Any, preserved: tuple[str, ...] = ()
) -> tuple[Traced, list[Decision]]:
    """A run in which nothing that may follow a decision does not; the conditions that are left."""
    arguments = combined(module, args, kwargs)
    order = list(arguments)
    if set(kwargs) <= set(order):  # keywords come last, as they are given
        order = [name for name in order if name not in kwargs] + [n for n in kwargs if n in order]
    arguments = {name: arguments[name] for name in order}
    leaves = tree_flatten((args, kwargs))[0]
    if shapes is not None and hasattr(shapes, "dynamic_shapes"):
        shapes = shapes.dynamic_shapes(module, args, kwargs)
    if isinstance(shapes, dict):
        said = specified(arguments, shapes)
    else:
        plain = combined(module, args, kwargs)
        by_name = dict(zip(plain, shapes, strict=False)) if shapes is not None else None
        ordered = shapes if by_name is None or len(shapes) != len(plain) else {
            name: by_name[name] for name in order
        }  # fmt: skip
        said = specified(arguments, ordered)
    names = _lifting.input_names(arguments)
    plan = Plan(said, leaves, _sources(arguments))
    for _ in range(_RUNS):
        traced = Traced(module, args, kwargs, plan, names, preserved)
        if not plan.follow(traced.decisions, traced.symbols):
            kept = require_none(plan, traced.decisions, traced.symbols)
            return traced, kept
    raise RuntimeError("export: sizes did not settle")


def export(
    mod: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None, preserved: tuple[str, ...] = (),
) -> ExportedProgram:  # fmt: skip
    """The exported program of a module and its arguments."""
    kwargs = dict(kwargs or {})
    traced, kept = settled(mod, args, kwargs, dynamic_shapes, preserved)
    signature = ExportGraphSignature(traced.inputs, traced.outputs)
    calls = [_entry_of_root(mod, traced)]
    kinds = [name for name, _ in mod.named_modules(remove_duplicate=False) if name]
    calls += [ModuleCallEntry(name, traced.signatures.get(name)) for name in kinds]
    calls += [
        ModuleCallEntry(name, found) for name, found in traced.signatures.items() if "@" in name
    ]
    program = ExportedProgram(
        traced.root, traced.graph, signature, traced.state_dict,
        _ranges(traced), calls, (args, kwargs), traced.constants,
    )  # fmt: skip
    program._guards = kept
    return program


def argument_names(mod: Module, args: Any, kwargs: Any) -> list[str]:
    """The names of a call's arguments, those of `*args` numbered."""
    names: list[str] = []
    for name, parameter in inspect.signature(mod.forward).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{i}" for i in range(len(args) - len(names))]
        elif len(names) < len(args):
            names.append(name)
    return [*names, *kwargs]


def _entry_of_root(mod: Module, traced: Traced) -> ModuleCallEntry:
    names = argument_names(mod, *tree_unflatten(traced.leaves, traced.spec))
    return ModuleCallEntry("", ModuleCallSignature([], [], traced.spec, traced.out_spec, names))


def _ranges(traced: Traced) -> dict[Any, Any]:
    found = {}
    used = {id(s) for s in _unbacked_in_use(traced.graph)}
    for symbol in traced.env.symbols:
        if symbol.value is None and id(symbol) in used:
            found[SymInt({((symbol, 1),): 1}, traced.env)] = Range(*symbol.range)
    return {**found, **traced.plan.range_constraints(traced.symbols)}


def _unbacked_in_use(graph: Any) -> list[Any]:
    return [s for node in graph.nodes for s in free_unbacked_symbols(node.meta.get("val"))]
