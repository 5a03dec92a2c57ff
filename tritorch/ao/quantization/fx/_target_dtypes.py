"""Types that nodes of a graph shall have: `node.meta["target_dtype_info"]`, from qconfigs and from
what a backend supports.

An entry has constructors of observers for the node's input, output, weight and bias, from whose
instances types follow; None stands for what is no float tensor.
"""

from __future__ import annotations

import copy
from typing import Any

import tritorch
from tritorch.ao.quantization import qconfig as qconfigs
from tritorch.ao.quantization.backend_config import BackendConfig, DTypeConfig
from tritorch.ao.quantization.backend_config.utils import (
    get_fusion_pattern_to_root_node_getter,
    get_pattern_to_dtype_configs,
)
from tritorch.ao.quantization.fx.quantize_handler import (
    QuantizeHandler,
    _default_root_node_getter,
)
from tritorch.ao.quantization.fx.utils import (
    NON_QUANTIZABLE_WEIGHT_OPS,
    _qconfig_satisfies_dtype_config_constraints,
    all_node_args_have_no_tensors,
    get_non_observable_arg_indexes_and_types,
    node_arg_is_bias,
    node_arg_is_weight,
)
from tritorch.ao.quantization.observer import PlaceholderObserver
from tritorch.ao.quantization.qconfig import QConfigAny, _is_reuse_input_qconfig
from tritorch.ao.quantization.utils import get_qconfig_dtypes
from tritorch.core.dtype import dtype as DType
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node
from tritorch.nn import Module

_FLOAT = PlaceholderObserver.with_args(dtype=tritorch.float32)


def _same_for_both(qconfig: Any) -> dict[str, Any]:
    return {
        "input_act_obs_or_fq_ctr": qconfig.activation,
        "output_act_obs_or_fq_ctr": qconfig.activation,
    }


_DEFAULT_FP32_INFO = _same_for_both(qconfigs._default_fp32_placeholder_qconfig)
_DEFAULT_QUINT8_INFO = _same_for_both(qconfigs._default_quint8_placeholder_qconfig)
_NO_TENSOR_INFO = {"input_act_obs_or_fq_ctr": None, "output_act_obs_or_fq_ctr": None}


def info_of(node: Node) -> dict[str, Any]:
    """A node's entry."""
    if "quantization_annotation" in node.meta:
        raise NotImplementedError(
            "Please use torchao (https://github.com/pytorch/ao) for pt2e quantization flow"
        )
    if "target_dtype_info" not in node.meta:
        raise AssertionError("expected 'target_dtype_info' in node.meta")
    return node.meta["target_dtype_info"]


def input_constructor(node: Node, arg: Node) -> Any:
    """The constructor of the observer of an argument of a node."""
    info = info_of(node)
    if node_arg_is_weight(node, arg):
        if node.target in NON_QUANTIZABLE_WEIGHT_OPS:
            return None
        return info.get("weight_obs_or_fq_ctr", _FLOAT)
    key = "bias_obs_or_fq_ctr" if node_arg_is_bias(node, arg) else "input_act_obs_or_fq_ctr"
    return info.get(key, _FLOAT)


