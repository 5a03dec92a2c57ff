"""Where sparse operands enter: the rules of dense records, and of pointwise ones."""

from __future__ import annotations

from tritorch.ops.interpret.sparse.pointwise import call as pointwise, call_in_place as in_place
from tritorch.ops.interpret.sparse.record import dispatch as call

__all__ = ["call", "in_place", "pointwise"]
