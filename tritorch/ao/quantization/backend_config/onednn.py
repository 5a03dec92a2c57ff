"""Patterns that oneDNN quantizes: native's, and convolutions and Linear with what follows."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import tritorch as torch
import tritorch.ao.nn.intrinsic as nni
import tritorch.ao.nn.quantized.reference as nnqr
import tritorch.nn.functional as F
from tritorch import nn
from tritorch.ao.quantization.backend_config import native
from tritorch.ao.quantization.backend_config._common_operator_config_utils import (
    Configs,
    DTypes,
    _backend,
    _config,
    _functional_with,
    _with,
)
from tritorch.ao.quantization.backend_config.backend_config import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
)
from tritorch.ao.quantization.utils import MatchAllNode
from tritorch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["get_onednn_backend_config"]

onednn_weighted_op_int8_dtype_config = native.weighted_op_quint8_dtype_config
onednn_op_quint8_dtype_config = native.default_op_quint8_dtype_config
onednn_dynamic_int8_dtype_config = native.default_dynamic_int8_dtype_config
onednn_weight_only_qint8_dtype_config = DTypeConfig(torch.float, torch.float, torch.qint8)
onednn_input_output_only_quint8_dtype_config = native.input_output_only_quint8_dtype_config


# --- convolution, batch norm or not, plus another tensor on either side, ReLU or not -------


def _conv_add(left: bool, bn: bool, relu: bool, add_op: Any, dtypes: DTypes) -> Any:
    """A pattern's config. left: the convolution is the first operand."""
    conv: Any = (nn.BatchNorm2d, nn.Conv2d) if bn else nn.Conv2d
    added = (add_op, conv, MatchAllNode) if left else (add_op, MatchAllNode, conv)

    def parts(pattern: Any) -> tuple[Any, Any, Any]:
        """The convolution (with its batch norm), the other operand, and the sum."""
        add, *operands = pattern[1] if relu else pattern
        mine, other = operands if left else reversed(operands)
        return mine, other, add

    def fuse(is_qat: bool, *modules: Any) -> Any:
        mine, _, add = parts(modules)
        after = modules[:1] if relu else ()
        if bn:
            norm, conv = mine
            if is_qat:
                raise NotImplementedError(f"Cannot fuse train modules: {(conv, norm, add, *after)}")
            mine = fuse_conv_bn_eval(conv, norm)
        return (nni.ConvAddReLU2d if relu else nni.ConvAdd2d)(mine, add, *after)

    def root_node(pattern: Any) -> Any:
        mine = parts(pattern)[0]
        return mine[1] if bn else mine

    def extra_inputs(pattern: Any) -> list[Any]:
        return [parts(pattern)[1]]

    return (
        BackendPatternConfig()
        ._set_pattern_complex_format((nn.ReLU, added) if relu else added)
        .set_dtype_configs(dtypes)
        .set_fuser_method(fuse)
        ._set_root_node_getter(root_node)
        ._set_extra_inputs_getter(extra_inputs)
        .set_fused_module(nni.ConvAddReLU2d if relu else nni.ConvAdd2d)
    )


def _conv_add_configs(dtypes: DTypes) -> Configs:
    out: Configs = []
    for relu, fused in ((False, nni.ConvAdd2d), (True, nni.ConvAddReLU2d)):
        out += [
            _conv_add(left, bn, relu, add, dtypes)
            for left in (True, False)
            for bn in (True, False)
            for add in (torch.add, operator.add)
        ]
        out.append(_config(fused, dtypes, root=(nn.Conv2d, nnqr.Conv2d)))
    return out


# --- Linear with an activation -----------------------------------------------------------


def _fuse_linear_bn_leaky_relu(is_qat: bool, linear: Any, bn: Any, leaky_relu: Any) -> Any:
    """Puts a batch norm and a LeakyReLU into a Linear."""
    if not linear.training == bn.training == leaky_relu.training:
        raise AssertionError(
            "Linear, BN and LeakyReLU all must be in the same mode (train or eval)."
        )
    if is_qat or type(linear) is not nn.Linear:
        mode = "train" if is_qat else "eval"
        raise NotImplementedError(f"Cannot fuse {mode} modules: {(linear, bn, leaky_relu)}")
    return nni.LinearLeakyReLU(fuse_linear_bn_eval(linear, bn), leaky_relu)


def _linear_with(module: Any, function: Callable[..., Any], fused: Any, dtypes: DTypes) -> Configs:
    return [
        *_with((module, function), nn.Linear, fused, dtypes),
        _config(fused, dtypes, root=(nn.Linear, nnqr.Linear)),
        *_functional_with((module, function), F.linear, dtypes),
    ]


def _linear_configs(dtypes: DTypes) -> Configs:
    return [
        *_linear_with(nn.LeakyReLU, F.leaky_relu, nni.LinearLeakyReLU, dtypes),
        _config(
            (nn.Linear, nn.BatchNorm1d, nn.LeakyReLU),
            dtypes,
            fused=(_fuse_linear_bn_leaky_relu, nni.LinearLeakyReLU),
        ),
        *_linear_with(nn.Tanh, torch.tanh, nni.LinearTanh, dtypes),
    ]


def get_onednn_backend_config() -> BackendConfig:
    """Returns what oneDNN quantizes."""
    conv = [onednn_weighted_op_int8_dtype_config]
    linear = [onednn_weighted_op_int8_dtype_config, onednn_dynamic_int8_dtype_config]
    plain = [onednn_op_quint8_dtype_config]
    out = _backend(
        "onednn",
        conv=conv,
        linear=linear,
        rnn=[onednn_dynamic_int8_dtype_config],
        embedding=[onednn_weight_only_qint8_dtype_config],
        ln=[onednn_input_output_only_quint8_dtype_config],
        **dict.fromkeys(("binary", "cat", "default", "fixed", "share", "bn"), plain),
    )
    return out.set_backend_pattern_configs([*_conv_add_configs(conv), *_linear_configs(linear)])
