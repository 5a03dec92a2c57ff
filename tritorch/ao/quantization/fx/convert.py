"""Conversion of graphs with observers: values are quantized where they were observed, weights by
the reference modules that have them, and then patterns become quantized operations.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import tritorch
from tritorch.ao.nn.intrinsic import _FusedModule
from tritorch.ao.quantization.backend_config import BackendConfig, get_native_backend_config
from tritorch.ao.quantization.backend_config.utils import (
    get_fused_module_classes,
    get_pattern_to_dtype_configs,
    get_qat_module_classes,
    get_root_module_to_quantized_reference_module,
)
from tritorch.ao.quantization.fx._equalize import convert_eq_obs, update_obs_for_equalization
from tritorch.ao.quantization.fx._quantize_nodes import (
    SUPPORTED_QDTYPES,  # noqa: F401
    ObserverReplacement,
    has_none_qconfig,
)
from tritorch.ao.quantization.fx.custom_config import (
    ConvertCustomConfig,
    _from_dict_or_config,
)
from tritorch.ao.quantization.fx.graph_module import (
    _is_observed_module,
    _is_observed_standalone_module,
)
from tritorch.ao.quantization.fx.lower_to_fbgemm import lower_to_fbgemm
from tritorch.ao.quantization.fx.qconfig_mapping_utils import (
    _compare_prepare_convert_qconfig_mappings,
    _generate_node_name_to_qconfig,
    _is_qconfig_supported_by_dtype_configs,
    _update_qconfig_for_fusion,
    _update_qconfig_for_qat,
)
from tritorch.ao.quantization.fx.utils import (
    _get_module,
    _is_custom_module_lstm,
    _is_custom_module_mha,
    assert_and_get_unique_device,
    collect_producer_nodes,
    get_custom_module_class_keys,
    graph_module_from_producer_nodes,
    node_arg_is_weight,
)
from tritorch.ao.quantization.observer import _is_activation_post_process
from tritorch.ao.quantization.qconfig import qconfig_equals
from tritorch.ao.quantization.qconfig_mapping import QConfigMapping
from tritorch.ao.quantization.quant_type import QuantType
from tritorch.ao.quantization.quantize import _remove_qconfig
from tritorch.ao.quantization.stubs import DeQuantStub
from tritorch.ao.quantization.utils import (
    _parent_name,
    activation_is_statically_quantized,
    get_qparam_dict,
    get_swapped_custom_module_class,
    weight_is_quantized,
)
from tritorch.fx import GraphModule
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node
from tritorch.nn import GRU, LSTM, Module, RNNCellBase
from tritorch.nn.utils.parametrize import type_before_parametrizations

__all__ = [
    "convert",
    "convert_custom_module",
    "convert_standalone_module",
    "convert_weighted_module",
]


def _is_dequantize(node: Any) -> bool:
    return isinstance(node, Node) and node.op == "call_method" and node.target == "dequantize"


def _insert_dequantize_node(node: Node, graph: Graph) -> None:
    """Dequantizes a node for all its users."""
    with graph.inserting_after(node):
        dequantized = graph.call_method("dequantize", (node,))
    for user in list(node.users):
        if user is not dequantized:
            user.replace_input_with(node, dequantized)


def _replace_observer_or_dequant_stub_with_dequantize_node(node: Node, graph: Graph) -> None:
    """Dequantizes the result of a custom module, which is quantized, in place of an observer."""
    source = node.args[0]
    if not isinstance(source, Node):
        raise AssertionError(
            f"Expecting the for call custom module node to be a Node, but got {source}"
        )
    node.replace_all_uses_with(source)
    graph.erase_node(node)
    _insert_dequantize_node(source, graph)


def _run_weight_observers(observed: GraphModule, backend_config: BackendConfig) -> None:
    """Makes the observers of functions' weights see them, which calls of the model need not do."""
    for node in observed.graph.nodes:
        if node.op != "call_function":
            continue
        for arg in node.args:
            if isinstance(arg, Node) and node_arg_is_weight(node, arg):
                nodes = collect_producer_nodes(arg)
                if nodes is not None:
                    graph_module_from_producer_nodes(observed, nodes)()


def _maybe_recursive_remove_dequantize(arg: Any, node: Node, graph: Graph) -> None:
    """Makes a node read what is dequantized for it, in nested data too, quantized."""
    if _is_dequantize(arg):
        node.replace_input_with(arg, arg.args[0])
    elif isinstance(arg, (list, tuple, dict)):
        for entry in arg.values() if isinstance(arg, dict) else arg:
            _maybe_recursive_remove_dequantize(entry, node, graph)
    else:
        warnings.warn(
            f"Unsupported node type in recursive remove dequantize: {type(arg)}", stacklevel=2
        )


