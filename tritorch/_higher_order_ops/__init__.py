"""Operators of functions: `cond`, `while_loop` and `map` run graphs, and are nodes of graphs."""

from tritorch._higher_order_ops.control import cond, map, while_loop

__all__ = ["cond", "map", "while_loop"]
