"""Symbolic tracing: a module's forward, run once on proxies."""

from __future__ import annotations

import builtins
import collections
import copy
import functools
import inspect
import logging
import math
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from tritorch import _C
from tritorch.compat.settings import _assert
from tritorch.core import scopes
from tritorch.core.naming import torch_name
from tritorch.core.scopes import scoped, set_back, sets, unchanged
from tritorch.core.tensor import Tensor
from tritorch.fx._compatibility import compatibility
from tritorch.fx._lazy_graph_module import _LazyGraphModule, _make_graph_module
from tritorch.fx._patching import _Patcher
from tritorch.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import base_types, map_aggregate
from tritorch.fx.proxy import (
    ParameterProxy,
    Proxy,
    Scope,
    ScopeContextManager,
    TracerBase,
    _create_arg_bypass,
)
from tritorch.nn.modules.container import Sequential
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter
from tritorch.ops.quantized.packed import ScriptObject
from tritorch.utils import _pytree as pytree

__all__ = ["PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "is_fx_tracing",
           "symbolic_trace", "wrap"]  # fmt: skip

log = logging.getLogger(__name__)
HAS_VARSTUFF = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_orig_module_call: Callable[..., Any] = Module.__call__
_orig_module_getattr: Callable[..., Any] = Module.__getattr__
_proxyable_classes: dict[type, None] = {}
_is_fx_tracing_flag = False
# The globals of modules and the names in them that `wrap` was called for.
_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
# Methods whose calls become nodes: (class, name).
_wrapped_methods_to_patch: list[tuple[type, str]] = []
if os.environ.get("FX_PATCH_GETITEM") == "1":
    _wrapped_methods_to_patch.append((Tensor, "__getitem__"))
_constant_attribute_types = (Tensor, ScriptObject, pytree.TreeSpec)
CURRENT_PATCHER: _Patcher | None = None


@functools.lru_cache
def is_fx_tracing_warning() -> None:
    """Says once that PyTorch has other names for what programs mostly want to know."""
    log.warning(
        "is_fx_tracing will return true for both fx.symbolic_trace and torch.export. Please use "
        "is_fx_tracing_symbolic_tracing() for specifically fx.symbolic_trace or "
        "torch.compiler.is_compiling() for specifically torch.export/compile."
    )


def is_fx_tracing() -> bool:
    """Whether a function is being traced."""
    return _is_fx_tracing_flag


def is_fx_symbolic_tracing() -> bool:
    """Whether a function is being traced, by a Tracer."""
    return _is_fx_tracing_flag


@compatibility(is_backward_compatible=False)
class PHBase:
    """Stands in concrete_args for what stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


@compatibility(is_backward_compatible=False)
class PHWithMeta(PHBase):
    """The same with a key, and whatever else is set on it, which its node gets too."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


def _transfer_attrs(fr: Any, to: Any) -> None:
    for name in dir(fr):
        value = getattr(fr, name)
        if not callable(value) and not name.startswith("__") and not hasattr(to, name):
            setattr(to, name, value)


@compatibility(is_backward_compatible=True)
class ProxyableClassMeta(type):
    """The type of classes whose construction from proxies becomes a node."""

    def __init__(cls, name: str, bases: Any, attrs: Any) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        found = _find_proxy(args, kwargs) if is_fx_tracing() else None
        if found is not None:
            return found.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


