"""Types and inputs of nodes, results, and distances of tensors."""

from __future__ import annotations

import enum
import functools
import operator
from collections.abc import Callable
from typing import Any

import tritorch
import tritorch.ao.nn.intrinsic.quantized as nniq
import tritorch.ao.nn.quantized as nnq
from tritorch import Tensor
from tritorch.ao.ns.fx.ns_types import NSNodeTargetType, NSResultsType
from tritorch.ao.quantization.fake_quantize import FakeQuantizeBase
from tritorch.ao.quantization.observer import ObserverBase, _is_activation_post_process
from tritorch.ao.quantization.utils import getattr_from_fqn
from tritorch.fx import GraphModule
from tritorch.fx.node import Node
from tritorch.nn import LSTM, functional

toq = tritorch.ops.quantized


class NodeInputOrOutputType(enum.Enum):
    """Types of a node's first input or of its output."""

    FP32 = enum.auto()
    INT8 = enum.auto()
    FP16 = enum.auto()
    UNKNOWN = enum.auto()
    FP32_OR_INT8 = enum.auto()


_Types = tuple[NodeInputOrOutputType, NodeInputOrOutputType]
_UNKNOWN: _Types = (NodeInputOrOutputType.UNKNOWN, NodeInputOrOutputType.UNKNOWN)


def get_node_first_input_and_output_type(
    node: Node,
    gm: GraphModule,
    logger_cls: Any,
    node_type_to_io_type_map: dict[str, set[NSNodeTargetType]],
) -> _Types:
    """The types of a node's first input and of its output, as far as the table of types tells."""
    table: dict[str, Any] = node_type_to_io_type_map

    def of_input() -> NodeInputOrOutputType:
        source = get_normalized_nth_input(node, gm, 0)
        if not isinstance(source, Node):
            raise AssertionError(f"Expected Node, got {type(source)}")
        return get_node_first_input_and_output_type(source, gm, logger_cls, table)[1]

    def both(kind: NodeInputOrOutputType) -> _Types:
        return kind, kind

    if node.op == "call_function":
        for kind in ("fp32", "fp16", "int8"):
            if node.target in table[f"funs_io_type_{kind}"]:
                return both(NodeInputOrOutputType[kind.upper()])
        if node.target in table["funs_io_type_fp32_or_int8"]:
            return both(of_input())
    elif node.op == "call_module":
        module = getattr_from_fqn(gm, str(node.target))

        def is_a(kind: str) -> bool:
            return isinstance(module, tuple(table[f"mods_io_type_{kind}"]))

        if isinstance(module, (logger_cls, ObserverBase, FakeQuantizeBase)) or is_a("fp32_or_int8"):
            return both(of_input())
        for kind in ("fp32", "int8"):
            if is_a(kind):
                return both(NodeInputOrOutputType[kind.upper()])
    elif node.op == "call_method":
        if node.target == "dequantize":
            return of_input(), NodeInputOrOutputType.FP32
        if node.target == "to":
            source = of_input()
            dtype: Any = get_normalized_nth_input(node, gm, 1)
            if dtype is not tritorch.float16:
                raise AssertionError(f"{dtype} handling needs to be added")
            return source, NodeInputOrOutputType.FP16
        if node.target in table["meths_io_type_fp32_or_int8"]:
            return both(of_input())
    return _UNKNOWN


_WITH_SCALE = tuple(
    getattr(module, name)
    for module, names in (
        (
            nnq,
            "Linear Conv1d Conv2d Conv3d BatchNorm2d BatchNorm3d ConvTranspose1d ConvTranspose2d "
            "ELU GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm Hardswish "
            "LeakyReLU ReLU6",
        ),
        (nniq, "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU"),
    )
    for name in names.split()
)
# The index of the scale among the arguments; the zero point follows.
_SCALE_INDEX = {
    tritorch.quantize_per_tensor: 1,
    toq.add: 2,
    toq.add_relu: 2,
    toq.mul: 2,
    toq.mul_relu: 2,
}


def get_node_input_qparams(
    node: Node, gm: GraphModule, node_type_to_io_type_map: dict[str, set[NSNodeTargetType]]
) -> tuple[Any, Any] | None:
    """Scale and zero point of a node's first input, if the graph tells."""
    source = get_normalized_nth_input(node, gm, 0)
    if not isinstance(source, Node):
        return None
    if source.op == "call_function":
        index = _SCALE_INDEX.get(source.target)
        if index is None:
            return None
        scale, zero_point = (
            getattr_from_fqn(gm, get_normalized_nth_input(source, gm, each).target)
            for each in (index, index + 1)
        )
        return scale, zero_point
    if source.op == "call_module":
        module = getattr_from_fqn(gm, str(source.target))
        if isinstance(module, _WITH_SCALE):
            return module.scale, module.zero_point
        either: Any = node_type_to_io_type_map["mods_io_type_fp32_or_int8"]
        if isinstance(module, tuple(either)):
            return get_node_input_qparams(source, gm, node_type_to_io_type_map)
    return None


