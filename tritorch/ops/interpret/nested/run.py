"""Where nested operands enter: the rules of dense records, and of pointwise ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.ops.interpret.nested import fold, rules
from tritorch.ops.interpret.nested.functions import of_operator
from tritorch.ops.interpret.nested.pointwise import call as pointwise, call_in_place as in_place
from tritorch.ops.interpret.nested.record import RULES


def call(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """A record on operands of which some are nested: by its rule, by its kind, or by its axes."""
    found = RULES.get(op.name) or rules.BY_KIND.get(op.kind)
    if found is None:
        return fold.call(op, tensors, params)
    return found(op, list(tensors), *params) if op.variadic else found(op, *tensors, *params)


__all__ = ["call", "in_place", "of_operator", "pointwise"]
