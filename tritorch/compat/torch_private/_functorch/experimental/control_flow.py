"""functorch.experimental.control_flow: the operators of functions under their former names."""

from tritorch.compat.torch_private._higher_order_ops.control import cond, map

__all__ = ["cond", "map"]
