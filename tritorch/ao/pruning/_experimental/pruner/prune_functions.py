"""Pruning of layers in a row: masked rows of the first go, and the columns of the next that read
them.

A pruned row's bias is a constant that the next layer would read; it goes into the next layer's
bias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tritorch
from tritorch import Tensor
from tritorch.ao.pruning._experimental.pruner.parametrization import (
    BiasHook,
    FakeStructuredSparsity,
)
from tritorch.nn import LSTM, Conv2d, LayerNorm, Linear, Module, Parameter
from tritorch.nn.utils import parametrize

_SIZES: dict[type[Module], tuple[str, str]] = {
    Linear: ("in_features", "out_features"),
    Conv2d: ("in_channels", "out_channels"),
}


def _size_names(module: Module) -> tuple[str, str]:
    """Names of a layer's attributes for its columns and rows."""
    return next(names for kind, names in _SIZES.items() if isinstance(module, kind))


def _row_mask(module: Module, name: str = "weight") -> Tensor:
    """The mask of a tensor's rows."""
    masks = [p.mask for p in module.parametrizations[name] if isinstance(p, FakeStructuredSparsity)]
    return masks[-1]


def _original(module: Module, name: str = "weight") -> Tensor:
    """A tensor of a module before masks are applied."""
    if parametrize.is_parametrized(module, name):
        return module.parametrizations[name].original
    return getattr(module, name)


def _keep_columns(module: Module, mask: Tensor, name: str = "weight") -> int:
    """Drops columns of a tensor of a module, masked or not; returns how many are left."""
    with tritorch.no_grad():
        kept = Parameter(_original(module, name)[:, mask])
    if parametrize.is_parametrized(module, name):
        module.parametrizations[name].original = kept
    else:
        setattr(module, name, kept)
    return kept.shape[1]


def _keep_inputs(module: Module, mask: Tensor) -> None:
    """Drops columns of a layer's weight, and says so in its size."""
    setattr(module, _size_names(module)[0], _keep_columns(module, mask))


def _remove_bias_handles(module: Module) -> None:
    """Removes the hooks that add biases."""
    hooks = module._forward_hooks
    for key in [key for key, hook in hooks.items() if isinstance(hook, BiasHook)]:
        del hooks[key]


def _keep_rows(module: Module) -> Tensor:
    """Drops the masked rows of a layer's weight, with mask and hook; returns the mask."""
    mask = _row_mask(module)
    with tritorch.no_grad():
        parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)
        module.weight = Parameter(module.weight[mask])
    setattr(module, _size_names(module)[1], module.weight.shape[0])
    _remove_bias_handles(module)
    return mask


_prune_linear_helper = _prune_conv2d_helper = _keep_rows


def _forget_bias(module: Module) -> None:
    """Deletes the bias that the hook added."""
    if hasattr(module, "_bias"):
        del module._bias


def _get_adjusted_next_layer_bias(
    next_layer: Module, pruned_biases: Tensor, mask: Tensor
) -> Parameter:
    """The next layer's bias with the part that pruned rows' biases have in its output."""
    columns = _original(next_layer)[:, ~mask]
    if isinstance(next_layer, Conv2d):
        share = (pruned_biases.reshape(1, -1, 1, 1) * columns).sum((1, 2, 3))
    elif isinstance(next_layer, Linear):
        share = pruned_biases @ columns.T
    else:
        raise NotImplementedError(f"Type {type(next_layer)} not supported yet.")
    masked = parametrize.is_parametrized(next_layer)
    bias = getattr(next_layer, "_bias", None) if masked else next_layer.bias
    return Parameter(share if bias is None else share + bias)


def _prune_module_bias(module: Module, mask: Tensor) -> None:
    """Drops pruned rows' biases."""
    bias = getattr(module, "_bias", module.bias)
    if bias is not None:
        module.bias = Parameter(bias[mask])
    _forget_bias(module)


