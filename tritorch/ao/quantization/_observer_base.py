"""Base classes of observers, and constructors with some arguments; public in `observer`."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import tritorch as torch
from tritorch import Tensor, nn
from tritorch.ao.quantization.utils import (
    _qparams_of_range,
    calculate_qmin_qmax,
    check_min_max_valid,
    is_per_channel,
    is_per_tensor,
    validate_qmin_qmax,
)

_EPS = torch.finfo(torch.float32).eps
_GAP = " " * 20  # in the middle of PyTorch's messages


class _PartialWrapper:
    """A constructor with some arguments; those of callable_args are computed at each call."""

    def __init__(self, p: Any) -> None:
        self.p = p
        self.callable_args: dict[str, Any] = {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        computed = {
            name: make() for name, make in self.callable_args.items() if name not in keywords
        }
        return self.p(*args, **keywords, **computed)

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs: Any) -> _PartialWrapper:
        return _with_args(self, **kwargs)

    def with_callable_args(self, **kwargs: Any) -> _PartialWrapper:
        out = _PartialWrapper(self.p)
        out.callable_args = {**self.callable_args, **kwargs}
        return out


def _with_args(cls_or_self: Any, **kwargs: Any) -> _PartialWrapper:
    """A constructor of the same with these arguments."""
    return _PartialWrapper(partial(cls_or_self, **kwargs))


def _with_callable_args(cls_or_self: Any, **kwargs: Any) -> _PartialWrapper:
    """A constructor of the same, whose arguments these functions give at each call."""
    return _PartialWrapper(partial(cls_or_self)).with_callable_args(**kwargs)


class ObserverBase(ABC, nn.Module):
    """Base of observers: `forward` looks at a tensor, `calculate_qparams` says what it saw.

    dtype: what tensors will be quantized to. is_dynamic: when they come, not before."""

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype = dtype
        self.is_dynamic = is_dynamic

    @abstractmethod
    def forward(self, x: Any) -> Any: ...

    @abstractmethod
    def calculate_qparams(self, **kwargs: Any) -> Any: ...

    with_args = classmethod(_with_args)
    with_callable_args = classmethod(_with_callable_args)


_ALLOWED_DTYPES = (
    torch.qint8,
    torch.quint8,
    torch.quint4x2,
    torch.qint32,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.float8_e5m2,
    torch.float8_e4m3fn,
    torch.uint16,
)


class UniformQuantizationObserverBase(ObserverBase):
    """Base of observers whose range gives a scale and a zero point.

    quant_min, quant_max: the range of integers, by default the dtype's. reduce_range: with half
    as many. eps: the least scale."""

    # 2: eps is a buffer. 3: ranges start as infinities (histograms); min_vals is min_val.
    _version = 3

    eps: Tensor

    def __init__(
        self,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict[str, Any] | None = None,
        eps: float = _EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        factory_kwargs = nn.factory_kwargs(factory_kwargs)
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.qscheme = qscheme
        if reduce_range:
            warnings.warn(
                "Please use quant_min and quant_max to specify the range for observers. "
                f"{_GAP}reduce_range will be deprecated in a future release of PyTorch.",
                stacklevel=2,
            )
        self.reduce_range = reduce_range
        self.register_buffer("eps", torch.tensor([eps], **factory_kwargs))
        if not (is_per_tensor(qscheme) or is_per_channel(qscheme)):
            raise AssertionError(
                "Default Observer only works for per_tensor_affine, per_tensor_symmetric, "
                "per_channel_affine, per_channel_symmetric and per_channel_float_qparams "
                "quantization scheme"
            )
        if dtype not in _ALLOWED_DTYPES:
            raise AssertionError(f"Default Observer only works for {_ALLOWED_DTYPES} data type")
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if quant_min is not None and quant_max is not None:
            validate_qmin_qmax(quant_min, quant_max)
        self.quant_min, self.quant_max = calculate_qmin_qmax(
            quant_min, quant_max, self.has_customized_qrange, dtype, reduce_range
        )

    def _refuse(self, qscheme: Any, per_channel: bool, dynamic: bool = False) -> None:
        """Raises for a scheme with other granularity, and for dynamic where there is none."""
        name = type(self).__name__
        if per_channel and not is_per_channel(qscheme):
            raise NotImplementedError(
                f"{name}'s qscheme only support {_GAP}torch.per_channel_symmetric, "
                "torch.per_channel_affine and torch.per_channel_affine_float_qparams."
            )
        if not per_channel and not is_per_tensor(qscheme):
            raise NotImplementedError(
                f"{name}'s qscheme only support torch.per_tensor_symmetric {_GAP}"
                "and torch.per_tensor_affine."
            )
        if dynamic:
            raise NotImplementedError(f"{name} doesn't support dynamic quantization")

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        if (local_metadata.get("version") or 1) < 2:
            state_dict[prefix + "eps"] = torch.tensor([_EPS])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    @torch.jit.export
    def _validate_qmin_qmax(self, quant_min: int, quant_max: int) -> None:
        validate_qmin_qmax(quant_min, quant_max)

    @torch.jit.export
    def _calculate_qparams(self, min_val: Tensor, max_val: Tensor) -> tuple[Tensor, Tensor]:
        """Scales and zero points of a range, or of the ranges of channels."""
        if not check_min_max_valid(min_val, max_val):
            return (
                torch.tensor([1.0], device=min_val.device),
                torch.tensor([0], device=min_val.device),
            )
        middle = 0
        if self.dtype in [torch.quint8, torch.uint8]:
            middle = 128
            if self.has_customized_qrange:
                middle = (self.quant_min + self.quant_max) // 2
        elif self.dtype == torch.uint16:
            middle = 32768
        return _qparams_of_range(
            min_val,
            max_val,
            self.quant_min,
            self.quant_max,
            self.eps,
            self.qscheme == torch.per_tensor_symmetric
            or self.qscheme == torch.per_channel_symmetric,
            self.qscheme == torch.per_channel_affine_float_qparams,
            middle,
        )

    @torch.jit.export
    def reset_min_max_vals(self) -> None:
        raise NotImplementedError("Cannot reset min/max values in the given observer.")