class TargetDtypes:
    """The entries of a graph's nodes, and questions about them for one backend."""

    def __init__(self, backend_config: BackendConfig, named_modules: dict[str, Module]) -> None:
        self.backend_config = backend_config
        self.named_modules = named_modules
        self.dtype_configs = get_pattern_to_dtype_configs(backend_config)
        self.root_getters = get_fusion_pattern_to_root_node_getter(backend_config)
        self._without_tensors: dict[Node, bool] = {}
        self._dtypes: dict[int, tuple[Any, tuple[DType | None, bool]]] = {}

    def of(self, constructor: Any) -> tuple[DType | None, bool]:
        """Type and dynamism of what a constructor makes; it is kept with the answer, so that its
        id stays its own."""
        if constructor is None:
            return None, False
        known = self._dtypes.get(id(constructor))
        if known is None:
            made = constructor()
            answer = (made.dtype, getattr(made, "is_dynamic", False))
            known = self._dtypes[id(constructor)] = (constructor, answer)
        return known[1]

    def root_node(self, pattern: Any, matched: Any) -> Node:
        """The node of a match that reads its inputs."""
        return self.root_getters.get(pattern, _default_root_node_getter)(matched)

    def initialize(
        self, graph: Graph, matches: dict[str, Any], inputs: list[int], outputs: list[int]
    ) -> None:
        """Fills the entries: floats at first, then what qconfigs say, then what is quantized
        outside or no float, and floats again for what the backend does not support."""
        for node in graph.nodes:
            node.meta["target_dtype_info"] = copy.copy(_DEFAULT_FP32_INFO)
        self._apply(matches)
        counts = {"placeholder": 0, "output": 0}
        for node in graph.nodes:
            if node.op in counts:
                quantized = inputs if node.op == "placeholder" else outputs
                if counts[node.op] in quantized:
                    node.meta["target_dtype_info"] = copy.copy(_DEFAULT_QUINT8_INFO)
                counts[node.op] += 1
            elif node.op != "get_attr" and self._has_no_tensors(node):
                node.meta["target_dtype_info"] = dict(_NO_TENSOR_INFO)
        propagate_dtypes_for_known_nodes(graph, matches)
        fallback = qconfigs._default_fp32_placeholder_qconfig
        done: set[Node] = set()
        for _, matched, pattern, handler, qconfig in matches.values():
            supported = self.is_supported(pattern, matched, qconfig)
            if handler is None:
                raise AssertionError("qhandler must not be None")
            if not supported:
                self._set(matched, fallback, None, done)

    def _apply(self, matches: dict[str, Any]) -> None:
        done: set[Node] = set()
        for _, matched, _, handler, qconfig in matches.values():
            if handler is None:
                raise AssertionError("qhandler must not be None")
            self._set(matched, qconfig, handler, done)

    def _has_no_tensors(self, node: Node) -> bool:
        return all_node_args_have_no_tensors(node, self.named_modules, self._without_tensors)

    def _set(
        self, matched: Any, qconfig: QConfigAny, handler: QuantizeHandler | None, done: set[Node]
    ) -> None:
        """Sets the entries of a match's nodes, each once."""
        if isinstance(matched, (list, tuple)):
            for entry in matched:
                self._set(entry, qconfig, handler, done)
        elif isinstance(matched, Node) and matched not in done:
            done.add(matched)
            if qconfig is not None:
                matched.meta["target_dtype_info"] = self._info(matched, qconfig, handler)

    def _info(self, node: Node, qconfig: Any, handler: QuantizeHandler | None) -> dict[str, Any]:
        if self._has_no_tensors(node):
            return dict(_NO_TENSOR_INFO)
        activation, weight, is_dynamic = get_qconfig_dtypes(qconfig)
        half = tritorch.float16
        all_half = activation == half and weight == half and not is_dynamic
        bias = half if all_half else tritorch.float32
        config = None
        if node.op == "call_function":
            config = self.backend_config._pattern_complex_format_to_config.get(node.target)
        indices = {} if config is None else config._input_type_to_index
        return {
            "input_act_obs_or_fq_ctr": qconfig.activation,
            "weight_obs_or_fq_ctr": qconfig.weight,
            "bias_obs_or_fq_ctr": PlaceholderObserver.with_args(dtype=bias),
            "weight_index": indices.get("weight"),
            "bias_index": indices.get("bias"),
            "output_act_obs_or_fq_ctr": qconfig.activation,
            "reuse_input_obs_or_fq": _is_reuse_input_qconfig(qconfig),
            "input_output_share_observers": (
                handler is not None and handler.is_general_tensor_value_op()
            ),
            "_is_standalone_module": handler is not None and handler.is_standalone_module(),
        }

    def is_supported(self, pattern: Any, matched: Any, qconfig: QConfigAny) -> bool:
        """True if the backend has a combination of types that is that of a match's entries."""
        if pattern is None:
            return True
        if matched is None or len(matched) < 1:
            raise AssertionError("matched_node_pattern must be non-empty")
        first, last = self.root_node(pattern, matched), matched[0]
        arguments = [*first.args, *first.kwargs.values()]
        return any(
            all(self._input_supported(arg, first, qconfig, config) for arg in arguments)
            and self._output_supported(last, qconfig, config)
            for config in self.dtype_configs.get(pattern, [])
        )

    def _input_supported(
        self, arg: Any, node: Node, qconfig: QConfigAny, config: DTypeConfig
    ) -> bool:
        if isinstance(arg, (list, tuple)):
            return all(self._input_supported(entry, node, qconfig, config) for entry in arg)
        if not isinstance(arg, Node):
            return True
        info = node.meta["target_dtype_info"]
        if node_arg_is_weight(node, arg):
            dtype, _ = self.of(info.get("weight_obs_or_fq_ctr"))
            meets = _qconfig_satisfies_dtype_config_constraints(
                qconfig, config.weight_dtype_with_constraints, is_activation=False
            )
            return config.weight_dtype is None or (dtype == config.weight_dtype and meets)
        if node_arg_is_bias(node, arg):
            dtype, _ = self.of(info.get("bias_obs_or_fq_ctr"))
            return config.bias_dtype is None or dtype == config.bias_dtype
        dtype, is_dynamic = self.of(info.get("input_act_obs_or_fq_ctr"))
        return config.input_dtype is None or (
            config.input_dtype == dtype
            and bool(config.is_dynamic) == bool(is_dynamic)
            and _qconfig_satisfies_dtype_config_constraints(
                qconfig, config.input_dtype_with_constraints
            )
        )

    def _output_supported(self, node: Node, qconfig: QConfigAny, config: DTypeConfig) -> bool:
        info = node.meta["target_dtype_info"]
        dtype, is_dynamic = self.of(info.get("output_act_obs_or_fq_ctr", _FLOAT))
        if is_dynamic:  # a dynamic activation is that of the input
            dtype = tritorch.float32
        meets = _qconfig_satisfies_dtype_config_constraints(
            qconfig, config.output_dtype_with_constraints
        )
        return config.output_dtype is None or (dtype == config.output_dtype and meets)


def _set_no_float(node: Node, matches: dict[str, Any]) -> None:
    """Sets the entry of a node that is no float tensor, and of what it copies its input from."""
    node.meta["target_dtype_info"] |= _NO_TENSOR_INFO
    handler = matches[node.name][3] if node.name in matches else None
    if handler is not None and handler.is_general_tensor_value_op():
        if isinstance(node.args[0], Node):
            _set_no_float(node.args[0], matches)


def propagate_dtypes_for_known_nodes(
    graph: Graph, node_name_to_match_result_with_qconfig: dict[str, Any]
) -> None:
    """Sets the entries of arguments that are surely no float tensors, as the mask of
    masked_fill."""
    for node in graph.nodes:
        for indices in get_non_observable_arg_indexes_and_types(node).values():
            for index in indices(node):
                arg = node.args[index]
                for entry in arg if isinstance(arg, (tuple, list)) else [arg]:
                    if isinstance(entry, Node):
                        _set_no_float(entry, node_name_to_match_result_with_qconfig)
