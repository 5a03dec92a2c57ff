"""One run of a program on descriptions of its inputs, as a graph of ATen's operators.

Parameters, buffers and inputs are nodes from the start; tensors that the run meets besides become
inputs afterwards (`_lifting.py`).  A record without a name in ATen stands in no graph: the public
call that it is part of takes its place (Note [Composites]), else its definition does.

# Note [Composites]
A call of a public function may come to several records.  Where one of them has no name in ATen, the
nodes that the call has made are taken out again, and one node of the overload that the public
function computes (`_calls.py`) is put in their place, with the call's results.  The call itself is
not made again: what it gave is described already.
"""

from __future__ import annotations

import linecache
import operator
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tritorch.arrays.batched import BatchedArray
from tritorch.arrays.symbolic import SymBool
from tritorch.compat.torch_private._subclasses.fake_tensor import FakeTensorMode, is_fake_array
from tritorch.core.scopes import Scope, scoped, set_back, sets
from tritorch.core.tensor import Tensor
from tritorch.export._calls import as_call, of_numbers
from tritorch.export._environment import ExportEnv
from tritorch.export._signatures import GIVEN, RETURNED, Marking
from tritorch.fx._patching import _Patcher
from tritorch.fx.experimental._proxy_symbols import OPEN
from tritorch.fx.experimental.proxy_tensor import (
    ProxyTorchDispatchMode,
    _NotesFresh,
    disable_proxy_modes_tracing,
)
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_aggregate
from tritorch.nn.modules.module import Module
from tritorch.ops.record.overloads import OpOverload, namespace
from tritorch.overrides import TorchFunctionMode
from tritorch.utils._pytree import tree_flatten, tree_leaves

_PACKAGE = str(Path(__file__).parents[1])


class TracedGraph(Graph):
    """A graph whose nodes say which modules and lines they are of."""

    def __init__(self) -> None:
        super().__init__()
        self.modules: list[tuple[str, tuple[str, str]]] = []
        self.call = ("", "")

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """A node with the place that the program is at."""
        node = super().create_node(*args, **kwargs)
        if node.op == "call_function":
            node.meta["nn_module_stack"] = dict(self.modules)
            node.meta["stack_trace"] = _place()
            node.meta["torch_fn"] = self.call
        return node


def _place() -> str:
    """The lines of the program that run, outermost first, without those of the package."""
    lines: list[str] = []
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code is not _call.__code__ and len(lines) < 8:
        name = frame.f_code.co_filename
        if not name.startswith((_PACKAGE, "<")):
            said = f'File "{name}", line {frame.f_lineno}, in {frame.f_code.co_name}'
            lines.append(f"{said}\n    {linecache.getline(name, frame.f_lineno).strip()}")
        frame = frame.f_back
    return "\n".join(reversed(lines))


