"""Symbolic tracing: a module's forward, run once on proxies."""

from __future__ import annotations

import builtins
import collections
import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.proxy import (
    ParameterProxy,
    Proxy,
    Scope,
    ScopeContextManager,
    TracerBase,
)
from tritorch.nn.modules.container import Sequential
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter

__all__ = ["PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "is_fx_tracing",
           "symbolic_trace", "wrap"]  # fmt: skip

_tracing = False
_Wrapped = tuple[dict[str, Any], str]
_wrapped: list[_Wrapped] = []  # a module's globals and a name in them


def is_fx_tracing() -> bool:
    """Whether a function is being traced."""
    return _tracing


class PHBase:
    """Stands in concrete_args for what stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """The same with a key."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


class ProxyableClassMeta(type):
    """The type of classes whose construction from proxies becomes a node."""

    def __init__(cls, name: str, bases: Any, attrs: Any) -> None:
        _proxyable[cls] = None
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        found = [x for x in (*args, *kwargs.values()) if isinstance(x, Proxy)]
        if not (found and is_fx_tracing()):
            return super().__call__(*args, **kwargs)
        return found[0].tracer.create_proxy("call_function", cls, args, kwargs)


_proxyable: dict[type, None] = {}


def wrap(fn_or_name: Any) -> Any:
    """Makes calls of a function of this module nodes, without looking inside; at module scope."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    if frame.f_back.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped.append((frame.f_back.f_globals, name))
    return fn_or_name


class Tracer(TracerBase):
    """Traces a module, or a function: `Tracer().trace(root)` gives its graph."""

    def __init__(
        self, autowrap_modules: tuple[Any, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        """autowrap_modules: whose functions, called with proxies, become nodes.
        param_shapes_constant: shapes of parameters are numbers, not nodes."""
        super().__init__()
        functions = [
            each for module in autowrap_modules for name, each in vars(module).items()
            if not name.startswith("_") and callable(each)
        ]  # fmt: skip
        self._autowrap_function_ids = {id(f) for f in (*functions, *autowrap_functions)}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Any, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}
        self.num_calls: dict[str, int] = {}

    # ---- what a subclass may change -------------------------------------------------------------

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Whether a module's call is a node: those of torch.nn, but for Sequential."""
        module = m.__module__
        ours = module.startswith(("torch.nn", "torch.ao.nn", "tritorch.nn"))
        return ours and not isinstance(m, Sequential)

    def path_of_module(self, mod: Any) -> str:
        """The name by which the root has a module."""
        if self.submodule_paths is not None:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, each in self.root.named_modules():
            if each is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Any, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call of a module while it is traced: a node, or what its forward gives."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as current:
            count = self.num_calls.get(path, 0)
            self.num_calls[path] = count + 1
            key = f"{current.module_path}@{count}" if count else current.module_path
            self.module_stack[key] = (current.module_path, current.module_type)
            try:
                if not self.is_leaf_module(m, path):
                    return forward(*args, **kwargs)
                return self.create_proxy("call_module", path, args, kwargs)
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading an attribute of a module gives: a proxy of a parameter."""
        if isinstance(attr_val, Tensor) and isinstance(attr_val, Parameter):
            return self._proxy_of(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            found = self._proxy_of(attr_val, self.root.named_buffers(), parameter_proxy_cache)
            if found is not None:
                return found
        return attr_val

    def _proxy_of(self, value: Any, named: Any, cache: dict[str, Any]) -> Any:
        for name, each in named:
            if each is value:
                if name not in cache:
                    factory = None
                    if self.param_shapes_constant:
                        factory = lambda node, name=name: ParameterProxy(self, node, name, value)
                    cache[name] = self.create_proxy(
                        "get_attr", name, (), {}, proxy_factory_fn=factory
                    )
                return cache[name]
        return value

    def create_arg(self, a: Any) -> Any:
        """An argument as a node holds it; tensors become attributes of the root."""
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            return self.create_node("get_attr", self._constant(a, "_tensor_constant"), (), {})
        if isinstance(a, Module):
            for name, each in self.root.named_modules():
                if a is each and name:
                    return self.create_node("get_attr", name, (), {})
        if type(a) in _proxyable:
            name = self._constant(a, f"_{type(a).__name__}_constant_")
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _constant(self, value: Any, stem: str) -> str:
        for name, each in vars(self.root).items():
            if each is value and name.startswith(stem):
                return name
        for name, each in self.root.__dict__.get("_tensor_attrs", {}).items():
            if each is value:
                return name
        number = 0
        while hasattr(self.root, f"{stem}{number}"):
            number += 1
        setattr(self.root, f"{stem}{number}", value)
        return f"{stem}{number}"

    # ---- tracing --------------------------------------------------------------------------------

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """The function to call, and proxies for its arguments."""
        function = inspect.unwrap(root_fn)
        code = function.__code__
        names = list(code.co_varnames)
        total = code.co_argcount + code.co_kwonlyargcount
        parameters = inspect.signature(function).parameters
        args: list[Any] = []
        skip = 0
        if is_module:
            if total == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            skip = 1
            args.append(self.root)
        concrete = concrete_args or {}
        self._tree_inputs: list[Any] = []

        def placeholder(name: str) -> Any:
            default = () if name.startswith("*") or name not in parameters else (
                () if parameters[name].default is inspect.Parameter.empty
                else (parameters[name].default,)
            )  # fmt: skip
            kind = self._hint(function, name)
            if name in concrete:
                return self._concrete(name, concrete[name])
            if default and not isinstance(default[0], (int, float, str, bool, type(None), tuple,
                                                       list, dict, complex)):  # fmt: skip
                default = (self.create_arg(default[0]),)
            return self.create_proxy("placeholder", name, default, {}, type_expr=kind)

        if isinstance(concrete_args, tuple):
            if len(concrete_args) != total - skip:
                raise RuntimeError(
                    f"Tracing expected {total - skip} arguments but got {len(concrete_args)} "
                    "concrete arguments"
                )
            concrete = dict(zip(names[skip:total], concrete_args))
        positional = names[skip : code.co_argcount]
        args += [placeholder(name) for name in positional]
        keywords = {n: placeholder(n) for n in names[code.co_argcount : total]}
        place = total
        starred: list[Any] = []
        if code.co_flags & inspect.CO_VARARGS:
            starred = [self.create_proxy("placeholder", f"*{names[place]}", (), {})]
            place += 1
        extra = None
        if code.co_flags & inspect.CO_VARKEYWORDS:
            extra = self.create_proxy("placeholder", f"**{names[place]}", (), {})
        if starred or extra is not None:
            root_fn = _patched(function, starred, extra)
            more = [*starred] + ([extra] if extra is not None else [])
            return functools.partial(root_fn, **keywords), [*args, *more]
        return functools.partial(root_fn, **keywords) if keywords else root_fn, args

    def _hint(self, function: Any, name: str) -> Any:
        return getattr(function, "__annotations__", {}).get(name)

    def _concrete(self, name: str, value: Any) -> Any:
        """An argument that is given: a value as it is, containers with PH inside."""
        if value is PH or isinstance(value, PHBase):
            return self.create_proxy("placeholder", name, (), {})
        if isinstance(value, (list, tuple, dict)) and _has_placeholder(value):
            counter = iter(range(10**6))

            def leaf(x: Any) -> Any:
                proxy = self.create_proxy("placeholder", f"{name}_{next(counter) + 1}", (), {})
                return proxy if isinstance(x, PHBase) else x

            return _leaves_mapped(value, leaf)
        made = self.create_proxy("placeholder", name, (), {})
        self._specialized(made, name, value)
        return value

    def _specialized(self, proxy: Any, name: str, value: Any) -> None:
        from tritorch import _assert

        if value is None or isinstance(value, (bool, str)):
            comparison = self.create_proxy("call_function", _is_same, (proxy, value), {})
            text = f"{name} has been specialized to have value {value} but got another value"
            self.create_proxy("call_function", _assert, (comparison, text), {})
        elif isinstance(value, (int, float)):
            text = f"{name} has been specialized to have value {value} but got another value"
            self.create_proxy("call_function", _assert, (proxy == value, text), {})

    def trace(self, root: Any, concrete_args: Any = None) -> Graph:
        """The graph of a module's forward, or of a function."""
        global _tracing
        before, _tracing = _tracing, True
        try:
            if isinstance(root, Module):
                self.root = root
                function = getattr(type(root), self.traced_func_name)
                self.root_module_name = root._get_name()
                self.submodule_paths = {each: name for name, each in root.named_modules()}
            else:
                self.root = Module()
                function = root
            self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
            self.scope = Scope("", None)
            self.num_calls = {}
            self.module_stack = collections.OrderedDict()
            self.tensor_attrs: dict[Any, str] = {}
            call, args = self.create_args_for_root(
                function, isinstance(root, Module), concrete_args
            )
            cache: dict[str, Any] = {}
            with _patches(self, cache):
                result = call(*args)
            self.create_node(
                "output", "output", (self.create_arg(result),), {},
                type_expr=getattr(function, "__annotations__", {}).get("return"),
            )  # fmt: skip
            self.submodule_paths = None
        finally:
            _tracing = before
        return self.graph


