"""How float32 is multiplied on a GPU: what programs set, and kernels' launches read."""

from __future__ import annotations

import os
import warnings

# "ieee" on plain cores; on tensor cores "tf32", with 10 bits of mantissa, or "tf32x3", three such
# products, nearly as exact.  Convolutions begin with TF32, as in PyTorch; NVIDIA's variable
# forbids it.
matmul = "ieee"
convolution = "ieee" if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0" else "tf32"

_matmul_precision = "highest"
_PRECISIONS = {"highest": "ieee", "high": "tf32", "medium": "tf32"}
_matmul_how = "none"  # what backends.cuda.matmul.fp32_precision says


def set_float32_matmul_precision(precision: str) -> None:
    """How float32 matrices are multiplied on a GPU.

    "highest": IEEE float32; "high" and "medium": a TF32 product.  Three TF32 products, nearly as
    exact as float32, are `backends.cuda.matmul.fp32_precision = "tf32x3"`.
    """
    global matmul, _matmul_precision, _matmul_how
    if not isinstance(precision, str):
        raise RuntimeError(
            f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}"
        )
    if precision not in _PRECISIONS:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current "
            f"setFloat32MatmulPrecision call has no effect.",
            stacklevel=2,
        )
        return
    _matmul_precision, _matmul_how = precision, _PRECISIONS[precision]
    matmul = _matmul_how


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given."""
    return _matmul_precision


def set_matmul_fp32_precision(how: str) -> None:
    """How float32 matrices are multiplied on a GPU, by the name of the way.

    "ieee" (also "none"), "tf32", or, in tritorch alone, "tf32x3": three TF32 products.
    """
    global matmul, _matmul_precision, _matmul_how
    if how not in ("none", "ieee", "tf32", "tf32x3"):
        raise RuntimeError(f"Unknown precision: {how}")
    _matmul_precision, _matmul_how = "high" if how.startswith("tf32") else "highest", how
    matmul = "ieee" if how == "none" else how


def get_matmul_fp32_precision() -> str:
    """What `set_matmul_fp32_precision` was given; "none" at first."""
    return _matmul_how


def set_convolution_tf32(allowed: bool) -> None:
    """Whether float32 convolutions on a GPU multiply in TF32, as they do at first."""
    global convolution
    convolution = "tf32" if allowed else "ieee"


def get_convolution_tf32() -> bool:
    """Whether they do."""
    return convolution != "ieee"


def set_convolution_fp32_precision(how: str) -> None:
    """How float32 convolutions multiply on a GPU: "ieee", "tf32", or "none": as at first."""
    if how not in ("none", "ieee", "tf32"):
        raise RuntimeError(f"Unknown precision: {how}")
    set_convolution_tf32(how != "ieee")


def get_convolution_fp32_precision() -> str:
    """How they do."""
    return "tf32" if get_convolution_tf32() else "ieee"
