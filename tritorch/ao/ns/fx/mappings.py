"""Operations that are one mathematical function in float and quantized models, and their types."""

from __future__ import annotations

import operator
from typing import Any

import tritorch
import tritorch.ao.nn.intrinsic as nni
import tritorch.ao.nn.intrinsic.qat as nniqat
import tritorch.ao.nn.intrinsic.quantized as nniq
import tritorch.ao.nn.intrinsic.quantized.dynamic as nniqd
import tritorch.ao.nn.qat as nnqat
import tritorch.ao.nn.qat.dynamic as nnqatd
import tritorch.ao.nn.quantized as nnq
import tritorch.ao.nn.quantized.dynamic as nnqd
import tritorch.nn as nn
import tritorch.nn.functional as F
from tritorch.ao.ns.fx.ns_types import NSNodeTargetType
from tritorch.ao.quantization import quantization_mappings
from tritorch.ao.quantization.backend_config import get_native_backend_config
from tritorch.ao.quantization.fx import _lower_to_native_backend as lowering
from tritorch.ao.quantization.fx._lowering_tables import _both

toq = tritorch.ops.quantized
_NonDynamic = nn.modules.linear.NonDynamicallyQuantizableLinear

# A line is a function in its forms; names without a prefix are modules, `F.` functions of
# torch.nn.functional, `t.` of torch, `o.` of operator, and quoted ones methods.
_RELATED = """
    Conv1d
    Conv2d
    Conv3d
    F.conv1d
    F.conv2d
    F.conv3d
    Linear
    F.linear
    AvgPool1d F.avg_pool1d
    AvgPool2d F.avg_pool2d
    AvgPool3d F.avg_pool3d
    AdaptiveAvgPool1d F.adaptive_avg_pool1d
    AdaptiveAvgPool2d F.adaptive_avg_pool2d
    AdaptiveAvgPool3d F.adaptive_avg_pool3d
    LSTM
    t.add o.add
    t.cat
    t.mul o.mul
    F.relu ReLU 'relu 'relu_ t.relu
    MaxPool1d F.max_pool1d
    MaxPool2d F.max_pool2d
    MaxPool3d F.max_pool3d
    t.sigmoid 'sigmoid 'sigmoid_ Sigmoid F.sigmoid
    BatchNorm2d
    BatchNorm3d
    ConvTranspose1d
    ConvTranspose2d
    ConvTranspose3d
    F.conv_transpose1d
    F.conv_transpose2d
    F.conv_transpose3d
    ELU
    Embedding
    EmbeddingBag
    GroupNorm
    Hardswish
    InstanceNorm1d
    InstanceNorm2d
    InstanceNorm3d
    LayerNorm
    LeakyReLU
    ReLU6 F.relu6
    F.elu
    F.hardswish
    F.group_norm
    F.instance_norm
    F.layer_norm
    F.leaky_relu
    SiLU F.silu
    Mish F.mish
    Tanh F.tanh t.tanh 'tanh_ 'tanh
    'hardsigmoid_ 'hardsigmoid F.hardsigmoid Hardsigmoid
    Hardtanh F.hardtanh F.hardtanh_
    o.floordiv
    t.unsqueeze
    t.stack
    t.squeeze
    t.sort
    t.repeat_interleave
    t.min
    t.mean
    t.max
    t.transpose
    t.flatten
    t.clamp
    t.chunk
    F.interpolate
    Dropout
    F.dropout
    t.matmul
    Softmax
    PReLU
    F.prelu
    PixelShuffle
    F.pixel_shuffle
    PixelUnshuffle
    F.pixel_unshuffle
    t.narrow
"""


def _named(text: str) -> set[Any]:
    """The operations of a text in the notation of `_RELATED`."""
    found: set[Any] = set()
    for word in text.split():
        if word.startswith("'"):
            found.add(word[1:])
        elif word.startswith("F."):
            found |= set(_both(word[2:])) if word[2:] in _SAME else {getattr(F, word[2:])}
        elif "." in word:
            prefix, _, name = word.partition(".")
            found.add(getattr({"t": tritorch, "o": operator, "q": toq}[prefix], name))
        else:
            found.add(getattr(nn, word))
    return found


