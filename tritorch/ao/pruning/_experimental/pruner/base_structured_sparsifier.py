"""Base of structured pruners: masks of rows, and graphs in which masked rows are removed."""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any

import tritorch
from tritorch import nn
from tritorch.ao.pruning._experimental.pruner import prune_functions as prune
from tritorch.ao.pruning._experimental.pruner.match_utils import apply_match
from tritorch.ao.pruning._experimental.pruner.parametrization import (
    BiasHook,
    FakeStructuredSparsity,
    module_contains_param,
)
from tritorch.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier
from tritorch.fx import GraphModule, symbolic_trace
from tritorch.nn import functional
from tritorch.nn.utils import parametrize

Pattern = tuple[Any, ...]

_ACTIVATIONS = [
    "relu",
    "rrelu",
    "hardtanh",
    "relu6",
    "sigmoid",
    "hardsigmoid",
    "tanh",
    "silu",
    "mish",
    "hardswish",
    "elu",
    "celu",
    "selu",
    "hardshrink",
    "leaky_relu",
    "logsigmoid",
    "softplus",
    "prelu",
    "softsign",
    "tanhshrink",
    "gelu",
]


def _get_supported_structured_pruning_modules() -> set[type[nn.Module]]:
    return {nn.Linear, nn.Conv2d, nn.LSTM}


def _get_supported_activation_functions() -> set[Callable[..., Any]]:
    return {getattr(functional, name) for name in _ACTIVATIONS}


def _get_supported_activation_modules() -> set[type[nn.Module]]:
    spelled = {name.replace("_", "").lower(): name for name in dir(nn)}
    return {getattr(nn, spelled[name.replace("_", "")]) for name in _ACTIVATIONS}


def _get_default_structured_pruning_patterns() -> dict[Pattern, Callable[..., None]]:
    """Pruning functions by the chain of modules and functions that they prune."""
    linear, conv, lstm = nn.Linear, nn.Conv2d, nn.LSTM
    patterns: dict[Pattern, Callable[..., None]] = {
        (linear, "output"): prune.prune_linear,
        (linear, linear): prune.prune_linear_linear,
        (conv, "output"): prune.prune_conv2d,
        (conv, conv): prune.prune_conv2d_conv2d,
        (lstm, getitem, linear): prune.prune_lstm_output_linear,
        (lstm, getitem, nn.LayerNorm, linear): prune.prune_lstm_output_layernorm_linear,
    }
    activations = [*_get_supported_activation_functions(), *_get_supported_activation_modules()]
    pools = (nn.AvgPool2d, functional.avg_pool2d, nn.MaxPool2d, functional.max_pool2d)
    for activation in activations:
        patterns[linear, activation, linear] = prune.prune_linear_activation_linear
        patterns[conv, activation, conv] = prune.prune_conv2d_activation_conv2d
        for pool in pools:
            patterns[conv, activation, pool, conv] = prune.prune_conv2d_activation_pool_conv2d
            patterns[conv, pool, activation, conv] = prune.prune_conv2d_pool_activation_conv2d
    for adaptive in (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d):
        for flatten in (nn.Flatten, tritorch.flatten):
            patterns[conv, adaptive, flatten, linear] = prune.prune_conv2d_pool_flatten_linear
    return patterns


class BaseStructuredSparsifier(BaseSparsifier):
    """Base of structured pruners. A subclass defines `update_mask`.

    `patterns` has pruning functions by chains of modules and functions.
    """

    def __init__(
        self,
        defaults: dict[str, Any] | None,
        patterns: dict[Pattern, Callable[..., None]] | None = None,
    ) -> None:
        super().__init__(defaults)
        self.patterns = _get_default_structured_pruning_patterns() if patterns is None else patterns

    def make_config_from_model(
        self, model: nn.Module, SUPPORTED_MODULES: set[type[nn.Module]] | None = None
    ) -> None:
        """Configures the weights of all linear layers, convolutions and LSTMs, or of the given
        types."""
        if SUPPORTED_MODULES is None:
            SUPPORTED_MODULES = _get_supported_structured_pruning_modules()
        super().make_config_from_model(model, SUPPORTED_MODULES=SUPPORTED_MODULES)

    def _prepare(self, *args: Any, **kwargs: Any) -> None:
        """Registers a mask of rows for each group's tensor; biases are added by hooks from now
        on."""
        for group in self.groups:
            module, tensor_name = group["module"], group["tensor_name"]
            tensor = getattr(module, tensor_name)
            mask = group.get(
                "mask",
                tritorch.ones(tensor.shape[0], dtype=tritorch.bool, device=tensor.device),
            )
            self.state[group["tensor_fqn"]]["mask"] = mask
            parametrization = group.get("parametrization", FakeStructuredSparsity)
            parametrize.register_parametrization(module, tensor_name, parametrization(mask))
            if not isinstance(module, (nn.Linear, nn.Conv2d)):
                continue
            prune_bias = group.get("prune_bias", True)
            if module.bias is not None:
                module.register_parameter("_bias", nn.Parameter(module.bias.detach()))
                module.bias = None  # type: ignore[assignment]
                module.prune_bias = prune_bias
            module.register_forward_hook(BiasHook(module.parametrizations.weight[0], prune_bias))

    def prune(self) -> GraphModule:
        """The model as a graph without its masked rows."""
        self.traced = symbolic_trace(self.model)
        modules = dict(self.traced.named_modules())
        for node in self.traced.graph.nodes:
            for pattern, prune_function in self.patterns.items():
                matched = apply_match(modules, pattern, node, [])
                if matched is None:
                    continue
                first = modules.get(str(node.target))
                if first is None or not module_contains_param(first, FakeStructuredSparsity):
                    continue
                prune_function(
                    *(
                        modules.get(str(entry.target))
                        if entry.op == "call_module"
                        else entry.target
                        for entry in matched
                        if entry.op in ("call_module", "call_function")
                    )
                )
        for module in self.traced.modules():
            if module_contains_param(module, FakeStructuredSparsity):
                raise Exception(
                    f"Error: {module} still contains FakeStructuredSparsity parametrizations!"
                )
        self.traced.graph.lint()
        self.traced.recompile()
        return self.traced
