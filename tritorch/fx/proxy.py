"""Proxies: what a function is called with so that its calls become nodes."""

from __future__ import annotations

import bisect
import collections
import copy
import dataclasses
import dis
import enum
import functools
import operator
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

from tritorch.fx import config, traceback as fx_traceback
from tritorch.fx._codegen import magic_methods, reflectable_magic_methods
from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph import Graph
from tritorch.fx.immutable_collections import immutable_dict, immutable_list
from tritorch.fx.node import Node, base_types, map_aggregate, map_arg
from tritorch.fx.operator_schemas import check_for_mutable_operation
from tritorch.nn.parameter import Parameter
from tritorch.overrides import is_tensor_method_or_property

__all__ = [
    "Attribute", "GraphAppendingTracer", "MetaProxy", "ParameterProxy", "Proxy", "Scope",
    "ScopeContextManager", "TraceError", "TracerBase",
]  # fmt: skip

# What new nodes take over of the current meta.
_COPY_META_FIELDS = [
    "nn_module_stack", "torch_fn", "source_fn_stack", "original_aten", "recompute", "ac_graph_id",
    "has_backward_hook", "from_node", "quantization_tag", "_numeric_debug_handle", "custom",
    "partitioner_tag",
]  # fmt: skip


@compatibility(is_backward_compatible=True)
class TraceError(ValueError):
    """A program wants to know a value that is not there while it is traced."""


@compatibility(is_backward_compatible=False)
class Scope:
    """The module whose code is traced: its path in the root, and its type."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


@compatibility(is_backward_compatible=False)
class ScopeContextManager:
    """Makes a scope the current one."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._prev_scope = copy.copy(scope)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type
        self._scope = scope

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exception: object) -> None:
        self._scope.module_path = self._prev_scope.module_path
        self._scope.module_type = self._prev_scope.module_type


