"""Reference modules and functions, with the quantized ones that replace them."""

from __future__ import annotations

import operator
from typing import Any

import tritorch
from tritorch import nn
from tritorch.ao.nn import intrinsic as nni, quantized as nnq
from tritorch.ao.nn.intrinsic import quantized as nniq
from tritorch.ao.nn.intrinsic.quantized import dynamic as nniqd
from tritorch.ao.nn.quantized import dynamic as nnqd, reference as nnqr
from tritorch.nn import functional as F

_ops = tritorch.ops.quantized

# Arguments that quantized functions do not have.
QOP_TO_ARG_NAMES_TO_SKIP: dict[Any, list[str]] = {
    _ops.hardswish: ["inplace"],
    _ops.elu: ["inplace"],
    _ops.dropout: ["inplace"],
    _ops.instance_norm: ["running_mean", "running_var", "use_input_stats", "momentum"],
}

STATIC_LOWER_MODULE_MAP: dict[Any, Any] = {
    nnqr.Linear: nnq.Linear,
    nnqr.Conv1d: nnq.Conv1d,
    nnqr.Conv2d: nnq.Conv2d,
    nnqr.Conv3d: nnq.Conv3d,
}

DYNAMIC_LOWER_MODULE_MAP: dict[Any, Any] = {
    nnqr.Linear: nnqd.Linear,
    nnqr.GRUCell: nnqd.GRUCell,
    nnqr.LSTMCell: nnqd.LSTMCell,
    nnqr.RNNCell: nnqd.RNNCell,
    nnqr.LSTM: nnqd.LSTM,
    nnqr.GRU: nnqd.GRU,
}

WEIGHT_ONLY_LOWER_MODULE_MAP: dict[Any, Any] = {
    nnqr.Embedding: nnq.Embedding,
    nnqr.EmbeddingBag: nnq.EmbeddingBag,
}

SPECIAL_PATTERN_LOWER_MODULE_MAP: dict[Any, Any] = {
    nn.BatchNorm2d: nnq.BatchNorm2d,
    nn.BatchNorm3d: nnq.BatchNorm3d,
    nnqr.ConvTranspose1d: nnq.ConvTranspose1d,
    nnqr.ConvTranspose2d: nnq.ConvTranspose2d,
    nnqr.ConvTranspose3d: nnq.ConvTranspose3d,
    nn.ELU: nnq.ELU,
    nn.LeakyReLU: nnq.LeakyReLU,
    nn.Hardswish: nnq.Hardswish,
    nn.InstanceNorm1d: nnq.InstanceNorm1d,
    nn.InstanceNorm2d: nnq.InstanceNorm2d,
    nn.InstanceNorm3d: nnq.InstanceNorm3d,
    nn.LayerNorm: nnq.LayerNorm,
    nn.Dropout: nnq.Dropout,
    nn.Softmax: nnq.Softmax,
    nn.PReLU: nnq.PReLU,
    nni.BNReLU2d: nniq.BNReLU2d,
    nni.BNReLU3d: nniq.BNReLU3d,
}

# Fused modules, with the reference module that they hold.
STATIC_LOWER_FUSED_MODULE_MAP: dict[Any, tuple[Any, Any]] = {
    nni.LinearReLU: (nnqr.Linear, nniq.LinearReLU),
    nni.LinearLeakyReLU: (nnqr.Linear, nniq.LinearLeakyReLU),
    nni.LinearTanh: (nnqr.Linear, nniq.LinearTanh),
    nni.ConvReLU1d: (nnqr.Conv1d, nniq.ConvReLU1d),
    nni.ConvReLU2d: (nnqr.Conv2d, nniq.ConvReLU2d),
    nni.ConvReLU3d: (nnqr.Conv3d, nniq.ConvReLU3d),
}

STATIC_LOWER_FUSED_MODULE_TWO_INPUTS_MAP: dict[Any, tuple[Any, Any]] = {
    nni.ConvAdd2d: (nnqr.Conv2d, nniq.ConvAdd2d),
    nni.ConvAddReLU2d: (nnqr.Conv2d, nniq.ConvAddReLU2d),
}

DYNAMIC_LOWER_FUSED_MODULE_MAP: dict[Any, tuple[Any, Any]] = {
    nni.LinearReLU: (nnqr.Linear, nniqd.LinearReLU),
}


def _both(name: str) -> list[Any]:
    """A function of torch.nn.functional, and the one of torch, if there is another."""
    found = [getattr(module, name, None) for module in (F, tritorch)]
    return [each for index, each in enumerate(found) if each and each not in found[:index]]


_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")

# Functions, with the quantized ones: alone, and with relu if there is one.
STATIC_LOWER_FUNCTIONAL_MAP: dict[Any, tuple[Any, Any]] = {
    F.linear: (_ops.linear, _ops.linear_relu),
    **{
        function: (getattr(_ops, name), getattr(_ops, f"{name}_relu"))
        for name in _CONVOLUTIONS
        for function in _both(name)
    },
    **{
        function: (getattr(_ops, name), None)
        for name in ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
        for function in _both(name)
    },
}

