"""Patterns that FBGEMM quantizes."""

from __future__ import annotations

from tritorch.ao.quantization.backend_config import native
from tritorch.ao.quantization.backend_config._common_operator_config_utils import _backend
from tritorch.ao.quantization.backend_config.backend_config import BackendConfig

__all__ = ["get_fbgemm_backend_config"]

fbgemm_weighted_op_quint8_dtype_config = native.weighted_op_quint8_dtype_config
fbgemm_default_op_quint8_dtype_config = native.default_op_quint8_dtype_config
fbgemm_default_op_fp16_dtype_config = native.default_op_fp16_dtype_config
fbgemm_default_dynamic_int8_dtype_config = native.default_dynamic_int8_dtype_config
fbgemm_default_dynamic_float16_dtype_config = native.default_dynamic_float16_dtype_config
fbgemm_weight_only_quint8_dtype_config = native.weight_only_quint8_dtype_config
fbgemm_weight_only_quint4x2_dtype_config = native.weight_only_quint4x2_dtype_config


def get_fbgemm_backend_config() -> BackendConfig:
    """Returns what the engine quantizes: all that is native but layer norms."""
    return _backend("fbgemm", **native._families([]))
