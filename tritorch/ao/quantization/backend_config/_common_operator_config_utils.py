"""Patterns that several engines have, family by family, for lists of dtypes."""

from __future__ import annotations

import copy
import operator
from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import Any

import tritorch as torch
import tritorch.ao.nn.intrinsic as nni
import tritorch.ao.nn.intrinsic.qat as nniqat
import tritorch.ao.nn.qat as nnqat
import tritorch.ao.nn.quantized.reference as nnqr
import tritorch.nn.functional as F
from tritorch import nn
from tritorch.ao.quantization.backend_config.backend_config import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    DTypeWithConstraints,
    ObservationType,
)
from tritorch.ao.quantization.fuser_method_mappings import (
    _sequential_wrapper2,
    fuse_conv_bn,
    fuse_conv_bn_relu,
    fuse_convtranspose_bn,
    fuse_linear_bn,
)

__all__: list[str] = []

Configs = list[BackendPatternConfig]
DTypes = list[DTypeConfig]

_APART = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
_SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
_WEIGHT_AND_BIAS = {"weight": 1, "bias": 2}  # arguments' places


def _config(
    pattern: Any,
    dtypes: DTypes,
    *,
    root: tuple[Any, Any] = (None, None),
    qat: Any = None,
    fused: tuple[Any, Any] = (None, None),
    observed: ObservationType = _APART,
    by_tensors: dict[int, ObservationType] | None = None,
    places: dict[str, int] | None = None,
) -> BackendPatternConfig:
    """A pattern. root: its module with the weight, and that one's reference. fused: the function
    that fuses, and the class it makes."""
    out = BackendPatternConfig(pattern).set_observation_type(observed).set_dtype_configs(dtypes)
    out.root_module, out.reference_quantized_module = root
    out.qat_module = qat
    out.fuser_method, out.fused_module = fused
    out._num_tensor_args_to_observation_type = by_tensors or {}
    out._input_type_to_index = places or {}
    return out


_RELU = (nn.ReLU, F.relu)


def _with(after: Iterable[Any], pattern: Any, fused: Any, dtypes: DTypes) -> Configs:
    """A module with what follows it, a module or a function: they become one of class fused."""
    made = (_sequential_wrapper2(fused), fused)
    return [_config((pattern, op), dtypes, fused=made) for op in after]


def _functional_with(after: Iterable[Any], function: Any, dtypes: DTypes) -> Configs:
    return [_config((function, op), dtypes) for op in after]


_ConvMetadata = namedtuple(
    "_ConvMetadata",
    "root transpose bn reference transpose_reference fused_conv_relu fused_conv_bn "
    "fused_conv_bn_relu qat relu_qat bn_qat bn_relu_qat func func_transpose",
)


def _conv_metadata(n: int) -> _ConvMetadata:
    """The modules and functions that belong to the convolution over n dims."""
    conv, transpose = f"Conv{n}d", f"ConvTranspose{n}d"
    relu, bn, bn_relu = f"ConvReLU{n}d", f"ConvBn{n}d", f"ConvBnReLU{n}d"
    return _ConvMetadata(
        getattr(nn, conv),
        getattr(nn, transpose),
        getattr(nn, f"BatchNorm{n}d"),
        getattr(nnqr, conv),
        getattr(nnqr, transpose),
        getattr(nni, relu),
        getattr(nni, bn),
        getattr(nni, bn_relu),
        getattr(nnqat, conv),
        getattr(nniqat, relu),
        getattr(nniqat, bn),
        getattr(nniqat, bn_relu),
        getattr(F, f"conv{n}d"),
        getattr(F, f"conv_transpose{n}d"),
    )


_Conv1dMetadata = _conv_metadata(1)
_Conv2dMetadata = _conv_metadata(2)
_Conv3dMetadata = _conv_metadata(3)


