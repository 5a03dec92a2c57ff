"""Patterns that ExecuTorch's engines quantize."""

from __future__ import annotations

import operator

import tritorch as torch
import tritorch.nn.functional as F
from tritorch import nn
from tritorch.ao.quantization.backend_config import native, qnnpack
from tritorch.ao.quantization.backend_config._common_operator_config_utils import (
    Configs,
    _binary_configs,
    _config,
    _Conv2dMetadata,
    _conv_configs,
    _get_embedding_op_configs as _embedding_modules,
    _plain_linear_configs,
    _shared_configs,
)
from tritorch.ao.quantization.backend_config.backend_config import (
    BackendConfig,
    DTypeConfig,
    DTypeWithConstraints,
)

__all__ = ["get_executorch_backend_config"]

executorch_weighted_op_int8_dtype_config = native.weighted_op_quint8_dtype_config
executorch_default_op_quint8_dtype_config = native.default_op_quint8_dtype_config
executorch_default_dynamic_quint8_dtype_config = native.default_dynamic_int8_dtype_config
executorch_default_dynamic_float16_dtype_config = native.default_dynamic_float16_dtype_config
executorch_weight_only_quint8_dtype_config = native.weight_only_quint8_dtype_config
executorch_act_qint8_scale_min_2_neg_12: DTypeWithConstraints = (
    qnnpack.qnnpack_act_qint8_scale_min_2_neg_12
)
executorch_weight_qint8_neg_127_to_127_scale_min_2_neg_12: DTypeWithConstraints = (
    qnnpack.qnnpack_weight_qint8_neg_127_to_127_scale_min_2_neg_12
)
executorch_default_dynamic_qint8_dtype_config = DTypeConfig(
    executorch_act_qint8_scale_min_2_neg_12,
    torch.float,
    executorch_weight_qint8_neg_127_to_127_scale_min_2_neg_12,
    torch.float,
    True,
)
_weighted = [
    qnnpack.qnnpack_weighted_op_qint8_symmetric_dtype_config,
    executorch_weighted_op_int8_dtype_config,
]
_plain = [
    qnnpack.qnnpack_default_op_qint8_symmetric_dtype_config,
    executorch_default_op_quint8_dtype_config,
]


def _get_linear_configs() -> Configs:
    return _plain_linear_configs(
        [
            *_weighted,
            executorch_default_dynamic_quint8_dtype_config,
            executorch_default_dynamic_qint8_dtype_config,
            executorch_default_dynamic_float16_dtype_config,
        ]
    )


def _get_conv_configs() -> Configs:
    return _conv_configs(_Conv2dMetadata, list(_weighted))


def _get_binary_ops_configs() -> Configs:
    operators = (operator.add, torch.add, operator.sub, torch.sub, operator.mul, torch.mul)
    dtypes = [
        qnnpack.qnnpack_default_op_qint8_symmetric_dtype_config,
        executorch_weighted_op_int8_dtype_config,
    ]
    return _binary_configs(operators, dtypes)


def _get_share_qparams_ops_configs() -> Configs:
    operators = (
        nn.Flatten,
        F.adaptive_avg_pool2d,
        F.elu,
        F.hardtanh,
        F.max_pool2d,
        F.pad,
        F.relu,
        F.relu6,
        F.leaky_relu,
        F.leaky_relu_,
        nn.AdaptiveAvgPool2d,
        nn.ConstantPad2d,
        nn.ELU,
        nn.MaxPool2d,
        nn.ReLU6,
        nn.Hardtanh,
        nn.LeakyReLU,
        torch.clamp,
        torch.flatten,
        torch.mean,
        torch.permute,
        torch.permute_copy,
        torch.squeeze,
        "clamp",
        "mean",
        "permute",
        "reshape",
        "relu",
        "relu_",
        "squeeze",
        "squeeze_",
        "leaky_relu",
    )
    return _shared_configs(operators, list(_plain))


def _get_bn_configs() -> Configs:
    return [_config(nn.BatchNorm2d, list(_plain))]


def _get_cat_configs() -> Configs:
    return _shared_configs((torch.cat, torch.concat, torch.concatenate), list(_plain))


def _get_embedding_op_configs() -> Configs:
    dtypes = [executorch_weight_only_quint8_dtype_config]
    return [*_embedding_modules(dtypes), _config(F.embedding, dtypes, places={"weight": 1})]


def get_executorch_backend_config() -> BackendConfig:
    """Returns what ExecuTorch's engines quantize."""
    out = BackendConfig("executorch")
    for configs in (
        _get_linear_configs,
        _get_conv_configs,
        _get_binary_ops_configs,
        _get_share_qparams_ops_configs,
        _get_bn_configs,
        _get_cat_configs,
        _get_embedding_op_configs,
    ):
        out.set_backend_pattern_configs(configs())
    return out
