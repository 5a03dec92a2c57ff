"""Settings of the environment: which there are, which values they take, the refusal of others.

Standard library only, as for `compat/extension.py`: the doctor asks where the package does not
import.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tritorch.compat.extension import command


class Setting(NamedTuple):
    """One setting: what it is, which values it takes in words, and whether a value is one."""

    about: str
    takes: str = ""
    understands: Callable[[str], bool] = lambda text: True


def _one_of(*names: str) -> Callable[[str], bool]:
    return lambda text: text in names


def _is_count(text: str) -> bool:
    return text == "all" or text.isdecimal()


def _is_duration(text: str) -> bool:
    try:
        seconds = float(text)
    except ValueError:
        return False
    return seconds >= 0 and not math.isnan(seconds)


def _is_yes_or_no(text: str) -> bool:
    return text.lower() in ("0", "1", "on", "off", "true", "false")


def _is_folder(text: str) -> bool:
    return not os.path.exists(text) or os.path.isdir(text)


SETTINGS = {
    "TRITORCH_SIMULATE_CUDA": Setting("the simulated device in place of a GPU"),
    "TRITORCH_CUDA_ALLOC_CONF": Setting("settings of the caching allocator"),
    "TRITORCH_CPU": Setting(
        "the widest vectors that the CPU's loops use", "avx512, avx2 or baseline",
        _one_of("avx512", "avx2", "baseline"),
    ),
    "TRITORCH_NUMPY_ONLY": Setting(
        "whether the CPU computes by NumPy alone, without loops of our own", "0 or 1", _is_yes_or_no
    ),
    "TRITORCH_LIBCUDA": Setting("the driver library to load in place of libcuda.so.1"),
    "TRITORCH_CACHE_DIR": Setting("where compiled kernels are kept", "a folder", _is_folder),
    "TRITORCH_KERNEL_PACK": Setting("files of kernels that `precompile --pack` wrote"),
    "TRITORCH_COMPILE_MESSAGES": Setting(
        "whether a terminal is told what is being compiled", "0 or 1", _is_yes_or_no
    ),
    "TRITORCH_COMPILERS": Setting(
        "processes that compile kernels side by side", "all or a whole number", _is_count
    ),
    "TRITORCH_CUPTI": Setting("the CUPTI library that profiles load; 0: none"),
    "TRITORCH_LOADER_STALL_SECONDS": Setting(
        "how long a loader waits before it tells where workers are", "a number of seconds",
        _is_duration,
    ),
    "TRITORCH_JOB_SECRET": Setting("what all processes of a job know, and others do not"),
    "TRITORCH_STORE_INTERFACE": Setting("the address at which a job's store listens"),
    "TRITORCH_GLOO_TRANSPORT": Setting(
        "collectives on one host without shared memory", "tcp", _one_of("tcp")
    ),
    "TRITORCH_GLOO_ALL_REDUCE": Setting(
        "how sums go over TCP", "direct, halving, tree or ring",
        _one_of("direct", "halving", "tree", "ring"),
    ),
    "TRITORCH_LIBNCCL": Setting("the NCCL library to load"),
    "TRITORCH_TEST_DEVICE": Setting(
        "the device that tests run on", "cuda or simulated", _one_of("cuda", "simulated")
    ),
}  # fmt: skip


def refusal(name: str, value: str) -> str:
    """One sentence that says which values a setting takes; "" where this one is understood."""
    setting = SETTINGS[name]
    if not value:
        return ""
    if not setting.understands(value):
        return f"{name}: {value!r} is not understood; give {setting.takes}"
    if name == "TRITORCH_SIMULATE_CUDA" and value == "0":
        return ""
    try:
        from tritorch import _C
    except ImportError:  # the doctor reports that
        return ""
    try:
        if name == "TRITORCH_SIMULATE_CUDA":
            _C.simulator.check(value)
        elif name == "TRITORCH_CUDA_ALLOC_CONF":
            _C.check_allocator_settings(value)
    except ValueError as error:
        return str(error)
    return ""


def refusals(environment: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with an environment's settings, by name."""
    found = {name: refusal(name, environment[name]) for name in SETTINGS if name in environment}
    return {name: sentence for name, sentence in found.items() if sentence}


def require() -> None:
    """Raises ValueError, in one sentence that says what is accepted, for a value that no setting
    takes.  A command ends with that sentence and status 2; the doctor reports it."""
    for sentence in refusals(os.environ).values():
        name = command(sys.orig_argv)
        if name == "doctor":
            return
        if name is not None:
            print(f"tritorch: {sentence}", file=sys.stderr)
            sys.exit(2)
        raise ValueError(sentence)
