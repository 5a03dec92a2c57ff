"""Fusion by names: conv, bn and relu of a model become one module."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tritorch import nn
from tritorch.ao.quantization.fuser_method_mappings import (
    fuse_conv_bn as fuse_conv_bn,
    fuse_conv_bn_relu as fuse_conv_bn_relu,
    get_fuser_method,
)
from tritorch.ao.quantization.utils import _parent_name, getattr_from_fqn
from tritorch.nn.utils.parametrize import type_before_parametrizations

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]

_get_module = getattr_from_fqn


def _set_module(model: Any, submodule_key: str, module: Any) -> None:
    parent, name = _parent_name(submodule_key)
    setattr(getattr_from_fqn(model, parent) if parent else model, name, module)


def fuse_known_modules(
    mod_list: list[Any],
    is_qat: bool,
    additional_fuser_method_mapping: dict[Any, Any] | None = None,
) -> list[Any]:
    """Returns the fused module and Identity for each of the others.

    Hooks before the first module and after the last one move to the fused one."""
    types = tuple(type_before_parametrizations(module) for module in mod_list)
    fuser_method = get_fuser_method(types, additional_fuser_method_mapping)
    if fuser_method is None:
        raise NotImplementedError(f"Cannot fuse modules: {types}")
    first, last = mod_list[0], mod_list[-1]
    fused = fuser_method(is_qat, *mod_list)
    for pre_hook in first._forward_pre_hooks.values():
        fused.register_forward_pre_hook(pre_hook)
    first._forward_pre_hooks.clear()
    for hook in last._forward_hooks.values():
        fused.register_forward_hook(hook)
    last._forward_hooks.clear()
    return [fused, *(nn.Identity().train(first.training) for _ in mod_list[1:])]


def _fuse_modules_helper(
    model: Any,
    modules_to_fuse: list[str],
    is_qat: bool,
    fuser_func: Callable[..., Any] = fuse_known_modules,
    fuse_custom_config_dict: dict[str, Any] | None = None,
) -> None:
    methods = (fuse_custom_config_dict or {}).get("additional_fuser_method_mapping", {})
    modules = [getattr_from_fqn(model, name) for name in modules_to_fuse]
    for name, module in zip(modules_to_fuse, fuser_func(modules, is_qat, methods)):
        _set_module(model, name, module)


def _fuse_modules(
    model: Any,
    modules_to_fuse: Any,
    is_qat: bool,
    inplace: bool = False,
    fuser_func: Callable[..., Any] = fuse_known_modules,
    fuse_custom_config_dict: dict[str, Any] | None = None,
) -> Any:
    if not inplace:
        model = copy.deepcopy(model)
    one = all(isinstance(name, str) for name in modules_to_fuse)
    for names in [modules_to_fuse] if one else modules_to_fuse:
        _fuse_modules_helper(model, names, is_qat, fuser_func, fuse_custom_config_dict)
    return model


def fuse_modules(
    model: Any,
    modules_to_fuse: Any,
    inplace: bool = False,
    fuser_func: Callable[..., Any] = fuse_known_modules,
    fuse_custom_config_dict: dict[str, Any] | None = None,
) -> Any:
    """Returns a model in which rows of modules are one: (conv or linear, bn, relu), and parts.

    modules_to_fuse: names of a row, or a list of such. The other modules of a row become
    Identity. fuse_custom_config_dict: {"additional_fuser_method_mapping": {classes: function}}."""
    return _fuse_modules(
        model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict
    )


def fuse_modules_qat(
    model: Any,
    modules_to_fuse: Any,
    inplace: bool = False,
    fuser_func: Callable[..., Any] = fuse_known_modules,
    fuse_custom_config_dict: dict[str, Any] | None = None,
) -> Any:
    """`fuse_modules` for training: batch norms stay, to be trained within the fused modules."""
    return _fuse_modules(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
