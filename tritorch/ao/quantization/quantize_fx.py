"""Quantization of traced models: `prepare_fx` inserts observers, `convert_fx` quantizes."""

from __future__ import annotations

import copy
from typing import Any

from tritorch import fx
from tritorch.ao.quantization.backend_config import (  # noqa: F401
    BackendConfig,
    get_tensorrt_backend_config,
)
from tritorch.ao.quantization.fx.convert import convert
from tritorch.ao.quantization.fx.custom_config import (
    ConvertCustomConfig,
    FuseCustomConfig,
    PrepareCustomConfig,
    _from_dict_or_config,
)
from tritorch.ao.quantization.fx.fuse import fuse
from tritorch.ao.quantization.fx.graph_module import ObservedGraphModule  # noqa: F401
from tritorch.ao.quantization.fx.prepare import prepare
from tritorch.ao.quantization.fx.tracer import (  # noqa: F401
    QuantizationTracer,
    Scope,
    ScopeContextManager,
)
from tritorch.ao.quantization.fx.utils import (  # noqa: F401
    get_custom_module_class_keys,
    get_skipped_module_name_and_classes,
)
from tritorch.ao.quantization.qconfig_mapping import QConfigMapping
from tritorch.ao.quantization.utils import DEPRECATION_WARNING
from tritorch.core.deprecation import deprecated
from tritorch.fx import GraphModule
from tritorch.fx.graph_module import _USER_PRESERVED_ATTRIBUTES_KEY
from tritorch.nn import Module

_MappingLike = QConfigMapping | dict[str, Any]
_PrepareLike = PrepareCustomConfig | dict[str, Any] | None
_ConvertLike = ConvertCustomConfig | dict[str, Any] | None
_BackendLike = BackendConfig | dict[str, Any] | None


def attach_preserved_attrs_to_model(model: Any, preserved_attrs: dict[str, Any]) -> None:
    """Sets attributes of a model, and keeps them in its meta for its copies."""
    model.meta[_USER_PRESERVED_ATTRIBUTES_KEY] = copy.copy(preserved_attrs)
    for name, value in preserved_attrs.items():
        setattr(model, name, value)


def _preserved(model: Any, custom_config: Any) -> dict[str, Any]:
    """The attributes of a model that a configuration names."""
    names = custom_config.preserved_attributes
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def _check_is_graph_module(model: Module) -> None:
    if not isinstance(model, GraphModule):
        raise ValueError(
            f"input model must be a GraphModule, Got type:{type(model)} Please make "
            "sure to follow the tutorials."
        )


def _attach_meta_to_node_if_not_exist(model: GraphModule) -> None:
    for node in model.graph.nodes:
        if not hasattr(node, "meta"):
            node.meta = {}


def _swap_ff_with_fxff(model: Module) -> None:
    """Swaps `FloatFunctional`s for ones that tracing goes through."""
    from tritorch.ao.nn import quantized

    for name, module in list(model.named_children()):
        if isinstance(module, quantized.FloatFunctional):
            model._modules[name] = quantized.FXFloatFunctional()
        else:
            _swap_ff_with_fxff(module)


def _fuse_fx(
    model: GraphModule,
    is_qat: bool,
    fuse_custom_config: FuseCustomConfig | dict[str, Any] | None = None,
    backend_config: _BackendLike = None,
) -> GraphModule:
    """The graph with fused modules."""
    _check_is_graph_module(model)
    return fuse(model, is_qat, fuse_custom_config, backend_config)


def _prepare_fx(
    model: Module,
    qconfig_mapping: _MappingLike,
    is_qat: bool,
    example_inputs: tuple[Any, ...],
    prepare_custom_config: _PrepareLike = None,
    _equalization_config: _MappingLike | None = None,
    backend_config: _BackendLike = None,
    is_standalone_module: bool = False,
) -> GraphModule:
    """Traces, fuses and prepares a model; a standalone module is one of another model."""
    custom = _from_dict_or_config(
        prepare_custom_config,
        PrepareCustomConfig,
        "prepare_custom_config_dict",
        "prepare",
        stacklevel=4,
    )
    _swap_ff_with_fxff(model)
    names, classes = get_skipped_module_name_and_classes(custom, is_standalone_module)
    preserved = _preserved(model, custom)
    tracer = QuantizationTracer(names, classes)  # type: ignore[arg-type]
    graph_module = GraphModule(model, tracer.trace(model))
    _attach_meta_to_node_if_not_exist(graph_module)
    fuse_config = FuseCustomConfig().set_preserved_attributes(custom.preserved_attributes)
    graph_module = _fuse_fx(graph_module, is_qat, fuse_config, backend_config)
    prepared = prepare(
        graph_module,
        qconfig_mapping,
        is_qat,
        tracer.node_name_to_scope,
        example_inputs=example_inputs,
        prepare_custom_config=custom,
        _equalization_config=_equalization_config,
        backend_config=backend_config,
        is_standalone_module=is_standalone_module,
    )
    attach_preserved_attrs_to_model(prepared, preserved)
    return prepared


def _prepare_standalone_module_fx(
    model: Module,
    qconfig_mapping: _MappingLike,
    is_qat: bool,
    example_inputs: tuple[Any, ...],
    prepare_custom_config: _PrepareLike = None,
    backend_config: _BackendLike = None,
) -> GraphModule:
    """Prepares a module that is a model of its own in another one, which observes its inputs if
    `prepare_custom_config` says that they come quantized."""
    return _prepare_fx(
        model,
        qconfig_mapping,
        is_qat,
        example_inputs,
        prepare_custom_config,
        backend_config=backend_config,
        is_standalone_module=True,
    )