def _maybe_get_observer_for_node(node: Node, modules: dict[str, Module]) -> Any:
    """The observer that reads a node."""
    for user in node.users:
        if user.op == "call_module" and _is_activation_post_process(modules[str(user.target)]):
            return modules[str(user.target)]
    return None


def _set_module(modules: dict[str, Module], target: Any, module: Module) -> None:
    parent, name = _parent_name(target)
    setattr(modules[parent], name, module)


def convert_standalone_module(
    node: Node,
    modules: dict[str, Module],
    model: GraphModule,
    is_reference: bool,
    backend_config: BackendConfig | None,
) -> None:
    """Converts a module that is a model of its own; it gets the inputs that it wants quantized as
    they are, and its quantized output is dequantized."""
    from tritorch.ao.quantization.quantize_fx import _convert_fx

    observed: Any = modules[str(node.target)]
    attributes = observed.meta["_observed_graph_module_attrs"]
    for index, arg in enumerate(list(node.args)):
        if index in attributes.standalone_module_input_quantized_idxs and _is_dequantize(arg):
            node.replace_input_with(arg, arg.args[0])
            if len(arg.users) == 0:
                model.graph.erase_node(arg)
    outputs = attributes.standalone_module_output_quantized_idxs
    if len(outputs) > 0:
        if outputs[0] != 0:
            raise AssertionError("Currently only quantized output idxs = [0] is supported")
        _insert_dequantize_node(node, model.graph)
    quantized = _convert_fx(observed, is_reference=is_reference, backend_config=backend_config)
    _set_module(modules, node.target, quantized)
    modules[str(node.target)] = quantized


def _weight_qparams(layer: Any, qconfig: Any, post_process: Any, observe: bool) -> dict[str, Any]:
    """Parameters of the quantization of a layer's weights, as reference modules take them."""
    if isinstance(layer, RNNCellBase):
        names = ["weight_ih", "weight_hh"]
    elif isinstance(layer, (LSTM, GRU)):
        names = [name for name in layer._flat_weights_names if name.startswith("weight")]
    else:
        if observe:
            post_process(layer.weight)
        return get_qparam_dict(post_process)
    parameters = {}
    for name in names:
        observer = qconfig.weight()
        if isinstance(layer, RNNCellBase) or observer.dtype == tritorch.qint8:
            observer(getattr(layer, name))
        parameters[name] = get_qparam_dict(observer)
    return parameters


def convert_weighted_module(
    node: Node,
    modules: dict[str, Module],
    observed_node_names: set[str],
    node_name_to_qconfig: dict[str, Any],
    backend_config: BackendConfig,
    is_decomposed: bool = False,
    is_reference: bool = False,
    model_device: Any = None,
) -> None:
    """Swaps a module that a node calls for its reference module, if its weight is quantized.

    QAT modules become float ones in any case; their fake quantizes have the parameters.
    """
    module: Any = modules[str(node.target)]
    qconfig = module.qconfig
    post_process = None
    if isinstance(module, get_qat_module_classes(backend_config)):
        post_process = module.weight_fake_quant
        module = module.to_float()
        _set_module(modules, node.target, module)
    if qconfig is None or has_none_qconfig(node, node_name_to_qconfig):
        return
    dtype_configs = get_pattern_to_dtype_configs(backend_config).get(type(module), [])
    if (
        node.name not in observed_node_names
        or not _is_qconfig_supported_by_dtype_configs(qconfig, dtype_configs)
        or not weight_is_quantized(qconfig)
    ):
        return
    fused = module if isinstance(module, _FusedModule) else None
    layer: Any = module if fused is None else fused[0]
    is_qat = post_process is not None
    if not is_qat:
        post_process = qconfig.weight()
        if not isinstance(layer, (RNNCellBase, LSTM, GRU)):
            device = model_device or assert_and_get_unique_device(layer)
            if device:
                post_process.to(device)
    # Fake quantizes of QAT may not have seen the weight yet; those of exported graphs have.
    observe = not (is_decomposed and is_reference and is_qat)
    parameters = {
        "is_decomposed": is_decomposed,
        **_weight_qparams(layer, qconfig, post_process, observe),
    }
    kind = type_before_parametrizations(layer)
    reference = get_root_module_to_quantized_reference_module(backend_config).get(kind)
    if reference is None:
        raise AssertionError(f"No reference quantized module class configured for {kind}")
    swapped = reference.from_float(layer, parameters)
    if fused is None:
        _set_module(modules, node.target, swapped)
    else:
        fused[0] = swapped


