"""Operations in a row that quantization fuses, from the last on."""

from __future__ import annotations

import functools
from typing import Any

import tritorch
from tritorch.ao.ns.fx.ns_types import NSNodeTargetType
from tritorch.ao.quantization.backend_config import get_native_backend_config
from tritorch.ao.quantization.fake_quantize import FakeQuantizeBase
from tritorch.ao.quantization.fx.quantize_handler import _get_pattern_to_quantize_handlers
from tritorch.ao.quantization.observer import ObserverBase
from tritorch.ao.quantization.utils import getattr_from_fqn
from tritorch.fx import GraphModule
from tritorch.fx.node import Node
from tritorch.nn import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    Conv1d,
    Conv2d,
    Conv3d,
    ReLU,
    functional as F,
)


def get_type_a_related_to_b(
    base_name_to_sets_of_related_ops: dict[str, set[NSNodeTargetType]],
) -> set[tuple[NSNodeTargetType, NSNodeTargetType]]:
    """All ordered pairs of related operations."""
    return {
        (one, other)
        for related in base_name_to_sets_of_related_ops.values()
        for one in related
        for other in related
    }


# A function, a module type, a method's name, or one with its first argument.
NSFusionElType = Any
NSFusionType = tuple[NSFusionElType, ...]


def get_reversed_fusions() -> list[tuple[NSFusionType, int]]:
    """Fusions, each with the place of its base operation, counted from the first operation on.

    They are those of the native backend, also with an observer or a fake quantize after them, which
    single operations have too.
    """
    return list(_reversed_fusions())


@functools.cache
def _reversed_fusions() -> tuple[tuple[NSFusionType, int], ...]:
    watchers = (ObserverBase, FakeQuantizeBase)
    results: list[tuple[NSFusionType, int]] = []
    for pattern in _get_pattern_to_quantize_handlers(get_native_backend_config()):
        flat: Any = pattern
        if isinstance(pattern, tuple):
            if len(pattern) == 2 and isinstance(pattern[1], tuple) and len(pattern[1]) == 2:
                flat = (pattern[0], *pattern[1])
            results.append((flat, 0))
        else:
            flat = (pattern,)
        results += [((watcher, *flat), 0) for watcher in watchers]
    norms = ((BatchNorm1d, Conv1d), (BatchNorm2d, Conv2d), (BatchNorm3d, Conv3d))
    more: list[tuple[NSFusionType, int]] = [
        ((("to", tritorch.float16), F.relu, F.linear, "dequantize"), 1),
        *((pair, 0) for pair in norms),
        *(((ReLU, *pair), 0) for pair in norms),
    ]
    for fusion, base in more:
        results.append((fusion, base))
        results += [((watcher, *fusion), base) for watcher in watchers]
    return tuple(results)


def _is_element(node: Node, element: Any, gm: GraphModule) -> bool:
    """True if a node is an operation of a fusion."""
    if node.op == "call_function":
        return not isinstance(element, (str, type)) and bool(node.target == element)
    if node.op == "call_module":
        return isinstance(element, type) and isinstance(
            getattr_from_fqn(gm, str(node.target)), element
        )
    if node.op == "call_method":
        if isinstance(element, str):
            return node.target == element
        if isinstance(element, tuple) and len(element) == 2:
            return len(node.args) >= 2 and (node.target, node.args[1]) == element
    return False


def end_node_matches_reversed_fusion(
    end_node: Node, reversed_fusion: NSFusionType, gm: GraphModule, seen_nodes: set[Node]
) -> bool:
    """True if a fusion ends with a node; nodes that were matched before are none."""
    node: Any = end_node
    for element in reversed_fusion:
        if node in seen_nodes or not _is_element(node, element, gm):
            return False
        node = node.args[0] if node.args else None
        if not isinstance(node, Node):
            return False
    return True