def return_first_non_observer_node(node: Node, gm: GraphModule) -> Node:
    """A node, or what up to two observers in a row, of which it is the last, observe."""
    for _ in range(2):
        if node.op != "call_module" or not _is_activation_post_process(
            getattr_from_fqn(gm, str(node.target))
        ):
            return node
        if len(node.args) != 1:
            raise AssertionError(f"Expected node.args to have length 1, got {len(node.args)}")
        node = node.args[0]
    return node


def get_number_of_non_param_args(node: Node, gm: GraphModule) -> int:
    """The number of a node's first arguments that are no parameters: two of an LSTM, else one."""
    is_lstm = node.op == "call_module" and isinstance(getattr_from_fqn(gm, str(node.target)), LSTM)
    return 2 if is_lstm else 1


def get_arg_indices_of_inputs_to_log(node: Node) -> list[int]:
    """Indices of a node's inputs: those of two that are nodes for sums and products, else 0."""
    if len(node.args) == 0:
        return []
    if node.op == "call_function" and node.target in (
        tritorch.add,
        toq.add,
        operator.add,
        tritorch.mul,
        toq.mul,
        operator.mul,
    ):
        return [index for index in range(2) if type(node.args[index]) is Node]
    return [0]


def get_target_type_str(node: Node, gm: GraphModule) -> str:
    """The type of what a node calls, as text."""
    if node.op in ("call_function", "call_method"):
        return tritorch.typename(node.target)
    if node.op == "call_module":
        return tritorch.typename(getattr_from_fqn(gm, str(node.target)))
    return ""


def rekey_logger_info_on_node_name_of_model(
    results: NSResultsType, model_name: str
) -> NSResultsType:
    """The results with the names of a model's nodes for layers."""
    renamed = {}
    for layer, by_kind in results.items():
        name = layer
        for by_model in by_kind.values():
            if model_name in by_model:
                if len(by_model[model_name]) == 0:
                    raise AssertionError("Expected list_of_results to be not empty")
                name = by_model[model_name][0]["ref_node_name"]
        renamed[name] = by_kind
    return renamed


def maybe_add_missing_fqns(results: NSResultsType) -> None:
    """Gives results the module paths of the first model that has them; quantized ones do not."""
    first: Any = next(iter(results.values()), {})
    first = next(iter(first.values()), {})
    known = [name for name, entries in first.items() if entries and entries[0]["fqn"] is not None]
    if not known:
        return
    source = known[-1]
    for by_kind in results.values():
        for by_model in by_kind.values():
            for name, entries in by_model.items():
                if name != source:
                    for entry, reference in zip(entries, by_model[source]):
                        entry["fqn"] = reference["fqn"]


def maybe_dequantize_first_two_tensor_args_and_handle_tuples(
    f: Callable[..., Any],
) -> Callable[..., Any]:
    """Makes a function of two tensors take quantized ones and sequences; None for no floats."""

    @functools.wraps(f)
    def inner(*args: Any, **kwargs: Any) -> Any:
        first, second, *rest = args
        for sequence in (tuple, list):
            if isinstance(first, sequence) and isinstance(second, sequence):
                return [inner(one, other, *rest, **kwargs) for one, other in zip(first, second)]
        first, second = (
            each.dequantize() if each.is_quantized else each for each in (first, second)
        )
        if first.dtype != tritorch.float32 or second.dtype != tritorch.float32:
            return None
        return f(first, second, *rest, **kwargs)

    return inner


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_sqnr(x: Tensor, y: Tensor) -> Tensor:
    """Signal to noise of y beside x, in decibels."""
    return 20 * tritorch.log10(tritorch.norm(x) / tritorch.norm(x - y))


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_normalized_l2_error(x: Tensor, y: Tensor) -> Tensor:
    """|x - y| / |x|."""
    return tritorch.sqrt(((x - y) ** 2).sum() / (x**2).sum())


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_cosine_similarity(x: Tensor, y: Tensor) -> Tensor:
    """The cosine between x and y as vectors; quantized weights may have one dim more."""
    return functional.cosine_similarity(x.reshape(1, -1), y.reshape(1, -1))


def op_type_supports_shadowing(node: Node) -> bool:
    """True if a node's operation has one input that is a tensor."""
    several = (
        tritorch.add,
        tritorch.mul,
        operator.add,
        operator.mul,
        tritorch.cat,
        tritorch.stack,
    )
    return not (node.op == "call_function" and node.target in several)


def get_normalized_nth_input(node: Node, gm: GraphModule, idx: int) -> Any:
    """An input of a node, in the order of its parameters if they are known."""
    args, kwargs = node.args, node.kwargs
    try:
        normalized = node.normalized_arguments(gm, normalize_to_only_use_kwargs=True)
    except RuntimeError:  # overloads that only types of arguments tell apart
        normalized = None
    if normalized is not None:
        args, kwargs = normalized
    inputs = [*args, *kwargs.values()]
    if len(inputs) <= idx:
        raise AssertionError(f"Index {idx} out of range: total = {len(inputs)}")
    return inputs[idx]
