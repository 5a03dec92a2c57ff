"""Fake quantization: floats are rounded to the integers' grid and stay floats, for training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import tritorch as torch
from tritorch import Tensor
from tritorch.ao.quantization.observer import (
    _POST_PROCESSES,
    FixedQParamsObserver,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    _is_observer_script_module,
    _with_args,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from tritorch.ao.quantization.utils import is_per_channel, is_per_tensor
from tritorch.nn import Module

__all__ = [
    "FakeQuantize",
    "FakeQuantizeBase",
    "FixedQParamsFakeQuantize",
    "FusedMovingAvgObsFakeQuantize",
    "default_affine_fixed_qparams_fake_quant",
    "default_dynamic_fake_quant",
    "default_embedding_fake_quant",
    "default_embedding_fake_quant_4bit",
    "default_fake_quant",
    "default_fixed_qparams_range_0to1_fake_quant",
    "default_fixed_qparams_range_neg1to1_fake_quant",
    "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant",
    "default_fused_wt_fake_quant",
    "default_histogram_fake_quant",
    "default_per_channel_weight_fake_quant",
    "default_symmetric_fixed_qparams_fake_quant",
    "default_weight_fake_quant",
    "disable_fake_quant",
    "disable_observer",
    "enable_fake_quant",
    "enable_observer",
    "fused_per_channel_wt_fake_quant_range_neg_127_to_127",
    "fused_wt_fake_quant_range_neg_127_to_127",
]

_is_per_channel = is_per_channel
_is_per_tensor = is_per_tensor


def _is_symmetric_quant(qscheme: Any) -> bool:
    return qscheme in [torch.per_tensor_symmetric, torch.per_channel_symmetric]


def _is_float_qparams(qscheme: Any) -> bool:
    return qscheme == torch.per_channel_affine_float_qparams


class FakeQuantizeBase(ABC, Module):
    """Base of fake quantizers: two switches, for what is rounded and for what is observed.

    The switches are buffers of numbers, which distributed training replicates."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.uint8))
        self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.uint8))

    @abstractmethod
    def forward(self, x: Any) -> Any: ...

    @abstractmethod
    def calculate_qparams(self, **kwargs: Any) -> Any: ...

    @torch.jit.export
    def enable_fake_quant(self, enabled: bool = True) -> None:
        self.fake_quant_enabled[0] = 1 if enabled else 0

    @torch.jit.export
    def disable_fake_quant(self) -> None:
        self.enable_fake_quant(False)

    @torch.jit.export
    def enable_observer(self, enabled: bool = True) -> None:
        self.observer_enabled[0] = 1 if enabled else 0

    @torch.jit.export
    def disable_observer(self) -> None:
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **kwargs: Any) -> Any:
        """Returns a constructor with these arguments."""
        made = _with_args(cls, **kwargs)
        made.__module__ = "torch.ao.quantization.fake_quantize"
        return made


_POST_PROCESSES.append(FakeQuantizeBase)


