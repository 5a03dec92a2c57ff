"""Configurations of nodes, from mappings by name, type and order."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import tritorch
from tritorch.ao.nn.intrinsic import _FusedModule
from tritorch.ao.quantization.backend_config import BackendConfig, DTypeConfig
from tritorch.ao.quantization.backend_config.utils import get_module_to_qat_module
from tritorch.ao.quantization.observer import _is_activation_post_process
from tritorch.ao.quantization.qconfig import (
    QConfigAny,
    _add_module_to_qconfig_obs_ctr,
    qconfig_equals,
)
from tritorch.ao.quantization.qconfig_mapping import (
    _MODULE_NAME_DICT_KEY,
    _MODULE_NAME_REGEX_DICT_KEY,
    _OBJECT_TYPE_DICT_KEY,
    QConfigMapping,
)
from tritorch.ao.quantization.utils import _parent_name, get_qconfig_dtypes
from tritorch.fx import GraphModule
from tritorch.fx.graph import Graph
from tritorch.nn import Module

__all__: list[str] = []


def _maybe_adjust_qconfig_for_module_name_object_type_order(
    qconfig_mapping: QConfigMapping,
    cur_module_path: str,
    cur_object_type: Any,
    cur_object_type_idx: int,
    fallback_qconfig: QConfigAny,
) -> QConfigAny:
    """The configuration of the n-th call of a type in a module, if there is one."""
    return qconfig_mapping.module_name_object_type_order_qconfigs.get(
        (cur_module_path, cur_object_type, cur_object_type_idx), fallback_qconfig
    )


def _update_qconfig_for_fusion(model: GraphModule, qconfig_mapping: QConfigMapping) -> None:
    """Gives fused modules' types the configuration of the types that they fuse, which agree."""
    by_type: dict[Any, QConfigAny] = qconfig_mapping.object_type_qconfigs
    if len(by_type) == 0:
        return
    modules = dict(model.named_modules())
    for node in model.graph.nodes:
        fused = modules.get(str(node.target)) if node.op == "call_module" else None
        if not isinstance(fused, _FusedModule):
            continue
        first, *others = fused._modules.values()
        qconfig = by_type.get(type(first))
        for other in others:
            if not qconfig_equals(by_type.get(type(other)), qconfig):
                raise LookupError(
                    "During fusion, we need to specify the same "
                    f"qconfigs for all module types in {type(fused)} "
                    f"offending type: {type(other)}"
                )
        if qconfig is not None:
            by_type[type(fused)] = qconfig


def _generate_node_name_to_qconfig(
    root: Module,
    modules: dict[str, Module],
    input_graph: Graph,
    qconfig_mapping: QConfigMapping,
    node_name_to_scope: dict[str, tuple[str, type]],
) -> dict[str, QConfigAny]:
    """Configurations by the names of nodes; modules get theirs as `qconfig` too.

    A module's name counts more than an expression for names, that more than a type, and that more
    than the global configuration; the place in the order of a module's calls counts most.
    """
    mapping, default = qconfig_mapping, qconfig_mapping.global_qconfig
    calls: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
    qconfigs: dict[str, QConfigAny] = {}

    def by_order(path: str, kind: Any, qconfig: QConfigAny) -> QConfigAny:
        index = calls[path][kind]
        calls[path][kind] += 1
        return _maybe_adjust_qconfig_for_module_name_object_type_order(
            mapping, path, kind, index, qconfig
        )

    for node in input_graph.nodes:
        if node.op in ("placeholder", "output"):
            qconfigs[node.name] = None
            continue
        if node.op == "get_attr":
            path, _ = _parent_name(node.target)
            qconfig = _maybe_adjust_qconfig_for_module_type_or_name(
                mapping, type(modules[path]), path, default
            )
        elif node.op == "call_module":
            module = modules[node.target]
            if _is_activation_post_process(module):
                continue
            qconfig = _maybe_adjust_qconfig_for_module_type_or_name(
                mapping, type(module), node.target, default
            )
            path, kind = node_name_to_scope[node.name]
            qconfig = by_order(_parent_name(path)[0], kind, qconfig)
        else:
            path, kind = node_name_to_scope[node.name]
            if node.op == "call_function":
                qconfig = _get_object_type_qconfig(mapping, node.target, default)
            else:
                qconfig = _maybe_adjust_qconfig_for_module_type_or_name(
                    mapping, node.target, path, default
                )
            qconfig = _maybe_adjust_qconfig_for_module_type_or_name(mapping, kind, path, qconfig)
            if node.op == "call_function":
                qconfig = by_order(path, node.target, qconfig)
        called = modules.get(node.target) if isinstance(node.target, str) else None
        qconfigs[node.name] = _add_module_to_qconfig_obs_ctr(qconfig, called)
        if node.op == "call_module":
            modules[node.target].qconfig = qconfigs[node.name]
    return qconfigs


