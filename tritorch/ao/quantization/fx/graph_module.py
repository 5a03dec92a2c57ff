"""Graph modules that keep attributes their code does not use."""

from __future__ import annotations

import copy
from typing import Any

from tritorch import Tensor
from tritorch.fx import GraphModule
from tritorch.fx.graph import Graph
from tritorch.nn import Module

__all__ = [
    "FusedGraphModule",
    "ObservedGraphModule",
    "ObservedStandaloneGraphModule",
    "QuantizedGraphModule",
]

_OBSERVED_ATTRIBUTES = {
    "_activation_post_process_map",
    "_activation_post_process_indexes",
    "_patterns",
    "_node_name_to_qconfig",
    "_prepare_custom_config",
    "_equalization_node_name_to_qconfig",
    "_node_name_to_scope",
    "_qconfig_mapping",
    "_is_qat",
    "_observed_node_names",
}


class _PreservingGraphModule(GraphModule):
    """A graph module that takes the named attributes of its root."""

    _always_preserved: frozenset[str] | set[str] = frozenset()

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, preserved_attr_names: set[str]
    ) -> None:
        self.preserved_attr_names = set(preserved_attr_names) | self._always_preserved
        preserved = {
            name: getattr(root, name) for name in self.preserved_attr_names if hasattr(root, name)
        }
        super().__init__(root, graph)
        for name, value in preserved.items():
            setattr(self, name, value)

    def __deepcopy__(self, memo: Any) -> Any:
        root = Module()
        root.__dict__ = copy.deepcopy(self.__dict__)
        names = copy.deepcopy(self.preserved_attr_names)
        return type(self)(root, copy.deepcopy(self.graph), names)


class FusedGraphModule(_PreservingGraphModule):
    """A graph with fused modules."""


class ObservedGraphModule(_PreservingGraphModule):
    """A graph with observers."""

    _always_preserved = _OBSERVED_ATTRIBUTES


class ObservedStandaloneGraphModule(ObservedGraphModule):
    """A graph with observers that is a module of another one."""

    _always_preserved = _OBSERVED_ATTRIBUTES | {
        "_standalone_module_input_quantized_idxs",
        "_standalone_module_output_quantized_idxs",
    }


def _is_observed_module(module: Any) -> bool:
    return hasattr(module, "meta") and "_observed_graph_module_attrs" in module.meta


def _get_observed_graph_module_attr(model: Any, attr_name: str) -> Any:
    if _is_observed_module(model):
        return getattr(model.meta["_observed_graph_module_attrs"], attr_name)
    return None


def _is_observed_standalone_module(module: Any) -> bool:
    attributes = "is_observed_standalone_module"
    return bool(_get_observed_graph_module_attr(module, attributes))


def _is_packed(value: Any) -> bool:
    """True if a value is packed parameters, which state dicts have as one object."""
    return value is not None and not isinstance(value, (Tensor, Module))


def _save_packed_weight(self: Any, destination: Any, prefix: str, keep_vars: Any) -> None:
    """A hook that adds packed parameters to a state dict."""
    for name in dir(self):
        if "_packed_weight" in name and _is_packed(getattr(self, name)):
            destination[prefix + name] = getattr(self, name)


def _load_packed_weight(self: Any, state_dict: dict[str, Any], *rest: Any) -> None:
    """A hook that takes packed parameters out of a state dict."""
    for name in list(state_dict):
        if name.startswith("_packed_weight") and _is_packed(state_dict[name]):
            setattr(self, name, state_dict.pop(name))


class QuantizedGraphModule(_PreservingGraphModule):
    """A graph with packed parameters, which are part of its state dict."""

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, preserved_attr_names: set[str]
    ) -> None:
        super().__init__(root, graph, preserved_attr_names)
        self._register_state_dict_hook(_save_packed_weight)

    def _load_from_state_dict(self, state_dict: dict[str, Any], *rest: Any, **named: Any) -> None:
        _load_packed_weight(self, state_dict)
        super()._load_from_state_dict(state_dict, *rest, **named)