@compatibility(is_backward_compatible=True)
class TracerBase:
    """What makes nodes of calls on proxies."""

    graph: Graph
    # Nodes note where the program makes their calls.
    record_stack_traces: bool = False
    # Of these lines only those in functions called forward.
    _record_forward_stack_traces_only: bool = False
    # Calls that write into arguments are refused.
    check_mutable_operations: bool = False
    # `assert` of a proxy becomes a node.
    trace_asserts: bool = False
    # Buffers are proxies when they are read, as parameters are.
    proxy_buffer_attributes: bool = False
    # The method of a module that is traced.
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: collections.OrderedDict[str, Any]
    node_name_to_scope: dict[str, Any]

    @compatibility(is_backward_compatible=True)
    def create_node(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A node for a call."""
        if self.check_mutable_operations and kind == "call_function":
            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = self.scope
        self.node_name_to_scope[node._name] = (scope.module_path, scope.module_type)
        if fx_traceback.should_preserve_node_meta:
            _take_over_meta(node)
        elif self.module_stack:
            node.meta["nn_module_stack"] = self.module_stack.copy()
        if self.record_stack_traces and not node.stack_trace:
            self._note_stack_trace(node)
        return node

    def _note_stack_trace(self, node: Node) -> None:
        if config.do_not_emit_stack_traces:
            return
        kept = self._filter_traceback_frames(traceback.extract_stack(sys._getframe(2)))
        if kept:
            node.stack_trace = "".join(kept.format()).strip()

    def _filter_traceback_frames(
        self, user_stack_summary: traceback.StackSummary
    ) -> traceback.StackSummary:
        """The lines of a stack trace that are the program's: those from the first forward on."""
        frames = list(user_stack_summary)
        if self._record_forward_stack_traces_only:
            anchors = fx_traceback._STACK_TRACE_ANCHORS
            frames = [f for f in frames if f.name == "forward" or (f.filename, f.name) in anchors]
        else:
            first = next((i for i, f in enumerate(frames) if f.name == "forward"), len(frames))
            frames = frames[first:]
        frames = [f for f in frames if not f.filename.startswith(_OURS)]
        return traceback.StackSummary.from_list(frames)

    @compatibility(is_backward_compatible=True)
    def proxy(self, node: Node) -> Proxy:
        """The proxy of a node."""
        return Proxy(node, self)

    @compatibility(is_backward_compatible=True)
    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None,
        type_expr: Any = None, proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Any:  # fmt: skip
        """The proxy of a new node, whose arguments may be proxies."""
        args_ = self.create_arg(args)
        kwargs_ = self.create_arg(kwargs) if kwargs else {}
        if not isinstance(args_, tuple):
            raise AssertionError(f"Expected args_ to be tuple, got {type(args_)}")
        if not isinstance(kwargs_, dict):
            raise AssertionError(f"Expected kwargs_ to be dict, got {type(kwargs_)}")
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def _find_user_frame(self) -> types.FrameType | None:
        """The innermost frame that is not the package's."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back  # type: ignore[assignment]
        return frame

    @compatibility(is_backward_compatible=True)
    def create_arg(self, a: Any) -> Any:
        """An argument as a node holds it; NotImplementedError for what no node holds."""
        handler = _create_arg_bypass.get(type(a))
        if handler is not None:
            return handler(self, a)
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(each) for each in a]
            return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
        if isinstance(a, list):
            return [self.create_arg(each) for each in a]
        if isinstance(a, dict):
            return _dict_arg(self, a)
        if isinstance(a, slice):
            return slice(*(self.create_arg(each) for each in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(each) for each in (a.start, a.stop, a.step)))
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        if isinstance(a, (*base_types, enum.Enum, Node)) or a is None or a is ...:
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    @compatibility(is_backward_compatible=True)
    def to_bool(self, obj: Proxy) -> bool:
        """A proxy's truth: not known."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    @compatibility(is_backward_compatible=True)
    def iter(self, obj: Proxy) -> Iterator[Any]:
        """A proxy's items: not known, but for the targets of an assignment."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument. See the torch.fx docs on "
            "pytorch.org for a more detailed explanation of what types of control flow can be "
            "traced, and check out the Proxy docstring for help troubleshooting Proxy iteration "
            "errors"
        )

    @compatibility(is_backward_compatible=True)
    def keys(self, obj: Proxy) -> Any:
        """A proxy's keys, which ** asks for: another proxy."""
        return Attribute(obj, "keys")()


_HERE = __file__.rpartition("/")[0] + "/"
_PACKAGE = _HERE.removesuffix("fx/")
_OURS = (_HERE, _PACKAGE + "core/")


def _take_over_meta(node: Node) -> None:
    """Gives a node what of the current meta new nodes get."""
    current = fx_traceback.current_meta
    trace = current.get("stack_trace")
    if trace:
        node.stack_trace = trace
        if fx_traceback.GRADIENT_ACC_SPECIAL_STACK in trace:
            node.meta["is_gradient_acc"] = node.meta["autograd_backward"] = True
    for field in _COPY_META_FIELDS:
        if field in current:
            node.meta[field] = copy.copy(current[field])
    number = _get_seq_nr()
    if number is not None:
        node.meta["seq_nr"] = number
    replayed = fx_traceback.current_replay_node
    if replayed is not None:
        node.meta["is_functional_regenerated"] = True
        for field in ("custom", "stack_trace"):
            if field in replayed.meta:
                node.meta[field] = replayed.meta[field]
    if current.get("autograd_backward", False):
        node.meta["autograd_backward"] = True


def _get_seq_nr(node_name: str = "") -> int | None:
    """The number by which nodes of a forward and of its backward pass belong together."""
    current = fx_traceback.current_meta
    if current.get("in_grad_fn", 0) > 0:
        number = current["grad_fn_seq_nr"][-1]
    else:
        number = current.get("seq_nr")
    if not fx_traceback._is_preserving_node_seq_nr():
        replayed = fx_traceback.current_replay_node
        if replayed is not None and "seq_nr" in replayed.meta:
            return replayed.meta["seq_nr"]
    return number


@compatibility(is_backward_compatible=True)
class GraphAppendingTracer(TracerBase):
    """A tracer that puts nodes into a graph that is there."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


@compatibility(is_backward_compatible=False)
def assert_fn(x: Any) -> None:
    """What an `assert` of a proxy becomes."""
    if not x:
        raise AssertionError("Assertion failed")


@compatibility(is_backward_compatible=True)
class Proxy:
    """The result of a node, on which a program calls what becomes more nodes."""

    @compatibility(is_backward_compatible=True)
    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k in _OWN:  # of an instance that copying or unpickling has not filled yet
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: Any) -> Proxy:
        made: dict[str, Any] = {}
        for key, value in self.__dict__.items():
            try:
                made[key] = copy.deepcopy(value, memo)
            except Exception:  # what a program keeps on its tracer
                made[key] = copy.copy(value)
        proxy = Proxy(made["node"], made["tracer"])
        proxy.__dict__.update(made)
        return proxy

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = sys._getframe(1)
        instructions, place = _instruction(frame)
        if instructions[place].opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(instructions[place].argval))  # type: ignore[index]
        return self.tracer.iter(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_asserted(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    @compatibility(is_backward_compatible=True)
    def keys(self) -> Any:
        """What ** asks for."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = None, kwargs: Any = None
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        tracers: dict[Any, None] = {}
        for value in args:  # the usual case, without a walk
            if isinstance(value, cls):
                tracers[value.tracer] = None
        if not tracers or kwargs or len(tracers) > 1 or _is_nested(args):

            def seen(value: Any) -> None:
                if isinstance(value, cls):
                    tracers[value.tracer] = None

            map_aggregate((args, kwargs), seen)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace "
                f"operations {orig_method}"
            )
        tracer = next(iter(tracers))
        name = orig_method.__name__
        if _is_method(orig_method):
            return tracer.create_proxy("call_method", name, args, kwargs)
        if _is_higher_order(orig_method):
            found = _find_arbitrary_callable(args, kwargs)
            if found is not None:
                raise RuntimeError(
                    f"Unable to symbolically trace the HigherOrderOperator {name} because it "
                    f"received an arbitrary callable argument {found}. Use make_fx or dynamo "
                    "tracing instead."
                )
        return tracer.create_proxy(
            "call_function", orig_method, args, kwargs, name=tracer.graph._target_to_str(name)
        )


