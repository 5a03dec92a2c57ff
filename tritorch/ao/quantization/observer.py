"""Observers: modules that see tensors pass and say how they are to be quantized."""

from __future__ import annotations

import re
import warnings
from collections import OrderedDict
from typing import Any

import tritorch as torch
from tritorch import Tensor
from tritorch.ao.quantization._granularity import (
    AffineQuantizedObserverBase,
    Granularity,
    MappingType,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
    TorchAODType,
    ZeroPointDomain,
    get_block_size,
)
from tritorch.ao.quantization._histogram import HistogramObserver
from tritorch.ao.quantization._observer_base import (
    _EPS,
    _GAP,
    ObserverBase,
    UniformQuantizationObserverBase,
    _PartialWrapper,
    _with_args,
    _with_callable_args,
)
from tritorch.ao.quantization._range_observers import (
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
)
from tritorch.ao.quantization.utils import (
    calculate_qmin_qmax as calculate_qmin_qmax,
    check_min_max_valid as check_min_max_valid,
    is_per_channel as is_per_channel,
    is_per_tensor as is_per_tensor,
    validate_qmin_qmax as validate_qmin_qmax,
)

__all__ = [
    "AffineQuantizedObserverBase",
    "FixedQParamsObserver",
    "Granularity",
    "HistogramObserver",
    "MappingType",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver",
    "NoopObserver",
    "ObserverBase",
    "PerAxis",
    "PerBlock",
    "PerChannelMinMaxObserver",
    "PerGroup",
    "PerRow",
    "PerTensor",
    "PerToken",
    "PlaceholderObserver",
    "RecordingObserver",
    "ReuseInputObserver",
    "TorchAODType",
    "UniformQuantizationObserverBase",
    "ZeroPointDomain",
    "default_affine_fixed_qparams_observer",
    "default_debug_observer",
    "default_dynamic_quant_observer",
    "default_fixed_qparams_range_0to1_observer",
    "default_fixed_qparams_range_neg1to1_observer",
    "default_float_qparams_observer",
    "default_float_qparams_observer_4bit",
    "default_histogram_observer",
    "default_observer",
    "default_per_channel_weight_observer",
    "default_placeholder_observer",
    "default_reuse_input_observer",
    "default_symmetric_fixed_qparams_observer",
    "default_weight_observer",
    "get_block_size",
    "get_observer_state_dict",
    "load_observer_state_dict",
    "per_channel_weight_observer_range_neg_127_to_127",
    "weight_observer_range_neg_127_to_127",
]

_ObserverBase = UniformQuantizationObserverBase


class FixedQParamsObserver(ObserverBase):
    """Knows the scale and the zero point that it was given; one of each."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        scale: float,
        zero_point: int,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        quant_min: int = 0,
        quant_max: int = 255,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min = quant_min
        self.quant_max = quant_max
        self.register_buffer("scale", torch.tensor([scale], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.int))
        self.qscheme = qscheme

    def forward(self, X: Tensor) -> Tensor:
        return X

    @torch.jit.export
    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return self.scale, self.zero_point


def _no_qparams(self: Any) -> Any:
    """`calculate_qparams` of observers that have no statistics."""
    raise Exception(f"calculate_qparams should not be called for {type(self).__name__}")


class PlaceholderObserver(ObserverBase):
    """Observes nothing; says of which dtype a tensor is to be, as for float16 and dynamic ones."""

    _only_configures = True  # there are no parameters to ask for

    def __init__(
        self,
        dtype: Any = torch.float32,
        custom_op_name: str = "",
        compute_dtype: Any = None,
        quant_min: int | None = None,
        quant_max: int | None = None,
        qscheme: Any = None,
        eps: float | None = None,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme = torch.per_tensor_affine if qscheme is None else qscheme
        self.quant_min = quant_min
        self.quant_max = quant_max
        self.eps = _EPS if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            warnings.warn(
                f"Please use `is_dynamic` instead of `compute_dtype`. {_GAP}"
                f"`compute_dtype` will be deprecated in a future release {_GAP}of PyTorch.",
                stacklevel=2,
            )

    def forward(self, x: Tensor) -> Tensor:
        return x

    @torch.jit.export
    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    calculate_qparams: Any = _no_qparams


class RecordingObserver(ObserverBase):
    """Keeps a copy of each tensor, to look for errors."""

    tensor_val: list[Tensor | None]

    def __init__(self, dtype: Any = torch.quint8) -> None:
        super().__init__(dtype=dtype)
        self.tensor_val = []

    def forward(self, x: Tensor) -> Tensor:
        self.tensor_val.append(x.clone())
        return x

    calculate_qparams: Any = _no_qparams

    @torch.jit.export
    def get_tensor_value(self) -> list[Tensor | None]:
        return self.tensor_val


class NoopObserver(ObserverBase):
    """Observes nothing, and stands where an observer must."""

    def __init__(self, dtype: Any = torch.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype=dtype)
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        return x

    calculate_qparams: Any = _no_qparams


class ReuseInputObserver(ObserverBase):
    """Asks for the observer of the operator's input, as for reshape; in FX mode only."""

    def __init__(self) -> None:
        super().__init__(torch.quint8)

    def forward(self, x: Tensor) -> Tensor:
        return x

    calculate_qparams: Any = _no_qparams


