"""Explicit edges: a place in the graph without the tensor that made it."""

from __future__ import annotations

from typing import Any, NamedTuple

from tritorch.autograd.nodes import accumulator, shown
from tritorch.core.tensor import Tensor


class GradientEdge(NamedTuple):
    """An output of a node (`autograd.graph.get_gradient_edge`)."""

    node: Any
    output_nr: int
    ownership_token: Any = None  # what keeps the graph behind the node; here the node does


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge that gradients of a tensor arrive by."""
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    if tensor._leaf:
        return GradientEdge(accumulator(tensor), 0)
    return GradientEdge(shown(tensor._node), tensor.output_nr)