def _propagate_module_bias(module: Module, mask: Tensor) -> Tensor | None:
    """Drops pruned rows' biases and returns them, for the next layer."""
    hooked = getattr(module, "_bias", None)
    bias = hooked if module.bias is None else module.bias
    if bias is not None:
        module.bias = Parameter(bias[mask])
    pruned = None if hooked is None else hooked[~mask]
    _forget_bias(module)
    return pruned


def _hand_over_bias(
    module: Module,
    next_layer: Module,
    mask: Tensor,
    activation: Callable[[Tensor], Tensor] | None = None,
    scale: int = 1,
) -> Tensor:
    """Drops pruned rows' biases; the next layer gets their part unless they are to be pruned too.

    Each row becomes `scale` columns of the next layer. Returns the mask of those columns.
    """
    columns = mask.repeat_interleave(scale) if scale > 1 else mask
    if getattr(module, "prune_bias", False):
        _prune_module_bias(module, mask)
        return columns
    pruned = _propagate_module_bias(module, mask)
    if pruned is not None:
        if activation:
            pruned = activation(pruned)
        if scale > 1:
            pruned = pruned.repeat_interleave(scale)
        next_layer.bias = _get_adjusted_next_layer_bias(next_layer, pruned, columns)
    return columns


def prune_linear(linear: Linear) -> None:
    """Prunes the rows of a last layer; pruned rows are missing from the output."""
    mask = _keep_rows(linear)
    if getattr(linear, "prune_bias", False):
        _prune_module_bias(linear, mask)


def prune_linear_linear(linear1: Linear, linear2: Linear) -> None:
    """Prunes `linear1`, which `linear2` reads."""
    prune_linear_activation_linear(linear1, None, linear2)


def prune_linear_activation_linear(
    linear1: Linear, activation: Callable[[Tensor], Tensor] | None, linear2: Linear
) -> None:
    """Prunes `linear1`, which `linear2` reads through an activation."""
    mask = _keep_rows(linear1)
    _hand_over_bias(linear1, linear2, mask, activation)
    _keep_inputs(linear2, mask)


def prune_conv2d_padded(conv2d_1: Conv2d) -> None:
    """Zeroes masked rows but keeps them with their biases.

    A padding convolution reads zeros at its borders where a constant bias would not be.
    """
    mask = _row_mask(conv2d_1)
    with tritorch.no_grad():
        parametrize.remove_parametrizations(conv2d_1, "weight", leave_parametrized=True)
    hooked = getattr(conv2d_1, "_bias", None)
    if hooked is None:
        if conv2d_1.bias is not None:
            conv2d_1.bias.data[~mask] = 0
    elif conv2d_1.bias is None:
        conv2d_1.bias = Parameter(hooked)
    else:
        conv2d_1.bias = Parameter(tritorch.where(mask, conv2d_1.bias, hooked).detach())
    _forget_bias(conv2d_1)


def prune_conv2d(conv2d: Conv2d) -> None:
    """Prunes the channels of a last convolution; pruned ones are missing from the output."""
    mask = _keep_rows(conv2d)
    if getattr(conv2d, "prune_bias", False):
        _prune_module_bias(conv2d, mask)


def prune_conv2d_conv2d(conv2d_1: Conv2d, conv2d_2: Conv2d) -> None:
    """Prunes `conv2d_1`, which `conv2d_2` reads."""
    prune_conv2d_activation_conv2d(conv2d_1, None, conv2d_2)


def prune_conv2d_activation_conv2d(
    conv2d_1: Conv2d, activation: Callable[[Tensor], Tensor] | None, conv2d_2: Conv2d
) -> None:
    """Prunes `conv2d_1`, which `conv2d_2` reads through an activation."""
    padded = getattr(conv2d_2, "padding", (0, 0)) > (0, 0)
    if padded and (conv2d_1.bias is not None or getattr(conv2d_1, "_bias", None) is not None):
        mask = _row_mask(conv2d_1)
        prune_conv2d_padded(conv2d_1)
    else:
        mask = _keep_rows(conv2d_1)
        _hand_over_bias(conv2d_1, conv2d_2, mask, activation)
    if not padded or conv2d_1.bias is None:
        _keep_inputs(conv2d_2, mask)


