"""Chains of nodes in graphs that match patterns of modules and functions."""

from __future__ import annotations

from typing import Any

from tritorch.ao.quantization.utils import MatchAllNode
from tritorch.fx import Node
from tritorch.nn import Module
from tritorch.nn.utils import parametrize


def _match(modules: dict[str, Module], node: Any, current: Any) -> bool:
    """True if a node is of this module type, function or target; `MatchAllNode` fits all."""
    if isinstance(current, type) and issubclass(current, MatchAllNode):
        return True
    if not isinstance(node, Node):
        return False
    if isinstance(current, type) and issubclass(current, Module):
        return node.op == "call_module" and (
            parametrize.type_before_parametrizations(modules[node.target]) == current
        )
    if callable(current):
        return node.op == "call_function" and node.target is current
    return isinstance(current, str) and node.target == current


def apply_match(
    modules: dict[str, Module], pattern: Any, node: Any, matched_node_pattern: list[Node]
) -> list[Node] | None:
    """The nodes from this one on, each the first user of the one before, that match the pattern.

    They come after `matched_node_pattern`; None when they do not match.
    """
    if not isinstance(pattern, tuple):
        return [node] if _match(modules, node, pattern) else None
    first, *rest = pattern
    if not _match(modules, node, first):
        return None
    matched = [*matched_node_pattern, node]
    if not rest:
        return matched
    follower = next(iter(node.users), None)
    return None if follower is None else apply_match(modules, tuple(rest), follower, matched)