# --- observers of models -----------------------------------------------------------------


def _is_observer_script_module(mod: Any, obs_type_name: str) -> bool:
    """Tells whether a module is TorchScript's, of a class with this in its qualified name."""
    if not isinstance(mod, torch.jit.RecursiveScriptModule):
        return False
    # A class compiled a second time carries a number within its name, which isn't the class's.
    name = re.sub(r"\.___torch_mangle_\d+", "", str(mod._c.qualified_name))
    return obs_type_name in name


# Bases of what stands behind a module and sees its results; fake quantizers come to it.
_POST_PROCESSES: list[type] = [ObserverBase, AffineQuantizedObserverBase]


def _is_activation_post_process(module: Any) -> bool:
    """Tells whether a module is an observer or a fake quantizer."""
    return isinstance(module, tuple(_POST_PROCESSES)) or _is_observer_script_module(
        module, "quantization.observer"
    )


def _is_per_channel_script_obs_instance(module: Any) -> bool:
    return any(
        _is_observer_script_module(module, f"quantization.observer.{name}")
        for name in ("PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver")
    )


def get_observer_state_dict(mod: Any) -> OrderedDict[str, Any]:
    """Returns the items of a model's state_dict that observers have."""
    word = "observer" if isinstance(mod, torch.jit.RecursiveScriptModule) else None
    state = mod.state_dict()
    out = OrderedDict(
        (key, value) for key, value in state.items() if (word or "activation_post_process") in key
    )
    out._metadata = state._metadata  # type: ignore[attr-defined]
    return out


def load_observer_state_dict(mod: Any, obs_dict: Any) -> None:
    """Loads what `get_observer_state_dict` returned into a model's observers."""
    missing: list[str] = []
    unexpected: list[str] = []
    for name, module in mod.named_modules():
        if not _is_activation_post_process(module):
            continue
        rest: tuple[Any, ...] = (missing, unexpected, [])
        if _is_per_channel_script_obs_instance(module):
            module._load_from_state_dict_script(obs_dict, name + ".", {}, True, *rest)
        else:
            module._load_from_state_dict(obs_dict, name + ".", {}, False, *rest)
    for kind, keys in (("Missing", missing), ("Unexpected", unexpected)):
        for key in keys:
            if "observer" in key or "activation_post_process" in key:
                raise Exception(f"{kind} keys for observer {key} in state_dict")


AffineQuantizedObserverBase.with_args = classmethod(_with_args)
for _part in (  # archives know them by this module
    AffineQuantizedObserverBase,
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    ObserverBase,
    PerChannelMinMaxObserver,
    UniformQuantizationObserverBase,
    _PartialWrapper,
    _with_args,
    _with_callable_args,
    Granularity,
    MappingType,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
    TorchAODType,
    ZeroPointDomain,
    get_block_size,
):
    _part.__module__ = __name__

default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_reuse_input_observer = ReuseInputObserver
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=torch.quint8, quant_min=0, quant_max=255, is_dynamic=True
)

# Weights: integers around zero. The narrow ones have no -128, as XNNPACK needs it.
_symmetric = {"dtype": torch.qint8, "qscheme": torch.per_tensor_symmetric}
_symmetric_channels = {"dtype": torch.qint8, "qscheme": torch.per_channel_symmetric}
_narrow = {"quant_min": -127, "quant_max": 127, "eps": 2**-12}
default_weight_observer = MinMaxObserver.with_args(**_symmetric)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(**_symmetric, **_narrow)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(**_symmetric_channels)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    **_symmetric_channels, **_narrow
)

# Embeddings: the minimum of each row is integer 0.
_float_qparams = {"qscheme": torch.per_channel_affine_float_qparams, "ch_axis": 0}
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=torch.quint8, **_float_qparams
)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=torch.quint4x2, **_float_qparams
)

# Results of known range: tanh's, and sigmoid's.
_quint8 = {"dtype": torch.quint8, "quant_min": 0, "quant_max": 255}
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, **_quint8
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, **_quint8
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
