"""torch.backends.cuda: how the GPU multiplies float32, and which attention it may use."""

from __future__ import annotations

import contextlib
from typing import Any

from tritorch.backends import _libraries
from tritorch.backends._flags import Flag, Strict
from tritorch.backends._plans import cufft_plan_cache, cuFFTPlanCache, cuFFTPlanCacheManager
from tritorch.backends._precision import Precision
from tritorch.core import precision
from tritorch.core.deprecation import deprecated
from tritorch.core.scopes import Scope, scoped
from tritorch.core.tensor import Tensor
from tritorch.ops.nn import attention

__all__ = [
    "SDPAParams",
    "allow_fp16_bf16_reduction_math_sdp",
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cuBLASModule",
    "cuFFTPlanCache",
    "cuFFTPlanCacheManager",
    "cudnn_sdp_enabled",
    "cufft_plan_cache",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed",
    "is_built",
    "is_ck_sdpa_available",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "preferred_rocm_fa_library",
    "sdp_kernel",
]  # fmt: skip


def is_built() -> bool:
    """True: tritorch has its kernels for the GPU, whether there is one or not."""
    return True


class _Reduction(Flag):
    """Whether sums of half types may be less exact, and split: kept, as they are in float32."""

    def __init__(self) -> None:
        super().__init__(True)
        self.split = property(lambda owner: self.splitting)
        self.splitting = True

    def __set__(self, instance: Any, value: Any) -> None:
        values = value if isinstance(value, (list, tuple)) else [value]
        if not isinstance(value, (bool, list, tuple)):
            raise TypeError(
                f"{self.name} expects a bool or a tuple/list of bools, but got {type(value)!r}"
            )
        if not values:
            raise TypeError(f"{self.name} expects at least one boolean argument")
        if len(values) > 2:
            raise TypeError(f"{self.name} expects at most two boolean arguments")
        for each, which in zip(values, ("allow_reduced_precision", "allow_splitk")):
            if not isinstance(each, bool):
                raise TypeError(f"{self.name} expects a bool for {which}, but got {type(each)!r}")
        if len(values) == 2 and values[0] and not values[1]:
            raise RuntimeError(
                "allow_splitk=False is not supported when reduced precision reductions are enabled"
            )
        super().__set__(instance, values[0])
        self.splitting = values[1] if len(values) == 2 else True


class cuBLASModule(Strict):
    """What torch.backends.cuda.matmul is: TF32, and sums, which are in float32 at any setting."""

    allow_tf32 = Flag(
        False,
        effect=precision.allow_matmul_tf32,
        read=lambda: precision.get_float32_matmul_precision() != "highest",
    )
    fp32_precision = Precision(
        "cuda", "matmul"
    )  # PyTorch's values, and "tf32x3": three TF32 products, nearly as exact as float32
    allow_fp16_reduced_precision_reduction = _Reduction()
    allow_bf16_reduced_precision_reduction = _Reduction()
    allow_fp16_reduced_precision_reduction_split_k = allow_fp16_reduced_precision_reduction.split
    allow_bf16_reduced_precision_reduction_split_k = allow_bf16_reduced_precision_reduction.split
    allow_fp16_accumulation = Flag(False)


matmul = cuBLASModule()

for _class in (cuFFTPlanCache, cuFFTPlanCacheManager):
    _class.__module__ = __name__

# ---- libraries, of which there are none ----------------------------------------------------------


def preferred_linalg_library(backend: Any = None) -> Any:
    """Which library of linear algebra is preferred; kept, as there is none."""
    return _libraries.linalg.choose(backend)


def preferred_blas_library(backend: Any = None) -> Any:
    """Which library of products is preferred; kept, as there is none."""
    return _libraries.blas.choose(backend)


def preferred_rocm_fa_library(backend: Any = None) -> Any:
    """Which library of attention is preferred on AMD's GPUs; kept, as there is none."""
    return _libraries.attention.choose(backend)


# ---- attention -----------------------------------------------------------------------------------

_MATH, _FLASH, _EFFICIENT, _CUDNN = range(4)


def _enable(which: int, enabled: bool) -> None:
    if not isinstance(enabled, bool):
        name = ("math", "flash", "mem_efficient", "cudnn")[which]
        raise RuntimeError(f"set_sdp_use_{name} expects a bool, but got {type(enabled).__name__}")
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


class SDPAParams:
    """The arguments of scaled_dot_product_attention, to ask which implementation takes them."""

    def __init__(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout: float,
        is_causal: bool, enable_gqa: bool = False,
    ) -> None:  # fmt: skip
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether the GPU's fused kernel takes a call."""
    q, k, v = params.query, params.key, params.value
    same = q.dtype is k.dtype is v.dtype and q.dtype.is_floating_point
    return (
        all(x.is_cuda and x.ndim >= 2 and x.numel() > 0 for x in (q, k, v))
        and same
        and q.shape[-1] == k.shape[-1] == v.shape[-1]
        and not (params.is_causal and params.attn_mask is not None)
    )


can_use_efficient_attention = can_use_flash_attention


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """False: no part of attention is in cuDNN."""
    return False


def is_ck_sdpa_available() -> bool:
    """False: that is AMD's."""
    return False


@deprecated(
    "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be "
    "removed. Please see `torch.nn.attention.sdpa_kernel()` for the new context manager, with "
    "updated signature."
)
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> contextlib.AbstractContextManager[Any]:
    """Within it, attention uses one of these; the older form of nn.attention.sdpa_kernel."""
    return _only((enable_math, enable_flash, enable_mem_efficient, enable_cudnn))


@scoped
def _only(wanted: tuple[bool, ...]) -> Scope:
    return attention.allowing(tuple(number for number in range(4) if wanted[number]), False)
