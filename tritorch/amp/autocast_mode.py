"""`autocast`, and custom functions inside it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from tritorch.amp import policies
from tritorch.amp.state import (
    get_autocast_dtype,
    is_autocast_available as is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    state_changes,
)
from tritorch.core.dtype import bfloat16, dtype as Dtype, float16
from tritorch.core.scopes import ScopeItself
from tritorch.core.tensor import Tensor


def _require_name(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


class autocast(ScopeItself):
    """A region (or function) in which products run in a lower precision, by PyTorch's lists.

    with tritorch.autocast("cuda", dtype=tritorch.bfloat16):
        loss = model(inputs).loss
    loss.backward()
    """

    def __init__(
        self,
        device_type: str,
        dtype: Dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        _require_name(device_type)
        if not is_autocast_available(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = (
            is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        )
        self._enabled = enabled and self._is_possible()

    def _is_possible(self) -> bool:
        if self.device == "cuda":
            from tritorch import cuda

            if not cuda.is_available():
                warnings.warn(
                    "CUDA is not available or torch_xla is imported. Disabling autocast.",
                    stacklevel=3,
                )
                return False
            if self.fast_dtype is bfloat16 and not cuda.is_bf16_supported():
                raise RuntimeError(
                    "Current CUDA Device does not support bfloat16. Please switch dtype to float16."
                )
        elif self.fast_dtype not in (bfloat16, float16):
            name = self.device.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of {bfloat16}, {float16} currently.",
                stacklevel=3,
            )
            return False
        return True

    def changes(self) -> Any:
        return state_changes(self.device, self._enabled, self.fast_dtype, self._cache_enabled)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return inside


# ---- custom functions ----------------------------------------------------------------------------


def _cast(value: Any, device_type: str, dtype: Dtype) -> Any:
    """The floating-point tensors on a device, anywhere in a value, as another dtype."""
    if isinstance(value, Tensor):
        on_device = ("cuda" if value.is_cuda else "cpu") == device_type
        wide = value.dtype.is_floating_point and value.dtype.itemsize < 8
        return value.to(dtype) if on_device and wide else value
    if isinstance(value, Mapping):
        return {
            _cast(key, device_type, dtype): _cast(item, device_type, dtype)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, device_type, dtype) for item in value)
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Dtype | None = None
) -> Any:
    """Decorates a custom Function's `forward`: autocast's state is kept for `backward`.

    With `cast_inputs`, inputs are cast and the function runs with autocast off."""
    _require_name(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        active = is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = active and cast_inputs is None
        if not active or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            args, kwargs = _cast((args, kwargs), device_type, cast_inputs)
            return fwd(ctx, *args, **kwargs)

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorates a custom Function's `backward`: it runs with autocast as `forward` did."""
    _require_name(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)

    return backward


policies.install()
