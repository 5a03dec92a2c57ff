"""Handlers of matched patterns: what a backend says of their inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.ao.quantization.backend_config import BackendConfig, DTypeConfig, ObservationType
from tritorch.ao.quantization.fx.utils import all_node_args_have_no_tensors
from tritorch.ao.quantization.utils import NodePattern, Pattern, QuantizerCls
from tritorch.fx.node import Node
from tritorch.nn import Module

__all__ = [
    "BatchNormQuantizeHandler",
    "BinaryOpQuantizeHandler",
    "CatQuantizeHandler",
    "ConvReluQuantizeHandler",
    "CopyNodeQuantizeHandler",
    "CustomModuleQuantizeHandler",
    "DefaultNodeQuantizeHandler",
    "EmbeddingQuantizeHandler",
    "FixedQParamsOpQuantizeHandler",
    "GeneralTensorShapeOpQuantizeHandler",
    "LinearReLUQuantizeHandler",
    "QuantizeHandler",
    "RNNDynamicQuantizeHandler",
    "StandaloneModuleQuantizeHandler",
]


def _default_root_node_getter(node_pattern: Any) -> Any:
    """The node that reads the pattern's inputs: the last one of the nested tuples."""
    while node_pattern is not None and not isinstance(node_pattern, Node):
        node_pattern = node_pattern[-1]
    return node_pattern


class QuantizeHandler:
    """Base of handlers: the matched nodes, and how many arguments of the first are tensors."""

    def __init__(
        self,
        node_pattern: NodePattern,
        modules: dict[str, Module],
        root_node_getter: Callable[..., Any] | None = None,
        is_custom_module: bool = False,
        is_standalone_module: bool = False,
    ) -> None:
        self.node_pattern = node_pattern
        self.modules = modules
        self.root_node = (root_node_getter or _default_root_node_getter)(node_pattern)
        self.is_custom_module_ = is_custom_module
        self.is_standalone_module_ = is_standalone_module
        self.num_tensor_args = 0
        if isinstance(self.root_node, Node):
            known: dict[Node, bool] = {}
            self.num_tensor_args = sum(
                isinstance(arg, Node) and not all_node_args_have_no_tensors(arg, modules, known)
                for arg in self.root_node.args
            )

    def is_general_tensor_value_op(self) -> bool:
        """True if input and output share an observer, as of max_pool2d or reshape."""
        return False

    def is_custom_module(self) -> bool:
        """True if the match is a module that the user's classes quantize."""
        return self.is_custom_module_

    def is_standalone_module(self) -> bool:
        """True if the match is a module that is a model of its own."""
        return self.is_standalone_module_


def _get_quantize_handler_cls(
    observation_type: ObservationType,
    dtype_configs: list[DTypeConfig],
    num_tensor_args_to_observation_type: dict[int, ObservationType],
) -> type[QuantizeHandler]:
    """A handler class with what a backend says of a pattern."""
    by_count = num_tensor_args_to_observation_type

    class ConfigurableQuantizeHandler(QuantizeHandler):
        """A handler that knows how its pattern is observed."""

        def __init__(
            self,
            node_pattern: NodePattern,
            modules: dict[str, Module],
            root_node_getter: Callable[..., Any] | None = None,
        ) -> None:
            super().__init__(node_pattern, modules, root_node_getter)
            if by_count and self.num_tensor_args not in by_count:
                raise AssertionError(
                    "Must provide observation_type config for tensor number "
                    f"{self.num_tensor_args} in num_tensor_args_to_observation_type "
                    f"for {node_pattern}"
                )
            self.observation_type = by_count[self.num_tensor_args] if by_count else observation_type
            self.dtype_configs = dtype_configs

        def is_general_tensor_value_op(self) -> bool:
            return self.observation_type == ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT

    return ConfigurableQuantizeHandler


def _get_pattern_to_quantize_handlers(
    backend_config: BackendConfig,
) -> dict[Pattern, QuantizerCls]:
    """Handler classes of a backend by pattern."""
    return {
        pattern: _get_quantize_handler_cls(
            config.observation_type,
            config.dtype_configs,
            config._num_tensor_args_to_observation_type,
        )
        for pattern, config in backend_config._pattern_complex_format_to_config.items()
    }


def _former(name: str) -> type[QuantizeHandler]:
    """A handler class that PyTorch still has the name of, without anything of its own."""
    return type(name, (QuantizeHandler,), {"__module__": __name__})


BinaryOpQuantizeHandler = _former("BinaryOpQuantizeHandler")
CatQuantizeHandler = _former("CatQuantizeHandler")
ConvReluQuantizeHandler = _former("ConvReluQuantizeHandler")
LinearReLUQuantizeHandler = _former("LinearReLUQuantizeHandler")
BatchNormQuantizeHandler = _former("BatchNormQuantizeHandler")
EmbeddingQuantizeHandler = _former("EmbeddingQuantizeHandler")
RNNDynamicQuantizeHandler = _former("RNNDynamicQuantizeHandler")
DefaultNodeQuantizeHandler = _former("DefaultNodeQuantizeHandler")
FixedQParamsOpQuantizeHandler = _former("FixedQParamsOpQuantizeHandler")
CopyNodeQuantizeHandler = _former("CopyNodeQuantizeHandler")
GeneralTensorShapeOpQuantizeHandler = _former("GeneralTensorShapeOpQuantizeHandler")
CustomModuleQuantizeHandler = _former("CustomModuleQuantizeHandler")
StandaloneModuleQuantizeHandler = _former("StandaloneModuleQuantizeHandler")
