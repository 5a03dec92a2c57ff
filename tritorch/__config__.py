"""What tritorch was built from and runs on, as in torch.__config__."""

from __future__ import annotations

import os
import platform

import numpy as np

from tritorch import _C
from tritorch.cpu import get_cpu_capability
from tritorch.host import threads
from tritorch.version import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The parts and their versions."""
    from tritorch import _C, cuda

    if cuda.is_available():
        version = _C.driver_version()
        driver = f"CUDA {version // 1000}.{version % 1000 // 10}"
        driver += ", simulated" if cuda.is_simulated() else ""
    else:
        driver = f"none ({cuda.why_unavailable()})"
    return "\n".join(
        [
            f"tritorch {__version__}:",
            f"  - Python {platform.python_version()}",
            f"  - NumPy {np.__version__}",
            f"  - CPU capability: {get_cpu_capability()}",
            f"  - Driver: {driver}",
            "",
        ]
    )


def _cxx_flags() -> str:
    """The flags that the extension was compiled with."""
    return _C.cxx_flags


def parallel_info() -> str:
    """How many threads there are for what."""
    lines = [
        f"threads of large operators: {threads.get_num_threads()}",
        f"processors of this process: {len(os.sched_getaffinity(0))}",
        f"OMP_NUM_THREADS: {os.environ.get('OMP_NUM_THREADS', '[not set]')}",
    ]
    return "\n".join([*lines, ""])