def _conv_configs(convs: _ConvMetadata, dtypes: DTypes) -> Configs:
    """A convolution alone, with ReLU, with batch norm, and with both."""
    root = (convs.root, convs.reference)
    fuse_both = (fuse_conv_bn_relu, convs.fused_conv_bn_relu)
    return [
        _config(convs.root, dtypes, root=root, qat=convs.qat),
        _config(convs.qat, dtypes, root=root),
        _config(convs.func, dtypes, places=_WEIGHT_AND_BIAS),
        *_with(_RELU, convs.root, convs.fused_conv_relu, dtypes),
        _config(convs.fused_conv_relu, dtypes, qat=convs.relu_qat),
        _config(convs.relu_qat, dtypes, root=root),
        *_functional_with(_RELU, convs.func, dtypes),
        _config((convs.root, convs.bn), dtypes, fused=(fuse_conv_bn, convs.fused_conv_bn)),
        _config((convs.root, convs.bn, nn.ReLU), dtypes, fused=fuse_both),
        _config((convs.root, convs.bn, F.relu), dtypes, root=(convs.root, None), fused=fuse_both),
        _config(convs.fused_conv_bn, dtypes, qat=convs.bn_qat),
        _config(convs.fused_conv_bn_relu, dtypes, qat=convs.bn_relu_qat),
        _config(convs.bn_qat, dtypes, root=root),
        _config(convs.bn_relu_qat, dtypes, root=root),
    ]


def _get_conv_configs(dtype_configs: DTypes) -> Configs:
    out: Configs = []
    for convs in (_Conv1dMetadata, _Conv2dMetadata, _Conv3dMetadata):
        root = (convs.transpose, convs.transpose_reference)
        out += [
            *_conv_configs(convs, dtype_configs),
            _config(convs.transpose, dtype_configs, root=root),
            _config(
                (convs.transpose, convs.bn),
                dtype_configs,
                root=root,
                fused=(fuse_convtranspose_bn, None),
            ),
            _config(convs.func_transpose, dtype_configs, places=_WEIGHT_AND_BIAS),
        ]
    return out


def _plain_linear_configs(dtypes: DTypes) -> Configs:
    root = (nn.Linear, nnqr.Linear)
    return [
        _config(nn.Linear, dtypes, root=root, qat=nnqat.Linear),
        _config(nnqat.Linear, dtypes, root=root),
        _config(F.linear, dtypes, places=_WEIGHT_AND_BIAS),
    ]


def _get_linear_configs(dtype_configs: DTypes) -> Configs:
    root = (nn.Linear, nnqr.Linear)
    return [
        *_plain_linear_configs(dtype_configs),
        *_with(_RELU, nn.Linear, nni.LinearReLU, dtype_configs),
        _config(nni.LinearReLU, dtype_configs, root=root, qat=nniqat.LinearReLU),
        _config(nniqat.LinearReLU, dtype_configs, root=root),
        *_functional_with(_RELU, F.linear, dtype_configs),
        _config((nn.Linear, nn.BatchNorm1d), dtype_configs, fused=(fuse_linear_bn, nni.LinearBn1d)),
        _config(nni.LinearBn1d, dtype_configs, root=root, qat=nniqat.LinearBn1d),
        _config(nniqat.LinearBn1d, dtype_configs, root=root),
    ]


def _binary_configs(operators: Iterable[Any], dtypes: DTypes) -> Configs:
    """Operators of two tensors alone and with ReLU; of a tensor and a number, the number has no
    observer and the result shares the tensor's."""
    by_tensors = {0: _APART, 1: _SHARED, 2: _APART}
    return [
        _config(pattern, dtypes, by_tensors=by_tensors)
        for op in operators
        for pattern in ((op, nn.ReLU), (op, F.relu), (op, torch.relu), op)
    ]


def _get_binary_op_configs(dtype_configs: DTypes) -> Configs:
    operators = (operator.add, torch.add, operator.mul, torch.mul)
    return [
        *_binary_configs(operators, dtype_configs),
        _config(torch.matmul, dtype_configs),
    ]