def _remove_previous_dequantize_in_custom_module(node: Node, prev_node: Any, graph: Graph) -> None:
    """Makes a custom module read an input quantized."""
    if not isinstance(prev_node, Node):
        raise AssertionError(
            f"Expecting the argument for custom module node to be a Node, but got {prev_node}"
        )
    if _is_dequantize(prev_node):
        node.replace_input_with(prev_node, prev_node.args[0])
        if len(prev_node.users) == 0:
            graph.erase_node(prev_node)


def convert_custom_module(
    node: Node,
    graph: Graph,
    modules: dict[str, Module],
    custom_module_class_mapping: dict[QuantType, dict[type, type]],
    statically_quantized_custom_module_nodes: set[Node],
) -> None:
    """Swaps an observed module for the quantized class that the user gave.

    A statically quantized one reads its inputs quantized; its node is added to the set, since its
    observer becomes a dequantization, and the module has the observer.
    """
    observed: Any = modules[str(node.target)]
    qconfig = observed.qconfig
    if activation_is_statically_quantized(qconfig):
        statically_quantized_custom_module_nodes.add(node)
        is_lstm = _is_custom_module_lstm(node, modules)
        is_mha = not is_lstm and _is_custom_module_mha(node, modules)
        inputs: Any = list(node.args)
        if is_lstm:
            if len(inputs) != 2 or not isinstance(inputs[1], tuple) or len(inputs[1]) != 2:
                raise AssertionError(
                    "Expected LSTM custom module inputs to be (input, (hidden0, hidden1))"
                )
            inputs = [inputs[0], *inputs[1]]
        elif is_mha:
            if len(inputs) != 3:
                raise AssertionError("Expected MHA custom module inputs to be (query, key, value)")
        else:
            inputs = inputs[:1]
        for arg in inputs:
            _remove_previous_dequantize_in_custom_module(node, arg, graph)
        if not (is_lstm or is_mha):
            post_process = _maybe_get_observer_for_node(node, modules)
            if post_process is None:
                raise AssertionError(
                    "Expected activation_post_process to be present for observed custom module"
                )
            observed.activation_post_process = post_process
    quantized = get_swapped_custom_module_class(observed, custom_module_class_mapping, qconfig)
    _set_module(modules, node.target, quantized.from_observed(observed))


def _qconfigs_for_convert(
    model: GraphModule,
    modules: dict[str, Module],
    mapping: QConfigMapping,
    attributes: Any,
    backend: BackendConfig,
) -> dict[str, Any]:
    """Configurations of nodes by the mapping for `convert`: those of `prepare`, or None."""
    if attributes.is_qat:
        _update_qconfig_for_qat(mapping, backend)
    _update_qconfig_for_fusion(model, mapping)
    _compare_prepare_convert_qconfig_mappings(attributes.qconfig_mapping, mapping)
    qconfigs = _generate_node_name_to_qconfig(
        model, copy.deepcopy(modules), model.graph, mapping, attributes.node_name_to_scope
    )
    for name, before in attributes.node_name_to_qconfig.items():
        if name not in qconfigs:
            raise AssertionError(f"Expected key {name} in convert node_name_to_qconfig")
        if qconfigs[name] is not None and not qconfig_equals(before, qconfigs[name]):
            raise AssertionError(
                f"Expected k {name} to have the same value in prepare and convert QConfigMappings, "
                f"but {before} was updated to {qconfigs[name]}"
            )
    return qconfigs


def _keep_outputs_quantized(node: Node, indices: list[int], graph: Graph) -> None:
    """Returns the outputs at these indices quantized; a dict is one output."""
    output = node.args[0]
    if isinstance(output, (list, tuple)):
        for index in indices:
            _maybe_recursive_remove_dequantize(output[index], node, graph)
    elif isinstance(output, (Node, dict)):
        if 0 in indices:
            _maybe_recursive_remove_dequantize(output, node, graph)
    else:
        warnings.warn(
            f"Unsupported node type for output_quantized_idxs: {type(output)}", stacklevel=2
        )