class FakeQuantize(FakeQuantizeBase):
    """Observes a tensor and rounds it to the grid of scale and zero point that follow.

        out = (clamp(round(x / scale + zero_point), quant_min, quant_max) - zero_point) * scale

    observer: the class, made with observer_kwargs and the bounds."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError("quant_min must be less than or equal to quant_max")
            dtype = observer_kwargs.get("dtype", torch.quint8)
            if hasattr(observer, "p"):  # a constructor with arguments, which may say it
                dtype = getattr(observer.p, "keywords", {}).get("dtype", dtype)
            if torch.iinfo(dtype).min > quant_min:
                raise AssertionError("quant_min out of bound")
            if quant_max > torch.iinfo(dtype).max:
                raise AssertionError("quant_max out of bound")
            observer_kwargs.update({"quant_min": quant_min, "quant_max": quant_max})
        made = observer(**observer_kwargs, is_dynamic=is_dynamic)
        self.activation_post_process = made
        self.quant_min = made.quant_min
        self.quant_max = made.quant_max
        self.is_dynamic = made.is_dynamic
        kind = torch.float if _is_float_qparams(made.qscheme) else torch.int
        self.register_buffer("scale", torch.tensor([1.0], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([0], dtype=kind))
        self.dtype = made.dtype
        self.qscheme = made.qscheme
        self.ch_axis = made.ch_axis if hasattr(made, "ch_axis") else -1
        if not (is_per_channel(self.qscheme) or is_per_tensor(self.qscheme)):
            raise AssertionError(
                "Only per channel and per tensor quantization are supported in fake quantize"
                f" got qscheme: {self.qscheme}"
            )
        self.is_per_channel = is_per_channel(self.qscheme)

    @torch.jit.export
    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Tensor) -> Tensor:
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero_point = self.calculate_qparams()
            scale, zero_point = (
                scale.to(self.scale.device),
                zero_point.to(self.zero_point.device),
            )
            if self.scale.shape != scale.shape:
                self.scale.resize_(scale.shape)
                self.zero_point.resize_(zero_point.shape)
            self.scale.copy_(scale)
            self.zero_point.copy_(zero_point)
        if self.fake_quant_enabled[0] == 1:
            low = self.activation_post_process.quant_min
            high = self.activation_post_process.quant_max
            if self.is_per_channel:
                X = torch.fake_quantize_per_channel_affine(
                    X, self.scale, self.zero_point, self.ch_axis, low, high
                )
            else:
                X = torch.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, low, high)
        return X

    @torch.jit.export
    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, "
            f"quant_min={self.activation_post_process.quant_min}, "
            f"quant_max={self.activation_post_process.quant_max}, "
            f"dtype={self.dtype}, qscheme={self.qscheme}, ch_axis={self.ch_axis}, "
            f"scale={self.scale}, zero_point={self.zero_point}"
        )

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        *rest: Any,
    ) -> None:
        for name in ("scale", "zero_point"):  # of as many channels as the other model saw
            key = prefix + name
            if key in state_dict:
                getattr(self, name).resize_(state_dict[key].shape)
            elif strict:
                missing_keys.append(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, *rest
        )


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds to the grid of an observer that knows its scale and zero point."""

    def __init__(self, observer: Any) -> None:
        super().__init__(observer=observer)
        if type(self.activation_post_process) is not FixedQParamsObserver:
            raise AssertionError(
                f"{type(self).__name__}'s observer must be a {FixedQParamsObserver.__name__}"
            )
        self._observer_ctr = observer
        self.scale = self.activation_post_process.scale
        self.zero_point = self.activation_post_process.zero_point
        if not is_per_tensor(self.qscheme):
            raise AssertionError(
                "Only per tensor quantization is supported"
                f" FixedQParamsFakeQuantize module, got qscheme:{self.qscheme}"
            )

    @torch.jit.export
    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return self.scale, self.zero_point

    @torch.jit.export
    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, "
            f"scale={self.scale}, zero_point={self.zero_point}, "
            f"dtype={self.dtype}, quant_min={self.activation_post_process.quant_min}, "
            f"quant_max={self.activation_post_process.quant_max}, qscheme={self.qscheme}"
        )


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """A moving average's observer and the rounding in one operator."""

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int = 0,
        quant_max: int = 255,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        if not isinstance(
            self.activation_post_process,
            (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver),
        ):
            raise AssertionError(
                "Fused observer+fake_quant module only works with MovingAverageMinMaxObserver"
            )
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.long))
        self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.long))
        self.is_symmetric_quant = _is_symmetric_quant(self.activation_post_process.qscheme)

    @torch.jit.export
    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return self.activation_post_process.calculate_qparams()

    @torch.jit.export
    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, "
            f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}, "
            f"quant_min={self.activation_post_process.quant_min}, "
            f"quant_max={self.activation_post_process.quant_max}, "
            f"qscheme={self.qscheme}, "
            f"reduce_range={self.activation_post_process.reduce_range}"
        )

    def forward(self, X: Tensor) -> Tensor:
        return torch.fused_moving_avg_obs_fake_quant(
            X,
            self.observer_enabled,
            self.fake_quant_enabled,
            self.activation_post_process.min_val,
            self.activation_post_process.max_val,
            self.scale,
            self.zero_point,
            self.activation_post_process.averaging_constant,
            self.activation_post_process.quant_min,
            self.activation_post_process.quant_max,
            self.ch_axis,
            self.is_per_channel,
            self.is_symmetric_quant,
        )


