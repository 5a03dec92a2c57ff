"""torch._inductor.decomposition: a table of its own of what operators become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.compat.torch_private import _decomp

decompositions: _decomp.Table = {}


def register_decomposition(ops: Any) -> Callable[[Any], Any]:
    """Decorates the function that stands for operators in this table."""
    return _decomp.register_decomposition(ops, decompositions)


def select_decomp_table() -> _decomp.Table:
    """The table."""
    return decompositions