def convert(
    model: GraphModule,
    is_reference: bool = False,
    convert_custom_config: ConvertCustomConfig | dict[str, Any] | None = None,
    is_standalone_module: bool = False,
    _remove_qconfig_flag: bool = True,
    qconfig_mapping: QConfigMapping | dict[str, Any] | None = None,
    backend_config: BackendConfig | dict[str, Any] | None = None,
    is_decomposed: bool = False,
    keep_original_weights: bool = False,
) -> GraphModule:
    """Quantizes a prepared model.

    Observers become quantization and dequantization; modules with quantized weights become
    reference modules; without `is_reference`, these patterns become quantized operations.
    `is_decomposed` takes operators of `quantized_decomposed` in place of quantized tensors.
    """
    custom = _from_dict_or_config(
        convert_custom_config, ConvertCustomConfig, "convert_custom_config_dict", "convert"
    )
    mapping: Any = qconfig_mapping
    if isinstance(mapping, dict):
        mapping = _from_dict_or_config(mapping, QConfigMapping, "QConfig dictionary", "convert")
    mapping = copy.deepcopy(mapping)
    if not (mapping is None or isinstance(mapping, QConfigMapping)):
        raise AssertionError("qconfig_mapping must be None or a QConfigMapping")
    if backend_config is None:
        backend_config = get_native_backend_config()
    backend = _from_dict_or_config(backend_config, BackendConfig, "backend_config_dict", "prepare")
    if not _is_observed_module(model):
        raise AssertionError("incoming model must be produced by prepare_fx")
    attributes = model.meta["_observed_graph_module_attrs"]
    qconfigs = attributes.node_name_to_qconfig
    modules: dict[str, Any] = dict(model.named_modules(remove_duplicate=False))
    if mapping:
        qconfigs = _qconfigs_for_convert(model, modules, mapping, attributes, backend)
    if attributes.equalization_node_name_to_qconfig is not None:
        convert_eq_obs(model, modules, update_obs_for_equalization(model, modules))
    _run_weight_observers(model, backend)

    graph = model.graph
    device = assert_and_get_unique_device(model)
    replacement = ObserverReplacement(
        model, modules, attributes.node_name_to_scope, qconfigs, is_decomposed, device
    )
    roots = set(get_root_module_to_quantized_reference_module(backend))
    fused = set(get_fused_module_classes(backend))
    weighted = roots | set(get_qat_module_classes(backend)) | fused
    custom_mapping = custom.observed_to_quantized_mapping
    custom_classes = get_custom_module_class_keys(custom_mapping)
    static_custom: set[Node] = set()
    inputs_seen = 0
    prepare_config = attributes.prepare_custom_config
    for node in list(graph.nodes):
        if node.op == "placeholder":
            if inputs_seen in prepare_config.input_quantized_indexes:
                _insert_dequantize_node(node, graph)
            inputs_seen += 1
        elif node.op == "output" and len(prepare_config.output_quantized_indexes) > 0:
            _keep_outputs_quantized(node, prepare_config.output_quantized_indexes, graph)
        elif node.op == "call_module":
            module = _get_module(node, modules)
            if module is None:
                raise AssertionError(
                    "Expected module for call_module node to be present in modules mapping"
                )
            kind = type_before_parametrizations(module)
            if _is_activation_post_process(module):
                if node.args[0] in static_custom:
                    _replace_observer_or_dequant_stub_with_dequantize_node(node, graph)
                else:
                    replacement.replace(node)
            elif isinstance(module, DeQuantStub):
                _replace_observer_or_dequant_stub_with_dequantize_node(node, graph)
            elif _is_observed_standalone_module(module):
                convert_standalone_module(node, modules, model, is_reference, backend)
            elif kind in weighted:
                if kind in fused and type_before_parametrizations(module[0]) not in roots:
                    continue
                convert_weighted_module(
                    node,
                    modules,
                    attributes.observed_node_names,
                    qconfigs,
                    backend,
                    is_decomposed,
                    is_reference,
                    device,
                )
            elif kind in custom_classes:
                convert_custom_module(node, graph, modules, custom_mapping, static_custom)
    graph.eliminate_dead_code()
    model = GraphModule(model, graph)
    if not is_reference:
        model = lower_to_fbgemm(
            model, qconfigs, attributes.node_name_to_scope, keep_original_weights
        )
    if _remove_qconfig_flag:
        _remove_qconfig(model)
    model.delete_all_unused_submodules()
    model.meta.pop("_observed_graph_module_attrs", None)
    return model
