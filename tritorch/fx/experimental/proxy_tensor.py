"""make_fx: the operators that a function runs, gradients and updates too, as a graph.

    gm = make_fx(lambda x: torch.autograd.grad((x * x).sum(), x)[0])(x)

The function runs once, on its arguments or on fakes of them, inside of a dispatch mode that makes a
node of every operator; its nodes call `torch.ops.aten.<operator>.<overload>`.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

from tritorch._ops import ops
from tritorch._trees.walk import tree_leaves
from tritorch.core import sym_functions
from tritorch.core.device import PretendedDevice, device as Device
from tritorch.core.symbolic import Symbol, SymInt
from tritorch.core.tensor import Tensor
from tritorch.fx.experimental.symbolic_shapes import ShapeEnv
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_aggregate
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter
from tritorch.utils._python_dispatch import TorchDispatchMode

__all__ = ["ProxyTorchDispatchMode", "get_proxy_mode", "make_fx"]

_VALUE = "aten::_local_scalar_dense"
_ARITHMETIC = {
    "//": operator.floordiv, "%": operator.mod, "min": sym_functions.sym_min,
    "max": sym_functions.sym_max,
}  # fmt: skip


class ProxyTorchDispatchMode(TorchDispatchMode):
    """A mode that makes a node of every operator, and computes it."""

    def __init__(
        self, graph: Graph, root: Module, decomposition_table: dict[Any, Any] | None = None
    ) -> None:
        super().__init__()
        self.graph, self.root = graph, root
        self.decomposition_table = decomposition_table or {}
        # The node of each array, which several tensors may hold (what a gradient saved is another
        # one); kept alive so that its id stays its own.
        self._nodes: dict[int, tuple[Any, Node]] = {}
        self._constants: dict[int, Node] = {}
        # Of each symbol, its node; of one that nothing has asked for yet, a tensor's node and dim.
        self._symbols: dict[Symbol, Node] = {}
        self._sources: dict[Symbol, tuple[Node, int]] = {}
        self._numbers: dict[str, Node] = {}

    def track(self, tensor: Tensor, node: Node) -> None:
        """Says which node a tensor is the value of."""
        self._nodes[id(tensor._array)] = (tensor._array, node)
        for dim, size in enumerate(tensor._array.shape):
            symbol = _symbol_of(size)
            if symbol is not None:
                self._sources.setdefault(symbol, (node, dim))

    def track_number(self, number: Any, node: Node) -> None:
        """Says which node a symbol is the value of."""
        symbol = _symbol_of(number)
        if symbol is not None:
            self._symbols[symbol] = node

    def _number(self, number: SymInt) -> Any:
        """A number that is left open: made of the sizes of tensors by nodes of arithmetic."""
        text = str(number)
        if text not in self._numbers:
            total: Any = None
            for monomial, n in number.terms.items():
                product: Any = n if n != 1 or not monomial else None
                for atom, power in monomial:
                    for _ in range(power):
                        product = self._combined(operator.mul, product, self._atom(atom))
                total = self._combined(operator.add, total, product)
            self._numbers[text] = total
        return self._numbers[text]

    def _combined(self, function: Any, a: Any, b: Any) -> Any:
        return b if a is None else self.graph.call_function(function, (a, b))

    def _atom(self, atom: Any) -> Any:
        if not isinstance(atom, Symbol):
            parts = (self._argument(atom.a._plain()), self._argument(atom.b._plain()))
            return self.graph.call_function(_ARITHMETIC[atom.kind], parts)
        if atom not in self._symbols:
            node, dim = self._sources[atom]
            size = ops.aten.sym_size.int
            self._symbols[atom] = self.graph.create_node(
                "call_function", size, (node, dim), {}, "sym_size_int"
            )
        return self._symbols[atom]

    def node_of(self, tensor: Tensor) -> Node | None:
        """The node that a tensor is the value of."""
        found = self._nodes.get(id(tensor._array))
        return None if found is None else found[1]

    def _depends_on_inputs(self, node: Node | None) -> bool:
        """Whether a node's value is another for other inputs; else it is that of the trace."""
        pending, seen = [node] if node is not None else [], set()
        while pending:
            each = pending.pop()
            if each.op == "placeholder":
                return True
            seen.add(each)
            pending += [x for x in each.all_input_nodes if x not in seen]
        return False

    def _argument(self, value: Any) -> Any:
        if isinstance(value, PretendedDevice):
            return Device(value.type, value.index)
        if isinstance(value, SymInt):
            return self._number(value)
        if not isinstance(value, Tensor):
            return value
        return self.node_of(value) or self._constant(value)

    def _constant(self, value: Tensor) -> Node:
        """A tensor from outside: an attribute of the graph's module."""
        stem = "_param_constant" if isinstance(value, Parameter) else "_tensor_constant"
        number = 0
        while hasattr(self.root, f"{stem}{number}"):
            if getattr(self.root, f"{stem}{number}") is value:
                break
            number += 1
        name = f"{stem}{number}"
        if not hasattr(self.root, name):
            setattr(self.root, name, value)
        node = self._constants.get(id(value))
        if node is None:
            node = self._constants[id(value)] = self.graph.create_node("get_attr", name)
        return node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if types:  # a class that wraps tensors is asked first: the graph is of what is inside
            return NotImplemented
        if func in self.decomposition_table:
            with self:
                found = self.decomposition_table[func](*args, **kwargs)
            if found is not NotImplemented:
                return found
        tensors: list[Tensor] = []
        map_aggregate((args, kwargs), lambda x: tensors.append(x) if isinstance(x, Tensor) else x)
        if func._schema.name == _VALUE:
            if any(self._depends_on_inputs(self.node_of(x)) for x in tensors):
                raise RuntimeError(
                    f"It appears that you're trying to get value out of a tracing tensor with "
                    f"{func} - erroring out! It's likely that this is caused by data-dependent "
                    "control flow or similar."
                )
            return func(*args, **kwargs)
        given = map_aggregate(args, self._argument)
        named = map_aggregate(kwargs, self._argument)
        name = self.graph._target_to_str(func.overloadpacket.__name__.rstrip("_"))
        node = self.graph.create_node("call_function", func, given, dict(named), name)
        out = func(*args, **kwargs)
        if isinstance(out, Tensor):
            self.track(out, node)
        elif isinstance(out, SymInt):
            self.track_number(out, node)
        elif isinstance(out, (tuple, list)):
            for place, each in enumerate(out):
                if isinstance(each, Tensor):
                    item = self.graph.call_function(operator.getitem, (node, place))
                    self.track(each, item)
        if func._schema.is_mutable and tensors and not isinstance(out, Tensor):
            self.track(tensors[0], node)
        return out


