"""Sizes, powers of two and folders."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from tritorch.core.tensor import Tensor


def ceildiv(number: int, denom: int) -> int:
    """A quotient, rounded up."""
    return -(number // -denom)


def is_power_of_2(n: int) -> bool:
    """True of 1, 2, 4, 8, ..."""
    return n > 0 and n & (n - 1) == 0


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not less than n."""
    return 1 if n <= 1 else 1 << (n - 1).bit_length()


def last_power_of_2(n: int) -> int:
    """The largest power of two that is not more than n."""
    return 1 if n <= 1 else 1 << (n.bit_length() - 1)


def get_num_bytes(*args: Any, num_in_out_args: int = 0) -> int:
    """The bytes of tensors; those of the first num_in_out_args, read and written, count twice."""
    return sum(
        x.numel() * x.element_size() * (1 + (i < num_in_out_args))
        for i, x in enumerate(args)
        if isinstance(x, Tensor)
    )


def create_bandwidth_info_str(
    ms: float, num_gb: float, gb_per_s: float, prefix: str = "", suffix: str = "",
    color: bool = True,
) -> str:  # fmt: skip
    """A line with a time, the bytes moved in it and the bandwidth."""
    return f"{prefix}{ms:.3f}ms    \t{num_gb:.3f} GB \t {gb_per_s:7.2f}GB/s{suffix}"


def default_cache_dir() -> str:
    """The folder of compiled kernels where no variable of the environment names one."""
    from tritorch.triton import cache

    found = cache.root()
    return str(found) if found is not None else tempfile.gettempdir()


def cache_dir() -> str:
    """The folder of compiled kernels, which there is after the call."""
    chosen = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or default_cache_dir()
    os.makedirs(chosen, exist_ok=True)
    return chosen


def triton_cache_dir(device: int) -> str:
    """Triton's own folder."""
    chosen = os.environ.get("TRITON_CACHE_DIR")
    return chosen or os.path.join(cache_dir(), "triton", str(device))