def _get_cat_config(dtype_configs: DTypes) -> BackendPatternConfig:
    return _config(torch.cat, dtype_configs, observed=_SHARED)


def _get_ln_configs(dtype_configs: DTypes) -> Configs:
    return [
        _config(nn.LayerNorm, dtype_configs),
        _config(F.layer_norm, dtype_configs, places={"weight": 2, "bias": 3}),
    ]


def _get_default_op_configs(dtype_configs: DTypes) -> Configs:
    operators = (
        nn.ELU,
        nn.LeakyReLU,
        nn.Hardswish,
        nn.InstanceNorm1d,
        nn.InstanceNorm2d,
        nn.InstanceNorm3d,
        nn.Dropout,
        nn.PReLU,
        F.elu,
        F.hardswish,
        F.leaky_relu,
        F.dropout,
    )
    return [
        *(_config(op, dtype_configs) for op in operators),
        _config(F.group_norm, dtype_configs, places={"weight": 2, "bias": 3}),
        _config(F.instance_norm, dtype_configs, places={"weight": 3, "bias": 4}),
    ]


# --- operators whose results have a known range ------------------------------------------

_FIXED_QPARAM_OP_0TO1_CONSTRAINTS = DTypeWithConstraints(
    torch.quint8, 0, 255, scale_exact_match=1.0 / 256.0, zero_point_exact_match=0
)
_FIXED_QPARAM_OP_NEG1TO1_CONSTRAINTS = DTypeWithConstraints(
    torch.quint8, 0, 255, scale_exact_match=2.0 / 256.0, zero_point_exact_match=128
)
_FIXED_QPARAMS_OP_TO_CONSTRAINTS: dict[Callable[..., Any] | str, DTypeWithConstraints] = {
    **dict.fromkeys(
        (
            nn.Hardsigmoid,
            F.hardsigmoid,
            "hardsigmoid",
            "hardsigmoid_",
            nn.Sigmoid,
            torch.sigmoid,
            "sigmoid",
            "sigmoid_",
            nn.Softmax,
        ),
        _FIXED_QPARAM_OP_0TO1_CONSTRAINTS,
    ),
    **dict.fromkeys((nn.Tanh, torch.tanh, "tanh", "tanh_"), _FIXED_QPARAM_OP_NEG1TO1_CONSTRAINTS),
}


def _add_fixed_qparams_to_dtype_configs(
    dtype_configs: DTypes, constraints: DTypeWithConstraints
) -> DTypes:
    """Copies whose activations have the constraints, where they are of that dtype."""
    out = copy.deepcopy(dtype_configs)
    for config in out:
        for activation in (
            config.input_dtype_with_constraints,
            config.output_dtype_with_constraints,
        ):
            if activation.dtype != constraints.dtype:
                continue
            for name in ("scale_min_lower_bound", "scale_max_upper_bound"):
                if getattr(activation, name) is not None:
                    raise ValueError(f"{name} is invalid for fixed qparams ops: {config}")
            for name in (
                "quant_min_lower_bound",
                "quant_max_upper_bound",
                "scale_exact_match",
                "zero_point_exact_match",
            ):
                setattr(activation, name, getattr(constraints, name))
    return out


def _get_fixed_qparams_op_configs(dtype_configs: DTypes) -> Configs:
    return [
        _config(op, _add_fixed_qparams_to_dtype_configs(dtype_configs, constraints))
        for op, constraints in _FIXED_QPARAMS_OP_TO_CONSTRAINTS.items()
    ]


# --- operators whose results have their input's scale ------------------------------------

_INPLACE_TOO = ("detach", "relu", "squeeze", "unsqueeze")


