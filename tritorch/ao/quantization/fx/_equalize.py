"""Equalization of inputs and weights (Nagel et al. 2019): columns of a weight are divided by
scales, by which inputs are multiplied, so that the ranges of both are alike.
"""

from __future__ import annotations

import operator
import warnings
from collections import namedtuple
from typing import Any

import tritorch
from tritorch import Tensor
from tritorch.ao.nn import intrinsic
from tritorch.ao.quantization.fx.graph_module import _get_observed_graph_module_attr
from tritorch.ao.quantization.fx.utils import (
    get_new_attr_name_with_prefix,
    maybe_get_next_module,
    node_arg_is_weight,
)
from tritorch.ao.quantization.observer import (
    ObserverBase,
    PerChannelMinMaxObserver,
    _with_args,
)
from tritorch.ao.quantization.utils import _parent_name, check_min_max_valid
from tritorch.fx import GraphModule
from tritorch.fx.node import Node
from tritorch.nn import (
    Conv1d,
    Conv2d,
    Conv3d,
    Identity,
    Linear,
    Module,
    Parameter,
    ReLU,
    functional,
)

CUSTOM_MODULE_SUPP_LIST: list[Any] = []


def reshape_scale(scale: Tensor, axis: int, input: Tensor) -> Tensor:
    """A scale for each index of an axis, shaped to broadcast with the input."""
    shape = [1] * input.ndim
    shape[axis] = input.size(axis)
    return scale.view(shape)


qsheme_mapping_per_tensor_to_per_channel = {
    tritorch.per_tensor_affine: tritorch.per_channel_affine,
    tritorch.per_tensor_symmetric: tritorch.per_channel_symmetric,
}


def _is_one(scale: Tensor) -> bool:
    """True if a scale is the one that there is before any is computed."""
    return scale.nelement() == 1 and bool(scale == 1)


