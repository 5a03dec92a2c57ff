"""Comparison of two traced models, as a prepared one and its quantized form.

import copy
import torch.ao.ns._numeric_suite_fx as ns

weights = ns.extract_weights("a", prepared, "b", quantized)

a, b = ns.add_loggers("a", copy.deepcopy(prepared), "b", copy.deepcopy(quantized), ns.OutputLogger)
a(x), b(x)
activations = ns.extract_logger_info(a, b, ns.OutputLogger, "b")   # errors add up

both = ns.add_shadow_loggers(
    "a", copy.deepcopy(prepared), "b", copy.deepcopy(quantized), ns.OutputLogger
)
both(x)
alone = ns.extract_shadow_logger_info(both, ns.OutputLogger, "b")  # errors of single layers

ns.extend_logger_results_with_comparison(
    alone, "a", "b", torch.ao.ns.fx.utils.compute_sqnr, "sqnr"
)
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from tritorch import Tensor
from tritorch.ao.ns.fx.graph_matcher import get_matching_subgraph_pairs
from tritorch.ao.ns.fx.graph_passes import add_loggers_to_model, create_a_shadows_b
from tritorch.ao.ns.fx.mappings import get_base_name_to_sets_of_related_ops
from tritorch.ao.ns.fx.n_shadows_utils import (
    SHADOW_WRAPPER_NODE_NAME_PREFIX,
    OutputProp,
    _get_dedup_subgraphs,
    create_add_loggers_graph,
    create_n_transformed_and_logged_copies_of_subgraph,
    create_results_comparison,
    extract_weight_comparison,
    group_results_by_subgraph,
    print_n_shadows_summary,
)
from tritorch.ao.ns.fx.ns_types import (
    NSNodeTargetType,
    NSResultsType,
    NSSingleResultValuesType,
    NSSubgraph,
)
from tritorch.ao.ns.fx.qconfig_multi_mapping import QConfigMultiMapping
from tritorch.ao.ns.fx.utils import (
    compute_sqnr,
    get_target_type_str,
    maybe_add_missing_fqns,
    rekey_logger_info_on_node_name_of_model,
)
from tritorch.ao.ns.fx.weight_utils import extract_weight_from_node
from tritorch.ao.quantization import quantize_fx
from tritorch.ao.quantization.backend_config import BackendConfig
from tritorch.ao.quantization.backend_config.utils import get_fusion_pattern_to_root_node_getter
from tritorch.ao.quantization.fake_quantize import FakeQuantizeBase
from tritorch.ao.quantization.fx.graph_module import _get_observed_graph_module_attr
from tritorch.ao.quantization.fx.match_utils import _find_matches
from tritorch.ao.quantization.fx.qconfig_mapping_utils import _generate_node_name_to_qconfig
from tritorch.ao.quantization.fx.quantize_handler import _get_pattern_to_quantize_handlers
from tritorch.ao.quantization.observer import ObserverBase
from tritorch.ao.quantization.qconfig_mapping import QConfigMapping
from tritorch.fx import GraphModule
from tritorch.fx.node import Node
from tritorch.nn import Module

RNNReturnType = tuple[Tensor, tuple[Tensor, Tensor]]
_Sets = dict[str, set[NSNodeTargetType]] | None
_Extractors = dict[str, dict[Any, Callable[..., Any]]] | None
_WEIGHT = NSSingleResultValuesType.WEIGHT.value


class OutputLogger(Module):
    """Keeps the values of one node.

    `ref_node_name` is the node for which the logger is there, whose input or output it keeps;
    `prev_node_name` the one whose value it is; `ref_name` is the same in both models.
    """

    stats: list[Tensor]
    stats_rnn: list[RNNReturnType]

    _is_impure = True  # calls stay in graphs, though nothing reads them

    def __init__(
        self,
        ref_node_name: str,
        prev_node_name: str,
        model_name: str,
        ref_name: str,
        prev_node_target_type: str,
        ref_node_target_type: str,
        results_type: str,
        index_within_arg: int,
        index_of_arg: int,
        fqn: str | None,
        qconfig_str: str | None = "",
    ) -> None:
        super().__init__()
        self.stats: list[Tensor] = []
        self.stats_rnn: list[RNNReturnType] = []
        self.ref_node_name = ref_node_name
        self.prev_node_name = prev_node_name
        self.model_name = model_name
        self.ref_name = ref_name
        self.prev_node_target_type = prev_node_target_type
        self.ref_node_target_type = ref_node_target_type
        self.results_type = results_type
        self.index_within_arg = index_within_arg
        self.index_of_arg = index_of_arg
        self.fqn = fqn
        self.enabled = True
        self.qconfig_str = qconfig_str
        self.save_activations = True

    def forward(self, x):  # type: ignore[no-untyped-def]
        if not self.enabled:
            return x
        if not self.save_activations:
            return x
        if isinstance(x, Tensor):
            self.stats.append(x.detach())
        elif isinstance(x, tuple) and len(x) == 2 and len(x[1]) == 2:
            new_res = (x[0].detach(), (x[1][0].detach(), x[1][1].detach()))
            self.stats_rnn.append(new_res)
        return x

    def __repr__(self) -> str:
        hidden = ("training",)
        entries = {k: v for k, v in vars(self).items() if k not in hidden and k[0] != "_"}
        return f"{self._called}({entries})"

    _called = "OutputLogger"


class OutputComparisonLogger(OutputLogger):
    """Keeps the values of a node, and their comparison with a reference."""

    _called = "OutputComparisonLogger"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.comparison_fn = compute_sqnr
        self.comparison_fn_name = "sqnr"
        self.comparisons: list[Any] = []

    def forward(self, x, x_ref):  # type: ignore[no-untyped-def, override]
        if not self.enabled:
            return x
        if not isinstance(x, Tensor):
            raise AssertionError("non-tensor inputs not yet supported")
        if self.save_activations:
            self.stats.append(x.detach())
        self.comparisons.append(self.comparison_fn(x, x_ref))
        return x


class NSTracer(quantize_fx.QuantizationTracer):
    """A tracer for which observers and fake quantizes are leaves too."""

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """True if a module's call is a node."""
        watches = isinstance(m, (ObserverBase, FakeQuantizeBase))
        return watches or super().is_leaf_module(m, module_qualified_name)


