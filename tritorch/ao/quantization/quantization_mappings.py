"""Modules that take modules' places when a model is prepared for training or converted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tritorch as torch
import tritorch.ao.nn.intrinsic as nni
import tritorch.ao.nn.intrinsic.qat as nniqat
import tritorch.ao.nn.intrinsic.quantized as nniq
import tritorch.ao.nn.intrinsic.quantized.dynamic as nniqd
import tritorch.ao.nn.qat as nnqat
import tritorch.ao.nn.qat.dynamic as nnqatd
import tritorch.ao.nn.quantizable as nnqa
import tritorch.ao.nn.quantized as nnq
import tritorch.ao.nn.quantized.dynamic as nnqd
import tritorch.ao.nn.quantized.reference as nnqr
import tritorch.ao.nn.sparse.quantized as nnsq
import tritorch.ao.nn.sparse.quantized.dynamic as nnsqd
import tritorch.nn.functional as F
from tritorch import nn
from tritorch.ao.quantization.fake_quantize import (
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
)
from tritorch.ao.quantization.stubs import DeQuantStub, QuantStub
from tritorch.ao.quantization.utils import get_combined_dict
from tritorch.nn.modules.linear import NonDynamicallyQuantizableLinear
from tritorch.nn.utils.parametrize import type_before_parametrizations

__all__ = [
    "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS",
    "DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS",
    "DEFAULT_MODULE_TO_ACT_POST_PROCESS",
    "DEFAULT_QAT_MODULE_MAPPINGS",
    "DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS",
    "get_default_compare_output_module_list",
    "get_default_dynamic_quant_module_mappings",
    "get_default_dynamic_sparse_quant_module_mappings",
    "get_default_float_to_quantized_operator_mappings",
    "get_default_qat_module_mappings",
    "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings",
    "get_default_static_quant_reference_module_mappings",
    "get_default_static_sparse_quant_module_mappings",
    "get_dynamic_quant_module_class",
    "get_embedding_qat_module_mappings",
    "get_embedding_static_quant_module_mappings",
    "get_quantized_operator",
    "get_static_quant_module_class",
    "no_observer_set",
]

Mapping = dict[Any, Any]


def _same(source: Any, target: Any, names: str) -> Mapping:
    """Classes of one module with those of these names in another."""
    return {getattr(source, name): getattr(target, name) for name in names.split()}


_CONVS = "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d "
_STUBS = {QuantStub: nnq.Quantize, DeQuantStub: nnq.DeQuantize}

DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS: Mapping = {
    **_STUBS,
    **_same(nn, nnqr, _CONVS + "Linear Embedding EmbeddingBag GRUCell LSTMCell RNNCell LSTM"),
}

DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: Mapping = {
    **_STUBS,
    **_same(
        nn,
        nnq,
        _CONVS + "BatchNorm2d BatchNorm3d Dropout ELU Embedding EmbeddingBag GroupNorm Hardswish "
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm LeakyReLU Linear ReLU6 PReLU",
    ),
    NonDynamicallyQuantizableLinear: nnq.Linear,
    nnq.FloatFunctional: nnq.QFunctional,
    **_same(
        nni,
        nniq,
        "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d ConvAdd2d ConvAddReLU2d "
        "LinearReLU LinearLeakyReLU LinearTanh",
    ),
    nniqat.ConvBn1d: nnq.Conv1d,
    nniqat.ConvBn2d: nnq.Conv2d,
    nniqat.ConvBn3d: nnq.Conv3d,
    nniqat.ConvBnReLU1d: nniq.ConvReLU1d,
    nniqat.ConvBnReLU2d: nniq.ConvReLU2d,
    nniqat.ConvBnReLU3d: nniq.ConvReLU3d,
    nniqat.LinearBn1d: nnq.Linear,
    **_same(nniqat, nniq, "ConvReLU2d ConvReLU3d LinearReLU"),
    **_same(nnqat, nnq, "Linear Conv2d Conv3d"),
}

DEFAULT_QAT_MODULE_MAPPINGS: Mapping = {
    **_same(nn, nnqat, "Conv2d Conv3d Linear"),
    NonDynamicallyQuantizableLinear: nnqat.Linear,
    **_same(
        nni,
        nniqat,
        "ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d "
        "ConvReLU2d ConvReLU3d LinearReLU LinearBn1d",
    ),
}

DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: Mapping = {
    **_same(nn, nnqd, "GRUCell Linear LSTM GRU LSTMCell RNNCell"),
    nnqatd.Linear: nnqd.Linear,
    NonDynamicallyQuantizableLinear: nnqd.Linear,
    nni.LinearReLU: nniqd.LinearReLU,
    **_same(nn, nnq, "EmbeddingBag Embedding"),
}

DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS: Mapping = {nn.Linear: nnsq.Linear}
DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS: Mapping = {nn.Linear: nnsqd.Linear}

_INCLUDE_QCONFIG_PROPAGATE_LIST: set[Any] = {nn.Sequential}

DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS: Mapping = _same(
    F, torch.ops.quantized, "elu hardswish instance_norm layer_norm leaky_relu dropout"
)

DEFAULT_MODULE_TO_ACT_POST_PROCESS: Mapping = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}


def no_observer_set() -> set[Any]:
    """Returns observed classes that observe their results themselves."""
    return {nnqa.LSTM, nnqa.MultiheadAttention}


def get_default_static_quant_module_mappings() -> Mapping:
    """Returns a copy of the classes of static quantization."""
    return dict(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_static_quant_reference_module_mappings() -> Mapping:
    """Returns a copy of the classes that compute static quantization in floats."""
    return dict(DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS)


def get_embedding_static_quant_module_mappings() -> Mapping:
    """Returns the classes of static quantization, and those of trained embeddings."""
    return {
        **DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
        **_same(nnqat, nnq, "EmbeddingBag Embedding"),
    }


def get_default_static_sparse_quant_module_mappings() -> Mapping:
    """Returns a copy of the sparse classes of static quantization."""
    return dict(DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings() -> Mapping:
    """Returns a copy of the classes that are trained."""
    return dict(DEFAULT_QAT_MODULE_MAPPINGS)


def get_embedding_qat_module_mappings() -> Mapping:
    """Returns the classes that are trained, embeddings too."""
    return {**DEFAULT_QAT_MODULE_MAPPINGS, **_same(nn, nnqat, "EmbeddingBag Embedding")}


def get_default_dynamic_quant_module_mappings() -> Mapping:
    """Returns the classes of dynamic quantization."""
    return DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS


def get_default_dynamic_sparse_quant_module_mappings() -> Mapping:
    """Returns the sparse classes of dynamic quantization."""
    return DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS


def _quantized_class(classes: Mapping, float_module_class: Any) -> Any:
    found = classes.get(float_module_class)
    if found is None:
        raise AssertionError(
            f"Floating point module class {float_module_class}"
            " does not have a corresponding quantized module class"
        )
    return found


def get_static_quant_module_class(
    float_module_class: Any,
    additional_static_quant_mapping: Mapping | None = None,
    is_reference: bool = False,
) -> Any:
    """Returns the class that a class becomes by static quantization. Raises if there is none."""
    classes = (
        DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS
        if is_reference
        else DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    )
    return _quantized_class(
        get_combined_dict(classes, additional_static_quant_mapping or {}), float_module_class
    )


def get_dynamic_quant_module_class(
    float_module_class: Any, additional_dynamic_quant_mapping: Mapping | None = None
) -> Any:
    """Returns the class that a class becomes by dynamic quantization. Raises if there is none."""
    return _quantized_class(
        get_combined_dict(
            DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, additional_dynamic_quant_mapping or {}
        ),
        float_module_class,
    )


_ALL = (
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
    DEFAULT_QAT_MODULE_MAPPINGS,
    DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
)


def get_default_qconfig_propagation_list() -> set[Any]:
    """Returns the classes that `prepare` gives observers."""
    return {*_INCLUDE_QCONFIG_PROPAGATE_LIST}.union(*_ALL)


def get_default_compare_output_module_list() -> set[Any]:
    """Returns the classes, before and after, whose results the numeric suite compares."""
    return get_default_qconfig_propagation_list().union(*(classes.values() for classes in _ALL))


def get_default_float_to_quantized_operator_mappings() -> Mapping:
    """Returns a copy of the functions with the operators that take their places."""
    return dict(DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS)


def get_quantized_operator(float_op: Any) -> Callable[..., Any]:
    """Returns the operator that takes a function's place. Raises if there is none."""
    found = DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.get(float_op)
    if found is None:
        raise AssertionError(f"Operator {float_op} does not have corresponding quantized op")
    return found


def _get_special_act_post_process(module: nn.Module) -> Any:
    """The fake quantizer of a module whose results have a known range, which goes before the
    QConfig's; or None."""
    return DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type_before_parametrizations(module))


def _has_special_act_post_process(module: nn.Module) -> bool:
    return module.training and type(module) in DEFAULT_MODULE_TO_ACT_POST_PROCESS
