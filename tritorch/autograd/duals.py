"""Dual tensors: a primal and its tangent, for forward mode."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.core.tensor import Tensor


class _Levels(threading.local):
    enabled = True  # whether tangents are carried
    made: list[weakref.ref[Tensor]] | None = None  # dual tensors of the level that was entered


levels = _Levels()


def forget_tangents() -> None:
    """The level has ended: its dual tensors are plain ones."""
    made, levels.made = levels.made or (), None
    for reference in made:
        dual = reference()
        if dual is not None and dual._tangent is not None:
            dual._tangent = None


def has_tangent(tensors: Sequence[Any]) -> bool:
    """Whether any of these carries a tangent."""
    return any(isinstance(t, Tensor) and t._tangent is not None for t in tensors)


def primal_of(tensor: Any) -> Any:
    """The tensor without its tangent, in the same place of the graph."""
    if not isinstance(tensor, Tensor) or tensor._tangent is None:
        return tensor
    out = _C.alias(tensor)
    out._raw_node, out.output_nr, out._leaf = tensor._raw_node, tensor.output_nr, tensor._leaf
    return out


def make_dual(primal: Tensor, tangent: Any) -> Tensor:
    """primal with a tangent."""
    if primal._leaf:  # gradients arrive at the leaf, not at the dual
        primal = primal.view_as(primal)
    out = _C.alias(primal)
    out._raw_node, out.output_nr = primal._raw_node, primal.output_nr
    out._shadow = out._a
    del out._a
    out._tangent = tangent
    if levels.made is not None:
        levels.made.append(weakref.ref(out))
    return out
