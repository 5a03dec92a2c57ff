"""Operators of functions: they run as they are, and are nodes where a program is traced."""

from tritorch.compat.torch_private._higher_order_ops.associative_scan import associative_scan
from tritorch.compat.torch_private._higher_order_ops.control import cond, map, while_loop
from tritorch.compat.torch_private._higher_order_ops.scan import scan

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
