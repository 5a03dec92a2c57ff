"""Nodes, observers and names, as the passes of quantization need them."""

from __future__ import annotations

import copy
import operator
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import tritorch
from tritorch.ao.quantization.backend_config import DTypeWithConstraints
from tritorch.ao.quantization.fake_quantize import FakeQuantizeBase, FixedQParamsFakeQuantize
from tritorch.ao.quantization.fx._decomposed import quantized_decomposed_lib  # noqa: F401
from tritorch.ao.quantization.fx._lstm_output import (  # noqa: F401
    _insert_dequant_stub,
    _insert_dequant_stubs_for_custom_module_lstm_output,
    _maybe_get_custom_module_lstm_from_node_arg,
    _reroute_tuple_getitem_pattern,
)
from tritorch.ao.quantization.fx._nodes import (
    _get_module,
    _is_custom_module_lstm,
    _is_custom_module_mha,
    assert_and_get_unique_device,
    create_getattr_from_value,
    get_new_attr_name_with_prefix,
)
from tritorch.ao.quantization.fx.custom_config import PrepareCustomConfig
from tritorch.ao.quantization.observer import (
    FixedQParamsObserver,
    ObserverBase,
    _is_activation_post_process,
)
from tritorch.ao.quantization.qconfig import (
    QConfigAny,
    float16_dynamic_qconfig,
    float16_static_qconfig,
    qconfig_equals,
)
from tritorch.ao.quantization.qconfig_mapping import QConfigMapping
from tritorch.ao.quantization.quant_type import QuantType
from tritorch.core.dtype import dtype as DType
from tritorch.fx import GraphModule
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node, map_arg
from tritorch.nn import Module, functional

__all__ = [
    "EMPTY_ARG_DICT",
    "NON_OBSERVABLE_ARG_DICT",
    "NON_QUANTIZABLE_WEIGHT_OPS",
    "NodeInfo",
    "ObservedGraphModuleAttrs",
    "all_node_args_except_first",
    "all_node_args_have_no_tensors",
    "assert_and_get_unique_device",
    "collect_producer_nodes",
    "create_getattr_from_value",
    "create_node_from_old_node_preserve_meta",
    "get_custom_module_class_keys",
    "get_linear_prepack_op_for_dtype",
    "get_new_attr_name_with_prefix",
    "get_non_observable_arg_indexes_and_types",
    "get_qconv_prepack_op",
    "get_skipped_module_name_and_classes",
    "graph_module_from_producer_nodes",
    "maybe_get_next_module",
    "node_arg_is_bias",
    "node_arg_is_weight",
    "return_arg_list",
]

# What other files take from here, as from PyTorch's file.
_PRIVATE = (_get_module, _is_custom_module_lstm, _is_custom_module_mha)

NON_QUANTIZABLE_WEIGHT_OPS = {
    functional.layer_norm,
    functional.group_norm,
    functional.instance_norm,
}


@dataclass
class ObservedGraphModuleAttrs:
    """Data that `prepare` leaves in a model's meta for `convert`."""

    node_name_to_qconfig: dict[str, QConfigAny]
    node_name_to_scope: dict[str, tuple[str, type]]
    prepare_custom_config: PrepareCustomConfig
    equalization_node_name_to_qconfig: dict[str, Any]
    qconfig_mapping: QConfigMapping
    is_qat: bool
    observed_node_names: set[str]
    is_observed_standalone_module: bool = False
    standalone_module_input_quantized_idxs: list[int] | None = None
    standalone_module_output_quantized_idxs: list[int] | None = None


def _is_named_arg(node: Node, arg: Any, name: str) -> bool:
    """True if an argument is the node's weight or bias, by keyword or by the backend's index."""
    index = node.meta.get("target_dtype_info", {}).get(f"{name}_index")
    if index is not None and index < len(node.args) and node.args[index] is arg:
        return True
    return node.kwargs.get(name) is arg


def node_arg_is_weight(node: Node, arg: Any) -> bool:
    """True if an argument of a node is its weight."""
    return _is_named_arg(node, arg, "weight")


def node_arg_is_bias(node: Node, arg: Any) -> bool:
    """True if an argument of a node is its bias."""
    return _is_named_arg(node, arg, "bias")


def get_custom_module_class_keys(
    custom_module_mapping: dict[QuantType, dict[type, type]],
) -> list[Any]:
    """The classes that a mapping by kinds of quantization swaps, each once."""
    kinds = (QuantType.STATIC, QuantType.DYNAMIC, QuantType.WEIGHT_ONLY)
    return list({key for kind in kinds for key in custom_module_mapping.get(kind, {})})


def get_linear_prepack_op_for_dtype(dtype: DType) -> Any:
    """The operator that packs a linear layer's weight of a type."""
    if dtype == tritorch.float16:
        return tritorch.ops.quantized.linear_prepack_fp16
    if dtype == tritorch.qint8:
        return tritorch.ops.quantized.linear_prepack
    raise Exception("can't get linear prepack op for dtype:", dtype)


