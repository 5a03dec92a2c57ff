"""Patterns that QNNPACK quantizes, signed activations too, with scales that XNNPACK takes."""

from __future__ import annotations

import tritorch as torch
from tritorch.ao.quantization.backend_config import native
from tritorch.ao.quantization.backend_config._common_operator_config_utils import _backend
from tritorch.ao.quantization.backend_config.backend_config import (
    BackendConfig,
    DTypeConfig,
    DTypeWithConstraints,
)

__all__ = ["get_qnnpack_backend_config"]

qnnpack_weighted_op_quint8_dtype_config = native.weighted_op_quint8_dtype_config
qnnpack_default_op_quint8_dtype_config = native.default_op_quint8_dtype_config
qnnpack_default_op_fp16_dtype_config = native.default_op_fp16_dtype_config
qnnpack_default_dynamic_int8_dtype_config = native.default_dynamic_int8_dtype_config
qnnpack_default_dynamic_float16_dtype_config = native.default_dynamic_float16_dtype_config
qnnpack_weight_only_quint8_dtype_config = native.weight_only_quint8_dtype_config
qnnpack_weight_only_quint4x2_dtype_config = native.weight_only_quint4x2_dtype_config

qnnpack_act_qint8_scale_min_2_neg_12 = DTypeWithConstraints(
    torch.qint8, scale_min_lower_bound=2**-12
)
qnnpack_weight_qint8_neg_127_to_127_scale_min_2_neg_12 = DTypeWithConstraints(
    torch.qint8, -127, 127, scale_min_lower_bound=2**-12
)
qnnpack_weighted_op_qint8_symmetric_dtype_config = DTypeConfig(
    qnnpack_act_qint8_scale_min_2_neg_12,
    qnnpack_act_qint8_scale_min_2_neg_12,
    qnnpack_weight_qint8_neg_127_to_127_scale_min_2_neg_12,
    torch.float,
)
qnnpack_default_op_qint8_symmetric_dtype_config = DTypeConfig(
    qnnpack_act_qint8_scale_min_2_neg_12, qnnpack_act_qint8_scale_min_2_neg_12
)


def get_qnnpack_backend_config() -> BackendConfig:
    """Returns what the engine quantizes: native's families, signed dtypes before the others."""
    families = native._families([])
    del families["info"]
    for family in ("conv", "linear"):
        families[family].insert(0, qnnpack_weighted_op_qint8_symmetric_dtype_config)
    plain = [
        qnnpack_default_op_qint8_symmetric_dtype_config,
        qnnpack_default_op_quint8_dtype_config,
    ]
    others = dict.fromkeys(("binary", "cat", "default", "fixed", "share", "bn"), plain)
    return _backend("qnnpack", **{**families, **others})