# --- defaults ----------------------------------------------------------------------------

_quint8 = {"quant_min": 0, "quant_max": 255, "dtype": torch.quint8}
_qint8 = {"quant_min": -128, "quant_max": 127, "dtype": torch.qint8}
_narrow = {"quant_min": -127, "quant_max": 127, "dtype": torch.qint8, "eps": 2**-12}
_tensor = {"observer": MovingAverageMinMaxObserver}
_channels = {"observer": MovingAveragePerChannelMinMaxObserver}
_symmetric_tensor = {**_tensor, "qscheme": torch.per_tensor_symmetric}
_symmetric_channels = {**_channels, "qscheme": torch.per_channel_symmetric}
_rows = {  # of embeddings
    **_channels,
    "qscheme": torch.per_channel_affine_float_qparams,
    "ch_axis": 0,
    "averaging_constant": 1,
}

default_fake_quant = FakeQuantize.with_args(
    **_tensor, **_quint8, qscheme=torch.per_tensor_affine, reduce_range=True
)
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver, **_quint8, qscheme=torch.per_tensor_affine, reduce_range=True
)
default_dynamic_fake_quant = FakeQuantize.with_args(
    **_tensor, **_quint8, is_dynamic=True, averaging_constant=1
)
default_weight_fake_quant = FakeQuantize.with_args(
    **_symmetric_tensor, **_qint8, reduce_range=False
)
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    **_symmetric_channels, **_qint8, reduce_range=False, ch_axis=0
)
default_embedding_fake_quant = FakeQuantize.with_args(**_rows, **_quint8)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(**_rows, dtype=torch.quint4x2)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant

_fused = FusedMovingAvgObsFakeQuantize.with_args
default_fused_act_fake_quant = _fused(**_tensor, **_quint8)
default_fused_wt_fake_quant = _fused(**_symmetric_tensor, **_qint8)
default_fused_per_channel_wt_fake_quant = _fused(**_symmetric_channels, **_qint8)
fused_wt_fake_quant_range_neg_127_to_127 = _fused(**_symmetric_tensor, **_narrow)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = _fused(**_symmetric_channels, **_narrow)


# --- switches of whole models, for Module.apply -------------------------------------------


def _is_fake_quant_script_module(mod: Any) -> bool:
    """Tells whether a module is TorchScript's and comes from a class of this file."""
    return any(
        _is_observer_script_module(mod, f"quantization.fake_quantize.{name}")
        for name in ("FakeQuantize", "FusedMovingAvgObsFakeQuantize")
    )


def _switch(mod: Any, name: str) -> None:
    if isinstance(mod, FakeQuantizeBase) or _is_fake_quant_script_module(mod):
        getattr(mod, name)()


def disable_fake_quant(mod: Any) -> None:
    """Stops rounding, if the module is a fake quantizer: `model.apply(disable_fake_quant)`."""
    _switch(mod, "disable_fake_quant")


def enable_fake_quant(mod: Any) -> None:
    """Starts rounding, if the module is a fake quantizer."""
    _switch(mod, "enable_fake_quant")


def disable_observer(mod: Any) -> None:
    """Stops observing, if the module is a fake quantizer."""
    _switch(mod, "disable_observer")


def enable_observer(mod: Any) -> None:
    """Starts observing, if the module is a fake quantizer."""
    _switch(mod, "enable_observer")
