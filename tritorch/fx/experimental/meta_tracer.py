"""MetaTracer: proxies that know tensors on the meta device, so that programs may ask for sizes."""

from __future__ import annotations

import builtins
import functools
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from tritorch import nn
from tritorch.core.tensor import Tensor
from tritorch.fx._naming import package, public
from tritorch.fx._symbolic_trace import Tracer
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_aggregate
from tritorch.fx.proxy import Proxy
from tritorch.nn import functional
from tritorch.nn.modules.module import Module

__all__ = [
    "MetaAttribute", "MetaDeviceAttribute", "MetaProxy", "MetaTracer", "embedding_override",
    "functional_relu_override", "gen_constructor_wrapper", "manual_meta_overrides",
    "nn_layernorm_override", "proxys_to_metas", "symbolic_trace", "torch_abs_override",
    "torch_nn_relu_override", "torch_relu_override", "torch_where_override",
]  # fmt: skip


def embedding_override(self: Any, input: Any) -> Any:
    """What an embedding gives, as far as sizes go."""
    return public("empty")(*input.shape, self.weight.shape[-1], device="meta")


def nn_layernorm_override(self: Any, input: Any) -> Any:
    """What a layer norm gives."""
    return input


def torch_relu_override(x: Any) -> Any:
    """What torch.relu gives."""
    return x


def torch_nn_relu_override(self: Any, x: Any) -> Any:
    """What nn.ReLU gives."""
    return x


def functional_relu_override(x: Any, inplace: bool = False) -> Any:
    """What nn.functional.relu gives."""
    if inplace:
        raise AssertionError("don't support inplace functional.relu for metatensor analysis")
    return x


def torch_where_override(condition: Any, x: Any, y: Any) -> Any:
    """What torch.where gives: a tensor of its arguments' broadcast sizes."""
    return condition.to(device="meta") + x.to(device="meta") + y.to(device="meta")


def torch_abs_override(input: Any, *, out: Any = None) -> Any:
    """What torch.abs gives."""
    if out is not None:
        raise AssertionError("Don't support in-place abs for MetaTensor analysis")
    return input


manual_meta_overrides: dict[Any, Callable[..., Any]] = {
    nn.Embedding: embedding_override,
    nn.LayerNorm: nn_layernorm_override,
    public("relu"): torch_relu_override,
    functional.relu: functional_relu_override,
    nn.ReLU: torch_nn_relu_override,
    public("where"): torch_where_override,
    public("abs"): torch_abs_override,
}


def gen_constructor_wrapper(target: Any) -> tuple[Callable[..., Any], Any]:
    """A factory whose calls with proxies become nodes, and the factory itself."""

    @functools.wraps(target)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found: list[Any] = []
        map_aggregate((args, kwargs), lambda v: found.append(v) if isinstance(v, Proxy) else None)
        if found:
            return found[-1].tracer.create_proxy("call_function", target, args, kwargs)
        return target(*args, **kwargs)

    return wrapper, target


class MetaProxy(Proxy):
    """A proxy that knows a tensor on the meta device."""

    def install_tensor_meta(self, tensor_meta: Any) -> None:
        """Says what it knows."""
        self._tensor_meta = tensor_meta

    def _known(self) -> Any:
        return self.__dict__.get("_tensor_meta")

    def size(self, dim: int | None = None) -> Any:
        """Its sizes."""
        known = self._known()
        if known is not None:
            return known.size() if dim is None else known.size(dim)
        args = (self,) if dim is None else (self, dim)
        return self.tracer.create_proxy("call_method", "size", args, {})

    def dim(self) -> Any:
        """How many dims it has."""
        known = self._known()
        if known is not None:
            return known.dim()
        return self.tracer.create_proxy("call_method", "dim", (self,), {})

    def _attribute(self, name: str) -> Any:
        known = self._known()
        if known is not None:
            return builtins.getattr(known, name)
        return self.tracer.create_proxy("call_function", builtins.getattr, (self, name), {})

    @property
    def shape(self) -> Any:
        """Its sizes."""
        return self._attribute("shape")

    @property
    def dtype(self) -> Any:
        """The type of its elements."""
        return self._attribute("dtype")

    @property
    def device(self) -> Any:
        """Its device, which is not known."""
        return MetaDeviceAttribute(self, "device")

    def __getattr__(self, k: str) -> Any:
        if k in ("_tensor_meta", "node", "tracer"):
            raise AttributeError(k)
        return MetaAttribute(self, k)


class MetaAttribute(MetaProxy):
    """An attribute of such a proxy: a method's call if it is called, else a node of its own."""

    def __init__(self, root: MetaProxy, attr: str) -> None:
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


class MetaDeviceAttribute(MetaAttribute):
    """A device, which is not known."""


