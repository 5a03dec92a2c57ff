"""Texts of graphs, for logs and errors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tritorch.fx.graph import Graph
from tritorch.fx.node import Node


class LazyString:
    """A text that is made when it is shown."""

    def __init__(self, func: Callable[..., str], *args: Any, **kwargs: Any) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self) -> str:
        return self.func(*self.args, **self.kwargs)


def lazy_format_graph_code(
    name: str, gm: Any, maybe_id: int | None = None, **kwargs: Any
) -> LazyString:
    """A graph module's code under a name, written when somebody shows it."""
    kwargs.setdefault("print_output", False)
    if "colored" in kwargs and not getattr(sys.stdout, "isatty", lambda: False)():
        kwargs["colored"] = False
    shown = name if maybe_id is None else f"{name} {maybe_id}"
    return LazyString(
        lambda: _format_graph_code(
            f"===== {shown} =====\n",
            gm.forward.__code__.co_filename,
            gm.print_readable(**kwargs),
        )
    )


def _format_graph_code(name: str, filename: str, graph_str: str) -> str:
    return f"TRACED GRAPH\n {name} {filename} {graph_str}\n"


def first_call_function_nn_module_stack(graph: Graph) -> dict[str, Any] | None:
    """The modules around the first call of a function that knows them."""
    for node in graph.nodes:
        if node.op == "call_function" and "nn_module_stack" in node.meta:
            return node.meta["nn_module_stack"]
    return None


def get_node_context(node: Node, num_nodes: int = 2) -> str:
    """The lines of a node and of those before it."""
    lines: list[str] = []
    for _ in range(num_nodes):
        lines.insert(0, str(node.format_node()))
        if node.op == "root":
            break
        node = node.prev
    return "\n".join(lines)
