"""Types that a program gives to values while it is traced."""

from __future__ import annotations

from typing import Any

from tritorch.fx._compatibility import compatibility
from tritorch.fx.proxy import Proxy

__all__ = ["annotate"]


@compatibility(is_backward_compatible=False)
def annotate(val: Any, type: Any) -> Any:
    """Gives a proxy's node a type; other values are given back as they are."""
    if not isinstance(val, Proxy):
        return val
    if val.node.type:
        raise RuntimeError(
            "Tried to annotate a value that already had a type on it! Existing type is "
            f"{val.node.type} and new type is {type}. This could happen if you tried to annotate a "
            "function parameter value (in which case you should use the type slot on the function "
            "signature) or you called annotate on the same value twice"
        )
    val.node.type = type
    return val
