"""make_fx: the operators that a function runs, gradients and updates too, as a graph.

    gm = make_fx(lambda x: torch.autograd.grad((x * x).sum(), x)[0])(x)

The function runs once, on its arguments or on fakes of them, inside of a dispatch mode that makes a
node of every operator; its nodes call `torch.ops.aten.<operator>.<overload>`.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
from collections.abc import Callable
from typing import Any

from tritorch.compat.torch_private._subclasses.fake_tensor import (
    FakeTensorMode,
    as_it_is,
    is_fake_array,
    maybe_get_fake_mode,
)
from tritorch.core.device import PretendedDevice, device as Device
from tritorch.core.dispatching import entered, without_modes
from tritorch.core.gates import GATES
from tritorch.core.layout import preserve_format
from tritorch.core.scopes import Scope, scoped
from tritorch.core.tensor import Tensor
from tritorch.fx._lazy_graph_module import _make_graph_module
from tritorch.fx.experimental._proxy_symbols import OPEN, SymbolNodes
from tritorch.fx.experimental.symbolic_shapes import ShapeEnv
from tritorch.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_aggregate
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter
from tritorch.ops.record.overloads import namespace
from tritorch.ops.shape.factory import empty_strided
from tritorch.overrides import TorchFunctionMode
from tritorch.utils._python_dispatch import TorchDispatchMode
from tritorch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

__all__ = [
    "ProxyTorchDispatchMode",
    "disable_proxy_modes_tracing",
    "get_isolated_graphmodule",
    "get_proxy_mode",
    "make_fx",
    "wrapper_and_args_for_make_fx",
]

_VALUE = "aten::_local_scalar_dense"
_KNOWN = 1  # how many elements a tensor may have whose value is known in a trace, as in PyTorch


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
        # What the program made from numbers, and the values that are known as it runs.
        self._fresh: dict[int, tuple[Any, Any]] = {}
        self._known: dict[int, tuple[Any, Tensor]] = {}
        self.fakes: Any = None
        self.symbols = SymbolNodes(graph)

    def fresh(self, value: Any, real: Any) -> None:
        """Says that the program made a tensor from numbers: each run of the graph has its own.

        real: itself, or what it pretends to be."""
        self._fresh[id(value._array)] = (value._array, real)
        if real.numel() <= _KNOWN:
            self._known[id(value._array)] = (value._array, real.clone())

    def track(self, tensor: Tensor, node: Node) -> None:
        """Says which node a tensor is the value of."""
        self._nodes[id(tensor._array)] = (tensor._array, node)
        self.symbols.see(tensor, node)

    def track_number(self, number: Any, node: Node) -> None:
        """Says which node an open number is the value of."""
        self.symbols.track(number, node)
        node.meta["val"] = number

    def node_of(self, tensor: Tensor) -> Node | None:
        """The node that a tensor is the value of."""
        found = self._nodes.get(id(tensor._array))
        return None if found is None else found[1]

    def _varies(self, node: Node | None) -> bool:
        """Whether a value is another for other inputs, or random; else it is as in the trace."""
        pending, seen = [node] if node is not None else [], set()
        while pending:
            each = pending.pop()
            if each.op == "placeholder" or _draws(each.target):
                return True
            seen.add(each)
            pending += [x for x in each.all_input_nodes if x not in seen]
        return False

    def _compute_known(self, func: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        """What an operator gives for known values; None where one is not, or it draws numbers."""
        known = [self._known.get(id(x._array)) for x in tensors]
        if _draws(func) or not known or None in known:
            return None

        def real(x: Any) -> Any:
            return self._known[id(x._array)][1] if isinstance(x, Tensor) else x

        with as_it_is():
            return func(*map_aggregate(args, real), **map_aggregate(kwargs, real))

    def _note(self, out: Any, node: Node, real: Any) -> None:
        """Says which node a result is of, its value if that is known, and how it is now."""
        self.track(out, node)
        self._known.pop(id(out._array), None)
        if isinstance(real, Tensor) and real.numel() <= _KNOWN:
            self._known[id(out._array)] = (out._array, real)
        self.describe(out, node)

    def _note_many(self, out: Any, node: Node, known: Any) -> None:
        """Says of each of several results which item of a node it is."""
        for place, each in enumerate(out):
            if isinstance(each, Tensor):
                item = self.graph.call_function(operator.getitem, (node, place))
                self._note(each, item, None if known is None else known[place])
        kept = [x.meta["val"] for x in node.users if "val" in x.meta]
        if len(kept) == len(out):
            node.meta["val"] = type(out)(kept)

    def describe(self, tensor: Tensor, node: Node) -> None:
        """Leaves a description of a value at its node: a fake, which later writes do not reach."""
        if self.fakes is None:
            self.fakes = FakeTensorMode(allow_non_fake_inputs=True)
        with as_it_is():
            if is_fake_array(tensor._array):
                node.meta["val"] = tensor.detach()
                return
            sizes = tensor.shape, tensor.stride()
            kind, device = tensor.dtype, tensor.device
        with without_modes(), self.fakes:
            node.meta["val"] = empty_strided(*sizes, dtype=kind, device=device)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, PretendedDevice):
            return Device(value.type, value.index)
        if isinstance(value, OPEN):
            return self.symbols.node_of(value)
        if not isinstance(value, Tensor):
            return value
        return self.node_of(value) or self._constant(value)

    def _constant(self, value: Tensor) -> Node:
        """A tensor from outside: an attribute of the graph's module."""
        fresh = id(value._array) in self._fresh
        real = self._real(value)
        if not fresh and id(real) in self._constants:
            return self._constants[id(real)]
        stem = "_param_constant" if isinstance(value, Parameter) else "_tensor_constant"
        name = next(x for n in itertools.count() if not hasattr(self.root, x := f"{stem}{n}"))
        setattr(self.root, name, real)
        node = self._constants[id(real)] = self.graph.create_node("get_attr", name)
        if fresh:  # so that a write into it does not stay
            node = self.graph.call_function(namespace("aten").lift_fresh_copy.default, (node,))
            self.track(value, node)
        return node

    def _real(self, value: Tensor) -> Tensor:
        """The tensor that a constant is, or pretends to be."""
        with as_it_is():
            if id(value._array) in self._fresh:
                return self._fresh[id(value._array)][1].clone()
            return value if self.fakes is None else self.fakes.real_of(value)

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
            value = self._compute_known(func, args, kwargs, tensors)
            if value is not None:
                return value
            real = [x for x in tensors if not is_fake_array(x._array)]
            if any(self._varies(self.node_of(x)) for x in real):
                raise RuntimeError(
                    f"It appears that you're trying to get value out of a tracing tensor with "
                    f"{func} - erroring out! It's likely that this is caused by data-dependent "
                    "control flow or similar."
                )
            if real:
                return func(*args, **kwargs)
        given, named = _without_defaults(func._schema, args, kwargs)
        given = map_aggregate(given, self._argument)
        named = map_aggregate(named, self._argument)
        name = self.graph._target_to_str(func.overloadpacket.__name__)
        node = self.graph.create_node("call_function", func, given, dict(named), name)
        known = self._compute_known(func, args, kwargs, tensors)
        out = func(*args, **kwargs)
        if isinstance(out, Tensor):
            self._note(out, node, known)
        elif isinstance(out, OPEN):
            self.track_number(out, node)
        elif isinstance(out, (tuple, list)):
            self._note_many(out, node, known)
        if func._schema.is_mutable and tensors and not isinstance(out, Tensor):
            self.track(tensors[0], node)
        return out


