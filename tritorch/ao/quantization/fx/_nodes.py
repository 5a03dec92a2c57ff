"""Modules that nodes call, and new attributes of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tritorch
from tritorch import Tensor
from tritorch.ao.quantization.utils import (
    _assert_and_get_unique_device,
    activation_is_statically_quantized,
)
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node
from tritorch.nn import LSTM, Module, MultiheadAttention


def get_new_attr_name_with_prefix(prefix: str) -> Callable[[Any], str]:
    """A function that gives an unused name of a module with a prefix: `prefix0`, `prefix1`, ..."""
    stem = prefix.replace(".", "_")

    def get_new_attr_name(module: Any) -> str:
        index = 0
        while hasattr(module, f"{stem}{index}"):
            index += 1
        return f"{stem}{index}"

    return get_new_attr_name


def assert_and_get_unique_device(module: Module) -> Any:
    """The device of a module's tensors, None without tensors; raises if there are several."""
    return _assert_and_get_unique_device(module)


def create_getattr_from_value(
    module: Module, graph: Graph, prefix: str, value: Any, device: Any = None
) -> Node:
    """A node for a value that becomes a buffer of the module."""
    name = get_new_attr_name_with_prefix(prefix)(module)
    if isinstance(value, Tensor):
        tensor = value.detach().clone()
    else:
        if device is None:
            device = assert_and_get_unique_device(module)
        tensor = tritorch.tensor(value, device=device)
    module.register_buffer(name, tensor)
    return graph.create_node("get_attr", name)


def _get_module(node: Node, named_modules: dict[str, Module]) -> Any:
    """The module that a node calls, None if it calls none."""
    return named_modules.get(str(node.target)) if node.op == "call_module" else None


def _is_custom(node: Node, named_modules: Any, qconfig: Any, qhandler: Any, kind: str) -> bool:
    module = _get_module(node, named_modules)
    if qconfig is None or qhandler is None:
        from tritorch.ao.nn import quantizable

        return isinstance(module, getattr(quantizable, kind))
    if not hasattr(qhandler, "is_custom_module"):
        raise AssertionError("qhandler must be a QuantizeHandler when provided")
    return (
        isinstance(module, {"LSTM": LSTM, "MultiheadAttention": MultiheadAttention}[kind])
        and activation_is_statically_quantized(qconfig)
        and qhandler.is_custom_module()
    )


def _is_custom_module_lstm(
    node: Node, named_modules: dict[str, Module], qconfig: Any = None, qhandler: Any = None
) -> bool:
    """True if a node calls an LSTM that is quantized statically as a custom module.

    With qconfig and handler: a float LSTM that will be; without: an observed one.
    """
    return _is_custom(node, named_modules, qconfig, qhandler, "LSTM")


def _is_custom_module_mha(
    node: Node, named_modules: dict[str, Module], qconfig: Any = None, qhandler: Any = None
) -> bool:
    """True if a node calls attention that is quantized statically as a custom module."""
    return _is_custom(node, named_modules, qconfig, qhandler, "MultiheadAttention")