def _is_same(a: Any, b: Any) -> bool:
    return a is b if b is None else a == b


def _has_placeholder(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_placeholder, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_placeholder, value))
    return isinstance(value, PHBase)


def _leaves_mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {k: _leaves_mapped(v, function) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_leaves_mapped(v, function) for v in value]
        return items if isinstance(value, list) else tuple(items)
    return function(value)


def _patched(function: Any, starred: list[Any], extra: Any) -> Callable[..., Any]:
    """The function with *args and **kwargs as one argument each, as proxies stand for them."""
    code = function.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    count = code.co_argcount + len(starred) + (extra is not None)
    names = list(code.co_varnames)
    made = code.replace(
        co_flags=flags, co_argcount=count if not code.co_kwonlyargcount else code.co_argcount,
        co_varnames=tuple(names),
    )  # fmt: skip
    new = type(function)(made, function.__globals__, function.__name__, None, function.__closure__)
    new.__kwdefaults__ = function.__kwdefaults__
    return new


@contextlib.contextmanager
def _patches(tracer: Tracer, cache: dict[str, Any]) -> Iterator[None]:
    """While a function is traced: attributes and calls of modules come to the tracer, and so do
    wrapped functions that are given proxies."""
    undo: list[Callable[[], None]] = []
    plain_getattr, plain_call = Module.__getattr__, Module.__call__

    def read(module: Any, name: str) -> Any:
        return tracer.getattr(name, plain_getattr(module, name), cache)

    def called(module: Any, *args: Any, **kwargs: Any) -> Any:
        forward = lambda *a, **k: plain_call(module, *a, **k)
        return tracer.call_module(module, forward, args, kwargs)

    Module.__getattr__, Module.__call__ = read, called  # type: ignore[method-assign, assignment]
    try:
        for space, name in _wrapped:
            there = name in space
            original = space[name] if there else getattr(builtins, name)
            space[name] = _node_of(original)
            undo.append(
                functools.partial(space.__setitem__, name, original)
                if there
                else functools.partial(space.pop, name)
            )
        function: Any = getattr(type(tracer.root), tracer.traced_func_name, None)
        spaces = [function.__globals__] if hasattr(function, "__globals__") else []
        for space in (*spaces, *(vars(m) for m in tracer._autowrap_search)):
            for name, each in list(space.items()):
                if id(each) in tracer._autowrap_function_ids and callable(each):
                    space[name] = _node_of(each)
                    undo.append(functools.partial(space.__setitem__, name, each))
        yield
    finally:
        for step in reversed(undo):
            step()
        Module.__getattr__, Module.__call__ = plain_getattr, plain_call  # type: ignore[method-assign]


def _node_of(original: Any) -> Any:
    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return original(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", original, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return wrapped


def _find_proxy(*values: Any) -> Any:
    for value in values:
        if isinstance(value, Proxy):
            return value
        inner = value.values() if isinstance(value, dict) else value
        if isinstance(value, (list, tuple, dict)):
            found = _find_proxy(*inner)
            if found is not None:
                return found
        if isinstance(value, slice):
            found = _find_proxy(value.start, value.stop, value.step)
            if found is not None:
                return found
    return None


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module, or a function, as a GraphModule.

    concrete_args: values of arguments that the graph may depend on."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
