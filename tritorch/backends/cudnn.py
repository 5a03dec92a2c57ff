"""torch.backends.cudnn: there is no cuDNN here; TF32 in convolutions is tritorch's own setting.

Convolutions are always deterministic, and chosen by size instead of by trying them out.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from tritorch.backends import _flags
from tritorch.core import precision

CUDNN_TENSOR_DTYPES: set[Any] = set()


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
    benchmark_limit = _flags.Flag(10)
    deterministic = _flags.Flag(False)
    allow_tf32 = _flags.Flag(
        True, effect=precision.set_convolution_tf32, read=precision.get_convolution_tf32
    )
    fp32_precision = _flags.Flag("none")  # kept: what follows is more specific


class _Conv(_flags.Strict):
    """Of convolutions."""

    fp32_precision = _flags.Flag(
        "tf32",
        effect=precision.set_convolution_fp32_precision,
        read=precision.get_convolution_fp32_precision,
    )


class _Rnn(_flags.Strict):
    """Of recurrent layers, which multiply as matrices do: kept."""

    fp32_precision = _flags.Flag("tf32")


conv, rnn = _Conv(), _Rnn()
_NAMES = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[Any, ...]:
    """Sets those that are not None, and tells what all were."""
    values = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)
    return tuple(_flags.exchange(sys.modules[__name__], dict(zip(_NAMES, values))).values())


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Within it, the settings are these."""
    values = (enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    with _flags.within(sys.modules[__name__], dict(zip(_NAMES, values))):
        yield


_flags.install(__name__, cudnn)