def _symbol_of(number: Any) -> Symbol | None:
    """The symbol that a number is; None for all else."""
    if not isinstance(number, SymInt) or len(number.terms) != 1:
        return None
    ((monomial, n),) = number.terms.items()
    if n != 1 or len(monomial) != 1 or monomial[0][1] != 1:
        return None
    atom = monomial[0][0]
    return atom if isinstance(atom, Symbol) else None


def _mode_of(args: Any) -> Any:
    """The mode of fakes among the arguments."""
    from tritorch._subclasses.fake_tensor import maybe_get_fake_mode

    modes = (maybe_get_fake_mode(x) for x in tree_leaves(args) if isinstance(x, Tensor))
    return next((mode for mode in modes if mode is not None), None)


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The mode of the make_fx that runs."""
    from tritorch.core.dispatching import entered

    modes = [m for m in entered.modes if isinstance(m, ProxyTorchDispatchMode)]
    return modes[-1] if modes else None


def make_fx(
    f: Callable[..., Any],
    decomposition_table: dict[Any, Any] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    **options: Any,
) -> Callable[..., GraphModule]:
    """The function that traces `f` for arguments: a GraphModule of ATen's operators.

    decomposition_table: functions that stand for overloads.  tracing_mode: "real" runs on the
    arguments, "fake" on descriptions of them, "symbolic" on such whose sizes, and integers, are
    left open: `shape_env` of the result has what was found out of them.  options: of PyTorch's
    compiler, without effect."""
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"Expected tracing_mode to be real, fake or symbolic: {tracing_mode}")

    @functools.wraps(f)
    def traced(*args: Any) -> GraphModule:
        graph, root = Graph(), Module()
        mode = ProxyTorchDispatchMode(graph, root, decomposition_table)
        names = _names(f, len(args))
        run = f
        env: Any = ShapeEnv()
        if tracing_mode != "real":
            from tritorch._subclasses import FakeTensorMode

            fakes = _mode_of(args) or FakeTensorMode(
                allow_non_fake_inputs=True, shape_env=env, static_shapes=tracing_mode == "fake"
            )
            env = fakes.shape_env or env

            def described(x: Any) -> Any:
                if isinstance(x, Tensor):
                    return fakes.from_tensor(x)
                return env.create_symbol(x) if type(x) is int and symbolic else x

            symbolic = tracing_mode == "symbolic" and isinstance(env, ShapeEnv)
            args = map_aggregate(args, described)

            def run(*given: Any) -> Any:
                with fakes:
                    return f(*given)

        given = [_placed(mode, name, value) for name, value in zip(names, args)]
        with mode:
            out = run(*given)
        graph.output(map_aggregate(out, mode._argument))
        graph.eliminate_dead_code()
        name = getattr(f, "__name__", "traced").replace("<lambda>", "fx")
        made = GraphModule(root, graph, name)
        if tracing_mode == "symbolic":
            made.shape_env = env
        return made

    return traced


def _names(f: Callable[..., Any], count: int) -> list[str]:
    """The names of a function's arguments, as PyTorch writes those of inputs."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        parameters = ()  # type: ignore[assignment]
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = plain[:count] if len(plain) >= count else [f"arg{i}" for i in range(count)]
    return [f"{name}_1" for name in names]


def _placed(mode: ProxyTorchDispatchMode, name: str, value: Any) -> Any:
    """An argument, each tensor of it an input of the graph."""
    if isinstance(value, Tensor):
        mode.track(value, mode.graph.placeholder(name))
        return value
    if isinstance(value, (list, tuple, dict)):
        number = iter(range(1, 10**6))

        def leaf(x: Any) -> Any:
            node = mode.graph.placeholder(f"{name.removesuffix('_1')}_{next(number)}")
            if isinstance(x, Tensor):
                mode.track(x, node)
            mode.track_number(x, node)
            return x

        return map_aggregate(value, leaf)
    mode.track_number(value, mode.graph.placeholder(name))
    return value
