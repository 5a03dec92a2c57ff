"""QConfig: the observers of a layer's activations and of its weights."""

from __future__ import annotations

import warnings
from collections import namedtuple
from typing import Any, TypeAlias

import tritorch as torch
from tritorch import nn
from tritorch.ao.quantization.fake_quantize import (
    FakeQuantize,
    FakeQuantizeBase,
    FusedMovingAvgObsFakeQuantize,
    default_dynamic_fake_quant,
    default_embedding_fake_quant,
    default_embedding_fake_quant_4bit,
    default_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
    fused_per_channel_wt_fake_quant_range_neg_127_to_127,
    fused_wt_fake_quant_range_neg_127_to_127,
)
from tritorch.ao.quantization.observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    NoopObserver,
    ObserverBase,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
    ReuseInputObserver,
    _PartialWrapper,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_float_qparams_observer,
    default_float_qparams_observer_4bit,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_reuse_input_observer,
    default_weight_observer,
    per_channel_weight_observer_range_neg_127_to_127,
    weight_observer_range_neg_127_to_127,
)
from tritorch.core.deprecation import deprecated

__all__ = [
    "QConfig",
    "QConfigAny",
    "QConfigDynamic",
    "default_activation_only_qconfig",
    "default_debug_qconfig",
    "default_dynamic_qat_qconfig",
    "default_dynamic_qconfig",
    "default_embedding_qat_qconfig",
    "default_embedding_qat_qconfig_4bit",
    "default_per_channel_qconfig",
    "default_per_channel_symmetric_qnnpack_qat_qconfig",
    "default_per_channel_symmetric_qnnpack_qconfig",
    "default_qat_qconfig",
    "default_qat_qconfig_v2",
    "default_qconfig",
    "default_quint8_weight_qconfig",
    "default_reuse_input_qconfig",
    "default_symmetric_qnnpack_qat_qconfig",
    "default_symmetric_qnnpack_qconfig",
    "default_weight_only_qconfig",
    "float16_dynamic_qconfig",
    "float16_static_qconfig",
    "float_qparams_weight_only_qconfig",
    "float_qparams_weight_only_qconfig_4bit",
    "get_default_qat_qconfig",
    "get_default_qat_qconfig_dict",
    "get_default_qconfig",
    "get_default_qconfig_dict",
    "per_channel_dynamic_qconfig",
    "qconfig_equals",
]


def _refuse_instances(name: str, *observers: Any) -> None:
    if any(isinstance(observer, nn.Module) for observer in observers):
        raise ValueError(
            f"{name} received observer instance, please pass observer class instead. "
            "Use MyObserver.with_args(x=1) to override arguments to constructor if needed"
        )


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """Classes of observers, or what makes them: `MinMaxObserver.with_args(dtype=torch.qint8)`.

    Each layer gets observers of its own, so instances are refused."""

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        _refuse_instances("QConfig", activation, weight)
        return super().__new__(cls, activation, weight)


@deprecated(
    "`QConfigDynamic` is going to be deprecated in PyTorch 1.12, please use `QConfig` instead"
)
class QConfigDynamic(namedtuple("QConfigDynamic", ["activation", "weight"])):
    """A QConfig of dynamic quantization, which QConfig describes too."""

    __slots__ = ()

    def __new__(cls, activation: Any = nn.Identity, weight: Any = nn.Identity) -> QConfigDynamic:
        _refuse_instances("QConfigDynamic", weight)
        return super().__new__(cls, activation, weight)


QConfigAny: TypeAlias = QConfig | None

default_qconfig = QConfig(default_observer, default_weight_observer)
default_debug_qconfig = QConfig(default_debug_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_reuse_input_qconfig = QConfig(default_reuse_input_observer, NoopObserver)
default_quint8_weight_qconfig = QConfig(HistogramObserver, MinMaxObserver)

# Dynamic quantization.
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
per_channel_dynamic_qconfig = QConfig(
    default_dynamic_quant_observer, default_per_channel_weight_observer
)
_float16 = PlaceholderObserver.with_args(dtype=torch.float16)
float16_dynamic_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=torch.float16, is_dynamic=True), _float16
)
float16_static_qconfig = QConfig(_float16, _float16)