def proxys_to_metas(v: Any) -> Any:
    """What a proxy knows; "meta" for a device, and other values as they are."""
    if isinstance(v, MetaDeviceAttribute):
        return "meta"
    if not isinstance(v, Proxy):
        return v
    if not isinstance(v, MetaProxy):
        raise AssertionError(f"Expected MetaProxy but got {type(v)}")
    if "_tensor_meta" not in v.__dict__:
        raise AssertionError("MetaProxy does not have an associated meta")
    return v._tensor_meta


class MetaTracer(Tracer):
    """A tracer for programs that look at sizes: `MetaTracer().trace(root, meta_args)`.

    meta_args: tensors on the meta device for the inputs, by name."""

    allow_insert_stateless_mods: bool = True
    _TORCH_METHODS_TO_PATCH: ClassVar[list[str]] = ["arange", "zeros", "ones", "full_like", "eye"]
    _disable_module_getattr = False

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None,
        type_expr: Any = None, proxy_factory_fn: Any = None,
    ) -> Any:  # fmt: skip
        """The proxy of a new node, which knows what the call gives."""
        proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
        if kind == "placeholder" and target in self.meta_args:
            proxy.install_tensor_meta(self.meta_args[target])
            return proxy
        if target in self.orig_fns and "device" in kwargs:
            kwargs = {**kwargs, "device": "meta"}
        if kind in ("call_function", "call_method", "call_module", "get_attr"):
            try:
                given = map_aggregate(args, proxys_to_metas)
                named = map_aggregate(kwargs, proxys_to_metas)
                proxy.install_tensor_meta(self._value(kind, target, given, named))
            except Exception as error:
                warnings.warn(
                    f"Could not compute metadata for {kind} target {target}: {error}", stacklevel=2
                )
        return proxy

    def _value(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        """What a call gives on the meta device."""
        if kind == "call_function":
            return manual_meta_overrides.get(target, target)(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        self._disable_module_getattr = True
        try:
            if kind == "call_module":
                module = self.root.get_submodule(target)
                override = manual_meta_overrides.get(type(module))
                if override is not None:
                    return override(module, *args, **kwargs)
                return self.orig_forward(*args, **kwargs)
            value: Any = self.root
            for part in target.split("."):
                value = getattr(value, part)
            if not isinstance(value, Tensor):
                raise AssertionError(f"Expected Tensor, got {type(value)}")
            return value.to(device="meta")
        finally:
            self._disable_module_getattr = False

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading an attribute of a module gives: a proxy of a parameter."""
        if self._disable_module_getattr:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(self, m: Any, forward: Any, args: Any, kwargs: Any) -> Any:
        """A call of a module while it is traced."""
        self.orig_forward = forward
        return super().call_module(m, forward, args, kwargs)

    def _insert_module_as_submodule(self, mod: Module) -> str:
        """Gives the root a module that was made in a forward."""
        stem, number = type(mod).__name__.lower(), 0
        while hasattr(self.root, f"{stem}_{number}"):
            number += 1
        self.root.add_module(f"{stem}_{number}", mod)
        return f"{stem}_{number}"

    def path_of_module(self, mod: Any) -> str:
        """The name by which the root has a module."""
        try:
            return super().path_of_module(mod)
        except NameError:
            stateless = not list(mod.parameters()) and not list(mod.buffers())
            if not (self.allow_insert_stateless_mods and stateless):
                raise
            self.prev_module = path = self._insert_module_as_submodule(mod)
            return path

    def proxy(self, node: Node) -> MetaProxy:
        """The proxy of a node."""
        return MetaProxy(node, self)

    def trace(self, root: Any, meta_args: dict[str, Any], concrete_args: Any = None) -> Graph:  # type: ignore[override]
        """The graph of a module's forward, or of a function."""
        if not isinstance(meta_args, dict):
            raise AssertionError(f"Expected dict for meta_args, got {type(meta_args)}")
        self.meta_args = meta_args
        torch = package()
        self.patched_torch_methods = {
            name: gen_constructor_wrapper(getattr(torch, name))
            for name in self._TORCH_METHODS_TO_PATCH
        }
        self.orig_fns = {original for _, original in self.patched_torch_methods.values()}
        for name, (wrapper, _) in self.patched_torch_methods.items():
            setattr(torch, name, wrapper)
        try:
            graph = super().trace(root, concrete_args)
            graph._tracer_extras = {"meta_args": meta_args}
            return graph
        finally:
            for name, (_, original) in self.patched_torch_methods.items():
                setattr(torch, name, original)


def symbolic_trace(
    root: Any, meta_args: dict[str, Any] | None = None, concrete_args: Any = None
) -> GraphModule:
    """A module, or a function, as a GraphModule."""
    tracer = MetaTracer()
    graph = tracer.trace(root, {} if meta_args is None else meta_args, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