class _EqualizationObserver(Module):
    """Watches the ranges of columns, which an observer per channel of dim 1 does."""

    def __init__(
        self, dtype: Any, qscheme: Any, quant_min: Any, quant_max: Any, factory_kwargs: Any
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.qscheme = qscheme
        observer = PerChannelMinMaxObserver(
            ch_axis=1,
            dtype=dtype,
            qscheme=qsheme_mapping_per_tensor_to_per_channel.get(qscheme, qscheme),
            quant_min=quant_min,
            quant_max=quant_max,
            factory_kwargs=factory_kwargs,
        )
        setattr(self, self._observer_name, observer)
        self.equalization_scale = tritorch.tensor(1)

    _observer_name: str

    def _observed(self, x: Tensor) -> Any:
        if x.ndim < 2 or x.ndim > 5:
            raise ValueError("InputEqualizationObserver only supports Linear and Conv layers")
        return getattr(self, self._observer_name)(x)

    with_args = classmethod(_with_args)


class _InputEqualizationObserver(_EqualizationObserver):
    """Watches the ranges of an input's columns."""

    _observer_name = "input_obs"

    def __init__(
        self,
        dtype: Any = tritorch.quint8,
        qscheme: Any = tritorch.per_tensor_affine,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
    ) -> None:
        if qscheme not in {tritorch.per_tensor_affine, tritorch.per_tensor_symmetric}:
            raise TypeError("Input qscheme must be per-tensor")
        super().__init__(dtype, qscheme, quant_min, quant_max, factory_kwargs)
        self.equalization_shape: list[int] = []

    def forward(self, x_orig: Tensor) -> Any:
        result = self._observed(x_orig)
        self.equalization_shape = [1] * x_orig.ndim
        self.equalization_shape[1] = x_orig.size(1)
        return result

    def get_input_minmax(self) -> tuple[Tensor, Tensor]:
        """Smallest and largest values of columns."""
        return self.input_obs.min_val, self.input_obs.max_val

    def set_equalization_scale(self, equalization_scale: Tensor) -> None:
        """Keeps the scale, shaped to broadcast with inputs."""
        if not _is_one(equalization_scale):
            self.equalization_scale = equalization_scale.reshape(self.equalization_shape)

    def calculate_scaled_minmax(self) -> tuple[Tensor, Tensor] | tuple[None, None]:
        """Smallest and largest values of all scaled columns."""
        if _is_one(self.equalization_scale):
            warnings.warn(
                "Must call calculate_equalization_scale before calling calculate_scaled_minmax. "
                "Will not scale the next quantization observer.",
                stacklevel=2,
            )
            return None, None
        lows, highs = self.get_input_minmax()
        scale = reshape_scale(self.equalization_scale, 0, lows)
        return (lows * scale).min(), (highs * scale).max()


class _WeightEqualizationObserver(_EqualizationObserver):
    """Watches the ranges of a weight's columns."""

    _observer_name = "weight_col_obs"

    def __init__(
        self,
        dtype: Any = tritorch.qint8,
        qscheme: Any = tritorch.per_tensor_affine,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
    ) -> None:
        super().__init__(dtype, qscheme, quant_min, quant_max, factory_kwargs)
        self.ch_axis = 1

    def forward(self, w_orig: Tensor) -> Any:
        return self._observed(w_orig)

    def get_weight_col_minmax(self) -> tuple[Tensor, Tensor]:
        """Smallest and largest values of columns."""
        return self.weight_col_obs.min_val, self.weight_col_obs.max_val

    def set_equalization_scale(self, equalization_scale: Tensor) -> None:
        """Keeps the scale."""
        self.equalization_scale = equalization_scale


def calculate_equalization_scale(
    input_obs: _InputEqualizationObserver, weight_obs: _WeightEqualizationObserver
) -> Tensor:
    """sqrt(range of weight / range of input) for each column; 1 where that is no number."""
    lows, highs = input_obs.get_input_minmax()
    weight_lows, weight_highs = weight_obs.get_weight_col_minmax()
    if not (check_min_max_valid(lows, highs) and check_min_max_valid(weight_lows, weight_highs)):
        warnings.warn(
            "Must run observer before calling calculate_equalization_scale. "
            "Returning default equalization scale torch.tensor(1).",
            stacklevel=2,
        )
        return tritorch.tensor(1)
    if lows.shape != weight_lows.shape:
        raise ValueError(
            "Input and Weight must have the same column dimension. "
            f"Found {lows.shape} and {weight_lows.shape} shapes instead."
        )
    scale = tritorch.sqrt((weight_highs - weight_lows) / (highs - lows))
    scale[scale == 0.0] = 1
    return tritorch.nan_to_num(scale, nan=1, posinf=1, neginf=1)


class EqualizationQConfig(namedtuple("EqualizationQConfig", ["input_activation", "weight"])):
    """Observer classes, or functions that make observers, for equalization."""

    __slots__ = ()

    def __new__(cls, input_activation: Any = Identity, weight: Any = Identity) -> Any:
        if isinstance(input_activation, Module) or isinstance(weight, Module):
            raise ValueError(
                "EqualizationQConfig received observer instance, please pass observer class "
                "instead. Use MyObserver.with_args(x=1) to override arguments to constructor "
                "if needed"
            )
        return super().__new__(cls, input_activation, weight)


input_equalization_observer = _InputEqualizationObserver.with_args(
    dtype=tritorch.quint8, qscheme=tritorch.per_tensor_symmetric
)
weight_equalization_observer = _WeightEqualizationObserver.with_args(
    dtype=tritorch.qint8, qscheme=tritorch.per_channel_symmetric
)
default_equalization_qconfig = EqualizationQConfig(
    input_activation=input_equalization_observer, weight=weight_equalization_observer
)


def fused_module_supports_equalization(module: Any) -> bool:
    """True if a fused module can be equalized."""
    return type(module) in (
        intrinsic.LinearReLU,
        intrinsic.ConvReLU1d,
        intrinsic.ConvReLU2d,
        intrinsic.ConvReLU3d,
    )


def nn_module_supports_equalization(module: Any) -> bool:
    """True if a module of torch.nn can be equalized."""
    return type(module) in (Linear, Conv1d, Conv2d, Conv3d)


def custom_module_supports_equalization(module: Any) -> bool:
    """True if a module is of a type that a user added to the list."""
    return type(module) in CUSTOM_MODULE_SUPP_LIST


_FUNCTIONS = [functional.linear, functional.conv1d, functional.conv2d, functional.conv3d]


def node_supports_equalization(node: Node, modules: dict[str, Any]) -> bool:
    """True if a node is a linear layer or a convolution."""
    if node.op == "call_module":
        module = modules[str(node.target)]
        return (
            nn_module_supports_equalization(module)
            or fused_module_supports_equalization(module)
            or custom_module_supports_equalization(module)
        )
    return node.op == "call_function" and node.target in _FUNCTIONS


def is_equalization_observer(observer: Any) -> bool:
    """True if an observer is one for equalization."""
    return isinstance(observer, (_InputEqualizationObserver, _WeightEqualizationObserver))


def _layer(module: Any) -> Any:
    """A module, or the layer in a fused one."""
    return module[0] if fused_module_supports_equalization(module) else module


def get_op_node_and_weight_eq_obs(
    input_eq_obs_node: Node, model: GraphModule, modules: dict[str, Any]
) -> tuple[Node | None, _WeightEqualizationObserver | None]:
    """The operation after an input's observer, and the observer of its weight: a new one for
    modules."""
    users = input_eq_obs_node.users
    node = next((user for user in users if node_supports_equalization(user, modules)), None)
    if node is None:
        raise AssertionError("Expected an operation node after the input equalization observer")
    if node.op == "call_module":
        qconfigs = _get_observed_graph_module_attr(model, "equalization_node_name_to_qconfig")
        if qconfigs is None:
            raise AssertionError(
                "Expected 'equalization_node_name_to_qconfig' attribute in observed graph module"
            )
        if qconfigs.get(node.name) is None:
            raise AssertionError(f"No equalization qconfig found for op node {node.name}")
        observer = qconfigs[node.name].weight()
    else:
        weight_node = maybe_get_weight_eq_obs_node(node, modules)
        if weight_node is None:
            return None, None
        observer = modules[str(weight_node.target)]
    if not isinstance(observer, _WeightEqualizationObserver):
        raise AssertionError(
            "Expected weight equalization observer to be a _WeightEqualizationObserver"
        )
    return node, observer


def maybe_get_weight_eq_obs_node(op_node: Node, modules: dict[str, Any]) -> Node | None:
    """The observer of a function's weight."""
    if op_node.op != "call_function":
        raise AssertionError("maybe_get_weight_eq_obs_node expects a call_function op_node")
    for arg in op_node.args:
        if node_arg_is_weight(op_node, arg) and isinstance(arg, Node) and arg.op == "call_module":
            if isinstance(modules[str(arg.target)], _WeightEqualizationObserver):
                return arg
    return None


def maybe_get_next_input_eq_obs(
    node: Node, modules: dict[str, Any]
) -> _InputEqualizationObserver | None:
    """The observer for equalization that reads an operation's observed output, through a relu."""
    if not node_supports_equalization(node, modules):
        raise AssertionError("Node does not support equalization")
    relu = maybe_get_next_module(node, modules, ReLU) or maybe_get_next_module(
        node, modules, target_functional_type=functional.relu
    )
    observed = maybe_get_next_module(relu or node, modules, ObserverBase)
    if observed is None:
        return None
    following = maybe_get_next_module(observed, modules, _InputEqualizationObserver)
    return None if following is None else modules[str(following)]


def maybe_get_next_equalization_scale(node: Node, modules: dict[str, Any]) -> Tensor | None:
    """The scale of the operation that reads an operation's output, None without one."""
    following = maybe_get_next_input_eq_obs(node, modules)
    if following is None or _is_one(following.equalization_scale):
        return None
    return following.equalization_scale


def scale_input_observer(node: Node, modules: dict[str, Any]) -> None:
    """Sets the range of the observer before one for equalization to the scaled range."""
    observer = modules[str(node.target)]
    if not isinstance(observer, _InputEqualizationObserver):
        raise AssertionError(
            "Expected the module at node.target to be an _InputEqualizationObserver"
        )
    observed = node.args[0]
    if not isinstance(observed, Node):
        raise AssertionError("Expected the input quantization observer node to be a Node")
    before = modules[str(observed.target)]
    if isinstance(before, ObserverBase):
        low, high = observer.calculate_scaled_minmax()
        if low is not None:
            before.min_val, before.max_val = low, high


def _scaled(weight: Tensor, scale: Tensor, next_scale: Tensor | None) -> Tensor:
    """A weight with columns divided by its scale and rows multiplied by the next one."""
    scaled = weight * tritorch.reciprocal(reshape_scale(scale, 1, weight))
    if next_scale is None:
        return scaled
    return scaled * reshape_scale(next_scale, 0, weight)


def scale_weight_node(
    node: Node,
    modules: dict[str, Any],
    equalization_scale: Tensor | None,
    next_equalization_scale: Tensor | None,
) -> None:
    """Scales weight and bias of the module that a node calls."""
    if equalization_scale is None:
        return
    layer = _layer(modules[str(node.target)])
    if not (nn_module_supports_equalization(layer) or custom_module_supports_equalization(layer)):
        raise AssertionError("Expected operation module to support equalization (nn or custom)")
    layer.weight = Parameter(_scaled(layer.weight, equalization_scale, next_equalization_scale))
    if next_equalization_scale is not None and layer.bias is not None:
        layer.bias = Parameter(layer.bias * reshape_scale(next_equalization_scale, 0, layer.bias))


def scale_weight_functional(
    op_node: Node,
    model: GraphModule,
    modules: dict[str, Any],
    equalization_scale: Tensor | None,
    next_equalization_scale: Tensor | None,
) -> None:
    """Scales weight and bias of a function, which are attributes behind observers."""
    if equalization_scale is None:
        return
    equalization_node = maybe_get_weight_eq_obs_node(op_node, modules)
    if equalization_node is None:
        return
    observer_node: Any = equalization_node.args[0]
    if not isinstance(modules[str(observer_node.target)], ObserverBase):
        raise AssertionError(
            "Expected weight_quant_obs_node to be a Node whose module is an ObserverBase"
        )
    weight_node = observer_node.args[0]
    if weight_node.op != "get_attr":
        raise AssertionError("Expected weight node to be a 'get_attr' Node")

    def replace(target: Any, function: Any) -> None:
        parent, name = _parent_name(target)
        setattr(modules[parent], name, function(getattr(modules[parent], name)))

    next_scale = next_equalization_scale
    replace(weight_node.target, lambda w: _scaled(w, equalization_scale, next_scale))
    if next_scale is None:
        return
    for arg in op_node.args:
        if isinstance(arg, Node) and arg.op == "get_attr" and "bias" in arg.name:
            replace(arg.target, lambda bias: bias * reshape_scale(next_scale, 0, bias))
            return


def clear_weight_quant_obs_node(op_node: Node, modules: dict[str, Any]) -> None:
    """Makes the observer of a function's weight forget the range that it saw."""
    equalization_node = maybe_get_weight_eq_obs_node(op_node, modules)
    if equalization_node is None:
        return
    observer_node: Any = equalization_node.args[0]
    observer = modules[str(observer_node.target)]
    if not isinstance(observer, ObserverBase):
        raise AssertionError("Expected the module at weight_quant_obs_node to be an ObserverBase")
    observer.reset_min_max_vals()


def remove_node(model: GraphModule, node: Node, prev_node: Node) -> None:
    """Removes a node; its users read another."""
    for user in list(node.users):
        user.replace_input_with(node, prev_node)
    model.graph.erase_node(node)


def update_obs_for_equalization(
    model: GraphModule, modules: dict[str, Any]
) -> dict[str, _WeightEqualizationObserver]:
    """Computes all scales; returns the observers of weights by the names of their operations."""
    observers = {}
    for node in model.graph.nodes:
        if node.op != "call_module":
            continue
        input_observer = modules[node.target]
        if not isinstance(input_observer, _InputEqualizationObserver):
            continue
        op_node, weight_observer = get_op_node_and_weight_eq_obs(node, model, modules)
        if op_node is None or weight_observer is None:
            continue
        if op_node.op == "call_module":
            weight_observer(_layer(modules[str(op_node.target)]).weight)
        scale = calculate_equalization_scale(input_observer, weight_observer)
        input_observer.set_equalization_scale(scale)
        weight_observer.set_equalization_scale(scale)
        observers[op_node.name] = weight_observer
    return observers


def convert_eq_obs(
    model: GraphModule,
    modules: dict[str, Any],
    weight_eq_obs_dict: dict[str, _WeightEqualizationObserver],
) -> None:
    """Takes the observers for equalization out of a graph, and scales.

    An input is multiplied by its scale, before the observer of its quantized form whose range is
    scaled; but an equalized layer that comes before takes that scale into its weight.
    """
    for node in model.graph.nodes:
        if node.op == "call_module" and isinstance(
            modules[node.target], _InputEqualizationObserver
        ):
            _convert_input(model, modules, node)
        elif weight_eq_obs_dict.get(node.name) is not None:
            scale: Tensor | None = weight_eq_obs_dict[node.name].equalization_scale
            if scale is not None and _is_one(scale):
                scale = None
            next_scale = maybe_get_next_equalization_scale(node, modules)
            if node.op == "call_module":
                scale_weight_node(node, modules, scale, next_scale)
                continue
            if node.op != "call_function":
                raise ValueError(
                    "Expected operation node to be 'call_module' or 'call_function"
                    f"Instead got node {node.name} as '{node.op}'."
                )
            scale_weight_functional(node, model, modules, scale, next_scale)
            observer_node = maybe_get_weight_eq_obs_node(node, modules)
            if observer_node is None:
                return
            clear_weight_quant_obs_node(node, modules)
            remove_node(model, observer_node, observer_node.args[0])


def _convert_input(model: GraphModule, modules: dict[str, Any], node: Node) -> None:
    """Replaces an input's observer by a product with its scale, unless a layer before has it."""
    observer_node: Any = node.args[0]
    source = observer_node.args[0]
    if not (node_supports_equalization(source, modules) or "relu" in source.name):
        scale_input_observer(node, modules)
        with model.graph.inserting_before(observer_node):
            stem = f"{source.name}_equalization_scale"
            name = get_new_attr_name_with_prefix(stem)(modules)
            setattr(model, name, modules[str(node.target)].equalization_scale)
            scale_node = model.graph.create_node("get_attr", name)
            product = model.graph.call_function(tritorch.mul, (source, scale_node))
        observer_node.replace_input_with(source, product)
    remove_node(model, node, observer_node)


def _convert_equalization_ref(model: GraphModule) -> GraphModule:
    """The model with equalized layers, not quantized."""
    modules = dict(model.named_modules(remove_duplicate=False))
    convert_eq_obs(model, modules, update_obs_for_equalization(model, modules))
    return GraphModule(model, model.graph)


def get_layer_sqnr_dict(model_a: Module, model_b: Module, x: Tensor) -> dict[str, float]:
    """Signal to noise of each layer of a quantized model, beside the float one, for an input."""
    from tritorch.ao.ns import _numeric_suite_fx as suite
    from tritorch.ao.ns.fx.mappings import get_unmatchable_types_map
    from tritorch.ao.ns.fx.utils import compute_sqnr

    unmatchable = get_unmatchable_types_map()
    unmatchable["funs_unmatchable"].add(tritorch.mul)  # products with scales are in one model only
    logged_a, logged_b = suite.add_loggers(
        "fp32",
        model_a,
        "int8",
        model_b,
        suite.OutputLogger,
        unmatchable_types_map=unmatchable,
    )
    logged_a(x)
    logged_b(x)
    results = suite.extract_logger_info(logged_a, logged_b, suite.OutputLogger, "int8")
    suite.extend_logger_results_with_comparison(results, "fp32", "int8", compute_sqnr, "sqnr")
    entries = [result["node_output"]["int8"][0] for result in results.values()]
    return {entry["fqn"]: entry["sqnr"][0] for entry in entries}


def get_equalization_qconfig_dict(
    layer_sqnr_dict: dict[str, float], num_layers_to_equalize: int
) -> Any:
    """A configuration that equalizes the layers with the smallest signal to noise."""
    ordered = sorted(layer_sqnr_dict.items(), key=operator.itemgetter(1))
    names = [name for name, _ in ordered[:num_layers_to_equalize]]
    return {"module_name": [(name, default_equalization_qconfig) for name in names]}