# Embeddings.
float_qparams_weight_only_qconfig = QConfig(
    default_placeholder_observer, default_float_qparams_observer
)
float_qparams_weight_only_qconfig_4bit = QConfig(
    default_placeholder_observer, default_float_qparams_observer_4bit
)
_float_activation = NoopObserver.with_args(dtype=torch.float32)
default_embedding_qat_qconfig = QConfig(_float_activation, default_embedding_fake_quant)
default_embedding_qat_qconfig_4bit = QConfig(_float_activation, default_embedding_fake_quant_4bit)

# Training.
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)
default_qat_qconfig_v2 = QConfig(default_fused_act_fake_quant, default_fused_wt_fake_quant)
default_dynamic_qat_qconfig = QConfig(default_dynamic_fake_quant, default_weight_fake_quant)
default_weight_only_qconfig = QConfig(nn.Identity, default_weight_fake_quant)
default_activation_only_qconfig = QConfig(default_fake_quant, nn.Identity)

# Integers around zero for activations too, with scales that XNNPACK takes.
_signed_histogram = HistogramObserver.with_args(dtype=torch.qint8, reduce_range=False, eps=2**-12)
default_symmetric_qnnpack_qconfig = QConfig(_signed_histogram, weight_observer_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    _signed_histogram, per_channel_weight_observer_range_neg_127_to_127
)
_signed_fake_quantize = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver,
    quant_min=-128,
    quant_max=127,
    dtype=torch.qint8,
    reduce_range=False,
    eps=2**-12,
)
default_symmetric_qnnpack_qat_qconfig = QConfig(
    _signed_fake_quantize, fused_wt_fake_quant_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _signed_fake_quantize, fused_per_channel_wt_fake_quant_range_neg_127_to_127
)

_default_fp32_placeholder_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=torch.float32),
    PlaceholderObserver.with_args(dtype=torch.float32),
)
_default_quint8_placeholder_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=torch.quint8), None
)

# What engines' activations are made with: of 7 bits where products of 8 would overflow.
_REDUCED: dict[str, dict[str, bool]] = {
    "fbgemm": {"reduce_range": True},
    "x86": {"reduce_range": True},
    "qnnpack": {"reduce_range": False},
    "onednn": {"reduce_range": False},
}


def _check_backend(backend: Any) -> None:
    supported = ["fbgemm", "x86", "qnnpack", "onednn"]
    if backend not in supported:
        raise AssertionError(
            f"backend: {backend} not supported. backend must be one of {supported}"
        )


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """Returns an engine's QConfig for quantization after training."""
    _check_backend(backend)
    if version != 0:
        raise AssertionError(
            f"Version number: {version} in get_default_qconfig is not supported. "
            "Version number must be 0"
        )
    if backend == "onednn" and not torch.cpu._is_vnni_supported():
        warnings.warn(
            "Default qconfig of oneDNN backend with reduce_range of false may have accuracy "
            "issues on CPU without Vector Neural Network Instruction support.",
            stacklevel=2,
        )
    return QConfig(
        HistogramObserver.with_args(**_REDUCED[backend]),
        default_weight_observer if backend == "qnnpack" else default_per_channel_weight_observer,
    )


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """Returns an engine's QConfig for training; version 1 has the fused fake quantizers."""
    _check_backend(backend)
    if version not in (0, 1):
        raise AssertionError(
            f"Version number: {version}in get_default_qat_qconfig is not supported. "
            "Version number must be 0 or 1"
        )
    kind: Any = FusedMovingAvgObsFakeQuantize if version else FakeQuantize
    reduced = {} if backend == "onednn" else _REDUCED[backend]
    activation = kind.with_args(
        observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **reduced
    )
    if backend == "qnnpack":
        weight = default_fused_wt_fake_quant if version else default_weight_fake_quant
    else:
        weight = (
            default_fused_per_channel_wt_fake_quant
            if version
            else default_per_channel_weight_fake_quant
        )
    return QConfig(activation, weight)


@deprecated(
    "`torch.ao.quantization.get_default_qconfig_dict` is deprecated and will be removed in "
    "a future version. Please use `torch.ao.quantization.get_default_qconfig_mapping` instead."
)
def get_default_qconfig_dict(backend: str = "x86", version: int = 0) -> dict[str, Any]:
    """`get_default_qconfig_mapping` as a dict."""
    from tritorch.ao.quantization.qconfig_mapping import get_default_qconfig_mapping

    return get_default_qconfig_mapping(backend, version).to_dict()


