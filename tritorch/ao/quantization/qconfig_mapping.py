"""QConfigMapping: which QConfig an operator of a model has."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import tritorch as torch
from tritorch import nn
from tritorch.ao.quantization.fake_quantize import (
    FixedQParamsFakeQuantize,
    default_weight_fake_quant,
)
from tritorch.ao.quantization.observer import (
    _PartialWrapper,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    default_placeholder_observer,
    default_weight_observer,
)
from tritorch.ao.quantization.qconfig import (
    QConfig,
    QConfigAny,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    default_symmetric_qnnpack_qat_qconfig,
    default_symmetric_qnnpack_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)

__all__ = ["QConfigMapping", "get_default_qat_qconfig_mapping", "get_default_qconfig_mapping"]

_GLOBAL_DICT_KEY = ""
_OBJECT_TYPE_DICT_KEY = "object_type"
_MODULE_NAME_REGEX_DICT_KEY = "module_name_regex"
_MODULE_NAME_DICT_KEY = "module_name"
_MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY = "module_name_object_type_order"

# Later ones go before earlier ones.
_QCONFIG_STYLE_ORDER: list[str] = [
    "global_qconfig",
    "object_type_qconfigs",
    "module_name_regex_qconfigs",
    "module_name_qconfigs",
    "module_name_object_type_order_qconfigs",
]

# Operators whose results have a known range, as modules, functions and methods.
_FIXED_QPARAMS_OP_TO_OBSERVER: dict[Callable[..., Any] | str, _PartialWrapper] = {
    **dict.fromkeys(
        (
            nn.Hardsigmoid,
            nn.functional.hardsigmoid,
            "hardsigmoid",
            "hardsigmoid_",
            nn.Sigmoid,
            torch.sigmoid,
            "sigmoid",
            "sigmoid_",
            nn.Softmax,
        ),
        default_fixed_qparams_range_0to1_observer,
    ),
    **dict.fromkeys(
        (nn.Tanh, torch.tanh, "tanh", "tanh_"), default_fixed_qparams_range_neg1to1_observer
    ),
}


class QConfigMapping:
    """QConfigs of a model's operators, the more special before the more general.

    From the most general: the global one, by type (a module's class, a function, a method's
    name), by a regex of modules' names, by a module's name, and by a module's name with a type
    and its index there. Methods return the mapping, so that they chain."""

    def __init__(self) -> None:
        self.global_qconfig: QConfigAny = None
        self.object_type_qconfigs: OrderedDict[Any, QConfigAny] = OrderedDict()
        self.module_name_regex_qconfigs: OrderedDict[str, QConfigAny] = OrderedDict()
        self.module_name_qconfigs: OrderedDict[str, QConfigAny] = OrderedDict()
        self.module_name_object_type_order_qconfigs: OrderedDict[
            tuple[str, Any, int], QConfigAny
        ] = OrderedDict()

    def set_global(self, global_qconfig: QConfigAny) -> QConfigMapping:
        """Sets the QConfig of what has no other."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: Any, qconfig: QConfigAny) -> QConfigMapping:
        """Sets the QConfig of a module's class, a function or a method's name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: QConfigAny) -> QConfigMapping:
        """Sets the QConfig of modules whose names match; the regex that was set first counts."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: QConfigAny) -> QConfigMapping:
        """Sets the QConfig of one module."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Any, index: int, qconfig: QConfigAny
    ) -> QConfigMapping:
        """Sets the QConfig of the index-th operator of a type in a module."""
        key = (module_name, object_type, index)
        self.module_name_object_type_order_qconfigs[key] = qconfig
        return self

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for style in _QCONFIG_STYLE_ORDER:
            lines.append(f" {style}")
            qconfigs = getattr(self, style)
            if isinstance(qconfigs, OrderedDict) and qconfigs:
                lines += [f"  {key}: {qconfig}" for key, qconfig in qconfigs.items()]
            else:
                lines.append(f"  {qconfigs}")
        return "\n".join([*lines, ")"])

    def to_dict(self) -> dict[str, Any]:
        """Returns lists of tuples under the keys "", "object_type", "module_name_regex",
        "module_name" and "module_name_object_type_order"."""
        return {
            _GLOBAL_DICT_KEY: self.global_qconfig,
            _OBJECT_TYPE_DICT_KEY: list(self.object_type_qconfigs.items()),
            _MODULE_NAME_REGEX_DICT_KEY: list(self.module_name_regex_qconfigs.items()),
            _MODULE_NAME_DICT_KEY: list(self.module_name_qconfigs.items()),
            _MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY: [
                (*key, qconfig)
                for key, qconfig in self.module_name_object_type_order_qconfigs.items()
            ],
        }

    @classmethod
    def from_dict(cls, qconfig_dict: dict[str, Any]) -> QConfigMapping:
        """Reads what `to_dict` returns; keys may be missing."""
        out = cls()
        if _GLOBAL_DICT_KEY in qconfig_dict:
            out.set_global(qconfig_dict[_GLOBAL_DICT_KEY])
        for key, setter in (
            (_OBJECT_TYPE_DICT_KEY, out.set_object_type),
            (_MODULE_NAME_REGEX_DICT_KEY, out.set_module_name_regex),
            (_MODULE_NAME_DICT_KEY, out.set_module_name),
            (_MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY, out.set_module_name_object_type_order),
        ):
            for entry in qconfig_dict.get(key, []):
                setter(*entry)
        return out


def _get_default_qconfig_mapping(is_qat: bool, backend: str, version: int) -> QConfigMapping:
    qconfig = (get_default_qat_qconfig if is_qat else get_default_qconfig)(backend, version)
    weight = default_weight_fake_quant if is_qat else default_weight_observer
    # Transposed convolutions' weights have one scale.
    transposed = QConfig(qconfig.activation, weight) if backend in ("fbgemm", "x86") else qconfig
    out = QConfigMapping().set_global(qconfig)
    out.set_object_type("reshape", default_reuse_input_qconfig)
    for name in ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"):
        out.set_object_type(getattr(nn, name), transposed)
    for name in ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
        out.set_object_type(getattr(nn.functional, name), transposed)
    normalized = QConfig(qconfig.activation, default_placeholder_observer)
    out.set_object_type(nn.functional.layer_norm, normalized)
    out.set_object_type(nn.LayerNorm, normalized)
    out.set_object_type(nn.PReLU, default_quint8_weight_qconfig)
    fixed: dict[_PartialWrapper, QConfig] = {}  # operators of one range share it
    for operator, observer in _FIXED_QPARAMS_OP_TO_OBSERVER.items():
        if observer not in fixed:
            activation = (
                FixedQParamsFakeQuantize.with_args(observer=observer) if is_qat else observer
            )
            fixed[observer] = QConfig(activation, weight)
        out.set_object_type(operator, fixed[observer])
    return out


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """Returns an engine's QConfigs for quantization after training."""
    return _get_default_qconfig_mapping(False, backend, version)


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """Returns an engine's QConfigs for training."""
    return _get_default_qconfig_mapping(True, backend, version)


def _get_symmetric_qnnpack_qconfig_mapping() -> QConfigMapping:
    return _get_default_qconfig_mapping_with_default_qconfig(
        False, "qnnpack", default_symmetric_qnnpack_qconfig
    )


def _get_symmetric_qnnpack_qat_qconfig_mapping() -> QConfigMapping:
    return _get_default_qconfig_mapping_with_default_qconfig(
        True, "qnnpack", default_symmetric_qnnpack_qat_qconfig
    )


def _get_default_qconfig_mapping_with_default_qconfig(
    is_qat: bool, backend: str, default_qconfig: QConfig
) -> QConfigMapping:
    """An engine's mapping in which all but operators of known range have one QConfig."""
    out = (get_default_qat_qconfig_mapping if is_qat else get_default_qconfig_mapping)(backend)
    out.set_global(default_qconfig)
    for operator in out.object_type_qconfigs:
        if operator not in _FIXED_QPARAMS_OP_TO_OBSERVER:
            out.set_object_type(operator, default_qconfig)
    return out