def _traced(model: Any) -> GraphModule:
    """The graph of a model, with the paths of modules that `prepare` left."""
    graph_module = GraphModule(model, NSTracer([], []).trace(model))
    scopes = _get_observed_graph_module_attr(model, "node_name_to_scope")
    if scopes is not None:
        graph_module._node_name_to_scope = scopes
    return graph_module


def _extract_weights_one_model(
    model_name: str,
    model: GraphModule,
    nodes_and_names_to_instrument: list[tuple[Node, str]],
    results: NSResultsType,
    op_to_type_to_weight_extraction_fn: _Extractors = None,
) -> None:
    """Adds the weights of these nodes to the results."""
    for node, name in nodes_and_names_to_instrument:
        weight = extract_weight_from_node(node, model, op_to_type_to_weight_extraction_fn)
        if weight:
            results.setdefault(name, {_WEIGHT: {}})[_WEIGHT][model_name] = [weight]


def _extract_weights_impl(
    model_name_a: str,
    gm_a: GraphModule,
    model_name_b: str,
    gm_b: GraphModule,
    base_name_to_sets_of_related_ops: _Sets = None,
    unmatchable_types_map: _Sets = None,
    op_to_type_to_weight_extraction_fn: _Extractors = None,
) -> NSResultsType:
    pairs = get_matching_subgraph_pairs(
        gm_a, gm_b, base_name_to_sets_of_related_ops, unmatchable_types_map
    )
    results: NSResultsType = {}
    for index, (name, model) in enumerate(((model_name_a, gm_a), (model_name_b, gm_b))):
        nodes = [(pair[index].base_op_node, key) for key, pair in pairs.items()]
        _extract_weights_one_model(name, model, nodes, results, op_to_type_to_weight_extraction_fn)
    maybe_add_missing_fqns(results)
    return rekey_logger_info_on_node_name_of_model(results, model_name_b)


