"""torch.backends.cuda: how the GPU multiplies float32, and which attention it may use."""

from __future__ import annotations

import contextlib
from typing import Any

from tritorch.backends._flags import Flag, Strict
from tritorch.core import precision
from tritorch.core.deprecation import deprecated
from tritorch.ops import attention

__all__ = [
    "allow_fp16_bf16_reduction_math_sdp", "cuBLASModule", "cudnn_sdp_enabled",
    "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp",
    "enable_mem_efficient_sdp", "flash_sdp_enabled", "fp16_bf16_reduction_math_sdp_allowed",
    "is_built", "is_ck_sdpa_available", "is_flash_attention_available", "math_sdp_enabled",
    "matmul", "mem_efficient_sdp_enabled", "sdp_kernel",
]  # fmt: skip


def is_built() -> bool:
    """True: tritorch has its kernels for the GPU, whether there is one or not."""
    return True


class cuBLASModule(Strict):
    """What torch.backends.cuda.matmul is: TF32, and sums, which are in float32 at any setting."""

    allow_tf32 = Flag(
        False,
        effect=lambda on: precision.set_float32_matmul_precision("high" if on else "highest"),
        read=lambda: precision.get_float32_matmul_precision() != "highest",
    )
    fp32_precision = Flag(
        "none",
        effect=precision.set_matmul_fp32_precision,
        read=precision.get_matmul_fp32_precision,
    )  # PyTorch's values, and "tf32x3": three TF32 products, nearly as exact as float32
    allow_fp16_reduced_precision_reduction = Flag(True)
    allow_bf16_reduced_precision_reduction = Flag(True)
    allow_fp16_accumulation = Flag(False)


matmul = cuBLASModule()

# ---- attention -----------------------------------------------------------------------------------

_MATH, _FLASH, _EFFICIENT, _CUDNN = range(4)


def _enable(which: int, enabled: bool) -> None:
    numbers = [number for number in attention.allowed() if number != which]
    attention.allow(tuple(numbers + [which] * bool(enabled)), False)


def enable_math_sdp(enabled: bool) -> None:
    """Whether attention may be computed by its definition."""
    _enable(_MATH, enabled)


def enable_flash_sdp(enabled: bool) -> None:
    """Whether attention may be the fused kernel, by its first name."""
    _enable(_FLASH, enabled)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Whether attention may be the fused kernel, by its second name."""
    _enable(_EFFICIENT, enabled)


def enable_cudnn_sdp(enabled: bool) -> None:
    """Whether attention may be the fused kernel, by its third name."""
    _enable(_CUDNN, enabled)


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` was given."""
    return _MATH in attention.allowed()


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` was given."""
    return _FLASH in attention.allowed()


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` was given."""
    return _EFFICIENT in attention.allowed()


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` was given."""
    return _CUDNN in attention.allowed()


_reduction = False


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Accepted; sums are in float32."""
    global _reduction
    _reduction = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """What `allow_fp16_bf16_reduction_math_sdp` was given."""
    return _reduction


def is_flash_attention_available() -> bool:
    """True: there is a fused kernel."""
    return True


def is_ck_sdpa_available() -> bool:
    """False: that is AMD's."""
    return False


@deprecated(
    "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be "
    "removed. Please see `torch.nn.attention.sdpa_kernel()` for the new context manager, with "
    "updated signature."
)
@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Any:
    """Within it, attention uses one of these; the older form of nn.attention.sdpa_kernel."""
    wanted = enable_math, enable_flash, enable_mem_efficient, enable_cudnn
    before = attention.allow(tuple(number for number in range(4) if wanted[number]), False)
    try:
        yield {}
    finally:
        attention.allow(*before)
