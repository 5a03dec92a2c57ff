"""LSTMs as custom modules with observers of one's choice for their parts."""

from __future__ import annotations

import copy
import operator
from collections import defaultdict
from typing import Any

import tritorch
from tritorch.ao.nn import quantizable, quantized
from tritorch.ao.nn.quantizable.modules.rnn import _LSTMLayer
from tritorch.ao.quantization.backend_config import BackendConfig
from tritorch.ao.quantization.fake_quantize import FakeQuantizeBase, default_weight_fake_quant
from tritorch.ao.quantization.observer import _PartialWrapper, default_weight_observer
from tritorch.ao.quantization.qconfig import QConfig
from tritorch.ao.quantization.qconfig_mapping import QConfigMapping
from tritorch.ao.quantization.quantize_fx import convert_to_reference_fx, prepare_fx
from tritorch.fx import GraphModule
from tritorch.nn import LSTM


def _fixed_qconfig(constructor: Any) -> QConfig:
    is_fake_quantize = isinstance(constructor(), FakeQuantizeBase)
    weight = default_weight_fake_quant if is_fake_quantize else default_weight_observer
    return QConfig(activation=constructor, weight=weight)


def _get_lstm_with_individually_observed_parts(
    float_lstm: LSTM,
    example_inputs: tuple[Any, ...],
    backend_config: BackendConfig | None = None,
    linear_output_obs_ctr: _PartialWrapper | None = None,
    sigmoid_obs_ctr: _PartialWrapper | None = None,
    tanh_obs_ctr: _PartialWrapper | None = None,
    cell_state_obs_ctr: _PartialWrapper | None = None,
    hidden_state_obs_ctr: _PartialWrapper | None = None,
    split_gates: bool = False,
) -> Any:
    """A quantizable LSTM from a float one, with observers made by these for the linear layers'
    outputs, sigmoids, tanhs, cell state and hidden state; others come from its qconfig."""
    observed = quantizable.LSTM(
        float_lstm.input_size,
        float_lstm.hidden_size,
        float_lstm.num_layers,
        float_lstm.bias,
        float_lstm.batch_first,
        float_lstm.dropout,
        float_lstm.bidirectional,
        split_gates=split_gates,
    )
    qconfig = float_lstm.qconfig
    observed.qconfig = qconfig
    for index in range(float_lstm.num_layers):
        observed.layers[index] = _LSTMLayer.from_float(
            float_lstm, index, qconfig, batch_first=False, split_gates=split_gates
        )
    mapping = QConfigMapping().set_global(qconfig)
    if sigmoid_obs_ctr is not None:
        for gate in ("input_gate", "forget_gate", "output_gate"):
            mapping.set_module_name(gate, _fixed_qconfig(sigmoid_obs_ctr))
    if tanh_obs_ctr is not None:
        mapping.set_module_name("cell_gate", _fixed_qconfig(tanh_obs_ctr))
    # FloatFunctionals are no modules of the traced cell, so sums and products go by their order:
    # a sum for each linear layer, then the cell state's two products and sum, and the hidden state.
    linear_sums = 4 if split_gates else 1
    constructors = {
        tritorch.add: [linear_output_obs_ctr] * linear_sums + [cell_state_obs_ctr],
        tritorch.mul: [cell_state_obs_ctr, cell_state_obs_ctr, hidden_state_obs_ctr],
    }
    for layer in observed.layers:
        cell = prepare_fx(
            layer.layer_fw.cell, mapping, example_inputs, backend_config=backend_config
        )
        counts: dict[Any, int] = defaultdict(int)
        for node in cell.graph.nodes:
            if node.op != "call_function" or node.target not in constructors:
                continue
            index = counts[node.target]
            counts[node.target] += 1
            if index >= len(constructors[node.target]):
                continue
            if len(node.users) != 1:
                raise AssertionError("expected exactly one user for the node")
            constructor = constructors[node.target][index]
            if constructor is not None:
                setattr(cell, next(iter(node.users)).name, constructor())
        layer.layer_fw.cell = cell
    return observed


def _get_reference_quantized_lstm_module(
    observed_lstm: Any, backend_config: BackendConfig | None = None
) -> Any:
    """A quantized LSTM whose cells are reference models, from one with observed cells."""
    result = quantized.LSTM(
        observed_lstm.input_size,
        observed_lstm.hidden_size,
        observed_lstm.num_layers,
        observed_lstm.bias,
        observed_lstm.batch_first,
        observed_lstm.dropout,
        observed_lstm.bidirectional,
    )
    for index, layer in enumerate(result.layers):
        cell = copy.deepcopy(observed_lstm.layers.get_submodule(str(index)).layer_fw.cell)
        cell = convert_to_reference_fx(cell, backend_config=backend_config)
        if not isinstance(cell, GraphModule):
            raise AssertionError("cell must be converted to a torch.fx.GraphModule")
        _pass_quantized(cell)
        layer.layer_fw.cell = cell
    return result


def _pass_quantized(cell: GraphModule) -> None:
    """Makes a cell take and return quantized tensors, in tuples too."""
    graph = cell.graph
    for node in graph.nodes:
        if node.target is tritorch.quantize_per_tensor:
            source: Any = node.args[0]
            is_state = source.target is operator.getitem and source.args[0].target == "hidden"
            if source.target == "x" or is_state:
                node.replace_all_uses_with(source)
                graph.erase_node(node)
        elif node.op == "output":
            for result in node.args[0]:
                node.replace_input_with(result, result.args[0])
    graph.eliminate_dead_code()
    cell.recompile()
