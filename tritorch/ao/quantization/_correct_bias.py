"""Correction of biases: a quantized layer's mean error is taken out of its bias.

From "Data-Free Quantization Through Weight Equalization and Bias Correction", 4.2."""

from __future__ import annotations

from typing import Any

import tritorch as torch
import tritorch.ao.nn.quantized as nnq
import tritorch.ao.ns._numeric_suite as ns
from tritorch import Tensor, nn
from tritorch.ao.quantization.utils import _parent_name

__all__ = [
    "MeanShadowLogger",
    "bias_correction",
    "get_module",
    "get_param",
    "parent_child_names",
]

_supported_modules = {nn.Linear, nn.Conv2d}
_supported_modules_quantized = {nnq.Linear, nnq.Conv2d}


def get_module(model: nn.Module, name: str) -> Any:
    """Returns a model's module by name."""
    return dict(model.named_modules())[name]


def parent_child_names(name: str) -> tuple[str, str]:
    """Returns ("a.b", "c") of "a.b.c"."""
    return _parent_name(name)


def get_param(module: Any, attr: str) -> Any:
    """Returns a weight or a bias, be it an attribute or a method that gives it; or None."""
    found = getattr(module, attr, None)
    return found() if callable(found) else found


class MeanShadowLogger(ns.Logger):
    """Keeps the mean results of a quantized module and of the one that it comes from."""

    def __init__(self) -> None:
        super().__init__()
        self.float_sum: Any = None
        self.quant_sum: Any = None
        self.clear()

    def forward(self, x: Tensor, y: Tensor) -> None:  # type: ignore[override]
        if x.is_quantized:
            x = x.dequantize()
        self.count += 1
        self.quant_sum = x if self.quant_sum is None else self.quant_sum + x
        self.float_sum = y if self.float_sum is None else self.float_sum + y
        self.stats["quantized"] = self.quant_sum / self.count
        self.stats["float"] = self.float_sum / self.count

    def clear(self) -> None:
        """Forgets what was seen."""
        self.stats["float"] = None
        self.stats["quantized"] = None
        self.count = 0
        self.float_sum = None
        self.quant_sum = None


def bias_correction(
    float_model: Any,
    quantized_model: Any,
    img_data: Any,
    target_modules: Any = _supported_modules_quantized,
    neval_batches: int | None = None,
) -> None:
    """Corrects the biases of a quantized model, in place, module by module.

    img_data: batches whose first items the model runs on; neval_batches: as many of them."""
    ns.prepare_model_with_stubs(float_model, quantized_model, _supported_modules, MeanShadowLogger)
    names = [
        name for name, module in quantized_model.named_modules() if type(module) in target_modules
    ]
    for name in names:
        bias = get_param(get_module(quantized_model, name), "bias")
        if bias is None:
            continue
        for count, data in enumerate(img_data, start=1):
            quantized_model(data[0])
            if count == neval_batches:
                break
        stats = ns.get_logger_dict(quantized_model)[parent_child_names(name)[0] + ".stats"]
        error = stats["quantized"] - stats["float"]
        bias.data = bias.data - torch.mean(error, [d for d in range(error.dim()) if d != 1])
        for module in quantized_model.modules():
            if isinstance(module, MeanShadowLogger):
                module.clear()