def fuse_fx(
    model: Module,
    fuse_custom_config: FuseCustomConfig | dict[str, Any] | None = None,
    backend_config: _BackendLike = None,
) -> GraphModule:
    """Fuses modules of a model in eval mode, as a convolution with its norm and relu.

    m = fuse_fx(Model().eval())
    """
    custom = _from_dict_or_config(
        fuse_custom_config, FuseCustomConfig, "fuse_custom_config_dict", "fuse"
    )
    preserved = _preserved(model, custom)
    graph_module = fx.symbolic_trace(model)
    _attach_meta_to_node_if_not_exist(graph_module)
    graph_module = _fuse_fx(graph_module, False, custom, backend_config)
    attach_preserved_attrs_to_model(graph_module, preserved)
    return graph_module


@deprecated(DEPRECATION_WARNING, DeprecationWarning)
def prepare_fx(
    model: Module,
    qconfig_mapping: _MappingLike,
    example_inputs: tuple[Any, ...],
    prepare_custom_config: _PrepareLike = None,
    _equalization_config: _MappingLike | None = None,
    backend_config: _BackendLike = None,
) -> GraphModule:
    """Inserts observers into a model for quantization after training.

        mapping = get_default_qconfig_mapping("fbgemm")
        prepared = prepare_fx(model.eval(), mapping, (torch.randn(1, 3, 224, 224),))
        for image in samples:
            prepared(image)
        quantized = convert_fx(prepared)

    `qconfig_mapping` says how to observe, `backend_config` what a backend can quantize, and
    `prepare_custom_config` what is treated in another way.
    """
    return _prepare_fx(
        model,
        qconfig_mapping,
        False,
        example_inputs,
        prepare_custom_config,
        _equalization_config,
        backend_config,
    )


@deprecated(DEPRECATION_WARNING, DeprecationWarning)
def prepare_qat_fx(
    model: Module,
    qconfig_mapping: _MappingLike,
    example_inputs: tuple[Any, ...],
    prepare_custom_config: _PrepareLike = None,
    backend_config: _BackendLike = None,
) -> GraphModule:
    """Inserts fake quantizes into a model that is trained then; else as `prepare_fx`."""
    return _prepare_fx(
        model,
        qconfig_mapping,
        True,
        example_inputs,
        prepare_custom_config,
        backend_config=backend_config,
    )


def _convert_fx(
    graph_module: GraphModule,
    is_reference: bool,
    convert_custom_config: _ConvertLike = None,
    is_standalone_module: bool = False,
    _remove_qconfig: bool = True,
    qconfig_mapping: _MappingLike | None = None,
    backend_config: _BackendLike = None,
    is_decomposed: bool = False,
    keep_original_weights: bool = False,
) -> GraphModule:
    """Converts a prepared model, to reference patterns or to quantized operations."""
    custom = _from_dict_or_config(
        convert_custom_config,
        ConvertCustomConfig,
        "convert_custom_config_dict",
        "convert",
        stacklevel=4,
    )
    _check_is_graph_module(graph_module)
    preserved = _preserved(graph_module, custom)
    quantized = convert(
        graph_module,
        is_reference,
        custom,
        is_standalone_module,
        _remove_qconfig_flag=_remove_qconfig,
        qconfig_mapping=qconfig_mapping,
        backend_config=backend_config,
        is_decomposed=is_decomposed,
        keep_original_weights=keep_original_weights,
    )
    attach_preserved_attrs_to_model(quantized, preserved)
    return quantized


@deprecated(DEPRECATION_WARNING, DeprecationWarning)
def convert_fx(
    graph_module: GraphModule,
    convert_custom_config: _ConvertLike = None,
    _remove_qconfig: bool = True,
    qconfig_mapping: _MappingLike | None = None,
    backend_config: _BackendLike = None,
    keep_original_weights: bool = False,
) -> GraphModule:
    """Quantizes a prepared model that has seen samples or was trained.

    `qconfig_mapping` has the entries that `prepare_fx` got; those that are None now stay floats.
    """
    return _convert_fx(
        graph_module,
        is_reference=False,
        convert_custom_config=convert_custom_config,
        _remove_qconfig=_remove_qconfig,
        qconfig_mapping=qconfig_mapping,
        backend_config=backend_config,
        keep_original_weights=keep_original_weights,
    )


def convert_to_reference_fx(
    graph_module: GraphModule,
    convert_custom_config: _ConvertLike = None,
    _remove_qconfig: bool = True,
    qconfig_mapping: _MappingLike | None = None,
    backend_config: _BackendLike = None,
) -> GraphModule:
    """Quantizes a prepared model to reference patterns: float operations between `dequantize` and
    `quantize_per_tensor`, which backends translate."""
    return _convert_fx(
        graph_module,
        is_reference=True,
        convert_custom_config=convert_custom_config,
        _remove_qconfig=_remove_qconfig,
        qconfig_mapping=qconfig_mapping,
        backend_config=backend_config,
    )


def _convert_to_reference_decomposed_fx(
    graph_module: GraphModule,
    convert_custom_config: _ConvertLike = None,
    qconfig_mapping: _MappingLike | None = None,
    backend_config: _BackendLike = None,
) -> GraphModule:
    """Quantizes to reference patterns with operators of `quantized_decomposed`, whose tensors are
    plain integers."""
    return _convert_fx(
        graph_module,
        is_reference=True,
        convert_custom_config=convert_custom_config,
        _remove_qconfig=False,
        qconfig_mapping=qconfig_mapping,
        backend_config=backend_config,
        is_decomposed=True,
    )


def _convert_standalone_module_fx(
    graph_module: GraphModule,
    is_reference: bool = False,
    convert_custom_config: _ConvertLike = None,
) -> GraphModule:
    """Converts what `_prepare_standalone_module_fx` gave."""
    return _convert_fx(graph_module, is_reference, convert_custom_config, is_standalone_module=True)