def _draws(func: Any) -> bool:
    """Whether an operator draws random numbers, or gives what other processes have."""
    if getattr(func, "meets", False):
        return True
    return any(tag.name == "nondeterministic_seeded" for tag in getattr(func, "tags", ()))


class _NotesFresh(TorchFunctionMode):
    """Tells a mode which tensors a program makes from numbers."""

    def __init__(self, mode: ProxyTorchDispatchMode) -> None:
        super().__init__()
        self.mode = mode

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in ("__getitem__", "__setitem__") and len(args) > 1:
            args = (args[0], self._index(args[1], args[0]), *args[2:])
        out = func(*args, **(kwargs or {}))
        if name == "tensor" and isinstance(out, Tensor):
            self._note(out, func, args, kwargs or {})
        return out

    def _note(self, out: Tensor, func: Any, args: Any, kwargs: Any) -> None:
        real = out
        if is_fake_array(out._array):
            with as_it_is():
                real = func(*args, **kwargs)
        self.mode.fresh(out, real)

    def _index(self, key: Any, of: Any) -> Any:
        """An index with tensors for lists of numbers, which indexing would make unnoticed."""
        if type(key) is tuple:
            return tuple(self._index(item, of) for item in key)
        if type(key) is not list or not key or not all(type(x) in (int, bool) for x in key):
            return key
        func = GATES["tritorch"]["tensor"]
        kwargs = {"device": Device(of.device.type, of.device.index)}  # not the one pretended
        out = func(key, **kwargs)
        self._note(out, func, (key,), kwargs)
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
    dynamic: `shape_env` of the result has what was found out of them.  options: of PyTorch's
    compiler, without effect."""
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"Expected tracing_mode to be real, fake or symbolic: {tracing_mode}")

    @functools.wraps(f)
    def traced(*args: Any) -> GraphModule:
        graph, root = Graph(), Module()
        mode = ProxyTorchDispatchMode(graph, root, decomposition_table)
        names = _names(f, len(args))
        run = f
        if tracing_mode != "real":
            symbolic = tracing_mode == "symbolic"
            mode.fakes = fakes = _mode_of(args) or FakeTensorMode(
                allow_non_fake_inputs=_allow_non_fake_inputs,
                shape_env=ShapeEnv(),
                static_shapes=not symbolic,
            )
            args = tree_map(functools.partial(_described, fakes, symbolic), args)

            def run(*given: Any) -> Any:
                with fakes:
                    return f(*given)

        for name, value in zip(names, args):
            _place(mode, name, value)
        _, spec = tree_flatten(args)
        if not all(child.is_leaf() for child in spec.children()):
            plain = [name.removesuffix("_1") for name in names]
            graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(plain, spec, None)))
        with _NotesFresh(mode), mode:
            out = run(*args)
        graph.output(map_aggregate(out, mode._argument))
        graph.eliminate_dead_code()
        name = getattr(f, "__name__", "traced").replace("<lambda>", "fx")
        made = _make_graph_module(root, graph, name)
        if tracing_mode == "symbolic":
            made.shape_env = fakes.shape_env
        return made

    return traced


def _mode_of(args: Any) -> Any:
    """The mode of fakes among the arguments."""
    modes = (maybe_get_fake_mode(x) for x in tree_leaves(args) if isinstance(x, Tensor))
    return next((mode for mode in modes if mode is not None), None)


def _described(fakes: Any, symbolic: bool, value: Any) -> Any:
    """A fake of a tensor; a dynamic integer."""
    if isinstance(value, Tensor):
        return fakes.from_tensor(value)
    return fakes.shape_env.create_symbol(value) if symbolic and type(value) is int else value


@scoped
def disable_proxy_modes_tracing() -> Scope:
    """No make_fx that runs notes what happens inside."""
    others = [m for m in entered.modes if not isinstance(m, ProxyTorchDispatchMode)]
    return Scope((entered, "modes", others))


def wrapper_and_args_for_make_fx(
    func: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> tuple[Callable[[list[Any]], Any], list[Any]]:
    """A function of one list, which make_fx traces, and that list: a call's arguments."""
    leaves, spec = tree_flatten((args, kwargs))

    def wrapped(flat_args: list[Any]) -> Any:
        given, named = tree_unflatten(list(flat_args), spec)
        return func(*given, **named)

    return wrapped, leaves


