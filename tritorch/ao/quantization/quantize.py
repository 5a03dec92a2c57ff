"""Eager mode: observers are put into a model (`prepare`), and then its modules are replaced by
quantized ones (`convert`)."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import tritorch as torch
import tritorch.ao.nn.quantizable as nnqa
import tritorch.ao.nn.quantized as nnq
from tritorch import nn
from tritorch.ao.nn.intrinsic.modules.fused import _FusedModule
from tritorch.ao.quantization.observer import _is_activation_post_process
from tritorch.ao.quantization.qconfig import (
    _activation_is_memoryless,
    _add_module_to_qconfig_obs_ctr,
    _assert_valid_qconfig,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from tritorch.ao.quantization.quantization_mappings import (
    _get_special_act_post_process,
    _has_special_act_post_process,
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    get_default_static_quant_reference_module_mappings,
    no_observer_set,
)
from tritorch.ao.quantization.stubs import DeQuantStub, QuantWrapper
from tritorch.ao.quantization.utils import (
    DEPRECATION_WARNING,
    get_qparam_dict,
    has_no_children_ignoring_parametrizations,
)
from tritorch.core.deprecation import deprecated
from tritorch.nn.utils.parametrize import type_before_parametrizations

__all__ = [
    "add_quant_dequant",
    "convert",
    "get_default_custom_config_dict",
    "prepare",
    "prepare_qat",
    "propagate_qconfig_",
    "quantize",
    "quantize_dynamic",
    "quantize_qat",
    "swap_module",
]

is_activation_post_process = _is_activation_post_process

_DEFAULT_CUSTOM_CONFIG_DICT: dict[str, dict[Any, Any]] = {
    "float_to_observed_custom_module_class": {
        nn.LSTM: nnqa.LSTM,
        nn.MultiheadAttention: nnqa.MultiheadAttention,
    },
    "observed_to_quantized_custom_module_class": {
        nnqa.LSTM: nnq.LSTM,
        nnqa.MultiheadAttention: nnq.MultiheadAttention,
    },
}


def get_default_custom_config_dict() -> dict[str, dict[Any, Any]]:
    """Returns the modules that are replaced before they are observed, and by what."""
    return _DEFAULT_CUSTOM_CONFIG_DICT


# --- QConfigs of modules -----------------------------------------------------------------


def _propagate_qconfig_helper(
    module: Any,
    qconfig_dict: dict[Any, Any],
    qconfig_parent: Any = None,
    prefix: str = "",
    prepare_custom_config_dict: dict[str, Any] | None = None,
) -> None:
    """Sets `qconfig` of a module and of those below it; what is nearest to a module counts:
    its attribute, its name, its class, its parent's."""
    qconfig = qconfig_dict.get(type_before_parametrizations(module), qconfig_parent)
    qconfig = getattr(module, "qconfig", qconfig_dict.get(prefix, qconfig))
    _assert_valid_qconfig(qconfig, module)
    placed = _add_module_to_qconfig_obs_ctr(qconfig, module)
    module.qconfig = placed
    custom = prepare_custom_config_dict or {}
    for name, child in module.named_children():
        if name not in custom.get("non_traceable_module_name", []) and (
            type(child) not in custom.get("non_traceable_module_class", [])
        ):
            path = f"{prefix}.{name}" if prefix else name
            _propagate_qconfig_helper(child, qconfig_dict, placed, path)


def propagate_qconfig_(
    module: Any,
    qconfig_dict: dict[Any, Any] | None = None,
    prepare_custom_config_dict: dict[str, Any] | None = None,
) -> None:
    """Sets `qconfig` of all modules, in place.

    qconfig_dict: QConfigs by names or classes of modules, for them and what is below them."""
    _propagate_qconfig_helper(
        module, qconfig_dict or {}, prepare_custom_config_dict=prepare_custom_config_dict
    )


def _wanted(module: Any) -> bool:
    return getattr(module, "qconfig", None) is not None


# --- observers of modules ----------------------------------------------------------------


def _observer_forward_hook(self: Any, input: Any, output: Any) -> Any:
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self: Any, input: Any) -> Any:
    return self.activation_post_process(input[0])