_is_method = functools.lru_cache(maxsize=4096)(is_tensor_method_or_property)
_OWN = ("node", "tracer", "__deepcopy__", "__setstate__")


def _is_nested(args: tuple[Any, ...]) -> bool:
    return any(isinstance(value, (tuple, list, dict, slice)) for value in args)


def _is_higher_order(function: Any) -> bool:
    return type(function).__name__ == "HigherOrderOperator"


def _find_arbitrary_callable(args: Any, kwargs: Any) -> Any:
    """A function among arguments, which no node can hold; None if there is none."""
    kinds = (
        types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial,
    )  # fmt: skip
    found: list[Any] = []
    map_aggregate((args, kwargs), lambda x: found.append(x) if isinstance(x, kinds) else None)
    return found[0] if found else None


@compatibility(is_backward_compatible=False)
class MetaProxy(Proxy):
    """A proxy that knows a fake of its value, `node.meta["val"]`, and gives its users theirs."""

    def __init__(self, node: Node, tracer: Any = None, fake_mode: Any = None) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self) -> str:
        return f"MetaProxy({self.node.name})"

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = None, kwargs: Any = None
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        first = next((a for a in args if isinstance(a, MetaProxy)), None)
        if first is None:
            raise AssertionError("No MetaProxy found in arguments, but one is expected.")
        proxy = super().__torch_function__(orig_method, types, args, kwargs)
        with first.fake_mode:
            values = (a.node.meta["val"] if isinstance(a, Proxy) else a for a in args)
            proxy.node.meta["val"] = orig_method(*values, **kwargs)
        return MetaProxy(proxy.node, proxy.tracer, first.fake_mode)


@compatibility(is_backward_compatible=True)
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


@compatibility(is_backward_compatible=False)
class ParameterProxy(Proxy):
    """A parameter, whose sizes are known, so that a program may ask for them."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, Parameter):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """Its sizes."""
        return self.param.shape

    def size(self) -> Any:
        """Its sizes."""
        return self.param.size()

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
        return self.param.nelement()


# ---- the program's own instruction ---------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _instructions(code: types.CodeType) -> list[dis.Instruction]:
    return list(dis.get_instructions(code))


def _instruction(frame: types.FrameType) -> tuple[list[dis.Instruction], int]:
    """The instructions of a function, and the place of the one that it is at."""
    found = _instructions(frame.f_code)
    return found, bisect.bisect_left(found, frame.f_lasti, key=lambda each: each.offset)


def _is_asserted(frame: types.FrameType) -> bool:
    """Whether a truth is asked for by an `assert`: a jump over the raising of its error."""
    found, place = _instruction(frame)
    if "POP_JUMP" not in found[place].opname or "TRUE" not in found[place].opname:
        return False
    after = next((i for i in found[place + 1 :] if i.opname not in ("CACHE", "NOT_TAKEN")), None)
    if after is None or after.opname not in ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT"):
        return False
    end = next(i for i, each in enumerate(found) if each.offset == found[place].argval)
    while end > place and found[end - 1].opname in ("CACHE", "NOP"):
        end -= 1
    return found[end - 1].opname == "RAISE_VARARGS"


# ---- operators -----------------------------------------------------------------------------------


def _operator(name: str) -> None:
    function = getattr(operator, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, *args), kwargs)

    method.__name__ = name
    setattr(Proxy, f"__{name.strip('_')}__", method)


def _reflected(name: str) -> None:
    function = getattr(operator, name)

    def method(self: Any, rhs: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (rhs, self), {})

    method.__name__ = method.__qualname__ = f"__r{name.strip('_')}__"
    setattr(Proxy, method.__name__, method)


for _name in magic_methods:
    if hasattr(operator, _name):
        _operator(_name)
for _name in reflectable_magic_methods:
    if hasattr(operator, _name):
        _reflected(_name)
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]


# ---- arguments -----------------------------------------------------------------------------------


def _no_node(node: Node) -> Any:
    raise RuntimeError(
        f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}"
    )


def _dict_arg(tracer: TracerBase, a: dict[Any, Any]) -> dict[Any, Any]:
    made = {}
    for key, value in a.items():
        if not isinstance(key, str):
            key = tracer.create_arg(key)
            map_arg(key, _no_node)
        made[key] = tracer.create_arg(value)
    return made


def _node_of(tracer: TracerBase, a: Any) -> Any:
    return a.node


def _list_arg(tracer: TracerBase, a: Any) -> Any:
    return [tracer.create_arg(each) for each in a]


# How arguments of these very types are put into nodes, without a look at anything else.
_create_arg_bypass: dict[type, Callable[[Any, Any], Any]] = dict.fromkeys(
    (*base_types, type(None), type(...), Node), lambda self, a: a
)
_create_arg_bypass |= {
    Proxy: _node_of,
    tuple: lambda self, a: tuple([self.create_arg(each) for each in a]),
    list: _list_arg,
    immutable_list: _list_arg,
    dict: _dict_arg,
    immutable_dict: _dict_arg,
}
