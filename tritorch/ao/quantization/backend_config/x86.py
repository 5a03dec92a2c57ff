"""Patterns that the engine x86 quantizes."""

from __future__ import annotations

from tritorch.ao.quantization.backend_config import native
from tritorch.ao.quantization.backend_config._common_operator_config_utils import _backend
from tritorch.ao.quantization.backend_config.backend_config import BackendConfig

__all__ = ["get_x86_backend_config"]

x86_weighted_op_int8_dtype_config = native.weighted_op_quint8_dtype_config
x86_default_op_quint8_dtype_config = native.default_op_quint8_dtype_config
x86_default_op_fp16_dtype_config = native.default_op_fp16_dtype_config
x86_default_dynamic_int8_dtype_config = native.default_dynamic_int8_dtype_config
x86_default_dynamic_float16_dtype_config = native.default_dynamic_float16_dtype_config
x86_weight_only_quint8_dtype_config = native.weight_only_quint8_dtype_config
x86_weight_only_quint4x2_dtype_config = native.weight_only_quint4x2_dtype_config


def get_x86_backend_config() -> BackendConfig:
    """Returns what the engine quantizes: all that is native but layer norms."""
    families = native._families([])
    weighted = [x86_weighted_op_int8_dtype_config]
    return _backend("x86", **{**families, "binary": weighted, "fixed": weighted})