def _register_activation_post_process_hook(module: Any, pre_hook: bool = False) -> None:
    if not hasattr(module, "activation_post_process"):
        raise AssertionError(
            "Expect activation_post_process attribute already attached to the module"
        )
    if pre_hook:
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def _get_unique_devices_(module: Any) -> set[Any]:
    tensors = (*module.parameters(), *module.buffers())
    return {tensor.device for tensor in tensors if tensor.device.type != "meta"}


def _observer_of(module: Any, device: Any, make: Callable[[], Any] | None = None) -> Any:
    observer = (make or module.qconfig.activation)()
    if device is not None:
        observer.to(device)
    return observer


def _observe(module: Any, device: Any, make: Callable[[], Any] | None = None) -> None:
    """Gives a module an observer of its result, or of its input where the observer has no
    memory; make: the observer instead of the QConfig's."""
    if _wanted(module) and not isinstance(module, DeQuantStub):
        module.add_module("activation_post_process", _observer_of(module, device, make))
        _register_activation_post_process_hook(
            module, pre_hook=_activation_is_memoryless(module.qconfig)
        )


def _add_observer_(
    module: Any,
    qconfig_propagation_list: Any = None,
    non_leaf_module_list: Any = None,
    device: Any = None,
    custom_module_class_mapping: dict[Any, Any] | None = None,
) -> None:
    """Gives observers to the leaves that have a QConfig and are of a class of the list, and to
    fused and other modules that are quantized whole."""
    if qconfig_propagation_list is None:
        qconfig_propagation_list = get_default_qconfig_propagation_list()
    custom = custom_module_class_mapping or {}
    if device is None:
        devices = _get_unique_devices_(module)
        if len(devices) > 1:
            raise AssertionError(
                "_add_observer_ only works with cpu or single-device CUDA modules, "
                f"but got devices {devices}"
            )
        device = next(iter(devices), None)
    for name, child in module.named_children():
        kind = type_before_parametrizations(child)
        if kind is nn.Dropout:
            continue
        if issubclass(kind, (nnq.FloatFunctional, nnq.QFunctional)):
            if _wanted(child):
                if not hasattr(child, "activation_post_process"):
                    raise AssertionError(
                        f"functional class {kind} has no pre-defined `activation_post_process`"
                    )
                child.activation_post_process = _observer_of(child, device)
        elif isinstance(child, _FusedModule) or kind in (non_leaf_module_list or ()):
            _observe(child, device)
        elif _has_special_act_post_process(child):
            _observe(child, device, _get_special_act_post_process(child))
        elif _wanted(child) and kind in custom:
            observed = custom[kind].from_float(child)
            setattr(module, name, observed)
            if not issubclass(custom[kind], tuple(no_observer_set())):
                _observe(observed, device)
        else:
            _add_observer_(child, qconfig_propagation_list, non_leaf_module_list, device, custom)
    if (
        not isinstance(module, nn.Sequential)
        and type_before_parametrizations(module) in qconfig_propagation_list
    ):
        if has_no_children_ignoring_parametrizations(module):
            _observe(module, device)
        if hasattr(module, "weight_fake_quant"):
            _observe(module, device)


def add_quant_dequant(module: Any) -> Any:
    """Puts leaves that have a QConfig into QuantWrappers, in place; returns the module, or its
    wrapper if it is such a leaf."""
    if has_no_children_ignoring_parametrizations(module) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


@deprecated(DEPRECATION_WARNING, DeprecationWarning)
def prepare(
    model: Any,
    inplace: bool = False,
    allow_list: Any = None,
    observer_non_leaf_module_list: Any = None,
    prepare_custom_config_dict: dict[str, Any] | None = None,
) -> Any:
    """Returns a model with observers, to be run on examples before `convert`.

    Modules' `qconfig` says which. allow_list: the classes that get observers.
    observer_non_leaf_module_list: classes that get them though they have children.
    prepare_custom_config_dict: {"float_to_observed_custom_module_class": {class: observed}}."""
    custom = prepare_custom_config_dict
    if custom is None:
        custom = get_default_custom_config_dict()
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(getattr(module, "qconfig", None) for module in model.modules()):
        warnings.warn(
            "None of the submodule got qconfig applied. Make sure you "
            "passed correct configuration through `qconfig_dict` or "
            "by assigning the `.qconfig` attribute directly on submodules",
            stacklevel=2,
        )
    _add_observer_(
        model,
        allow_list,
        observer_non_leaf_module_list,
        custom_module_class_mapping=custom.get("float_to_observed_custom_module_class", {}),
    )
    return model