def prune_conv2d_pool_activation_conv2d(
    c1: Conv2d, pool: Any, activation: Callable[[Tensor], Tensor] | None, c2: Conv2d
) -> None:
    """Prunes `c1`, which `c2` reads through pooling and an activation."""
    prune_conv2d_activation_conv2d(c1, activation, c2)


def prune_conv2d_activation_pool_conv2d(
    c1: Conv2d, activation: Callable[[Tensor], Tensor] | None, pool: Any, c2: Conv2d
) -> None:
    """Prunes `c1`, which `c2` reads through an activation and pooling."""
    prune_conv2d_activation_conv2d(c1, activation, c2)


def prune_conv2d_pool_flatten_linear(
    conv2d: Conv2d, pool: Any, flatten: Any, linear: Linear
) -> None:
    """Prunes `conv2d`, whose channels `linear` reads flat, several columns a channel."""
    mask = _keep_rows(conv2d)
    inputs, channels = _original(linear).shape[1], len(mask)
    if inputs % channels != 0:
        raise AssertionError(f"Flattening from dimensions {channels} to {inputs} not supported")
    _keep_inputs(linear, _hand_over_bias(conv2d, linear, mask, scale=inputs // channels))


def prune_lstm_output_linear(lstm: LSTM, getitem: Any, linear: Linear) -> None:
    """Prunes an LSTM's hidden units, which `linear` reads."""
    prune_lstm_output_layernorm_linear(lstm, getitem, None, linear)


def _keep_gate_rows(lstm: LSTM, kind: str) -> Tensor:
    """Drops masked rows of a weight `ih_l0`, ... with their biases; returns the mask."""
    weight_name, bias_name = f"weight_{kind}", f"bias_{kind}"
    mask = lstm.parametrizations[weight_name][0].mask
    parametrize.remove_parametrizations(lstm, weight_name, leave_parametrized=True)
    for name in (weight_name, bias_name):
        setattr(lstm, name, Parameter(getattr(lstm, name)[mask]))
    return mask


@tritorch.no_grad()
def prune_lstm_output_layernorm_linear(
    lstm: LSTM, getitem: Any, layernorm: LayerNorm | None, linear: Linear
) -> None:
    """Prunes an LSTM's hidden units, which `linear` reads, through a layer norm if there is one."""
    for layer in range(lstm.num_layers):
        if parametrize.is_parametrized(lstm, f"weight_ih_l{layer}"):
            _keep_gate_rows(lstm, f"ih_l{layer}")
        if not parametrize.is_parametrized(lstm, f"weight_hh_l{layer}"):
            continue
        gates = tritorch.split(_keep_gate_rows(lstm, f"hh_l{layer}"), lstm.hidden_size)
        sizes = [int(gate.sum()) for gate in gates]
        name = f"weight_hh_l{layer}"
        rows = tritorch.split(getattr(lstm, name), sizes)
        columns = [part[:, gate] for part, gate in zip(rows, gates)]
        setattr(lstm, name, Parameter(tritorch.cat(columns)))
        kept = gates[-1]
        if layer + 1 < lstm.num_layers:
            _keep_columns(lstm, kept, f"weight_ih_l{layer + 1}")
            continue
        lstm.hidden_size = sizes[0]
        _keep_inputs(linear, kept)
        if layernorm is not None:
            layernorm.normalized_shape = (linear.in_features,)
            layernorm.weight = Parameter(layernorm.weight[kept])
            layernorm.bias = Parameter(layernorm.bias[kept])
