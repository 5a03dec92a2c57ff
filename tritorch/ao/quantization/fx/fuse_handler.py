"""Handlers of fusion patterns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tritorch.ao.quantization.backend_config import BackendConfig
from tritorch.ao.quantization.fuser_method_mappings import get_fuser_method_new
from tritorch.ao.quantization.fx.custom_config import FuseCustomConfig
from tritorch.ao.quantization.utils import MatchAllNode, NodePattern, Pattern, _parent_name
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node
from tritorch.nn import Module, ReLU, functional
from tritorch.nn.utils.parametrize import type_before_parametrizations

__all__ = ["DefaultFuseHandler", "FuseHandler"]


class FuseHandler(ABC):
    """Base of handlers of fusion patterns."""

    @abstractmethod
    def __init__(self, node: Node) -> None: ...

    @abstractmethod
    def fuse(
        self,
        load_arg: Callable[..., Any],
        named_modules: dict[str, Module],
        fused_graph: Graph,
        root_node: Node,
        extra_inputs: list[Any],
        matched_node_pattern: NodePattern,
        fuse_custom_config: FuseCustomConfig,
        fuser_method_mapping: dict[Pattern, Any],
        is_qat: bool,
    ) -> Node:
        """Adds the fused call to the new graph."""


def _mapped(function: Callable[[Any], Any], entries: Any) -> Any:
    """Nested tuples with the function's results for their entries."""
    if isinstance(entries, (tuple, list)):
        return tuple(_mapped(function, entry) for entry in entries)
    return function(entries)


class DefaultFuseHandler(FuseHandler):
    """Fuses the modules of a match with the backend's fuser method, in place of the root's
    module."""

    def __init__(self, node: Node) -> None:
        pass

    def fuse(
        self,
        load_arg: Callable[..., Any],
        named_modules: dict[str, Module],
        fused_graph: Graph,
        root_node: Node,
        extra_inputs: list[Any],
        matched_node_pattern: NodePattern,
        fuse_custom_config: FuseCustomConfig,
        fuser_method_mapping: dict[Pattern, Any],
        is_qat: bool,
    ) -> Node:
        """Adds the call of the fused module, which reads the extra inputs too."""
        if root_node.op != "call_module":
            raise AssertionError("Expecting module node to be a call_module Node")
        training = named_modules[str(root_node.target)].training

        def operation(node: Node) -> Any:
            if node.op == "call_module":
                return named_modules[str(node.target)]
            if node.op == "call_function" and node.target is functional.relu:
                relu = ReLU()  # a new one for each match, since calls share a function
                relu.training = training
                return relu
            if node.op in ("call_function", "call_method"):
                return node.target
            return MatchAllNode

        def kind(matched: Any) -> Any:
            return type_before_parametrizations(matched) if isinstance(matched, Module) else matched

        operations = _mapped(operation, matched_node_pattern)
        fuser = get_fuser_method_new(_mapped(kind, operations), fuser_method_mapping)
        parent, name = _parent_name(str(root_node.target))
        setattr(named_modules[parent], name, fuser(is_qat, *operations))
        fused = fused_graph.node_copy(root_node, load_arg)
        fused.args = (*fused.args, *(load_arg(entry) for entry in extra_inputs))
        return fused


def _get_fusion_pattern_to_fuse_handler_cls(
    backend_config: BackendConfig,
) -> dict[Pattern, Callable[..., FuseHandler]]:
    """Handlers of the patterns for which a backend has a fuser method."""
    return {
        pattern: DefaultFuseHandler
        for pattern, config in backend_config._pattern_complex_format_to_config.items()
        if config.fuser_method is not None
    }