def extract_weights(
    model_name_a: str,
    model_a: Module,
    model_name_b: str,
    model_b: Module,
    base_name_to_sets_of_related_ops: _Sets = None,
    unmatchable_types_map: _Sets = None,
    op_to_type_to_weight_extraction_fn: _Extractors = None,
) -> NSResultsType:
    """Weights of two models' corresponding layers; the tables say what corresponds, what cannot,
    and how to get a weight."""
    if base_name_to_sets_of_related_ops is None:
        base_name_to_sets_of_related_ops = get_base_name_to_sets_of_related_ops()
    return _extract_weights_impl(
        model_name_a,
        _traced(model_a),
        model_name_b,
        _traced(model_b),
        base_name_to_sets_of_related_ops,
        unmatchable_types_map,
        op_to_type_to_weight_extraction_fn,
    )


def _add_loggers_one_model(
    model_name: str,
    model: GraphModule,
    nodes_and_names_to_instrument_inputs: list[tuple[Node, str, str]],
    nodes_and_names_to_instrument_outputs: list[tuple[Node, str, str]],
    logger_cls: Callable[..., Any],
) -> Module:
    """A model with loggers of inputs and outputs of these nodes, with their names and types."""
    inputs = {node: (name, kind) for node, name, kind in nodes_and_names_to_instrument_inputs}
    outputs = {node: (name, kind) for node, name, kind in nodes_and_names_to_instrument_outputs}
    return add_loggers_to_model(model, inputs, outputs, logger_cls, model_name)


def _add_loggers_impl(
    name_a: str,
    gm_a: GraphModule,
    name_b: str,
    gm_b: GraphModule,
    logger_cls: Callable[..., Any],
    should_log_inputs: bool,
    base_name_to_sets_of_related_ops: _Sets = None,
    unmatchable_types_map: _Sets = None,
) -> tuple[Module, Module]:
    pairs = get_matching_subgraph_pairs(
        gm_a, gm_b, base_name_to_sets_of_related_ops, unmatchable_types_map
    )

    def logged(index: int, name: str, model: GraphModule) -> Module:
        inputs, outputs = [], []
        for key, pair in pairs.items():
            subgraph: NSSubgraph = pair[index]
            kind = get_target_type_str(subgraph.base_op_node, model)
            if should_log_inputs:
                inputs.append((subgraph.start_node, key, kind))
            outputs.append((subgraph.end_node, key, kind))
        return _add_loggers_one_model(name, model, inputs, outputs, logger_cls)

    return logged(0, name_a, gm_a), logged(1, name_b, gm_b)


def add_loggers(
    name_a: str,
    model_a: Module,
    name_b: str,
    model_b: Module,
    logger_cls: Callable[..., Any],
    should_log_inputs: bool = False,
    base_name_to_sets_of_related_ops: _Sets = None,
    unmatchable_types_map: _Sets = None,
) -> tuple[Module, Module]:
    """Two models with loggers of the outputs, or inputs too, of corresponding layers; both models
    are changed."""
    return _add_loggers_impl(
        name_a,
        _traced(model_a),
        name_b,
        _traced(model_b),
        logger_cls,
        should_log_inputs=should_log_inputs,
        base_name_to_sets_of_related_ops=base_name_to_sets_of_related_ops,
        unmatchable_types_map=unmatchable_types_map,
    )


_LOGGED = [
    "ref_node_name",
    "ref_node_target_type",
    "prev_node_name",
    "prev_node_target_type",
    "index_within_arg",
    "index_of_arg",
    "fqn",
    "qconfig_str",
]


def _extract_logger_info_one_model(
    model: Module, results: NSResultsType, logger_cls: Callable[..., Any]
) -> None:
    """Adds to the results what a model's loggers, scripted ones too, have seen."""
    for _, module in model.named_modules():
        scripted = getattr(module, "original_name", None) == "OutputLogger"
        if not isinstance(module, logger_cls) and not scripted:  # type: ignore[arg-type]
            continue
        by_kind = results.setdefault(module.ref_name, {})
        if module.model_name in by_kind:
            raise AssertionError(f"{module.model_name} is already present in results")
        entries = by_kind.setdefault(module.results_type, {}).setdefault(module.model_name, [])
        seen_rnn = module.stats_rnn
        entries.append(
            {
                "type": module.results_type,
                "values": seen_rnn if len(seen_rnn) > 0 else module.stats,
                **{key: getattr(module, key) for key in _LOGGED},
                "comparisons": getattr(module, "comparisons", []),
                "comparison_fn_name": getattr(module, "comparison_fn_name", ""),
            }
        )
        entries.sort(key=lambda entry: f"{entry['index_of_arg']}:{entry['index_within_arg']}")


