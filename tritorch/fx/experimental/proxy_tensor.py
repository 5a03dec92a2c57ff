"""make_fx: the operators that a function runs, gradients and updates too, as a graph.

    gm = make_fx(lambda x: torch.autograd.grad((x * x).sum(), x)[0])(x)

The function runs once, on its arguments or on fakes of them, inside of a dispatch mode that makes a
node of every operator; its nodes call `torch.ops.aten.<operator>.<overload>`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tritorch.core.device import PretendedDevice, device as Device
from tritorch.core.layout import preserve_format
from tritorch.core.tensor import Tensor
from tritorch.fx._lazy_graph_module import _make_graph_module
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_aggregate
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter
from tritorch.ops.record.overloads import namespace
from tritorch.overrides import TorchFunctionMode
from tritorch.utils._python_dispatch import TorchDispatchMode

__all__ = ["ProxyTorchDispatchMode", "get_proxy_mode", "make_fx"]

_VALUE = "aten::_local_scalar_dense"


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
        self._fresh: dict[int, Any] = {}

    def fresh(self, value: Any) -> None:
        """Says that the program made a tensor from numbers: each run of the graph has its own."""
        self._fresh[id(value._array)] = value._array

    def track(self, tensor: Tensor, node: Node) -> None:
        """Says which node a tensor is the value of."""
        self._nodes[id(tensor._array)] = (tensor._array, node)

    def node_of(self, tensor: Tensor) -> Node | None:
        """The node that a tensor is the value of."""
        found = self._nodes.get(id(tensor._array))
        return None if found is None else found[1]

    def _depends_on_inputs(self, node: Node | None) -> bool:
        """Whether a node's value is another for other inputs; else it is as in the trace."""
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
        fresh = id(value._array) in self._fresh
        if not hasattr(self.root, name):
            setattr(self.root, name, value.clone() if fresh else value)
        node = self._constants.get(id(value))
        if node is None:
            node = self._constants[id(value)] = self.graph.create_node("get_attr", name)
            if fresh:  # so that a write into it does not stay
                node = self.graph.call_function(namespace("aten").lift_fresh_copy.default, (node,))
                self.track(value, node)
        return node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
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
        given, named = _without_defaults(func._schema, args, kwargs)
        given = map_aggregate(given, self._argument)
        named = map_aggregate(named, self._argument)
        name = self.graph._target_to_str(func.overloadpacket.__name__.rstrip("_"))
        node = self.graph.create_node("call_function", func, given, dict(named), name)
        out = func(*args, **kwargs)
        if isinstance(out, Tensor):
            self.track(out, node)
        elif isinstance(out, (tuple, list)):
            import operator

            for place, each in enumerate(out):
                if isinstance(each, Tensor):
                    item = self.graph.call_function(operator.getitem, (node, place))
                    self.track(each, item)
        if func._schema.is_mutable and tensors and not isinstance(out, Tensor):
            self.track(tensors[0], node)
        return out


class _NotesFresh(TorchFunctionMode):
    """Tells a mode which tensors a program makes from numbers."""

    def __init__(self, mode: ProxyTorchDispatchMode) -> None:
        super().__init__()
        self.mode = mode

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "tensor" and isinstance(out, Tensor):
            self.mode.fresh(out)
        return out


def _without_defaults(
    schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call as programs write it: lists as lists, and without what is the default anyway."""

    def is_default(argument: Any, value: Any) -> bool:
        if not argument.has_default_value():
            return False
        default = argument.default_value
        if value is preserve_format:  # which None means
            value = None
        return type(value) is type(default) and value == default

    arguments = schema.arguments
    given = [list(v) if type(v) is tuple else v for v in args]
    while given and is_default(arguments[len(given) - 1], given[-1]):
        given.pop()
    named = {a.name: a for a in arguments}
    kept = {key: value for key, value in kwargs.items() if not is_default(named[key], value)}
    return tuple(given), kept


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
    arguments, "fake" on descriptions of them.  options: of PyTorch's compiler, without effect."""
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"Expected tracing_mode to be real, fake or symbolic: {tracing_mode}")
    if tracing_mode == "symbolic":
        raise NotImplementedError(
            'make_fx with tracing_mode="symbolic" is not there yet: sizes are fixed'
        )

    @functools.wraps(f)
    def traced(*args: Any) -> GraphModule:
        graph, root = Graph(), Module()
        mode = ProxyTorchDispatchMode(graph, root, decomposition_table)
        names = _names(f, len(args))
        run = f
        if tracing_mode == "fake":
            from tritorch._subclasses import FakeTensorMode

            fakes = FakeTensorMode(allow_non_fake_inputs=True)
            args = map_aggregate(
                args, lambda x: fakes.from_tensor(x) if isinstance(x, Tensor) else x
            )

            def run(*given: Any) -> Any:
                with fakes:
                    return f(*given)

        given = [_placed(mode, name, value) for name, value in zip(names, args)]
        with _NotesFresh(mode), mode:
            out = run(*given)
        graph.output(map_aggregate(out, mode._argument))
        graph.eliminate_dead_code()
        name = getattr(f, "__name__", "traced").replace("<lambda>", "fx")
        return _make_graph_module(root, graph, name)

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
            return x

        return map_aggregate(value, leaf)
    mode.graph.placeholder(name)
    return value
