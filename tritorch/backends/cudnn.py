"""torch.backends.cudnn: there is no cuDNN here; TF32 in convolutions is tritorch's own setting.

Convolutions are always deterministic, and chosen by size instead of by trying them out.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tritorch.backends import _flags, _precision
from tritorch.core import precision
from tritorch.core.dtype import float16, float32, float64

if TYPE_CHECKING:  # what is made at run time
    from tritorch.backends.cudnn_made import *  # noqa: F403


CUDNN_TENSOR_DTYPES = {float16, float32, float64}  # what cuDNN would take


def is_available() -> bool:
    """False: tritorch uses its own kernels."""
    return False


def version() -> int | None:
    """None: there is no cuDNN."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """False: no tensor goes to cuDNN."""
    return False


class cudnn:
    """The settings."""

    enabled = _flags.Flag(True)
    benchmark = _flags.Flag(False)
    benchmark_limit = _flags.Flag(None, object)
    deterministic = _flags.Flag(False)
    allow_tf32 = _flags.Flag(
        True, effect=precision.allow_convolution_tf32, read=precision.convolution_tf32_allowed
    )
    fp32_precision = _precision.Precision("cuda")
    depthwise_kernel = _flags.Flag("auto")


conv, rnn = (_precision.of_operation("cuda", op) for op in ("conv", "rnn"))
_NAMES = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32",
          "fp32_precision", "depthwise_kernel")  # fmt: skip


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str | None = "none",
    _depthwise_kernel: str | None = None,
) -> tuple[Any, ...]:
    """Sets those that are not None, and tells what all were."""
    values = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32, _fp32_precision,
              _depthwise_kernel)  # fmt: skip
    return tuple(_flags.exchange(sys.modules[__name__], dict(zip(_NAMES, values))).values())


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
    depthwise_kernel: str = "auto",
) -> Any:
    """Within it, the settings are these."""
    values = (enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision,
              depthwise_kernel)  # fmt: skip
    return _flags.within(sys.modules[__name__], dict(zip(_NAMES, values)))


_flags.install(__name__, cudnn)
