"""Comparison of float and quantized modules: weights, outputs, and outputs of single modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tritorch.ao.nn.quantized as nnq
import tritorch.ao.nn.quantized.dynamic as nnqd
from tritorch import Tensor, quint8
from tritorch.ao.quantization.qconfig import QConfig
from tritorch.ao.quantization.quantization_mappings import get_default_compare_output_module_list
from tritorch.ao.quantization.quantize import prepare
from tritorch.nn import LSTM, Module

NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST = {nnqd.Linear, nnq.Linear, nnqd.LSTM, LSTM}


def _find_match(str_list: Iterable[str], key_str: str, postfix: str) -> str | None:
    """The first key that is of the same module as one with this last part, or of a direct child; of
    packed parameters also of the module around."""
    *parts, last = key_str.split(".")
    if last != postfix:
        return None
    wanted = ["".join(parts)]
    if postfix == "_packed_params" and "".join(parts[:-1]):
        wanted.append("".join(parts[:-1]))
    keys = list(str_list)
    for path in wanted:
        for key in keys:
            others = key.split(".")
            if path in ("".join(others[:-1]), "".join(others[:-2])):
                return key
    return None


def compare_weights(
    float_dict: dict[str, Any], quantized_dict: dict[str, Any]
) -> dict[str, dict[str, Tensor]]:
    """Weights of two state dicts, by the quantized key: "float" and "quantized"."""
    weights: dict[str, dict[str, Tensor]] = {}
    for key, value in quantized_dict.items():
        match = _find_match(float_dict, key, "weight")
        if match is not None:
            weights[key] = {"float": float_dict[match], "quantized": value}
            continue
        match = _find_match(float_dict, key, "_packed_params")
        if match is not None:
            weights[key] = {"float": float_dict[match], "quantized": value[0]}
        parts = key.split(".")
        if parts[-1] == "param" and parts[-3:-2] == ["_all_weight_values"]:
            stem, layer = ".".join(parts[:-3]), parts[-2]
            of_input, of_hidden = (f"{stem}.weight_{kind}_l{layer}" for kind in ("ih", "hh"))
            if of_input in float_dict and of_hidden in float_dict:
                packed = value.__getstate__()[0][4][1]
                weights[key] = {
                    "float": float_dict[of_hidden],
                    "quantized": packed.__getstate__()[0][0],
                }
    return weights


class Logger(Module):
    """Base of loggers: `stats` has what they saw."""

    def __init__(self) -> None:
        super().__init__()
        self.stats: dict[str, Any] = {}
        self.dtype = quint8

    def forward(self, x: Any) -> Any:
        """Sees a value."""


class ShadowLogger(Logger):
    """Keeps the outputs of a quantized module and of the float one beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.stats["float"] = []
        self.stats["quantized"] = []

    def forward(self, x: Any, y: Any) -> None:  # type: ignore[override]
        """Keeps both; of several, as of an LSTM's, the first."""
        for name, value in (("quantized", x), ("float", y)):
            self.stats[name].append((value[0] if len(value) > 1 else value).detach())


class OutputLogger(Logger):
    """Keeps the outputs of a module."""

    def __init__(self) -> None:
        super().__init__()
        self.stats["tensor_val"] = []

    def forward(self, x: Any) -> Any:
        """Keeps a value."""
        self.stats["tensor_val"].append(x)
        return x


def _get_logger_dict_helper(mod: Module, target_dict: dict[str, Any], prefix: str = "") -> None:
    """Adds the values of a module's first logger, and of those of its children."""
    start = f"{prefix}." if prefix else ""
    logger = next((child for child in mod.children() if isinstance(child, Logger)), None)
    if logger is not None:
        target_dict[f"{start}stats"] = logger.stats
    for name, child in mod.named_children():
        _get_logger_dict_helper(child, target_dict, f"{start}{name}")


def get_logger_dict(mod: Module, prefix: str = "") -> dict[str, dict[str, Any]]:
    """Values that all loggers of a model saw, by the paths of their modules."""
    found: dict[str, dict[str, Any]] = {}
    _get_logger_dict_helper(mod, found, prefix)
    return found


def _convert_tuple_to_list(t: Any) -> Any:
    return [_convert_tuple_to_list(x) for x in t] if type(t) is tuple else t


def _dequantize_tensor_list(t: Any) -> Any:
    if type(t) is list:
        return [_dequantize_tensor_list(x) for x in t]
    return t.dequantize() if t.is_quantized else t


