"""Types of items, from the types of what they are taken from."""

from __future__ import annotations

import operator
import typing
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.fx.graph import Graph


def annotate_getitem_nodes(graph: Graph) -> None:
    """Gives nodes that take an item of a tuple or a list its type, where that is known."""
    for node in graph.nodes:
        if node.target is not operator.getitem:
            continue
        sequence, index = node.args
        kind = sequence.type
        if not kind:
            continue
        origin, inside = typing.get_origin(kind), typing.get_args(kind)
        if origin is tuple:
            if len(inside) == 2 and inside[1] is ...:
                node.type = inside[0]
            elif len(inside) <= index:
                raise AssertionError(
                    f"Index {index} out of range for parameterized_types (len={len(inside)})"
                )
            else:
                node.type = inside[index]
        elif origin is list:
            if len(inside) != 1:
                raise AssertionError(f"Expected 1 parameterized type, got {len(inside)}")
            node.type = inside[0]
        elif hasattr(kind, "_fields") and kind is not Tensor:
            hints: dict[str, Any] = kind.__annotations__
            node.type = hints[kind._fields[index]]
