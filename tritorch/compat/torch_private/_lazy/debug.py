"""Graphs of lazy steps as text.

A dump shows what was called since the step began, or since values were asked for: the graph whose
results these tensors are.
"""

from __future__ import annotations

from typing import Any

from tritorch.compat.torch_private._lazy import steps


def _graph() -> Any:
    from tritorch.compilation.tools.graphs import graph_module

    segment = steps.pending()
    return graph_module(segment) if segment is not None and segment.calls else None


def render_ir_graph(tensors: Any) -> str:
    """The graph in dot's language."""
    made = _graph()
    lines = ["digraph G {"]
    nodes = {node: f"node{i}" for i, node in enumerate(made.graph.nodes if made else ())}
    for node, name in nodes.items():
        label = f"{_name(node)}\\n{_described(node.meta.get('val'))}"
        lines.append(f'  {name} [label="{label}"]')
    for node, name in nodes.items():
        for place, source in enumerate(node.all_input_nodes):
            lines.append(f'  {nodes[source]} -> {name} [label="i={place}"]')
    return "\n".join([*lines, "}"]) + "\n"


def dump_ir(tensors: Any, ir_format: str) -> str:
    """The graph as a list of its calls ("text"), or as the code that runs it ("backend")."""
    if ir_format not in ("text", "backend"):
        raise RuntimeError(f"Unrecognized IR format: {ir_format}")
    made = _graph()
    if made is None:
        return "IR {\n}\n"
    if ir_format == "backend":
        return made.code.strip() + "\n"
    numbers = {node: i for i, node in enumerate(made.graph.nodes)}
    lines = ["IR {"]
    for node, number in numbers.items():
        inputs = ", ".join(f"%{numbers[x]}" for x in node.all_input_nodes)
        lines.append(f"  %{number} = [{_described(node.meta.get('val'))}] {_name(node)}({inputs})")
    return "\n".join([*lines, "}"]) + "\n"


def _name(node: Any) -> str:
    if node.op == "placeholder":
        return "lazy_tensors::device_data"
    return f"aten::{getattr(node.target, '__name__', node.target)}"


def _described(value: Any) -> str:
    if not hasattr(value, "shape"):
        return ", ".join(map(_described, value)) if isinstance(value, (tuple, list)) else ""
    return f"{str(value.dtype).rpartition('.')[2]}[{','.join(map(str, value.shape))}]"
