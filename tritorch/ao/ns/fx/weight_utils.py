"""Weights of modules and functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tritorch
import tritorch.ao.nn.intrinsic as nni
import tritorch.ao.nn.intrinsic.qat as nniqat
import tritorch.ao.nn.intrinsic.quantized as nniq
import tritorch.ao.nn.qat as nnqat
import tritorch.ao.nn.quantized as nnq
import tritorch.ao.nn.quantized.dynamic as nnqd
import tritorch.nn as nn
from tritorch import Tensor
from tritorch.ao.ns.fx.ns_types import NSSingleResultType, NSSingleResultValuesType
from tritorch.ao.ns.fx.utils import get_target_type_str, return_first_non_observer_node
from tritorch.ao.quantization.fx._lowering_tables import _both
from tritorch.ao.quantization.utils import getattr_from_fqn
from tritorch.fx import GraphModule
from tritorch.fx.node import Node
from tritorch.nn import functional as F

toq = tritorch.ops.quantized


def mod_weight_detach(mod: Any) -> Tensor:
    """The weight of a module."""
    return mod.weight.detach()


def mod_0_weight_detach(mod: Any) -> Tensor:
    """The weight of the layer of a fused module."""
    return mod[0].weight.detach()


def mod_weight_bias_0(mod: Any) -> Tensor:
    """The weight of a quantized module."""
    return mod._weight_bias()[0]


def get_lstm_weight(mod: Any) -> list[Tensor]:
    """The weights of an LSTM, layer by layer."""
    named = zip(mod._flat_weights_names, mod._flat_weights)
    return [w.detach() for name, w in named if "weight_ih_l" in name or "weight_hh_l" in name]


def _packed_lstm_weights(cell: Any) -> list[Tensor]:
    """The weights of a cell's packed parameters: of the input, of the hidden state."""
    return [packed.__getstate__()[0][0] for packed in cell.__getstate__()[0][4]]


def get_qlstm_weight(mod: Any) -> list[Tensor]:
    """The weights of a dynamically quantized LSTM, layer by layer."""
    return [w for value in mod._all_weight_values for w in _packed_lstm_weights(value.param)]


def _module_weight(mod: Any, plain: tuple[type, ...], fused: tuple[type, ...]) -> Tensor:
    if isinstance(mod, plain):
        return mod_weight_detach(mod)
    return mod_0_weight_detach(mod) if isinstance(mod, fused) else mod_weight_bias_0(mod)


def get_conv_mod_weight(mod: Any) -> Tensor:
    """The weight of a convolution, float, fused or quantized."""
    fused = (nni.ConvReLU1d, nni.ConvReLU2d, nni.ConvReLU3d)
    return _module_weight(mod, (nn.Conv1d, nn.Conv2d, nn.Conv3d), fused)


def get_linear_mod_weight(mod: Any) -> Tensor:
    """The weight of a linear layer, float, fused or quantized."""
    return _module_weight(mod, (nn.Linear,), (nni.LinearReLU,))


def get_lstm_mod_weights(mod: Any) -> list[Tensor]:
    """The weights of an LSTM, float or dynamically quantized."""
    if isinstance(mod, nn.LSTM):
        return get_lstm_weight(mod)
    if not isinstance(mod, nnqd.LSTM):
        raise AssertionError(f"type {type(mod)} not handled yet")
    return get_qlstm_weight(mod)


def _attribute(node: Any, gm: GraphModule) -> Any:
    """The attribute that a node gets."""
    if not isinstance(node, Node):
        raise AssertionError(f"Expected Node, got {type(node)}")
    if node.op != "get_attr":
        raise AssertionError(f"Expected get_attr, got {node.op}")
    return getattr_from_fqn(gm, str(node.target))


def get_conv_fun_weight(node: Node, gm: GraphModule) -> Tensor:
    """The weight of a convolution's call, before its observers."""
    source: Any = node.args[1]
    return _attribute(return_first_non_observer_node(source, gm), gm).detach()