WEIGHT_PREPACK_OPS: set[Any] = {
    _ops.linear_prepack,
    _ops.linear_prepack_fp16,
    _ops.conv1d_prepack,
    _ops.conv2d_prepack,
    _ops.conv3d_prepack,
    _ops.conv_transpose1d_prepack,
    _ops.conv_transpose2d_prepack,
    _ops.conv_transpose3d_prepack,
}

# The same with dynamic quantization, by the types of activation and weight.
DYNAMIC_LOWER_FUNCTIONAL_MAP: dict[Any, dict[tuple[Any, Any], tuple[Any, Any]]] = {
    F.linear: {
        (tritorch.quint8, tritorch.qint8): (_ops.linear_dynamic, _ops.linear_relu_dynamic),
        (tritorch.float16, tritorch.float16): (
            _ops.linear_dynamic_fp16,
            _ops.linear_relu_dynamic_fp16,
        ),
    },
    **{
        function: {
            (tritorch.quint8, tritorch.qint8): (getattr(_ops, f"{name}_dynamic"), None),
        }
        for name in _CONVOLUTIONS
        for function in _both(name)
    },
}

CONV_FUNCTIONAL_OPS: set[Any] = {each for name in _CONVOLUTIONS for each in _both(name)}

CONV_TRANSPOSE_FUNCTIONAL_OPS: set[Any] = {
    each
    for name in ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
    for each in _both(name)
}

QBIN_OP_MAPPING: dict[Any, Any] = {
    operator.add: _ops.add,
    tritorch.add: _ops.add,
    operator.mul: _ops.mul,
    operator.matmul: _ops.matmul,
    tritorch.mul: _ops.mul,
    tritorch.matmul: _ops.matmul,
}
QBIN_RELU_OP_MAPPING: dict[Any, Any] = {
    operator.add: _ops.add_relu,
    tritorch.add: _ops.add_relu,
    operator.mul: _ops.mul_relu,
    tritorch.mul: _ops.mul_relu,
}

# Kinds of nodes, as functions, methods and modules.
_Kind = tuple[list[Any], list[str], list[Any]]

FIXED_QPARAMS: _Kind = (
    [F.hardsigmoid, F.sigmoid, tritorch.sigmoid, tritorch.tanh],
    ["hardsigmoid", "hardsigmoid_", "sigmoid", "sigmoid_", "tanh", "tanh_"],
    [nn.Hardsigmoid, nn.Sigmoid, nn.Tanh, nn.Softmax],
)

DEFAULT: _Kind = (
    [F.elu, F.hardswish, F.instance_norm, F.layer_norm, F.leaky_relu, F.dropout],
    [],
    [
        nnqr.ConvTranspose1d,
        nnqr.ConvTranspose2d,
        nnqr.ConvTranspose3d,
        nn.ELU,
        nn.LeakyReLU,
        nn.Hardswish,
        nn.InstanceNorm1d,
        nn.InstanceNorm2d,
        nn.InstanceNorm3d,
        nn.LayerNorm,
        nn.Dropout,
        nn.PReLU,
        nn.BatchNorm2d,
        nn.BatchNorm3d,
        nni.BNReLU2d,
        nni.BNReLU3d,
    ],
)

COPY: _Kind = (
    [
        *_both("adaptive_avg_pool1d"),
        F.adaptive_avg_pool2d,
        F.adaptive_avg_pool3d,
        F.hardtanh,
        F.hardtanh_,
        F.interpolate,
        F.max_pool1d,
        F.max_pool2d,
        F.max_pool3d,
        F.relu,
        F.relu6,
        *_both("avg_pool1d"),
        F.avg_pool2d,
        F.avg_pool3d,
        tritorch.clamp,
        tritorch.flatten,
        tritorch.mean,
        operator.floordiv,
        *_both("channel_shuffle"),
    ],
    ["clamp", "mean", "relu", "relu_"],
    [
        nn.AdaptiveAvgPool1d,
        nn.AdaptiveAvgPool2d,
        nn.AdaptiveAvgPool3d,
        nn.AvgPool1d,
        nn.AvgPool2d,
        nn.AvgPool3d,
        nn.Hardtanh,
        nn.MaxPool1d,
        nn.MaxPool2d,
        nn.MaxPool3d,
        nn.ReLU,
        nn.ReLU6,
        nn.ChannelShuffle,
    ],
)

TENSOR_SHAPE: _Kind = (
    [
        tritorch.narrow,
        tritorch.transpose,
        tritorch.repeat_interleave,
        tritorch.squeeze,
        tritorch.stack,
        tritorch.unsqueeze,
        *_both("pixel_shuffle"),
        *_both("pixel_unshuffle"),
    ],
    [
        "contiguous",
        "detach",
        "detach_",
        "permute",
        "repeat",
        "repeat_interleave",
        "reshape",
        "resize_",
        "shape",
        "size",
        "squeeze",
        "squeeze_",
        "transpose",
        "unsqueeze",
        "unsqueeze_",
        "view",
    ],
    [nn.Identity, nn.PixelShuffle, nn.PixelUnshuffle],
)

OTHER: _Kind = ([tritorch.cat], [], [])