class Shadow(Module):
    """A quantized module with the float one beside it; a logger sees the outputs of both."""

    def __init__(
        self, q_module: Module, float_module: Module, logger_cls: Callable[[], Module]
    ) -> None:
        super().__init__()
        self.orig_module = q_module
        self.shadow_module = float_module
        self.dequant = nnq.DeQuantize()
        self.logger = logger_cls()

    def forward(self, *x: Any) -> Tensor:
        """The quantized module's output."""
        inputs = _convert_tuple_to_list(x)
        output = self.orig_module(*inputs)
        self.logger(output, self.shadow_module(*_dequantize_tensor_list(inputs)))
        return output

    def _both(self, name: str, tensors: list[Any], *rest: Any) -> Tensor:
        """The result of a method of the quantized module; the float one's is logged beside it."""
        output = getattr(self.orig_module, name)(*tensors, *rest)
        plain = [_dequantize_tensor_list(each) for each in tensors]
        self.logger(output, getattr(self.shadow_module, name)(*plain, *rest))
        return output

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y."""
        return self._both("add", [x, y])

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """x + y, a number."""
        return self._both("add_scalar", [x], y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """x * y."""
        return self._both("mul", [x, y])

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """x * y, a number."""
        return self._both("mul_scalar", [x], y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """Tensors along a dim, one after the other."""
        return self._both("cat", [x], dim)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """relu(x + y)."""
        return self._both("add_relu", [x, y])


def prepare_model_with_stubs(
    float_module: Module,
    q_module: Module,
    module_swap_list: set[type],
    logger_cls: Callable[[], Module],
) -> None:
    """Puts float modules of these types beside their quantized forms, in the quantized model."""
    plain = dict(float_module.named_children())
    for name, child in list(q_module.named_children()):
        if name not in plain:
            continue
        if type(plain[name]) not in module_swap_list:
            prepare_model_with_stubs(plain[name], child, module_swap_list, logger_cls)
        elif not _is_identical_module_type(child, plain[name]):
            q_module._modules[name] = Shadow(child, plain[name], logger_cls)


def _is_identical_module_type(mod1: Module, mod2: Module) -> bool:
    return [type(mod) for mod in mod1.modules()] == [type(mod) for mod in mod2.modules()]


def compare_model_stub(
    float_model: Module,
    q_model: Module,
    module_swap_list: set[type],
    *data: Any,
    logger_cls: Callable[[], Module] = ShadowLogger,
) -> dict[str, dict[str, Any]]:
    """Outputs of quantized modules and of the float ones on the same inputs, by their paths:
    "float" and "quantized". The quantized model keeps the float modules."""
    prepare_model_with_stubs(float_model, q_model, module_swap_list, logger_cls)
    q_model(*data)
    return get_logger_dict(q_model)


def get_matching_activations(float_module: Module, q_module: Module) -> dict[str, dict[str, Any]]:
    """Values that loggers of two models saw at corresponding modules, by the quantized model's
    paths."""
    plain, quantized = get_logger_dict(float_module), get_logger_dict(q_module)
    found = {}
    for key, stats in quantized.items():
        match = _find_match(sorted(plain, reverse=True), key, "stats")
        if len(stats["tensor_val"]) > 0 and match is not None:
            found[key] = {
                "float": plain[match]["tensor_val"],
                "quantized": stats["tensor_val"],
            }
    return found


def prepare_model_outputs(
    float_module: Module,
    q_module: Module,
    logger_cls: Callable[..., Any] = OutputLogger,
    allow_list: set[type] | None = None,
) -> None:
    """Makes modules of these types in both models log their outputs."""
    if allow_list is None:
        allow_list = get_default_compare_output_module_list()
    qconfig = QConfig(activation=logger_cls, weight=None)
    non_leaves = {"observer_non_leaf_module_list": NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST}
    for module, more in ((float_module, {}), (q_module, non_leaves)):
        module.qconfig = qconfig
        prepare(module, inplace=True, allow_list=allow_list, prepare_custom_config_dict={}, **more)


def compare_model_outputs(
    float_model: Module,
    q_model: Module,
    *data: Any,
    logger_cls: Callable[..., Any] = OutputLogger,
    allow_list: set[type] | None = None,
) -> dict[str, dict[str, Any]]:
    """Outputs of corresponding modules of two models on one input, by the quantized model's paths:
    "float" and "quantized"."""
    prepare_model_outputs(float_model, q_model, logger_cls, allow_list)
    float_model(*data)
    q_model(*data)
    return get_matching_activations(float_model, q_model)
