"""Tracing of models that are to be quantized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch import fx
from tritorch.ao.nn.intrinsic import _FusedModule
from tritorch.ao.quantization.fx._canonical import canonical
from tritorch.fx import proxy
from tritorch.fx._symbolic_trace import Tracer
from tritorch.fx.node import Node
from tritorch.fx.proxy import Scope
from tritorch.nn import Module

__all__ = ["QuantizationTracer"]


class ScopeContextManager(proxy.ScopeContextManager):
    """Makes a module's scope the current one."""

    def __init__(self, scope: Scope, current_module: Module, current_module_path: str) -> None:
        super().__init__(scope, Scope(current_module_path, type(current_module)))


class QuantizationTracer(Tracer):
    """A tracer for which fused modules, and those that are named or of named classes, are
    leaves."""

    def __init__(
        self, skipped_module_names: list[str], skipped_module_classes: list[Callable[..., Any]]
    ) -> None:
        super().__init__()
        self.skipped_module_names = skipped_module_names
        self.skipped_module_classes = skipped_module_classes
        self.scope = Scope("", None)
        self.record_stack_traces = not fx.config.do_not_emit_stack_traces

    def create_node(
        self,
        kind: str,
        target: Any,
        args: Any,
        kwargs: Any,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A node for a call, in the form that patterns have."""
        kind, target, args, kwargs = canonical(kind, target, args, kwargs)
        return super().create_node(kind, target, args, kwargs, name, type_expr)

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """True if a module's call is a node."""
        return (
            super().is_leaf_module(m, module_qualified_name)
            or module_qualified_name in self.skipped_module_names
            or type(m) in self.skipped_module_classes
            or isinstance(m, _FusedModule)
        )