@deprecated(
    "`torch.ao.quantization.get_default_qat_qconfig_dict` is deprecated and will be removed in "
    "a future version. Please use `torch.ao.quantization.get_default_qat_qconfig_mapping` "
    "instead."
)
def get_default_qat_qconfig_dict(backend: str = "x86", version: int = 1) -> dict[str, Any]:
    """`get_default_qat_qconfig_mapping` as a dict."""
    from tritorch.ao.quantization.qconfig_mapping import get_default_qat_qconfig_mapping

    return get_default_qat_qconfig_mapping(backend, version).to_dict()


def _assert_valid_qconfig(qconfig: QConfig | None, mod: nn.Module) -> None:
    """Refuses a scale for each channel of transposed convolutions' weights."""
    if qconfig is None or qconfig.weight is None:
        return
    if isinstance(mod, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)) and (
        isinstance(
            qconfig.weight(), (PerChannelMinMaxObserver, MovingAveragePerChannelMinMaxObserver)
        )
    ):
        raise AssertionError(
            "Per channel weight observer is not supported yet for ConvTranspose{n}d."
        )


def _add_module_to_qconfig_obs_ctr(qconfig: QConfigAny, module: nn.Module | None) -> Any:
    """A QConfig whose observers come to be on the module's device."""
    if module is None or qconfig is None or qconfig._fields != ("activation", "weight"):
        return qconfig

    def factory_kwargs() -> dict[str, Any] | None:
        for tensor in (*module.parameters(), *module.buffers()):
            return {"device": tensor.device}
        return None

    def placed(make: Any) -> Any:
        try:
            make.with_args(factory_kwargs=None)()
        except (AttributeError, TypeError):  # no observer of ours, or one without the argument
            return make
        return make.with_callable_args(factory_kwargs=factory_kwargs)

    return QConfig(placed(qconfig.activation), placed(qconfig.weight))


_ObserverOrFakeQuantizeConstructor: TypeAlias = (
    _PartialWrapper | type[ObserverBase] | type[FakeQuantizeBase]
)


def _obs_or_fq_ctr_equals(obs_or_fq1: Any, obs_or_fq2: Any) -> bool:
    """Tells whether two constructors make the same."""
    if isinstance(obs_or_fq1, _PartialWrapper) and isinstance(obs_or_fq2, _PartialWrapper):
        return _partial_wrapper_equals(obs_or_fq1, obs_or_fq2)
    return bool(obs_or_fq1 == obs_or_fq2)


def _partial_wrapper_equals(obs_or_fq1: _PartialWrapper, obs_or_fq2: _PartialWrapper) -> bool:
    first, second = obs_or_fq1.p, obs_or_fq2.p
    keywords, others = dict(first.keywords), dict(second.keywords)
    if "observer" in keywords and "observer" in others:
        if not _obs_or_fq_ctr_equals(keywords.pop("observer"), others.pop("observer")):
            return False
    return bool(keywords == others and first.func == second.func and first.args == second.args)


def qconfig_equals(q1: QConfigAny, q2: QConfigAny) -> bool:
    """Tells whether two QConfigs make the same observers."""
    if q1 is None or q2 is None:
        return q1 == q2
    try:
        return _obs_or_fq_ctr_equals(q1.activation, q2.activation) and _obs_or_fq_ctr_equals(
            q1.weight, q2.weight
        )
    except AttributeError:
        return bool(q1 == q2)


def _activation_is_memoryless(qconfig: QConfig) -> bool:
    """Tells whether the activations' observer has seen the last tensor only."""
    observer = qconfig.activation()
    if isinstance(observer, FakeQuantizeBase):
        observer = getattr(observer, "activation_post_process", observer)
    return getattr(observer, "averaging_constant", None) == 1


def _is_reuse_input_qconfig(qconfig: QConfig | None) -> bool:
    return (
        qconfig is not None
        and isinstance(qconfig.activation(), ReuseInputObserver)
        and isinstance(qconfig.weight(), NoopObserver)
    )