def _call(run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Runs the program; no line above this one is its own."""
    return run(*args, **kwargs)


class ExportMode(ProxyTorchDispatchMode):
    """Makes a node of every operator that a program comes to."""

    def __init__(self, graph: TracedGraph, root: Module, fakes: FakeTensorMode) -> None:
        super().__init__(graph, root)
        self.fakes = fakes
        self.decomposing = False
        self.composites: Any = None
        self.unknown = False  # whether a call has met memory of which nobody says what it holds
        self._journal: list[tuple[int, Any]] = []
        env = fakes.shape_env
        if isinstance(env, ExportEnv):
            env.asserting = self._assert

    def track(self, tensor: Tensor, node: Node) -> None:
        """Says which node a tensor is the value of, so that it can be unsaid."""
        key = id(tensor._array)
        self._journal.append((key, self._nodes.get(key)))
        super().track(tensor, node)

    def _constant(self, value: Tensor) -> Node:
        node = super()._constant(value)
        source = node.args[0] if node.op == "call_function" else node
        real = getattr(self.root, source.target)
        self.unknown |= is_fake_array(real._array)
        if node.op == "call_function":
            self.describe(value, node)
        return node

    def _assert(self, condition: SymBool) -> None:
        """A node that has each run look whether a condition holds."""
        node = self.symbols.node_of(condition)
        said = f"Runtime assertion failed for expression {condition} on node '{node}'"
        self.graph.call_function(namespace("aten")._assert_scalar.default, (node, said))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.decomposing and func.namespace == "tritorch":
            with self:
                found = _decomposed(func, args, kwargs or {})
            if found is not NotImplemented:
                return found
        return super().__torch_dispatch__(of_numbers(func, args, kwargs or {}), types, args, kwargs)

    # ---- operators of functions ---------------------------------------------------------------

    def untracked(self) -> Scope:
        """Inside, calls make no nodes."""
        return disable_proxy_modes_tracing()

    def of_functions(
        self, target: Any, functions: dict[str, Any], given: list[Any], outer: list[Any],
        arguments: Any, results: int, shaped: Any = None,
    ) -> Any:  # fmt: skip
        """A node of an operator of functions, each a graph: what it gives, and functions' trees.

        given: what the functions are called with; outer: what the node is.  results: which function
        says what the node gives; shaped: what becomes of that."""
        inner = [_Branch(self, function, given) for function in functions.values()]
        captured = list(dict.fromkeys(node for each in inner for node in each.captured))
        graphs = []
        for name, each in zip(functions, inner, strict=True):
            made = each.finished(captured, alone=name == "while_loop_cond_graph")
            name = next(n for i in range(99) if not hasattr(self.root, n := f"{name}_{i}"))
            setattr(self.root, name, made)
            graphs.append(self.graph.create_node("get_attr", name, name=name))
        nodes = [self._argument(x) for x in outer]
        node = self.graph.create_node(
            "call_function", target, arguments(graphs, nodes, captured), {}, target.__name__
        )
        with self.untracked():
            found = list(inner[results].out)
            found = found if shaped is None else shaped(found)
        self._note_many(tuple(found), node, None)
        return found, [each.tree for each in inner]

    # ---- composites ---------------------------------------------------------------------------

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A public call, as one node where its records have no names in ATen."""
        graph: Any = self.graph
        last, start = graph._root._prev, len(self._journal)
        name = (func.__name__, f"function.{func.__name__}")
        self.unknown = False
        with Scope((graph, "call", name), (self, "decomposing", False)):
            out = func(*args, **kwargs)
            if not self.unknown and not any(nameless(node) for node in since(graph, last)):
                return out
            found = None if _is_of_batches(args, kwargs) else as_call(func, args, kwargs)
            if found is not None:
                self._take_back(last, start)
                self._as_one(out, *found)
                return out
            self._take_back(last, start)
            self.decomposing = True
            return func(*args, **kwargs)

    def _take_back(self, last: Node, start: int) -> None:
        """Takes out the nodes that were made since, but those of sizes and constants."""
        for key, node in reversed(self._journal[start:]):
            if node is None:
                self._nodes.pop(key, None)
            else:
                self._nodes[key] = node
        del self._journal[start:]
        for node in list(since(self.graph, last)):
            of_operator = isinstance(node.target, OpOverload) and "sym_" not in str(node.target)
            getitem = node.target is operator.getitem and isinstance(node.args[0], Node)
            if node.op == "call_function" and (of_operator or getitem) and not node.users:
                self.graph.erase_node(node)

    def _as_one(self, out: Any, overload: OpOverload, values: list[Any], named: Any) -> None:
        """A node of an overload, whose results are a call's."""
        given = tuple(map_aggregate(values, self._argument))
        name = self.graph._target_to_str(overload.overloadpacket.__name__)
        given = _trimmed(overload, given)
        kwargs = dict(map_aggregate(named, self._argument))
        node = self.graph.create_node("call_function", overload, given, kwargs, name)
        if isinstance(out, Tensor):
            self._note(out, node, None)
        else:
            self._note_many(tuple(out), node, None)


def _is_of_batches(*given: Any) -> bool:
    """Whether a call is of one of the parts that `vmap` shows, which no graph knows."""
    return any(isinstance(x, Tensor) and type(x._array) is BatchedArray for x in tree_leaves(given))


class _Branch:
    """One function of an operator of functions, traced on the same descriptions.

    What it reads of the outer program becomes an input: `captured`, nodes of the outer graph."""

    def __init__(self, outer: ExportMode, function: Callable[..., Any], given: list[Any]) -> None:
        self.outer, self.captured = outer, []  # type: ignore[var-annotated]
        self.placed: dict[Node, Node] = {}
        self.graph, self.root = TracedGraph(), Module()
        self.mode = _InnerMode(self)
        self.inputs = []
        with disable_proxy_modes_tracing():
            inputs = [x.view_as(x) if isinstance(x, Tensor) else x for x in given]
        for place, value in enumerate(inputs):
            name = f"arg{place}_1"
            node = self.graph.create_node("placeholder", name, name=name)
            self.inputs.append(node)
            if isinstance(value, Tensor):
                self.mode.track(value, node)
                self.mode.describe(value, node)
            else:
                self.mode.track_number(value, node)
        composites = outer.composites
        told = Scope((composites, "mode", self.mode), (composites, "inside", False))
        with told, disable_proxy_modes_tracing(), self.mode:
            out, self.tree = tree_flatten(function(*inputs))
            self.out = [x.clone() if self._is_input(x) else x for x in out]
            self.returned = [self.mode._argument(x) for x in self.out]

    def _is_input(self, x: Any) -> bool:
        if not isinstance(x, Tensor):
            return False
        node = self.mode.node_of(x)
        return node is None or node.op == "placeholder"

    def input_of(self, node: Node) -> Node:
        """The input that a node of the outer graph is."""
        if node not in self.placed:
            last = [n for n in self.graph.nodes if n.op == "placeholder"][-1:]
            before = last[0].next if last else next(iter(self.graph.nodes), self.graph._root)
            with self.graph.inserting_before(before):
                made = self.graph.create_node("placeholder", node.name, name=node.name)
            made.meta["val"] = node.meta.get("val")
            self.placed[node] = made
            self.captured.append(node)
        return self.placed[node]

    def finished(self, captured: list[Node], alone: bool) -> GraphModule:
        """The function's graph, whose further inputs are these; alone: it gives no tuple."""
        self.graph.output(self.returned[0] if alone else tuple(self.returned))
        last = self.inputs[-1] if self.inputs else None
        for node in captured:
            made = self.input_of(node)
            if last is not None:
                last.append(made)
            last = made
        self.graph.eliminate_dead_code(
            is_impure_node=lambda n: n.op in ("placeholder", "output") or "_assert" in str(n.target)
        )
        describe_numbers(self.graph)
        return GraphModule(self.root, self.graph, "GraphModule")


def _trimmed(overload: OpOverload, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """A call's arguments without those at the end that are the default anyway."""
    arguments = overload._schema.arguments
    kept = list(given)
    while kept:
        argument = arguments[len(kept) - 1]
        if not argument.has_default_value() or isinstance(kept[-1], Node):
            break
        default = argument.default_value
        if type(default) is not type(kept[-1]) or default != kept[-1]:
            break
        kept.pop()
    return tuple(kept)


def since(graph: Any, last: Node) -> Iterator[Node]:
    """The nodes behind one, the newest first."""
    node = graph._root._prev
    while node is not last and node is not graph._root:
        before = node._prev
        yield node
        node = before


def nameless(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target.namespace == "tritorch"


def _decomposed(func: OpOverload, args: Any, kwargs: Any) -> Any:
    """The results by a record's definition; NotImplemented without."""
    record = func.record
    if record is None or record.composed is None:
        return NotImplemented
    found = func.decompose(*args, **kwargs)
    returns = len(func._schema.returns)
    if isinstance(found, Tensor) and returns > 1:
        return (found, *[None] * (returns - 1))
    return found


class _InnerMode(ExportMode):
    """The mode of a function inside of a program that is traced."""

    def __init__(self, branch: _Branch) -> None:
        asserting = getattr(branch.outer.fakes.shape_env, "asserting", None)
        super().__init__(branch.graph, branch.root, branch.outer.fakes)
        if isinstance(branch.outer.fakes.shape_env, ExportEnv):
            branch.outer.fakes.shape_env.asserting = asserting
        self.branch, self.composites = branch, branch.outer.composites

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Tensor) and self.node_of(value) is None:
            found = self.branch.outer._argument(value)
            return self.branch.input_of(found)
        if isinstance(value, OPEN) and (type(value), str(value)) not in self.symbols._nodes:
            return self.branch.input_of(self.branch.outer._argument(value))
        return super()._argument(value)


class Composites(TorchFunctionMode):
    """Tells a mode of public calls, the outermost ones."""

    def __init__(self, mode: ExportMode) -> None:
        super().__init__()
        self.mode, self.inside = mode, False
        mode.composites = self

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.inside or isinstance(func, OpOverload):
            return func(*args, **(kwargs or {}))
        with Scope((self, "inside", True)):
            return self.mode.called(func, args, kwargs or {})


@scoped
def watching_modules(graph: TracedGraph, root: Module, marking: Marking) -> Scope:
    """Inside, a graph's nodes say which modules they are of, and marks what some are given."""
    names = {id(module): name for name, module in root.named_modules(remove_duplicate=False)}
    original = Module.__call__
    counts: dict[str, int] = {}

    def called(module: Any, *args: Any, **kwargs: Any) -> Any:
        name = names.get(id(module))
        if name is None:
            return original(module, *args, **kwargs)
        key = "L__self__" + (f"_{name}" if name else "")
        count = counts[key] = counts.get(key, -1) + 1
        kind, call = type(module), name + (f"@{count}" if count else "")
        entry = (call, f"{kind.__module__}.{kind.__qualname__}")
        marking.note(graph, call, GIVEN, (args, kwargs))
        around = (key + (f"@{count}" if count else ""), entry)
        with Scope((graph, "modules", [*graph.modules, around])):
            found = original(module, *args, **kwargs)
        marking.note(graph, call, RETURNED, found)
        return found

    patcher = _Patcher()
    patch = sets(patcher.patch_method, Module, "__call__", called, False)
    return Scope(set_back(patcher.revert_all_patches), patch)


def run_traced(mode: ExportMode, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Runs a program inside of a mode, on descriptions; its results' leaves are the output."""
    with _NotesFresh(mode), mode, mode.fakes, Composites(mode):
        return _call(run, args, kwargs)


def describe_numbers(graph: Graph) -> None:
    """Leaves at each node that computes a number what it gives."""

    def known(x: Node) -> Any:
        return x.meta.get("val")

    for node in graph.nodes:
        if node.op == "call_function" and "val" not in node.meta:
            args = map_aggregate(node.args, lambda x: known(x) if isinstance(x, Node) else x)
            if not isinstance(node.target, OpOverload):
                node.meta["val"] = node.target(*args)
            elif "sym_size" in str(node.target):
                node.meta["val"] = args[0]._array.shape[args[1]]


def output_nodes(mode: ExportMode, out: Any) -> list[Any]:
    """What a run's results are in the graph."""
    return [mode._argument(leaf) for leaf in tree_leaves(out)]