def get_qconv_fun_weight(node: Node, gm: GraphModule) -> Tensor:
    """The weight of a quantized convolution's call."""
    return _attribute(node.args[1], gm).weight()


def get_linear_fun_weight(node: Node, gm: GraphModule) -> Tensor:
    """The weight of a linear layer's call, before an observer, or converted as the graph does."""
    source: Any = node.args[1]
    if source.op == "call_module":
        source = source.args[0]
    elif source.op == "call_method":
        weight, dtype = source.args[0].args[:2]
        return _attribute(weight, gm).detach().to(dtype)
    return _attribute(source, gm).detach()


def get_qlinear_fun_weight(node: Node, gm: GraphModule) -> Tensor:
    """The weight of a quantized linear layer's call."""
    (weight, _bias), _name = _attribute(node.args[1], gm).__getstate__()
    return weight


def get_op_to_type_to_weight_extraction_fn() -> dict[str, dict[Any, Callable[..., Any]]]:
    """Functions that give weights, by the kind of a node and what it calls."""
    modules: dict[Any, Callable[..., Any]] = {}
    for name in ("Conv1d", "Conv2d", "Conv3d", "Linear"):
        relu = f"ConvReLU{name[4:]}" if name != "Linear" else "LinearReLU"
        modules[getattr(nn, name)] = mod_weight_detach
        modules[getattr(nni, relu)] = mod_0_weight_detach
        modules[getattr(nnq, name)] = mod_weight_bias_0
        modules[getattr(nniq, relu)] = mod_weight_bias_0
        modules[getattr(nnqat, name)] = mod_weight_detach
        modules[getattr(nniqat, relu)] = mod_weight_detach
    for name in ("ConvBn1d", "ConvBn2d", "ConvBn3d"):
        modules[getattr(nniqat, name)] = mod_weight_detach
        modules[getattr(nniqat, name.replace("Bn", "BnReLU"))] = mod_weight_detach
    modules |= {
        nnqd.Linear: mod_weight_bias_0,
        nniqat.LinearBn1d: mod_weight_detach,
        nn.modules.linear.NonDynamicallyQuantizableLinear: mod_weight_detach,
        nn.LSTM: get_lstm_weight,
        nnqd.LSTM: get_qlstm_weight,
    }
    functions: dict[Any, Callable[..., Any]] = {
        F.linear: get_linear_fun_weight,
        toq.linear: get_qlinear_fun_weight,
        toq.linear_relu: get_qlinear_fun_weight,
    }
    for name in ("conv1d", "conv2d", "conv3d"):
        functions |= dict.fromkeys(_both(name), get_conv_fun_weight)
        functions[getattr(toq, name)] = get_qconv_fun_weight
        functions[getattr(toq, f"{name}_relu")] = get_qconv_fun_weight
    return {"call_module": modules, "call_function": functions}


def extract_weight_from_node(
    node: Node,
    gm: GraphModule,
    op_to_type_to_weight_extraction_fn: dict[str, dict[Any, Callable[..., Any]]] | None = None,
) -> NSSingleResultType | None:
    """The weight of what a node calls, as a result; None without one."""
    extractors = op_to_type_to_weight_extraction_fn or get_op_to_type_to_weight_extraction_fn()
    if node.op == "call_function":
        extract = extractors["call_function"].get(node.target)
        arguments: tuple[Any, ...] = (node, gm)
    elif node.op == "call_module":
        module = getattr_from_fqn(gm, str(node.target))
        extract = extractors["call_module"].get(type(module))
        arguments = (module,)
    else:
        return None
    if extract is None:
        return None
    kind = get_target_type_str(node, gm)
    scopes = getattr(gm, "_node_name_to_scope", None)
    return {
        "type": NSSingleResultValuesType.WEIGHT.value,
        "values": [extract(*arguments)],
        "prev_node_name": node.name,
        "prev_node_target_type": kind,
        "ref_node_name": node.name,
        "ref_node_target_type": kind,
        "index_within_arg": 0,
        "index_of_arg": 0,
        "fqn": None if scopes is None else scopes[node.name][0],
    }