def _remove_activation_post_process(module: Any) -> None:
    if _is_activation_post_process(getattr(module, "activation_post_process", None)):
        delattr(module, "activation_post_process")
    for hooks, ours in (
        (module._forward_pre_hooks, _observer_forward_pre_hook),
        (module._forward_hooks, _observer_forward_hook),
    ):
        for key in [key for key, hook in hooks.items() if hook is ours]:
            hooks.pop(key)


def _remove_qconfig(module: Any) -> None:
    """Takes QConfigs and observers out of a module and of those below it."""
    for child in module.children():
        _remove_qconfig(child)
    if hasattr(module, "qconfig"):
        del module.qconfig
    _remove_activation_post_process(module)


# --- whole ways --------------------------------------------------------------------------


@deprecated(DEPRECATION_WARNING, DeprecationWarning)
def quantize(
    model: Any,
    run_fn: Callable[..., Any],
    run_args: Any,
    mapping: dict[Any, Any] | None = None,
    inplace: bool = False,
) -> Any:
    """Returns a quantized model: `prepare`, run_fn(model, *run_args), `convert`."""
    if mapping is None:
        mapping = get_default_static_quant_module_mappings()
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, mapping, inplace=True)
    return model


_RECURRENT = (nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)
# By dtype: the classes that are quantized dynamically unless the program names others, and how.
_DYNAMIC: dict[Any, tuple[tuple[Any, ...], Any]] = {
    torch.qint8: (_RECURRENT, default_dynamic_qconfig),
    torch.float16: (_RECURRENT, float16_dynamic_qconfig),
    torch.quint8: ((nn.EmbeddingBag, nn.Embedding), float_qparams_weight_only_qconfig),
    torch.quint4x2: ((nn.EmbeddingBag,), float_qparams_weight_only_qconfig_4bit),
}


@deprecated(DEPRECATION_WARNING, DeprecationWarning)
def quantize_dynamic(
    model: Any,
    qconfig_spec: Any = None,
    dtype: Any = torch.qint8,
    mapping: dict[Any, Any] | None = None,
    inplace: bool = False,
) -> Any:
    """Returns a model with quantized weights, whose activations are quantized as they come.

    qconfig_spec: a dict of QConfigs by classes or names of modules; or a set of these, with
    dtype's QConfig; by default Linear and the recurrent classes (embeddings with quint8)."""
    if qconfig_spec is None:
        if dtype not in _DYNAMIC:
            raise ValueError(
                f"Don't know how to quantize with default settings for {dtype}. "
                "Provide full qconfig please"
            )
        qconfig_spec = dict.fromkeys(*_DYNAMIC[dtype])
    elif isinstance(qconfig_spec, set):
        if dtype not in _DYNAMIC:
            raise RuntimeError("Unknown dtype specified for quantize_dynamic: ", str(dtype))
        qconfig_spec = dict.fromkeys(qconfig_spec, _DYNAMIC[dtype][1])
    if mapping is None:
        mapping = get_default_dynamic_quant_module_mappings()
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    convert(model, mapping, inplace=True)
    return model


@deprecated(DEPRECATION_WARNING, DeprecationWarning)
def prepare_qat(model: Any, mapping: dict[Any, Any] | None = None, inplace: bool = False) -> Any:
    """Returns a model that is trained with rounded weights and activations.

    mapping: classes of modules and those that take their places."""
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    if mapping is None:
        mapping = get_default_qat_module_mappings()
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, mapping=mapping, inplace=True, remove_qconfig=False)
    prepare(model, observer_non_leaf_module_list=set(mapping.values()), inplace=True)
    return model


