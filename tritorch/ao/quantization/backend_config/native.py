"""Patterns that PyTorch's own engines quantize, with all dtypes that any of them takes."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch.ao.quantization.backend_config._common_operator_config_utils import _backend
from tritorch.ao.quantization.backend_config.backend_config import BackendConfig, DTypeConfig

__all__ = [
    "default_dynamic_float16_dtype_config",
    "default_dynamic_int8_dtype_config",
    "default_op_fp16_dtype_config",
    "default_op_quint8_dtype_config",
    "get_native_backend_config",
    "get_native_backend_config_dict",
    "get_test_only_legacy_native_backend_config",
    "get_test_only_legacy_native_backend_config_dict",
    "input_output_only_quint8_dtype_config",
    "weight_only_quint4x2_dtype_config",
    "weight_only_quint8_dtype_config",
]

# Input, output, weight, bias; then whether inputs are quantized as they come.
weighted_op_quint8_dtype_config = DTypeConfig(torch.quint8, torch.quint8, torch.qint8, torch.float)
default_op_quint8_dtype_config = DTypeConfig(torch.quint8, torch.quint8)
default_op_fp16_dtype_config = DTypeConfig(
    torch.float16, torch.float16, torch.float16, torch.float16
)
default_dynamic_int8_dtype_config = DTypeConfig(
    torch.quint8, torch.float, torch.qint8, torch.float, True
)
default_dynamic_float16_dtype_config = DTypeConfig(
    torch.float16, torch.float, torch.float16, torch.float, True
)
input_output_only_quint8_dtype_config = DTypeConfig(
    torch.quint8, torch.quint8, torch.float, torch.float
)
weight_only_quint8_dtype_config = DTypeConfig(torch.float, torch.float, torch.quint8)
weight_only_quint4x2_dtype_config = DTypeConfig(torch.float, torch.float, torch.quint4x2)


def _families(extra: list[DTypeConfig]) -> dict[str, list[DTypeConfig]]:
    """dtypes by family; extra: those of the families that have float16 in old tests."""
    plain = [default_op_quint8_dtype_config]
    dynamic = [default_dynamic_int8_dtype_config, default_dynamic_float16_dtype_config]
    return {
        "conv": [weighted_op_quint8_dtype_config],
        "linear": [weighted_op_quint8_dtype_config, *dynamic, *extra],
        "binary": plain + extra,
        "cat": plain,
        "default": plain,
        "fixed": plain + extra,
        "share": plain + extra,
        "info": plain,
        "bn": plain,
        "rnn": dynamic,
        "embedding": [weight_only_quint8_dtype_config, weight_only_quint4x2_dtype_config],
    }


def get_native_backend_config() -> BackendConfig:
    """Returns what PyTorch's own engines quantize."""
    return _backend("native", **_families([]), ln=[input_output_only_quint8_dtype_config])


def get_native_backend_config_dict() -> dict[str, Any]:
    """`get_native_backend_config` as a dict."""
    return get_native_backend_config().to_dict()


def get_test_only_legacy_native_backend_config() -> BackendConfig:
    """Returns the same with float16, which old tests ask for."""
    return _backend(
        "_native_and_fp16",
        **_families([default_op_fp16_dtype_config]),
        ln=[input_output_only_quint8_dtype_config],
    )


def get_test_only_legacy_native_backend_config_dict() -> dict[str, Any]:
    """`get_test_only_legacy_native_backend_config` as a dict."""
    return get_test_only_legacy_native_backend_config().to_dict()