_CONVOLUTIONS = (
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
)


def get_qconv_prepack_op(conv_op: Callable[..., Any]) -> Any:
    """The operator that packs the weight of a convolution of torch.nn.functional."""
    for name in _CONVOLUTIONS:
        if conv_op is getattr(functional, name) or conv_op is getattr(tritorch, name):
            return getattr(tritorch.ops.quantized, f"{name}_prepack")
    raise AssertionError(f"Didn't find prepack op for {conv_op}")


def collect_producer_nodes(node: Node) -> list[Node] | None:
    """A node and all that it reads, up to attributes; None if an input of the graph is among
    them."""
    nodes = [node]
    pending = [node]
    while pending:
        current = pending.pop()
        for arg in (*current.args, *current.kwargs.values()):
            if not isinstance(arg, Node):
                continue
            if arg.op == "placeholder":
                return None
            nodes.append(arg)
            if not (arg.op == "call_function" and arg.target is getattr):
                pending.append(arg)
    return nodes


def graph_module_from_producer_nodes(root: GraphModule, producer_nodes: list[Node]) -> GraphModule:
    """A graph module of the nodes that `collect_producer_nodes` gave, which it returns the first
    of."""
    if len(producer_nodes) == 0:
        raise AssertionError("list of producer nodes can not be empty")
    producer_nodes.reverse()
    graph = Graph()
    copied: dict[Any, Any] = {}

    def load_arg(arg: Any) -> Any:
        return map_arg(arg, lambda node: copied[node])

    for node in producer_nodes:
        copied[node] = graph.node_copy(node, load_arg)
    graph.output(load_arg(producer_nodes[-1]))
    return GraphModule(root, graph)


def all_node_args_have_no_tensors(
    node: Any, modules: dict[str, Module], cache: dict[Node, bool]
) -> bool:
    """True if surely no argument of a node is a tensor; sizes and the like are none."""
    if not isinstance(node, Node):
        return True
    if node not in cache:
        cache[node] = _reads_no_tensors(node, modules, cache)
    return cache[node]


def _reads_no_tensors(node: Node, modules: dict[str, Module], cache: dict[Node, bool]) -> bool:
    if node.op in ("placeholder", "get_attr"):
        return False
    if node.op == "call_module":
        return _is_activation_post_process(
            modules[str(node.target)]
        ) and all_node_args_have_no_tensors(node.args[0], modules, cache)
    if node.op == "call_function" and node.target is operator.getitem:
        return all_node_args_have_no_tensors(node.args[0], modules, cache)
    if node.target is getattr and node.args[1] in ("ndim", "shape"):
        return True
    if node.op == "call_method" and node.target == "size":
        return True
    if not node.args:
        return False
    for arg in node.args:
        entries: Iterable[Any] = (
            [each for each in arg if isinstance(each, Node)] if isinstance(arg, list) else [arg]
        )
        for entry in entries:
            if isinstance(entry, int):
                continue
            if not isinstance(entry, Node):
                return False
            if not all_node_args_have_no_tensors(entry, modules, cache):
                return False
    return True


def all_node_args_except_first(node: Node) -> list[int]:
    """Indices of a node's arguments after the first."""
    return list(range(1, len(node.args)))


def return_arg_list(arg_indices: list[int]) -> Callable[[Node], list[int]]:
    """A function that gives those of the indices that a node has arguments at."""

    def arg_indices_func(node: Node) -> list[int]:
        return [index for index in arg_indices if index < len(node.args)]

    return arg_indices_func


NodeInfo = namedtuple("NodeInfo", "op target")

_ArgIndices = dict[Any, Callable[[Node], list[int]]]

# Arguments that are no float tensors and are not observed, by their types.
NON_OBSERVABLE_ARG_DICT: dict[NodeInfo, _ArgIndices] = {
    NodeInfo("call_method", "masked_fill"): {
        tritorch.bool: return_arg_list([1]),
        float: return_arg_list([2]),
    },
    **{
        NodeInfo("call_method", target): {int: all_node_args_except_first}
        for target in ("permute", "repeat", "reshape", "transpose", tritorch.transpose, "view")
    },
    **{
        NodeInfo("call_method", target): {int: return_arg_list([1])}
        for target in ("size", "unsqueeze", "unsqueeze_", tritorch.unsqueeze)
    },
}

EMPTY_ARG_DICT: _ArgIndices = {}


def get_non_observable_arg_indexes_and_types(node: Node) -> _ArgIndices:
    """Functions that give indices of arguments that are not observed, by these arguments' types."""
    return NON_OBSERVABLE_ARG_DICT.get(NodeInfo(node.op, node.target), EMPTY_ARG_DICT)


def maybe_get_next_module(
    node: Node,
    modules: dict[str, Module],
    target_module_type: type[Module] | None = None,
    target_functional_type: Any = None,
) -> Node | None:
    """The first user of a node that calls a module of the type, or the function."""
    for user in node.users:
        if user.op == "call_module" and target_module_type is not None:
            if isinstance(modules[str(user.target)], target_module_type):
                return user
        elif user.op == "call_function" and target_functional_type is not None:
            if user.target == target_functional_type:
                return user
    return None