@deprecated(DEPRECATION_WARNING, DeprecationWarning)
def quantize_qat(
    model: Any, run_fn: Callable[..., Any], run_args: Any, inplace: bool = False
) -> Any:
    """Returns a quantized model: `prepare_qat`, run_fn(model, *run_args), `convert`."""
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, inplace=True)
    return model


@deprecated(DEPRECATION_WARNING, DeprecationWarning)
def convert(
    module: Any,
    mapping: dict[Any, Any] | None = None,
    inplace: bool = False,
    remove_qconfig: bool = True,
    is_reference: bool = False,
    convert_custom_config_dict: dict[str, Any] | None = None,
    use_precomputed_fake_quant: bool = False,
) -> Any:
    """Returns a model whose modules are replaced by `from_float` of the classes of mapping.

    convert_custom_config_dict:
    {"observed_to_quantized_custom_module_class": {observed: quantized}}.
    use_precomputed_fake_quant: weights keep the scales that their fake quantizers have."""
    if not inplace:
        module = copy.deepcopy(module)
    _convert(
        module,
        mapping,
        True,
        is_reference,
        convert_custom_config_dict,
        use_precomputed_fake_quant,
    )
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def _convert(
    module: Any,
    mapping: dict[Any, Any] | None = None,
    inplace: bool = False,
    is_reference: bool = False,
    convert_custom_config_dict: dict[str, Any] | None = None,
    use_precomputed_fake_quant: bool = False,
) -> Any:
    """`convert` that leaves QConfigs where they are."""
    if mapping is None:
        mapping = (
            get_default_static_quant_reference_module_mappings()
            if is_reference
            else get_default_static_quant_module_mappings()
        )
    if convert_custom_config_dict is None:
        convert_custom_config_dict = get_default_custom_config_dict()
    custom = convert_custom_config_dict.get("observed_to_quantized_custom_module_class", {})
    if not inplace:
        module = copy.deepcopy(module)
    swapped = {}
    for name, child in module.named_children():
        if not isinstance(child, _FusedModule) and (
            type_before_parametrizations(child) not in custom
        ):
            _convert(
                child,
                mapping,
                True,
                is_reference,
                convert_custom_config_dict,
                use_precomputed_fake_quant,
            )
        swapped[name] = swap_module(child, mapping, custom, use_precomputed_fake_quant)
    module._modules.update(swapped)
    return module


def swap_module(
    mod: Any,
    mapping: dict[Any, Any],
    custom_module_class_mapping: dict[Any, Any],
    use_precomputed_fake_quant: bool = False,
) -> Any:
    """Returns what takes a module's place: itself, or of the class that a mapping has for its
    own, if it has a QConfig. Hooks and the device stay."""
    if not _wanted(mod):
        return mod
    kind = type_before_parametrizations(mod)
    if kind in custom_module_class_mapping:
        new = custom_module_class_mapping[kind].from_observed(mod)
    elif kind in mapping:
        target = mapping[kind]
        if getattr(target, "_IS_REFERENCE", False):
            weights = mod.qconfig.weight()
            weights(mod.weight)
            new = target.from_float(mod, get_qparam_dict(weights))
        elif "use_precomputed_fake_quant" in inspect.signature(target.from_float).parameters:
            new = target.from_float(mod, use_precomputed_fake_quant=use_precomputed_fake_quant)
        else:
            new = target.from_float(mod)
    else:
        return mod
    for pre_hook in mod._forward_pre_hooks.values():
        new.register_forward_pre_hook(pre_hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observer_forward_hook:
            new.register_forward_hook(hook)
    devices = _get_unique_devices_(mod)
    if len(devices) > 1:
        raise AssertionError(
            "swap_module only works with cpu or single-device CUDA modules, "
            f"but got devices {devices}"
        )
    if devices:
        new.to(*devices)
    return new


def _get_observer_dict(mod: Any, target_dict: dict[str, Any], prefix: str = "") -> None:
    """Puts the observers of a module and of those below it into a dict by their names."""
    for name, module in mod.named_modules(prefix=prefix):
        if hasattr(module, "activation_post_process"):
            key = f"{name}.activation_post_process" if name else "activation_post_process"
            target_dict[key] = module.activation_post_process
