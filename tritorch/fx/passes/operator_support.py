"""Which nodes a backend can run."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any

from tritorch.fx._compatibility import compatibility
from tritorch.fx.node import Node
from tritorch.fx.passes.shape_prop import TensorMetadata
from tritorch.fx.passes.tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = [
    "OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain",
    "create_op_support",
]  # fmt: skip

TargetTypeName = str
SupportedArgumentDTypes = Any
# Of what a node calls: the dtypes of its arguments by place and by name; None for any.
SupportDict = Mapping[TargetTypeName, SupportedArgumentDTypes]
IsNodeSupported = Callable[[Mapping[str, Any], Node], bool]


@compatibility(is_backward_compatible=False)
class OperatorSupportBase(abc.ABC):
    """Says which nodes are supported."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
        """Whether a node is."""


@compatibility(is_backward_compatible=False)
class OperatorSupport(OperatorSupportBase):
    """Supports what a dict has, by names such as "torch.relu", with the dtypes that it says."""

    _support_dict: SupportDict

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
        """Whether a node is; what calls nothing always is."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        known = self._support_dict[target]
        if known is None:
            return True
        by_place, by_name = known
        pairs = [*zip(node.args, by_place)]
        pairs += [
            (node.kwargs[name], kinds) for name, kinds in by_name.items() if name in node.kwargs
        ]
        return all(
            kinds is None or not isinstance(arg, Node) or _get_arg_dtype(arg) in kinds
            for arg, kinds in pairs
        )


@compatibility(is_backward_compatible=False)
def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """What a function says."""

    class FunctionalOperatorSupport(OperatorSupportBase):
        """Supports what a function says."""

        def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
            """Whether a node is."""
            return is_node_supported(submodules, node)

    return FunctionalOperatorSupport()


@compatibility(is_backward_compatible=False)
def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What all of these support."""
    return create_op_support(
        lambda modules, node: all(each.is_node_supported(modules, node) for each in op_support)
    )


@compatibility(is_backward_compatible=False)
def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What any of these supports."""
    return create_op_support(
        lambda modules, node: any(each.is_node_supported(modules, node) for each in op_support)
    )


@compatibility(is_backward_compatible=False)
class OpSupports:
    """Usual ones."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: Any) -> OperatorSupportBase:
        """All but nodes that take a tensor of a dtype."""
        return create_op_support(
            lambda modules, node: all(_get_arg_dtype(n) != dtype for n in node.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """All but nodes of these names."""
        return create_op_support(lambda modules, node: node.name not in disallow_set)


def _get_arg_dtype(arg: Node) -> Any:
    if not isinstance(arg, Node):
        raise AssertionError(f"Expected torch.fx.Node, got {type(arg)}")
    meta = arg.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else arg.meta["type"]