# Functions of torch.nn.functional that are those of torch in PyTorch.
_SAME = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "avg_pool1d",
    "adaptive_avg_pool1d",
    "pixel_shuffle",
    "pixel_unshuffle",
]


def _connections() -> list[tuple[Any, Any]]:
    """Pairs of operations of which one replaces the other when models are quantized."""
    pairs: list[tuple[Any, Any]] = [(nn.Linear, _NonDynamic)]
    pairs += [(nn.PReLU, nnq.PReLU), (F.prelu, toq.prelu)]
    for pattern, config in get_native_backend_config()._pattern_complex_format_to_config.items():
        first: Any = pattern
        while isinstance(first, (list, tuple)):
            first = first[-1]
        replacements = (config.fused_module, config.qat_module, config.reference_quantized_module)
        pairs += [(first, each) for each in replacements if each is not None]
    for table in (
        lowering.STATIC_LOWER_MODULE_MAP,
        lowering.DYNAMIC_LOWER_MODULE_MAP,
        lowering.WEIGHT_ONLY_LOWER_MODULE_MAP,
        lowering.SPECIAL_PATTERN_LOWER_MODULE_MAP,
    ):
        pairs += table.items()
    for double_table in (
        lowering.STATIC_LOWER_FUSED_MODULE_MAP,
        lowering.STATIC_LOWER_FUSED_MODULE_TWO_INPUTS_MAP,
        lowering.DYNAMIC_LOWER_FUSED_MODULE_MAP,
        lowering.STATIC_LOWER_FUNCTIONAL_MAP,
    ):
        pairs += [(source, each) for source, both in double_table.items() for each in both]
    for table in (
        lowering.QBIN_OP_MAPPING,
        lowering.QBIN_RELU_OP_MAPPING,
        quantization_mappings.DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS,
        quantization_mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    ):
        pairs += table.items()
    return pairs


def get_base_name_to_sets_of_related_ops() -> dict[str, set[NSNodeTargetType]]:
    """Sets of operations that are one function, by number."""
    sets = [_named(line) for line in _RELATED.strip().splitlines()]
    for one, other in _connections():
        for related in sets:
            if one in related or other in related:
                related |= {one, other}
                break
    return {str(number): related for number, related in enumerate(sets)}


def get_base_name_for_op(
    base_name_to_sets_of_related_ops: dict[str, set[NSNodeTargetType]], op: NSNodeTargetType
) -> str | None:
    """The number of the set that has an operation."""
    for name, related in base_name_to_sets_of_related_ops.items():
        if op in related:
            return name
    return None


def add_op_to_sets_of_related_ops(
    base_name_to_sets_of_related_ops: dict[str, set[NSNodeTargetType]],
    op: NSNodeTargetType,
    related_op: NSNodeTargetType | None,
) -> None:
    """Adds an operation to the set of another, or as a set of its own."""
    sets = base_name_to_sets_of_related_ops
    if related_op is None:
        number = 0
        while str(number) in sets:
            number += 1
        sets[str(number)] = {op}
        return
    name = get_base_name_for_op(sets, related_op)
    if name is None:
        raise AssertionError(f"{related_op} was not found")
    sets[name].add(op)