def create_node_from_old_node_preserve_meta(
    quantized_graph: Graph, create_node_args: tuple[Any, ...], old_node: Node
) -> Node:
    """A new node with the stack trace of another."""
    node = quantized_graph.create_node(*create_node_args)
    node.stack_trace = old_node.stack_trace
    return node


def get_skipped_module_name_and_classes(
    prepare_custom_config: PrepareCustomConfig, is_standalone_module: bool
) -> tuple[list[str], list[type[Any]]]:
    """Names and classes of modules that are not traced; within a standalone module, those that it
    says itself."""
    custom = prepare_custom_config
    names = copy.copy(custom.non_traceable_module_names)
    classes = copy.copy(custom.non_traceable_module_classes)
    if not is_standalone_module:
        names += list(custom.standalone_module_names)
        classes += list(custom.standalone_module_classes)
        classes += get_custom_module_class_keys(custom.float_to_observed_mapping)
    return names, classes


def _get_observer_from_activation_post_process(
    activation_post_process: ObserverBase | FakeQuantizeBase,
) -> ObserverBase:
    """An observer, or the one of a fake quantize."""
    if isinstance(activation_post_process, ObserverBase):
        return activation_post_process
    if not isinstance(activation_post_process, FakeQuantizeBase):
        raise AssertionError("activation_post_process must be an ObserverBase or FakeQuantizeBase")
    return activation_post_process.activation_post_process


_SUGGESTION = (
    "Please use torch.ao.quantization.get_default_qconfig_mapping or "
    "torch.ao.quantization.get_default_qat_qconfig_mapping. Example:\n"
    '    qconfig_mapping = get_default_qconfig_mapping("fbgemm")\n'
    "    model = prepare_fx(model, qconfig_mapping, example_inputs)"
)


def _unmet_constraint(
    made: Any, allowed: DTypeWithConstraints, qconfig: QConfigAny, called: str
) -> str | None:
    """A warning of what in an observer or fake quantize a backend does not allow."""
    observer: Any = _get_observer_from_activation_post_process(made)
    low, high = allowed.quant_min_lower_bound, allowed.quant_max_upper_bound
    if low is not None and high is not None:
        qmin, qmax = getattr(observer, "quant_min", None), getattr(observer, "quant_max", None)
        if qmin is None or qmax is None:
            return f"QConfig {called} must specify 'quant_min' and 'quant_max', ignoring {qconfig}"
        if qmin < low or qmax > high:
            return (
                f"QConfig {called} quantization range must fall within the backend's:\n"
                f"QConfig range = ({qmin}, {qmax}), "
                f"BackendConfig range = ({low}, {high}), ignoring {qconfig}"
            )
    least = allowed.scale_min_lower_bound
    if least is not None:
        eps = getattr(observer, "eps", None)
        if eps is None:
            return f"QConfig {called} must specify 'eps', ignoring {qconfig}"
        if eps < least:
            return (
                f"QConfig {called} eps ({eps}) must be greater than or equal to "
                f"the backend's min scale value ({least}), ignoring {qconfig}"
            )
    scale, zero_point = allowed.scale_exact_match, allowed.zero_point_exact_match
    if scale is not None and zero_point is not None:
        if any(
            qconfig_equals(qconfig, accepted)
            for accepted in (float16_static_qconfig, float16_dynamic_qconfig)
        ):
            return None
        if not isinstance(made, (FixedQParamsObserver, FixedQParamsFakeQuantize)):
            return (
                "QConfig must specify a FixedQParamsObserver or a FixedQParamsFakeQuantize "
                f"for fixed qparams ops, ignoring {qconfig}.\n{_SUGGESTION}"
            )
        if observer.scale != scale or observer.zero_point != zero_point:
            return (
                f"QConfig fixed scale ({observer.scale}) and zero point ({observer.zero_point}) "
                f"do not match the backend's ({scale} and {zero_point}), "
                f"ignoring {qconfig}.\n{_SUGGESTION}"
            )
    return None


def _qconfig_satisfies_dtype_config_constraints(
    qconfig: QConfigAny,
    dtype_with_constraints: DTypeWithConstraints,
    is_activation: bool = True,
) -> bool:
    """True if a qconfig's range, smallest scale and fixed parameters are those that a backend
    allows for a type; warns if not. Other types are not its matter."""
    if qconfig is None or dtype_with_constraints.dtype is None:
        return True
    constructor = qconfig.activation if is_activation else qconfig.weight
    if constructor is None:
        return True
    made = constructor()
    if not _is_activation_post_process(made):
        raise AssertionError("activation_post_process must be an activation post process")
    if made.dtype != dtype_with_constraints.dtype:
        return True
    called = "activation" if is_activation else "weight"
    unmet = _unmet_constraint(made, dtype_with_constraints, qconfig, called)
    if unmet is not None:
        warnings.warn(unmet, stacklevel=2)
    return unmet is None