def extract_logger_info(
    model_a: Module,
    model_b: Module,
    logger_cls: Callable[..., Any],
    model_name_to_use_for_layer_names: str,
) -> NSResultsType:
    """Values that the loggers of two models have seen, by the names of one model's nodes."""
    results: NSResultsType = {}
    for model in (model_a, model_b):
        _extract_logger_info_one_model(model, results, logger_cls)
    maybe_add_missing_fqns(results)
    return rekey_logger_info_on_node_name_of_model(results, model_name_to_use_for_layer_names)


def _add_shadow_loggers_impl(
    name_a: str,
    gm_a: GraphModule,
    name_b: str,
    gm_b: GraphModule,
    logger_cls: Callable[..., Any],
    should_log_inputs: bool,
    base_name_to_sets_of_related_ops: _Sets = None,
    node_type_to_io_type_map: _Sets = None,
    unmatchable_types_map: _Sets = None,
) -> Module:
    pairs = get_matching_subgraph_pairs(
        gm_a, gm_b, base_name_to_sets_of_related_ops, unmatchable_types_map
    )
    return create_a_shadows_b(
        name_a,
        gm_a,
        name_b,
        gm_b,
        pairs,
        logger_cls,
        should_log_inputs=should_log_inputs,
        node_type_to_io_type_map=node_type_to_io_type_map,
    )


def add_shadow_loggers(
    name_a: str,
    model_a: Module,
    name_b: str,
    model_b: Module,
    logger_cls: Callable[..., Any],
    should_log_inputs: bool = False,
    base_name_to_sets_of_related_ops: _Sets = None,
    node_type_to_io_type_map: _Sets = None,
    unmatchable_types_map: _Sets = None,
) -> Module:
    """The second model with the layers of the first beside its own, and loggers of both."""
    return _add_shadow_loggers_impl(
        name_a,
        _traced(model_a),
        name_b,
        _traced(model_b),
        logger_cls,
        should_log_inputs=should_log_inputs,
        base_name_to_sets_of_related_ops=base_name_to_sets_of_related_ops,
        node_type_to_io_type_map=node_type_to_io_type_map,
        unmatchable_types_map=unmatchable_types_map,
    )


def extract_shadow_logger_info(
    model_a_shadows_b: Module,
    logger_cls: Callable[..., Any],
    model_name_to_use_for_layer_names: str,
) -> NSResultsType:
    """Values that the loggers of a model with shadows saw, by the names of one model's nodes."""
    results: NSResultsType = collections.defaultdict(dict)
    _extract_logger_info_one_model(model_a_shadows_b, results, logger_cls)
    maybe_add_missing_fqns(results)
    name = model_name_to_use_for_layer_names
    return dict(rekey_logger_info_on_node_name_of_model(results, name))


def extend_logger_results_with_comparison(
    results: NSResultsType,
    model_name_1: str,
    model_name_2: str,
    comparison_fn: Callable[[Tensor, Tensor], Tensor],
    comparison_name: str,
) -> None:
    """Adds to the second model's results comparisons with those of the first, by a name."""
    for by_kind in results.values():
        for by_model in by_kind.values():
            for name in (model_name_1, model_name_2):
                if name not in by_model:
                    raise AssertionError(f"{name} not found in results")
            references = {
                (entry["index_within_arg"], entry["index_of_arg"]): entry
                for entry in reversed(by_model[model_name_1])
            }
            for entry in by_model[model_name_2]:
                reference = references.get((entry["index_within_arg"], entry["index_of_arg"]))
                if reference is None:
                    raise AssertionError("Expected result_1 to be not None")
                pairs = zip(reference["values"], entry["values"])
                entry[comparison_name] = [comparison_fn(one, other) for one, other in pairs]


def _traced_with_matches(
    model: Module, example_inputs: Any, backend_config: BackendConfig, tracer: Any
) -> tuple[GraphModule, dict[str, Any], dict[str, list[Node]]]:
    """A traced model that has run, its modules, and the operations that a backend quantizes."""
    mt = GraphModule(model, tracer.trace(model))
    mt._node_name_to_scope = tracer.node_name_to_scope
    OutputProp(mt).propagate(*example_inputs)
    modules = dict(mt.named_modules(remove_duplicate=False))
    matches = _find_matches(
        mt.graph,
        modules,
        _get_pattern_to_quantize_handlers(backend_config),
        get_fusion_pattern_to_root_node_getter(backend_config),
    )
    return mt, modules, _get_dedup_subgraphs(matches)


