"""Readings of a BackendConfig: dicts by pattern, and patterns in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tritorch.nn.functional as F
from tritorch.ao.quantization.backend_config.backend_config import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    _get_pattern_in_reversed_nested_tuple_format as _get_pattern_in_reversed_nested_tuple_format,
)
from tritorch.ao.quantization.fuser_method_mappings import _reverse2, _reverse3

__all__ = [
    "entry_to_pretty_str",
    "get_fused_module_classes",
    "get_fuser_method_mapping",
    "get_fusion_pattern_to_extra_inputs_getter",
    "get_fusion_pattern_to_root_node_getter",
    "get_module_to_qat_module",
    "get_pattern_to_dtype_configs",
    "get_pattern_to_input_type_to_index",
    "get_qat_module_classes",
    "get_root_module_to_quantized_reference_module",
    "pattern_to_human_readable",
    "remove_boolean_dispatch_from_name",
]


def _by_pattern(backend_config: BackendConfig, name: str) -> dict[Any, Any]:
    """An attribute of the configs by their patterns, where it is set."""
    configs = backend_config._pattern_complex_format_to_config
    values = {pattern: getattr(config, name) for pattern, config in configs.items()}
    return {pattern: value for pattern, value in values.items() if value is not None}


def _classes(backend_config: BackendConfig, name: str) -> tuple[Any, ...]:
    return tuple(set(_by_pattern(backend_config, name).values()))


def get_pattern_to_dtype_configs(backend_config: BackendConfig) -> dict[Any, list[DTypeConfig]]:
    """Returns the dtypes of each pattern."""
    return _by_pattern(backend_config, "dtype_configs")


def get_pattern_to_input_type_to_index(
    backend_config: BackendConfig,
) -> dict[Any, dict[str, int]]:
    """Returns which arguments of each pattern are weight and bias."""
    return _by_pattern(backend_config, "_input_type_to_index")


def get_module_to_qat_module(backend_config: BackendConfig) -> dict[Any, Any]:
    """Returns the classes that are trained in patterns' places."""
    return _by_pattern(backend_config, "qat_module")


def get_qat_module_classes(backend_config: BackendConfig) -> tuple[Any, ...]:
    """Returns all classes that are trained."""
    return _classes(backend_config, "qat_module")


def get_fused_module_classes(backend_config: BackendConfig) -> tuple[Any, ...]:
    """Returns all classes that patterns are fused into."""
    return _classes(backend_config, "fused_module")


def get_root_module_to_quantized_reference_module(
    backend_config: BackendConfig,
) -> dict[Any, Any]:
    """Returns the classes that take root modules' places in the reference model."""
    return {
        config.root_module: config.reference_quantized_module
        for config in backend_config.configs
        if config.root_module is not None and config.reference_quantized_module is not None
    }


def get_fuser_method_mapping(backend_config: BackendConfig) -> dict[Any, Any]:
    """Returns the functions that fuse patterns, of arguments in the nested form."""
    return {
        pattern: _get_fuser_method_in_reversed_nested_tuple_format(config)
        for pattern, config in backend_config._pattern_complex_format_to_config.items()
        if config.fuser_method is not None
    }


def get_fusion_pattern_to_root_node_getter(backend_config: BackendConfig) -> dict[Any, Any]:
    """Returns the functions that give patterns' root nodes; most are the last in the nesting."""
    return _by_pattern(backend_config, "_root_node_getter")


def get_fusion_pattern_to_extra_inputs_getter(backend_config: BackendConfig) -> dict[Any, Any]:
    """Returns the functions that give the nodes a fused node needs beside the root's inputs."""
    return _by_pattern(backend_config, "_extra_inputs_getter")


_POOLS = {
    getattr(F, name): f"torch.nn.functional.{name}"
    for name in (
        "fractional_max_pool2d",
        "fractional_max_pool3d",
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
        "adaptive_max_pool1d",
        "adaptive_max_pool2d",
        "adaptive_max_pool3d",
    )
}


def remove_boolean_dispatch_from_name(p: Any) -> Any:
    """Returns the public name of a pool that returns indices or not; anything else as it is."""
    if p in _POOLS:
        return _POOLS[p]
    if "boolean_dispatch" in str(p):
        raise AssertionError(
            f"{p} does not have a human readable representation in quantization documentation"
        )
    return p


def pattern_to_human_readable(p: Any) -> Any:
    """Returns a pattern with names of pools in it."""
    if isinstance(p, tuple):
        return tuple(pattern_to_human_readable(part) for part in p)
    return p if isinstance(p, str) else remove_boolean_dispatch_from_name(p)


def entry_to_pretty_str(entry: dict[str, Any]) -> str:
    """Returns a dict of `BackendPatternConfig.to_dict` as indented text."""
    lines = ["{"]
    rest = dict(entry)
    if "pattern" in rest:
        lines.append(f"  'pattern': {pattern_to_human_readable(rest.pop('pattern'))},")
    if "dtype_configs" in rest:
        lines.append("  'dtype_configs': [")
        for dtypes in rest.pop("dtype_configs"):
            lines += ["    {", *(f"      '{k}': {v}," for k, v in dtypes.items()), "    },"]
        lines.append("  ],")
    if "num_tensor_args_to_observation_type" in rest:
        types = rest.pop("num_tensor_args_to_observation_type")
        lines.append("  'num_tensor_args_to_observation_type': {")
        lines += [*(f"    {k}: {v}," for k, v in types.items()), "  },"]
    lines += [f"  '{name}': {value}," for name, value in rest.items()]
    return "\n".join([*lines, "}"])


def _get_fuser_method_in_reversed_nested_tuple_format(
    config: BackendPatternConfig,
) -> Callable[..., Any]:
    """A fuser method whose arguments after is_qat are as in the nested pattern."""
    if config.fuser_method is None:
        raise AssertionError("config.fuser_method must be provided")
    if config._pattern_complex_format is not None:
        return config.fuser_method
    if not isinstance(config.pattern, tuple):
        raise ValueError(f"Expected pattern to be a tuple, got: {config.pattern}")
    if len(config.pattern) not in (2, 3):
        raise ValueError(f"Expected a tuple with 2 or 3 elements, got: {config.pattern}")
    return (_reverse2 if len(config.pattern) == 2 else _reverse3)(config.fuser_method)
