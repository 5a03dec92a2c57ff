"""Proxies: what a function is called with so that its calls become nodes."""

from __future__ import annotations

import collections
import dis
import inspect
import operator
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from tritorch.fx.graph import Graph
from tritorch.fx.node import BASE_TYPES, Node, map_aggregate

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope", "TraceError",
           "TracerBase"]  # fmt: skip


class TraceError(ValueError):
    """A program wants to know a value that is not there while it is traced."""


class Scope:
    """The module whose code is traced."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Makes a scope the current one."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._before = Scope(scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type
        self._scope = scope

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exception: object) -> None:
        self._scope.module_path = self._before.module_path
        self._scope.module_type = self._before.module_type


class TracerBase:
    """What makes nodes of calls on proxies."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope: Scope
    module_stack: collections.OrderedDict[str, Any]
    node_name_to_scope: dict[str, Any]

    def create_node(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A node for a call."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if hasattr(self, "scope"):
            self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
            if self.module_stack:
                node.meta["nn_module_stack"] = self.module_stack.copy()
        return node

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a node."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None,
        type_expr: Any = None, proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Any:  # fmt: skip
        """The proxy of a new node, whose arguments may be proxies."""
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args_, dict(kwargs_), name, type_expr)
        made = proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)
        if self.record_stack_traces and not node.stack_trace:
            frames = traceback.extract_stack(sys._getframe(2))
            here = __file__.rpartition("/")[0]
            kept = [f for f in frames if not f.filename.startswith(here)]
            node.stack_trace = "".join(traceback.StackSummary.from_list(kept).format())
        return made

    def create_arg(self, a: Any) -> Any:
        """An argument as a node holds it; NotImplementedError for what no node holds."""
        kind = type(a)
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(each) for each in a]
            return kind(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return [self.create_arg(each) for each in a]
        if isinstance(a, dict):
            for key in a:
                if isinstance(self.create_arg(key), Node):
                    raise RuntimeError(
                        "Keys for dictionaries used as an argument cannot contain a Node. Got "
                        f"key: {key}"
                    )
            return {self.create_arg(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(each) for each in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(each) for each in (a.start, a.stop, a.step)))
        if isinstance(a, (*BASE_TYPES, Node)) or a is None or a is ...:
            return a
        if callable(a) and inspect.isroutine(a):
            return a
        if hasattr(kind, "__dataclass_fields__"):
            fields = {n: self.create_arg(getattr(a, n)) for n in kind.__dataclass_fields__}
            return self.create_node("call_function", kind, (), fields)
        if hasattr(kind, "__members__"):  # an Enum
            return a
        raise NotImplementedError(f"argument of type: {kind}")

    def to_bool(self, obj: Proxy) -> bool:
        """A proxy's truth: not known."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """A proxy's items: not known, but for the targets of an assignment."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument. See the torch.fx docs on "
            "pytorch.org for a more detailed explanation of what types of control flow can be "
            "traced, and check out the Proxy docstring for help troubleshooting Proxy iteration "
            "errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """A proxy's keys: another proxy."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """A tracer that puts nodes into a graph that is there."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


class Proxy:
    """The result of a node, on which a program calls what becomes more nodes."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k.startswith("__") and k.endswith("__"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __deepcopy__(self, memo: Any) -> Proxy:
        import copy

        made = type(self).__new__(type(self))
        made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        count = _unpacked(sys._getframe(1))
        if count is not None:
            return (operator.getitem(self, i) for i in range(count))
        return self.tracer.iter(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_asserted(sys._getframe(1)):
            from tritorch import _assert

            self.tracer.create_proxy("call_function", _assert, (self, ""), {})
            return True
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    def __int__(self) -> int:
        raise TraceError("symbolically traced variables cannot be converted to int")

    __index__ = __float__ = __int__

    def keys(self) -> Any:
        """What ** asks for."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = None, kwargs: Any = None
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        tracers: dict[Any, None] = {}

        def seen(value: Any) -> Any:
            if isinstance(value, cls):
                tracers[value.tracer] = None
            return value

        map_aggregate((args, kwargs), seen)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace "
                f"operations {orig_method}"
            )
        tracer = next(iter(tracers))
        if getattr(orig_method, "__qualname__", "").startswith("Tensor."):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


class Attribute(Proxy):
    """An attribute of a proxy: a method's call if it is called, else a node of its own."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads it, made when somebody asks."""
        if self._node is None:
            self._node = self.tracer.create_proxy(
                "call_function", getattr, (self.root, self.attr), {}
            ).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter, whose shape is known."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """Its sizes."""
        return self.param.shape

    def size(self, dim: int | None = None) -> Any:
        """Its sizes."""
        return self.param.size() if dim is None else self.param.size(dim)

    def dim(self) -> int:
        """How many dims it has."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """How many dims it has."""
        return self.param.ndim

    def numel(self) -> int:
        """How many elements it has."""
        return self.param.numel()

    def nelement(self) -> int:
        """How many elements it has."""
        return self.param.numel()


def _instruction_after(frame: Any) -> Any:
    return next((i for i in dis.get_instructions(frame.f_code) if i.offset >= frame.f_lasti), None)


def _unpacked(frame: Any) -> int | None:
    """How many targets an assignment unpacks into, if that is what iterates."""
    found = _instruction_after(frame)
    return found.argval if found is not None and found.opname == "UNPACK_SEQUENCE" else None


def _is_asserted(frame: Any) -> bool:
    instructions = list(dis.get_instructions(frame.f_code))
    place = next(i for i, each in enumerate(instructions) if each.offset >= frame.f_lasti)
    return any(each.opname == "LOAD_ASSERTION_ERROR" for each in instructions[place : place + 3])


def _operator(name: str) -> None:
    function = getattr(operator, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, *args), kwargs)

    method.__name__ = method.__qualname__ = f"__{name.strip('_')}__"
    setattr(Proxy, method.__name__, method)


def _reflected(name: str) -> None:
    function = getattr(operator, name)

    def method(self: Any, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    method.__name__ = method.__qualname__ = f"__r{name.strip('_')}__"
    setattr(Proxy, method.__name__, method)


_BINARY = (
    "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_",
    "xor", "matmul",
)  # fmt: skip
_OTHERS = (
    "getitem", "neg", "invert", "pos", "eq", "ne", "lt", "le", "gt", "ge", "setitem",
)  # fmt: skip
for _name in (*_BINARY, *_OTHERS):
    _operator(_name)
for _name in _BINARY:
    _reflected(_name)
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