def _check_is_valid_config_dict(config_dict: Any, allowed_keys: set[str], dict_name: str) -> None:
    """Raises if a dict has other keys than these."""
    for key in config_dict:
        if key not in allowed_keys:
            raise ValueError(
                f"Expected {dict_name} to have the following keys: {allowed_keys}. "
                f"But found '{key}' instead."
            )


def _compare_prepare_convert_qconfig_mappings(
    prepare_qconfig_mapping: QConfigMapping, convert_qconfig_mapping: QConfigMapping
) -> None:
    """Raises unless the mapping for `convert` has what that for `prepare` has, or None for it."""
    before, now = prepare_qconfig_mapping, convert_qconfig_mapping
    if not qconfig_equals(before.global_qconfig, now.global_qconfig):
        raise AssertionError(
            "Expected global qconfigs to be the same in the prepare and convert quantization "
            "configs"
        )
    tables = {
        _OBJECT_TYPE_DICT_KEY: "object_type_qconfigs",
        _MODULE_NAME_DICT_KEY: "module_name_qconfigs",
        _MODULE_NAME_REGEX_DICT_KEY: "module_name_regex_qconfigs",
    }
    for called, attribute in tables.items():
        earlier, later = getattr(before, attribute), getattr(now, attribute)
        for name, qconfig in earlier.items():
            if name not in later:
                raise AssertionError(
                    f"Missing key {called} {name} in convert QConfigMapping "
                    "when it was present in prepare"
                )
            if later[name] is not None and not qconfig_equals(qconfig, later[name]):
                raise AssertionError(
                    "Expected convert QConfigMapping to have the same qconfig as prepare for key "
                    f"{called} {name}; prepare: {qconfig}; convert: {later[name]}"
                )


def _is_qconfig_supported_by_dtype_configs(qconfig: Any, dtype_configs: list[DTypeConfig]) -> bool:
    """True if one of a backend's combinations of types is that of a qconfig."""
    activation, weight, is_dynamic = get_qconfig_dtypes(qconfig)
    half, single = tritorch.float16, tritorch.float32
    for config in dtype_configs:
        wanted_input = config.input_dtype or single
        wanted_output = config.output_dtype or single
        if (config.weight_dtype or single) != weight or wanted_input != activation:
            continue
        if config.is_dynamic:
            if is_dynamic and wanted_output == single:
                return True
            continue
        bias = half if activation == half and weight == half else single
        if wanted_output == activation and (config.bias_dtype or single) == bias:
            return True
    return False


def _get_object_type_qconfig(
    qconfig_mapping: QConfigMapping,
    object_type: Callable[..., Any] | str,
    fallback_qconfig: QConfigAny,
) -> QConfigAny:
    return qconfig_mapping.object_type_qconfigs.get(object_type, fallback_qconfig)


def _get_module_name_regex_qconfig(
    qconfig_mapping: QConfigMapping, module_name: str, fallback_qconfig: QConfigAny
) -> QConfigAny:
    """The configuration of the first expression that matches a name."""
    for pattern, qconfig in qconfig_mapping.module_name_regex_qconfigs.items():
        if re.match(pattern, module_name):
            return qconfig
    return fallback_qconfig


def _get_module_name_qconfig(
    qconfig_mapping: QConfigMapping, module_name: str, fallback_qconfig: QConfigAny
) -> QConfigAny:
    """The configuration of a name, or of the nearest parent that has one."""
    while module_name != "":
        if module_name in qconfig_mapping.module_name_qconfigs:
            return qconfig_mapping.module_name_qconfigs[module_name]
        module_name, _ = _parent_name(module_name)
    return fallback_qconfig


def _maybe_adjust_qconfig_for_module_type_or_name(
    qconfig_mapping: QConfigMapping, module_type: Any, module_name: str, global_qconfig: QConfigAny
) -> QConfigAny:
    """The configuration of a name, else of an expression, else of a type, else the global one."""
    qconfig = _get_object_type_qconfig(qconfig_mapping, module_type, global_qconfig)
    qconfig = _get_module_name_regex_qconfig(qconfig_mapping, module_name, qconfig)
    return _get_module_name_qconfig(qconfig_mapping, module_name, qconfig)


def _get_flattened_qconfig_dict(qconfig_mapping: QConfigMapping) -> dict[Any, QConfigAny]:
    """Configurations by type or name, the global one by "", as `propagate_qconfig_` takes them."""
    return {
        "": qconfig_mapping.global_qconfig,
        **qconfig_mapping.object_type_qconfigs,
        **qconfig_mapping.module_name_qconfigs,
    }


def _update_qconfig_for_qat(qconfig_mapping: QConfigMapping, backend_config: BackendConfig) -> None:
    """Gives QAT modules' types the configurations of the types that they replace."""
    swapped = get_module_to_qat_module(backend_config)
    by_type: dict[Any, QConfigAny] = qconfig_mapping.object_type_qconfigs
    for kind, qconfig in list(by_type.items()):
        if kind in swapped:
            by_type[swapped[kind]] = qconfig