def prepare_n_shadows_model(
    model: Module,
    example_inputs: Any,
    qconfig_multi_mapping: QConfigMultiMapping,
    backend_config: BackendConfig,
    custom_prepare_fn: Callable[..., Any] | None = None,
    custom_prepare_kwargs: dict[str, Any] | None = None,
    custom_tracer: Any = None,
) -> GraphModule:
    """A model with prepared copies of each operation that a backend quantizes beside it, one for
    each configuration, and loggers that compare their outputs."""
    tracer = custom_tracer or quantize_fx.QuantizationTracer([], [])
    mt, modules, subgraphs = _traced_with_matches(model, example_inputs, backend_config, tracer)
    mappings = qconfig_multi_mapping.qconfig_mappings_list
    qconfigs = [
        _generate_node_name_to_qconfig(mt, modules, mt.graph, mapping, tracer.node_name_to_scope)
        for mapping in mappings
    ]
    for index, (name, nodes) in enumerate(subgraphs.items()):
        create_n_transformed_and_logged_copies_of_subgraph(
            mt,
            index,
            name,
            nodes,
            mappings,
            qconfigs,
            custom_prepare_fn,
            custom_prepare_kwargs,
        )
    return mt


def _prepare_n_shadows_add_loggers_model(
    model: Module,
    example_inputs: Any,
    qconfig_mapping: QConfigMapping,
    backend_config: BackendConfig,
) -> Module:
    """A model with a second way through it on which operations with a configuration are prepared,
    and loggers that compare each step of both: as `add_loggers`, in one model."""
    tracer = quantize_fx.QuantizationTracer([], [])
    mt, modules, subgraphs = _traced_with_matches(model, example_inputs, backend_config, tracer)
    qconfigs = _generate_node_name_to_qconfig(
        mt, modules, mt.graph, qconfig_mapping, tracer.node_name_to_scope
    )
    create_add_loggers_graph(mt, subgraphs, qconfig_mapping, qconfigs)
    return mt


def _n_shadows_compare_weights(
    model: Module,
    example_inputs: Any,
    qconfig_mapping: QConfigMapping,
    backend_config: BackendConfig,
) -> NSResultsType:
    """Weights of linear functions, and as one configuration quantizes them."""
    mapping = QConfigMultiMapping.from_list_qconfig_mapping([qconfig_mapping])
    prepared = prepare_n_shadows_model(model, example_inputs, mapping, backend_config)
    prepared(*example_inputs)
    return extract_weight_comparison(convert_n_shadows_model(prepared))


def loggers_set_enabled(model: Module, enabled: bool) -> None:
    """Makes all loggers of a model keep values, or none."""
    for module in model.modules():
        if isinstance(module, OutputLogger):
            module.enabled = enabled


def loggers_set_save_activations(model: Module, save_activations: bool) -> None:
    """Makes all loggers of a model keep tensors, or comparisons alone."""
    for module in model.modules():
        if isinstance(module, OutputLogger):
            module.save_activations = save_activations


def convert_n_shadows_model(
    model: GraphModule,
    custom_convert_fn: Callable[..., Any] | None = None,
    custom_convert_kwargs: dict[str, Any] | None = None,
) -> GraphModule:
    """Converts the prepared copies of `prepare_n_shadows_model`, in place."""
    for node in model.graph.nodes:
        if node.name.startswith(SHADOW_WRAPPER_NODE_NAME_PREFIX):
            prepared = getattr(model, node.name)
            if custom_convert_fn is None:
                converted = quantize_fx.convert_fx(prepared)
            else:
                converted = custom_convert_fn(prepared, **(custom_convert_kwargs or {}))
            setattr(model, node.name, converted)
    return model


def extract_results_n_shadows_model(model: Module) -> NSResultsType:
    """Values that the loggers of a model with copies have seen."""
    results: NSResultsType = {}
    _extract_logger_info_one_model(model, results, OutputLogger)
    return results


def print_comparisons_n_shadows_model(results: NSResultsType) -> None:
    """Prints the average comparisons of all copies."""
    print_n_shadows_summary(create_results_comparison(group_results_by_subgraph(results)))
