"""Graphs as text, exactly as PyTorch writes them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from tritorch.core.device import device
from tritorch.core.promotion import scalar_name
from tritorch.core.scopes import Scope, scoped
from tritorch.core.tensor import Tensor
from tritorch.jit.ir.constants import float_text, quoted, tensor_attribute, value_text
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Graph, Node, Value
from tritorch.jit.ir.types import FunctionType, NamedTupleType
from tritorch.schema import types
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type

_BRACKETED = (types.FutureType, types.RRefType, types.AwaitType)

shows_sources = True


@scoped
def hide_sources() -> Scope:
    """Prints graphs without the lines they came from."""
    return Scope((sys.modules[__name__], "shows_sources", False))


def type_text(kind: Type) -> str:
    """A type as graphs show it: tensors with all that is known, fields of named tuples."""
    if isinstance(kind, TensorType):
        return _tensor_type_text(kind)
    if isinstance(kind, types.ListType):
        return f"{type_text(kind.getElementType())}[]"
    if isinstance(kind, types.OptionalType):
        return f"{type_text(kind.getElementType())}?"
    if isinstance(kind, _BRACKETED):
        return f"{type(kind)._python}[{type_text(kind.getElementType())}]"
    if isinstance(kind, NamedTupleType):
        fields = zip(kind.fields, kind.containedTypes(), strict=True)
        return f"NamedTuple({', '.join(f'{name} : {type_text(part)}' for name, part in fields)})"
    if isinstance(kind, types.TupleType):
        return f"({', '.join(map(type_text, kind.containedTypes()))})"
    return "Function" if isinstance(kind, FunctionType) else kind.str()


def _tensor_type_text(kind: TensorType) -> str:
    sizes, strides = kind._sizes, kind._strides
    text = "Tensor" if kind._dtype is None else scalar_name(kind._dtype)
    if kind._dtype is not None and sizes is None:
        text += "Tensor"
    inside: list[str] = []
    if sizes is not None:
        inside = ["*" if size is None else str(size) for size in sizes]
        if strides and len(strides) == len(sizes):
            inside.append(f"strides=[{', '.join(map(str, strides))}]")
    if kind._requires_grad is not None:
        inside.append(f"requires_grad={int(kind._requires_grad)}")
    if kind._device is not None:
        inside.append(f"device={kind._device}")
    return f"{text}({', '.join(inside)})" if inside or sizes is not None else text


def declared(value: Value) -> str:
    """A value with its type: `%x.1 : Tensor`."""
    return f"%{value.debugName()} : {type_text(value._type)}"


def _declared(values: Iterable[Value], between: str = ", ") -> str:
    return between.join(map(declared, values))


def _named(values: Iterable[Value]) -> str:
    return ", ".join(f"%{value.debugName()}" for value in values)


def attribute_text(value: Any, kind: Type | None = None) -> str:
    """The value of an attribute; kind: the type of the constant that it is."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, device):
        return quoted(str(value))
    if isinstance(value, Tensor):
        return tensor_attribute(value)
    if isinstance(value, Graph):
        return "<Graph>"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Type):
        return f"[{', '.join(type_text(part) for part in value)}]"
    return type_text(value) if isinstance(value, Type) else value_text(value, kind)


def _attributes_text(node: Node, has_group: bool) -> str:
    kind = node._outputs[0]._type if node._kind == "prim::Constant" and node._outputs else None
    inside = []
    for name, value in node._attributes.items():
        if has_group and name == "Subgraph":
            continue
        if isinstance(value, GraphFunction):
            name, value = "name", value.name
        inside.append(f"{name}={attribute_text(value, kind)}")
    return f"[{', '.join(inside)}]" if inside or not has_group else ""


def _operation_text(node: Node, groups: list[Node] | None) -> str:
    if node._kind == "prim::PythonOp":
        return _python_text(node)
    if "Subgraph" in node._attributes and groups is not None:
        groups.append(node)
        text = f"{node._kind}_{len(groups) - 1}"
        is_shown = len(node._attributes) > 1 and node._kind != "prim::DifferentiableGraph"
        return text + (_attributes_text(node, True) if is_shown else "")
    return node._kind + (_attributes_text(node, False) if node._attributes else "")


_UNSHOWN = ("function", "name", "scalar_args")


def _python_text(node: Node) -> str:
    """A call of Python: the function's name, the attributes, and the arguments that are no values
    of the graph."""
    attributes = node._attributes
    name = attributes.get("name") or getattr(attributes.get("function"), "__name__", "")
    inside = (f"{k}={attribute_text(v)}" for k, v in attributes.items() if k not in _UNSHOWN)
    scalars = ", ".join(map(str, attributes.get("scalar_args", ())))
    return f"^{name}[{', '.join(inside)}]({scalars})"


def _node_lines(node: Node, level: int, groups: list[Node] | None, has_source: bool) -> list[str]:
    line = "  " * level + f"{_declared(node._outputs)} = "
    line += f"{_operation_text(node, groups)}({_named(node._inputs)})"
    if node._scope:
        line += f", scope: {node._scope}"
    if has_source and shows_sources and node.source is not None:
        place = node.source.file_line_col()
        if place is not None:
            line += " # {}:{}:{}".format(*place)
    lines = [f"{line}\n"]
    for number, block in enumerate(node._blocks):
        inside = _declared(block._param._outputs)
        lines.append("  " * (level + 1) + f"block{number}({inside}):\n")
        for nested in block.nodes():
            # PyTorch writes the places of nested nodes in any case.
            lines += _node_lines(nested, level + 2, groups, True)
        lines.append("  " * (level + 2) + f"-> ({_named(block._return._inputs)})\n")
    return lines


def node_text(node: Node) -> str:
    """One node with its blocks, as `str(node)` shows it."""
    return "".join(_node_lines(node, 0, None, True))


def graph_text(graph: Graph, print_source_ranges: bool = True) -> str:
    """A graph, and the graphs that its nodes refer to behind it.

    print_source_ranges: whether lines end with the place that they were made from."""
    groups: list[Node] = []
    lines = [f"graph({_declared(graph._param._outputs, f',{chr(10)}      ')}):\n"]
    for node in graph.nodes():
        lines += _node_lines(node, 1, groups, print_source_ranges)
    lines.append(f"  return ({_named(graph._return._inputs)})\n")
    for number, node in enumerate(groups):
        lines.append(f"with {node._kind}_{number} = {graph_text(node._attributes['Subgraph'])}")
    return "".join(lines)
