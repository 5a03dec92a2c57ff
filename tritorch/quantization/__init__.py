"""Former path of `torch.ao.quantization`."""

from __future__ import annotations

import importlib
from typing import Any

from tritorch.ao import quantization as _present
from tritorch.ao.quantization import *  # noqa: F403
from tritorch.compat import names as _names

# What `from torch.quantization import *` gives.
__all__ = [  # noqa: F405
    "DeQuantStub",
    "HistogramObserver",
    "ObserverBase",
    "QConfig",
    "QuantStub",
    "QuantType",
    "QuantWrapper",
    "WeightObserver",
    "_convert_ondevice_dynamic_jit",
    "_prepare_ondevice_dynamic_jit",
    "_quantize_ondevice_dynamic_jit",
    "add_quant_dequant",
    "convert",
    "default_dynamic_qconfig",
    "default_eval_fn",
    "default_fake_quant",
    "default_fixed_qparams_range_0to1_fake_quant",
    "default_fixed_qparams_range_neg1to1_fake_quant",
    "default_histogram_fake_quant",
    "default_observer",
    "default_per_channel_weight_fake_quant",
    "default_per_channel_weight_observer",
    "default_placeholder_observer",
    "default_qat_qconfig",
    "default_qconfig",
    "default_weight_fake_quant",
    "default_weight_observer",
    "float16_dynamic_qconfig",
    "float_qparams_weight_only_qconfig",
    "fuse_modules",
    "get_default_compare_output_module_list",
    "get_default_dynamic_quant_module_mappings",
    "get_default_qat_module_mappings",
    "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings",
    "get_fuser_method",
    "get_quantized_operator",
    "get_static_quant_module_class",
    "observer",
    "prepare",
    "prepare_qat",
    "propagate_qconfig_",
    "quantize",
    "quantize_dynamic",
    "quantize_dynamic_jit",
    "quantize_jit",
    "quantize_qat",
    "swap_module",
]  # fmt: skip


def default_eval_fn(model: Any, calib_data: Any) -> None:  # type: ignore[no-redef]
    """Runs a model on the inputs of pairs of input and target."""
    for data, _target in calib_data:
        model(data)


def __getattr__(name: str) -> Any:
    if _names.is_module(f"quantization.{name}"):
        return importlib.import_module(f"tritorch.quantization.{name}")
    if _names.has_name("quantization", name) and not name.startswith("__"):
        if hasattr(_present, name):
            return getattr(_present, name)
        return _names.elsewhere("quantization", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_names.offered("quantization")})