_FUNS_FP32 = (
    "F.linear F.conv1d F.conv2d F.conv3d t.cat F.elu F.hardswish F.instance_norm F.layer_norm "
    "F.leaky_relu F.dropout F.silu F.mish o.add t.add o.mul t.mul t.sum F.prelu"
)
_FUNS_INT8 = (
    "q.linear q.linear_relu q.conv1d q.conv1d_relu q.conv2d q.conv2d_relu q.conv3d q.conv3d_relu "
    "q.cat q.elu q.hardswish q.instance_norm q.layer_norm q.leaky_relu q.dropout q.prelu"
)
_FUNS_EITHER = (
    "F.relu F.tanh t.tanh F.sigmoid t.sigmoid F.hardsigmoid o.floordiv F.adaptive_avg_pool1d "
    "F.adaptive_avg_pool2d F.adaptive_avg_pool3d F.dropout F.hardtanh F.hardtanh_ F.interpolate "
    "F.max_pool1d F.max_pool2d F.max_pool3d F.relu6 F.pixel_shuffle F.pixel_unshuffle "
    "F.avg_pool1d F.avg_pool2d F.avg_pool3d t.cat t.chunk t.clamp t.flatten t.transpose t.max "
    "t.mean t.min t.narrow t.repeat_interleave t.sort t.squeeze t.stack t.unsqueeze o.add"
)
_MODS_FP32 = (
    "Linear Conv1d Conv2d Conv3d LSTM BatchNorm2d BatchNorm3d Dropout ConvTranspose1d "
    "ConvTranspose2d ConvTranspose3d ELU GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d "
    "LayerNorm Hardswish LeakyReLU ReLU6 SiLU Mish Softmax PReLU"
)
_MODS_EITHER = (
    "ReLU Tanh Sigmoid Hardsigmoid AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d "
    "AvgPool1d AvgPool2d AvgPool3d Dropout Hardtanh Identity MaxPool1d MaxPool2d MaxPool3d "
    "PixelShuffle PixelUnshuffle ReLU6"
)
_MODS_FP32_OF = {
    nnqat: "Linear Conv1d Conv2d Conv3d Embedding EmbeddingBag",
    nnqatd: "Linear",
    nnqd: "Linear LSTM",
    nni: (
        "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU LinearBn1d ConvBn1d "
        "ConvBn2d ConvBn3d LinearLeakyReLU LinearTanh ConvAdd2d ConvAddReLU2d"
    ),
    nniqat: (
        "ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU1d ConvReLU2d "
        "ConvReLU3d LinearReLU LinearBn1d"
    ),
    nniqd: "LinearReLU",
}
_MODS_INT8_OF = {
    nnq: (
        "Linear Conv1d Conv2d Conv3d BatchNorm2d BatchNorm3d Dropout ConvTranspose1d "
        "ConvTranspose2d ELU InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm Hardswish "
        "LeakyReLU Embedding EmbeddingBag Softmax PReLU"
    ),
    nniq: (
        "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU LinearLeakyReLU LinearTanh "
        "ConvAdd2d ConvAddReLU2d"
    ),
}


def _of(tables: dict[Any, str]) -> set[Any]:
    return {getattr(module, name) for module, text in tables.items() for name in text.split()}


def get_node_type_to_io_type_map() -> dict[str, set[NSNodeTargetType]]:
    """Operations by the types of their inputs and outputs."""
    return {
        "funs_io_type_fp32": _named(_FUNS_FP32),
        "funs_io_type_fp16": set(),
        "funs_io_type_int8": _named(_FUNS_INT8),
        "funs_io_type_fp32_or_int8": _named(_FUNS_EITHER),
        "mods_io_type_fp32": _named(_MODS_FP32) | _of(_MODS_FP32_OF) | {_NonDynamic},
        "mods_io_type_int8": _of(_MODS_INT8_OF),
        "mods_io_type_fp32_or_int8": _named(_MODS_EITHER),
        "meths_io_type_fp32_or_int8": _named(
            "'sigmoid_ 'sigmoid 'tanh_ 'tanh 'hardsigmoid_ 'hardsigmoid 'relu_ 'relu"
        ),
    }


def get_unmatchable_types_map() -> dict[str, set[NSNodeTargetType]]:
    """Operations that are in one of two models only, or that say nothing."""
    return {
        "funs_unmatchable": {tritorch.quantize_per_tensor, operator.getitem},
        "mods_unmatchable": {nn.Identity},
        "meths_unmatchable": _named(
            "'to 'dequantize 'reshape 'view 'unsqueeze_ 'unsqueeze 'transpose 'squeeze_ 'squeeze "
            "'size 'shape 'resize_ 'repeat_interleave 'repeat 'permute 'numel 'mean 'detach_ "
            "'detach 'contiguous 'clamp 'chunk"
        ),
    }
