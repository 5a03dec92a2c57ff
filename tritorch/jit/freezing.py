"""Frozen modules: attributes as constants of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Block, Graph, Node
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.ir.passes import eliminate_dead_code, inlined
from tritorch.jit.ir.types import InterfaceType, ScriptClassType
from tritorch.jit.modules import RecursiveScriptModule, wrap
from tritorch.jit.run.module_data import ScriptModuleData


def freeze_module(
    module: RecursiveScriptModule, preserved: Sequence[str] = ()
) -> RecursiveScriptModule:
    """A module with forward, and the methods and attributes that are named, of constants."""
    data = module._c
    kept = {name for name in preserved if name in data.type.attributes}
    methods = ["forward"] if "forward" in data.type.methods else []
    methods += [name for name in preserved if name in data.type.methods]
    written = _written(data, methods)
    kind = ScriptClassType(data.type.qualified_name(), True)
    made = ScriptModuleData(kind, data.unit)
    for name, attribute in data.type.attributes.items():
        if name in kept or name in written:
            kind.add_attribute(name, attribute.type, attribute.is_parameter, attribute.is_buffer)
            made.slots[name] = data.slots[name]
    for name in methods:
        function = data.type.methods[name]
        graph = _inlined(function.graph, data)
        graph._param._outputs[0]._type = kind
        values = {graph._param._outputs[0]: data}
        _fold(graph, values, made, kept | written)
        eliminate_dead_code(graph)
        schema = function.schema
        kind.methods[name] = GraphFunction(f"{kind.qualified_name()}.{name}", graph, schema)
    return wrap(made)


def _inlined(graph: Graph, data: ScriptObjectData) -> Graph:
    """A copy of a method's graph with all calls in line, those through interfaces too."""
    made = inlined(graph)
    while _resolve(made, {made._param._outputs[0]: data}):
        made = inlined(made)
    return made


def _resolve(block: Block, values: dict[Any, ScriptObjectData]) -> bool:
    """Gives calls of methods of interfaces the methods of the modules that stand there."""
    has_changed = False
    for node in list(block.nodes()):
        for inner in node._blocks:
            has_changed |= _resolve(inner, values)
        owner = values.get(node._inputs[0]) if node._inputs else None
        if owner is None:
            continue
        if node._kind == "prim::GetAttr":
            value = owner.slots[node["name"]]
            if isinstance(value, ScriptObjectData):
                values[node._outputs[0]] = value
                node._outputs[0]._type = value.type
        elif node._kind == "prim::SetAttr":
            if isinstance(owner.type.find_attribute(node["name"]), InterfaceType):
                raise RuntimeError("Freezing does not support SetAttr on an interface type.")
        elif node._kind == "prim::CallMethod" and node.function is None:
            node.function = owner.type.find_method(node["name"])
            has_changed |= node.function is not None
    return has_changed


def _written(data: ScriptObjectData, methods: Sequence[str]) -> set[str]:
    """The attributes of the module, or its parts, that its methods assign."""
    found: set[str] = set()
    for name in methods:
        graph = _inlined(data.type.methods[name].graph, data)
        for node in graph.findAllNodes("prim::SetAttr"):
            owner = node._inputs[0]
            path = []
            while owner._node._kind == "prim::GetAttr":
                path.append(owner._node["name"])
                owner = owner._node._inputs[0]
            found.add(path[-1] if path else node["name"])
    return found


def _fold(block: Block, values: dict[Any, Any], made: ScriptModuleData, kept: set[str]) -> None:
    """Replaces attributes by constants."""
    for node in list(block.nodes()):
        for inner in node._blocks:
            _fold(inner, values, made, kept)
        if node._kind == "prim::GetAttr":
            _fold_attribute(node, values, kept)


def _fold_attribute(node: Node, values: dict[Any, Any], kept: set[str]) -> None:
    owner = values.get(node._inputs[0])
    if owner is None or (
        node["name"] in kept and not isinstance(owner.slots[node["name"]], Tensor)
    ):
        return
    value = owner.slots[node["name"]]
    output = node._outputs[0]
    if isinstance(value, ScriptObjectData):
        values[output] = value
        return
    if node["name"] in kept or (isinstance(value, (list, dict)) and not value):
        return
    if isinstance(value, Tensor):
        value = value.detach()
    constant = node._graph.create("prim::Constant")
    if value is not None:
        constant.set("value", value)
    constant.insertBefore(node)
    output.replaceAllUsesWith(constant._outputs[0].setType(output._type))
