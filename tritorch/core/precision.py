"""How float32 is multiplied: what programs set, and kernels' launches read.

A tree of settings: of all backends, of one, of one's operation.  What is "none" is asked of what
lies above it; recurrent layers and convolutions on a GPU begin with TF32, as in PyTorch.
"""

from __future__ import annotations

import os
import warnings

from tritorch import _C

# What kernels read: "ieee" on plain cores; on tensor cores "tf32", with 10 bits of mantissa, or
# "tf32x3", three such products, nearly as exact.
matmul = "ieee"
convolution = "tf32"

_FORBIDDEN = os.environ.get("NVIDIA_TF32_OVERRIDE") == "0"  # NVIDIA's variable: none at first
_AT_FIRST = {} if _FORBIDDEN else {("cuda", "conv"): "tf32", ("cuda", "rnn"): "tf32"}
_KNOWN = ("ieee", "tf32", "bf16", "none")
_settings: dict[tuple[str, str], str] = {}

_matmul_precision = "highest"
_NAMES = {"highest": ("ieee", "ieee"), "high": ("tf32", "tf32"), "medium": ("tf32", "bf16")}


def set_fp32_precision(backend: str, op: str, how: str) -> None:
    """How a backend ("generic", "cuda", "mkldnn") multiplies in an operation ("all", ...).

    "ieee", "tf32", "bf16" (not on a GPU) or "none"; of the GPU's matmul also "tf32x3", in tritorch
    alone."""
    global _matmul_precision
    if not isinstance(how, str):
        raise TypeError(f"fp32_precision expects a str, but got {type(how).__name__}")
    three = how == "tf32x3" and (backend, op) == ("cuda", "matmul")
    if how not in _KNOWN and not three:
        raise RuntimeError(f"Unknown precision: {how}")
    if backend == "cuda" and how == "bf16":
        raise RuntimeError("backend 'cuda' does not support precision 'bf16'")
    _settings[backend, op] = how
    if (backend, op) == ("cuda", "matmul"):
        _matmul_precision = "high" if how.startswith("tf32") else "highest"
    _apply()


def get_fp32_precision(backend: str, op: str) -> str:
    """How it does: its own setting, or what lies above it."""
    own = _settings.get((backend, op), "none")
    if own != "none":
        return own
    for above in ((backend, "all"), ("generic", "all")):
        how = _settings.get(above, "none")
        if how != "none":
            return "none" if backend == "cuda" and how == "bf16" else how
    return _AT_FIRST.get((backend, op), "none") if (backend, op) not in _settings else "none"


def _apply() -> None:
    """Tells kernels' launches."""
    _C.ambient_changes()
    global matmul, convolution
    matmul, convolution = (
        "ieee" if how == "none" else how
        for how in (get_fp32_precision("cuda", "matmul"), get_fp32_precision("cuda", "conv"))
    )


def set_float32_matmul_precision(precision: str) -> None:
    """How float32 matrices are multiplied on a GPU.

    "highest": IEEE float32; "high" and "medium": a TF32 product.  Three TF32 products, nearly as
    exact as float32, are `backends.cuda.matmul.fp32_precision = "tf32x3"`.
    """
    global _matmul_precision
    if not isinstance(precision, str):
        raise RuntimeError(
            f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}"
        )
    if precision not in _NAMES:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current "
            f"setFloat32MatmulPrecision call has no effect.",
            stacklevel=2,
        )
        return
    _matmul_precision = precision
    _settings["cuda", "matmul"], _settings["mkldnn", "matmul"] = _NAMES[precision]
    _apply()


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given."""
    return _matmul_precision


def allow_matmul_tf32(allowed: bool) -> None:
    """Whether float32 matrices on a GPU are multiplied in TF32."""
    set_fp32_precision("cuda", "matmul", "tf32" if allowed else "ieee")


def allow_convolution_tf32(allowed: bool) -> None:
    """Whether float32 convolutions and recurrent layers on a GPU multiply in TF32."""
    for op in ("conv", "rnn"):
        set_fp32_precision("cuda", op, "tf32" if allowed else "none")


def convolution_tf32_allowed() -> bool:
    """Whether they do, as they do at first."""
    return get_fp32_precision("cuda", "conv") == "tf32"


_apply()