def _get_share_qparams_op_configs(dtype_configs: DTypes) -> Configs:
    operators = (
        *(getattr(nn, f"{kind}{n}d") for kind in _POOLS for n in (1, 2, 3)),
        nn.Hardtanh,
        nn.Identity,
        nn.PixelShuffle,
        nn.PixelUnshuffle,
        nn.ReLU,
        nn.ReLU6,
        torch.adaptive_avg_pool1d,
        F.adaptive_avg_pool2d,
        F.adaptive_avg_pool3d,
        F.hardtanh,
        F.hardtanh_,
        F.interpolate,
        F.max_pool1d,
        F.max_pool2d,
        F.max_pool3d,
        F.pixel_shuffle,
        F.pixel_unshuffle,
        F.relu,
        F.relu6,
        torch.avg_pool1d,
        F.avg_pool2d,
        F.avg_pool3d,
        torch.clamp,
        torch.flatten,
        torch.mean,
        torch.narrow,
        torch.repeat_interleave,
        torch.transpose,
        torch.squeeze,
        torch.stack,
        torch.unsqueeze,
        operator.floordiv,
        *(name + ending for name in _INPLACE_TOO for ending in ("", "_")),
        "contiguous",
        "clamp",
        "mean",
        "permute",
        "repeat",
        "repeat_interleave",
        "reshape",
        "resize_",
        "transpose",
        "view",
    )
    return _shared_configs(operators, dtype_configs)


_POOLS = ("AdaptiveAvgPool", "AvgPool", "MaxPool")


def _shared_configs(operators: Iterable[Any], dtypes: DTypes) -> Configs:
    return [_config(op, dtypes, observed=_SHARED) for op in operators]


def _get_bn_configs(dtype_configs: DTypes) -> Configs:
    fused = {nn.BatchNorm2d: nni.BNReLU2d, nn.BatchNorm3d: nni.BNReLU3d}
    out: Configs = []
    for bn, with_relu in fused.items():
        out += [*_with(_RELU, bn, with_relu, dtype_configs), _config(bn, dtype_configs)]
    return out + [_config(with_relu, dtype_configs) for with_relu in fused.values()]


def _get_rnn_op_configs(dtype_configs: DTypes) -> Configs:
    return [
        _config(getattr(nn, name), dtype_configs, root=(getattr(nn, name), getattr(nnqr, name)))
        for name in ("GRUCell", "LSTMCell", "RNNCell", "LSTM", "GRU")
    ]


def _get_embedding_op_configs(dtype_configs: DTypes) -> Configs:
    out: Configs = []
    for name in ("Embedding", "EmbeddingBag"):
        root, qat = (getattr(nn, name), getattr(nnqr, name)), getattr(nnqat, name)
        out.append(_config(root[0], dtype_configs, root=root, qat=qat))
        out.append(_config(qat, dtype_configs, root=root))
    return out


def _get_tensor_info_op_configs(dtype_configs: DTypes) -> Configs:
    """Operators that say something of a tensor and give none."""
    none = ObservationType.INPUT_OUTPUT_NOT_OBSERVED
    return [_config(op, dtype_configs, observed=none) for op in ("shape", "size")]


_FAMILIES: dict[str, Callable[[DTypes], Configs]] = {
    "conv": _get_conv_configs,
    "linear": _get_linear_configs,
    "binary": _get_binary_op_configs,
    "cat": lambda dtypes: [_get_cat_config(dtypes)],
    "default": _get_default_op_configs,
    "fixed": _get_fixed_qparams_op_configs,
    "share": _get_share_qparams_op_configs,
    "info": _get_tensor_info_op_configs,
    "bn": _get_bn_configs,
    "ln": _get_ln_configs,
    "rnn": _get_rnn_op_configs,
    "embedding": _get_embedding_op_configs,
}


def _backend(name: str, **dtypes: DTypes) -> BackendConfig:
    """An engine with these families of patterns, each with its dtypes, in the families' order."""
    out = BackendConfig(name)
    for family, configs in _FAMILIES.items():
        if family in dtypes:
            out.set_backend_pattern_configs(configs(dtypes[family]))
    return out