def get_isolated_graphmodule(
    func: Callable[..., Any],
    args: Any,
    kwargs: dict[str, Any],
    tracing_mode: str = "real",
    decomposition_table: dict[Any, Any] | None = None,
) -> GraphModule:
    """The graph of a call, of which a make_fx that runs sees nothing."""
    wrapped, leaves = wrapper_and_args_for_make_fx(func, args, kwargs)
    with disable_proxy_modes_tracing():
        return make_fx(wrapped, decomposition_table, tracing_mode)(leaves)


def _names(f: Callable[..., Any], count: int) -> list[str]:
    """The names of a function's arguments, as PyTorch writes those of inputs."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        parameters = ()  # type: ignore[assignment]
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = plain[:count] if len(plain) >= count else [f"arg{i}" for i in range(count)]
    return [f"{name}_1" for name in names]


def _place(mode: ProxyTorchDispatchMode, name: str, value: Any) -> None:
    """Makes an input of each leaf of an argument."""
    for number, leaf in enumerate(tree_leaves(value), 1):
        node = mode.graph.placeholder(f"{name.removesuffix('_1')}_{number}")
        if isinstance(leaf, Tensor):
            mode.track(leaf, node)
            mode.describe(leaf, node)
        elif isinstance(leaf, OPEN):
            mode.track_number(leaf, node)