def _patch_function(fn: types.FunctionType, nargs: int) -> types.FunctionType:
    """The function with *args and **kwargs as one argument each, as proxies stand for them."""
    code = fn.__code__
    made = code.replace(
        co_flags=code.co_flags & ~HAS_VARSTUFF, co_argcount=nargs, co_posonlyargcount=0,
        co_kwonlyargcount=0,
    )  # fmt: skip
    return types.FunctionType(made, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


@compatibility(is_backward_compatible=True)
class Tracer(TracerBase):
    """Tracer(autowrap_modules=(math,), autowrap_functions=())

    Traces a module, or a function: `Tracer().trace(root)` gives its graph."""

    @compatibility(is_backward_compatible=True)
    def __init__(
        self, autowrap_modules: tuple[Any, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        """autowrap_modules: whose functions, called with proxies, become nodes.
        param_shapes_constant: shapes of parameters are numbers, not nodes."""
        super().__init__()
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids |= {id(f) for f in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Any, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}

    _qualname_counter: ClassVar[dict[str, int]] = collections.defaultdict(int)

    # ---- what a subclass may change -------------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that begins so, and that the root has no attribute of."""
        if not hasattr(self.root, f"{prefix}0"):
            self._qualname_counter[prefix] = 0
            return f"{prefix}0"
        number = self._qualname_counter[prefix]
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number + 1
        return f"{prefix}{number}"

    @compatibility(is_backward_compatible=True)
    def create_arg(self, a: Any) -> Any:
        """An argument as a node holds it; tensors, and modules, become attributes of the root."""
        handler = _create_arg_bypass.get(type(a))
        if handler is not None and type(a) is not Tensor:
            return handler(self, a)
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
        elif isinstance(a, Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        elif isinstance(a, tuple) and hasattr(a, "_fields"):
            args = tuple(self.create_arg(each) for each in a)
            return self.create_node("call_function", type(a), args, {})
        if isinstance(a, _constant_attribute_types):
            known = self.tensor_attrs.get(a)
            if known is None:
                stems = {ScriptObject: "_torchbind_obj", pytree.TreeSpec: "_tree_spec_constant"}
                stem = stems.get(type(a), "_tensor_constant")
                known = self.get_fresh_qualname(stem)
                self.tensor_attrs[a] = known
                setattr(self.root, known, a)
            return self.create_node("get_attr", known, (), {})
        if type(a) in _proxyable_classes:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    @compatibility(is_backward_compatible=True)
    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Whether a module's call is a node: those of torch.nn, but for Sequential."""
        ours = torch_name(m.__module__).startswith(("torch.nn", "torch.ao.nn"))
        return ours and not isinstance(m, Sequential)

    @compatibility(is_backward_compatible=True)
    def path_of_module(self, mod: Any) -> str:
        """The name by which the root has a module."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, each in self.root.named_modules():
            if each is mod:
                return name
        raise NameError("module is not installed as a submodule")

    @compatibility(is_backward_compatible=True)
    def call_module(self, m: Any, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call of a module while it is traced: a node, or what its forward gives."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            count = self.num_calls.get(path, 0)
            self.num_calls[path] = count + 1
            key = f"{scope.module_path}@{count}" if count else scope.module_path
            self.module_stack[key] = (path, scope.module_type)
            if self.is_leaf_module(m, path):
                result = self.create_proxy("call_module", path, args, kwargs)
            else:
                result = forward(*args, **kwargs)
            last, _ = self.module_stack.popitem(last=True)
            if last != key:
                raise AssertionError(f"Unexpected key {last}, expected {key}")
        return result

    @compatibility(is_backward_compatible=False)
    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading an attribute of a module gives: a proxy of a parameter."""
        named: Iterable[tuple[str, Any]] = ()
        if isinstance(attr_val, Parameter):
            named = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            named = self.root.named_buffers()
        for name, each in named:
            if each is attr_val:
                if name not in parameter_proxy_cache:
                    parameter_proxy_cache[name] = self._proxy_of(name, each)
                return parameter_proxy_cache[name]
        return attr_val

    def _proxy_of(self, name: str, value: Any) -> Any:
        options: dict[str, Any] = {}
        # A subclass's create_proxy may be older than the argument.
        if "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters:
            options["proxy_factory_fn"] = (
                (lambda node: ParameterProxy(self, node, name, value))
                if self.param_shapes_constant
                else None
            )
        return self.create_proxy("get_attr", name, (), {}, **options)

    # ---- inputs ---------------------------------------------------------------------------------

    @compatibility(is_backward_compatible=False)
    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """The function to call, and its arguments: proxies, but for the root itself.

        concrete_args: what arguments are, by name or in order; PH stands for what stays open."""
        function = inspect.unwrap(root_fn)
        code = function.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        skip = int(is_module)
        if is_module and total == 0:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        args: list[Any] = [self.root] if is_module else []
        signature = inspect.signature(function)
        if isinstance(concrete_args, tuple):
            if concrete_args and code.co_flags & HAS_VARSTUFF and total == 1:
                for number, value in enumerate(concrete_args):
                    proxy = self.create_proxy("placeholder", f"input_{number}", (), {})
                    if isinstance(value, PHBase) and value != PH:
                        _transfer_attrs(fr=value, to=proxy.node)
                    args.append(proxy)
                return root_fn, args
            if len(concrete_args) != total - skip:
                raise RuntimeError(
                    f"Tracing expected {total - skip} arguments but got {len(concrete_args)} "
                    "concrete arguments"
                )
            concrete_args = dict(zip(code.co_varnames[skip:total], concrete_args))
        made = lambda name: self._proxy_placeholder(name, concrete_args, signature, function)
        args += [made(name) for name in code.co_varnames[skip:total]]
        if code.co_kwonlyargcount or code.co_flags & HAS_VARSTUFF:
            rest = iter(code.co_varnames[total:])
            if code.co_flags & inspect.CO_VARARGS:
                args.append(made(f"*{next(rest)}"))
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(made(f"**{next(rest)}"))
            root_fn = _patch_function(root_fn, len(args))
        flat, spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in spec.children()):
            return root_fn, args
        info = _PyTreeInfo(list(code.co_varnames[:total]), spec, None)
        self.graph._codegen = codegen = _PyTreeCodeGen(info)

        def flattened(*leaves: Any) -> Any:
            out = root_fn(*pytree.tree_unflatten(list(leaves), spec))
            values, out_spec = pytree.tree_flatten(out)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return values

        return flattened, flat

    def _proxy_placeholder(
        self, name: str, concrete_args: Any, sig: inspect.Signature, fn_for_analysis: Any
    ) -> Any:
        parameter = sig.parameters.get(name)
        given = parameter is not None and parameter.default is not inspect.Parameter.empty
        default = (parameter.default,) if given else ()  # type: ignore[union-attr]
        if not concrete_args or name not in concrete_args:
            kind = _annotations(fn_for_analysis).get(name)
            return self.create_proxy("placeholder", name, default, {}, type_expr=kind)
        count = 0

        def leaf(value: Any) -> Any:
            nonlocal count
            count += 1
            proxy = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(value, PHBase):
                if value != PH:
                    _transfer_attrs(fr=value, to=proxy.node)
                return proxy
            self._specialize(name, proxy, value)
            return value

        return pytree.tree_map(leaf, concrete_args[name])

    def _specialize(self, name: str, proxy: Any, value: Any) -> None:
        """Makes the graph check that an argument is what it was traced for."""
        message = f"{name} has been specialized to have value {value} but got another value"
        if value is None:
            self.create_proxy("call_function", _assert_is_none, (proxy, message), {})
        elif type(value) in base_types and type(value) is not Tensor:
            _assert(proxy == value, message)
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized "
                "function. It is up to the user to make sure that your inputs match the inputs "
                "you specialized the function with.",
                stacklevel=2,
            )

    # ---- tracing --------------------------------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def trace(self, root: Any, concrete_args: Any = None) -> Graph:
        """The graph of a module's forward, or of a function."""
        global _is_fx_tracing_flag
        before, _is_fx_tracing_flag = _is_fx_tracing_flag, True
        try:
            if isinstance(root, Module):
                _LazyGraphModule.force_recompile(root)
                self.root = root
                if not hasattr(type(root), self.traced_func_name):
                    raise AssertionError(
                        f"traced_func_name={self.traced_func_name} doesn't exist in "
                        f"{type(root).__name__}"
                    )
                function = getattr(type(root), self.traced_func_name)
                self.root_module_name = root._get_name()
                self.submodule_paths = {each: name for name, each in root.named_modules()}
            else:
                self.root = Module()
                function = root
            self.graph = Graph(tracer_cls=type(self))
            code = getattr(function, "__code__", None)
            if code is not None:
                fields = ("co_name", "co_filename", "co_firstlineno")
                self.graph._co_fields = {field: getattr(code, field) for field in fields}
            self.tensor_attrs: dict[Any, str] = dict(_constants_of(self.root, ""))
            if isinstance(function, _C.Gate):  # a function of the package is one call
                function = _called(function)
            if not isinstance(function, types.FunctionType):
                raise AssertionError(f"Expected FunctionType, got {type(function)}")
            space = function.__globals__
            call, args = self.create_args_for_root(
                function, isinstance(root, Module), concrete_args
            )
            with _new_patcher() as patcher:
                self._patch(patcher, space)
                hint = _annotations(inspect.unwrap(call)).get("return")
                self.create_node(
                    "output", "output", (self.create_arg(call(*args)),), {}, type_expr=hint
                )
            self.submodule_paths = None
        except RuntimeError as error:
            if error.args and isinstance(error.args[0], str) and "data-dependent" in error.args[0]:
                error.partial_fx_graph = self.graph.python_code("self", verbose=True).src  # type: ignore[attr-defined]
            raise
        finally:
            _is_fx_tracing_flag = before
        return self.graph

    def _patch(self, patcher: _Patcher, space: dict[str, Any]) -> None:
        """Makes attributes and calls of modules come to the tracer, and wrapped functions too."""
        cache: dict[str, Any] = {}

        @functools.wraps(_orig_module_getattr)
        def read(module: Any, attr: str) -> Any:
            return self.getattr(attr, _orig_module_getattr(module, attr), cache)

        @functools.wraps(_orig_module_call)
        def called(module: Any, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return _orig_module_call(module, *args, **kwargs)

            inner = getattr(getattr(module, "forward", module), "__globals__", {})
            _autowrap_check(patcher, inner, self._autowrap_function_ids)
            return self.call_module(module, forward, args, kwargs)

        patcher.patch_method(Module, "__getattr__", read, deduplicate=False)
        patcher.patch_method(Module, "__call__", called, deduplicate=False)
        _patch_wrapped_functions(patcher)
        _autowrap_check(patcher, space, self._autowrap_function_ids)
        for module in self._autowrap_search:
            _autowrap_check(patcher, vars(module), self._autowrap_function_ids)

    def __deepcopy__(self, memo: Any) -> Tracer:
        made = Tracer.__new__(Tracer)
        for key, value in self.__dict__.items():
            kept = key == "_autowrap_search"  # modules of Python
            made.__dict__[key] = copy.copy(value) if kept else copy.deepcopy(value, memo)
        return made


def _called(gate: Any) -> types.FunctionType:
    """A function that calls one of the package's, with its parameters."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    plain = [p for p in inspect.signature(gate).parameters.values() if p.kind not in variadic]
    names = [p.name for p in plain if p.kind is not p.KEYWORD_ONLY]
    named = {p.name: p.default for p in plain if p.kind is p.KEYWORD_ONLY}
    heads = names + (["*", *named] if named else [])
    given = names + [f"{name}={name}" for name in named]
    space = {"__gate": gate}
    exec(f"def {gate.__name__}({', '.join(heads)}):\n    return __gate({', '.join(given)})", space)
    made: Any = space[gate.__name__]
    absent = inspect.Parameter.empty
    defaults = [p.default for p in plain if p.name not in named]
    made.__defaults__ = tuple(each for each in defaults if each is not absent)
    made.__kwdefaults__ = {name: each for name, each in named.items() if each is not absent}
    return made


def _annotations(function: Any) -> dict[str, Any]:
    """The types in a function's signature; those that it has as text, as what they mean."""
    found = inspect.get_annotations(function)
    space = getattr(function, "__globals__", {})
    meant = {}
    for name, kind in found.items():
        if isinstance(kind, str):
            try:
                kind = eval(kind, space)
            except Exception:  # a name that is imported for type checkers only
                kind = None
        meant[name] = kind
    return meant


def _constants_of(module: Any, prefix: str) -> Iterator[tuple[Any, str]]:
    """The tensors that are plain attributes of a module, or of one inside, and their names."""
    for name, value in vars(module).items():
        if isinstance(value, _constant_attribute_types):
            yield value, f"{prefix}{name}"
    for name, child in module.named_children():
        yield from _constants_of(child, f"{prefix}{name}.")


# ---- wrapped functions ---------------------------------------------------------------------------


def _find_proxy(*objects_to_search: Any) -> Any:
    """A proxy among values, inside of containers too; None if there is none."""
    found: list[Any] = []
    map_aggregate(objects_to_search, lambda x: found.append(x) if isinstance(x, Proxy) else None)
    return found[-1] if found else None


def _create_wrapped_func(orig_fn: Any) -> Any:
    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", orig_fn, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return wrapped


def _create_wrapped_method(cls: type, name: str) -> Any:
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


@scoped
def _new_patcher() -> scopes.Scope:
    patcher = _Patcher()
    return scopes.Giving(
        patcher,
        (sys.modules[__name__], "CURRENT_PATCHER", patcher),
        set_back(patcher.revert_all_patches),
    )


@scoped
def _maybe_revert_all_patches() -> scopes.Scope:
    """Inside, modules are called as if nothing were traced."""
    patcher = CURRENT_PATCHER
    if patcher is None:
        return unchanged
    applied = list(patcher.patches_made)

    def apply_again() -> None:
        if patcher.patches_made != applied:
            raise AssertionError("CURRENT_PATCHER was changed during a revert_all_patches")
        patcher.reapply_all_patches()

    return scopes.Scope(set_back(apply_again), sets(patcher.revert_all_patches))


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    for (_, name), space in _wrapped_fns_to_patch.copy().items():
        builtin = name not in space and hasattr(builtins, name)
        original = getattr(builtins, name) if builtin else space[name]
        patcher.patch(space, name, _create_wrapped_func(original))
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    """Wraps the functions of these that globals have names for."""
    if not patcher.visit_once(frame_dict):
        return
    for name, value in list(frame_dict.items()):
        if not name.startswith("_") and callable(value) and id(value) in function_ids:
            patcher.patch(frame_dict, name, _create_wrapped_func(value))


@compatibility(is_backward_compatible=True)
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
    space = frame.f_back.f_globals
    _wrapped_fns_to_patch[(id(space), name)] = space
    return fn_or_name


@compatibility(is_backward_compatible=True)
def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module, or a function, as a GraphModule.

    concrete_args: values of arguments that the graph may depend on; nested ones may have `PH` for
    what stays an input."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return _make_graph_module(tracer.root, graph, name)


@wrap
def _assert_is_none(value: Any, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)
