"""The processor as users see it: a device that is always there, and has no queues."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
from typing import TYPE_CHECKING, Any

from tritorch.core.scopes import Scope

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.cpu import amp as amp


__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def synchronize(device: Any = None) -> None:
    """Returns: work on the CPU is done when its call returns."""


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Does nothing: there is one."""


class Stream:
    """Stands for a stream where code is for any device: work is done at once."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Returns: nothing is under way."""

    def record_event(self) -> None:
        """Returns: nothing is under way."""

    def wait_event(self, event: Any) -> None:
        """Returns: nothing is under way."""


class Event:
    """Stands for an event where code is for any device."""

    def query(self) -> bool:
        """True: nothing is under way."""
        return True

    def record(self, stream: Any = None) -> None:
        """Returns: nothing is under way."""

    def synchronize(self) -> None:
        """Returns: nothing is under way."""

    def wait(self, stream: Any = None) -> None:
        """Returns: nothing is under way."""


_current = Stream()


def current_stream(device: Any = None) -> Stream:
    """The stream that is current."""
    return _current


class StreamContext(Scope):
    """`with stream(s):` makes a stream the current one."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def changes(self) -> Any:
        stream = _current if self.stream is None else self.stream
        return ((sys.modules[__name__], "_current", stream),)


def stream(stream: Any) -> StreamContext:
    """Makes a stream the current one; None does nothing."""
    return StreamContext(stream)


# ---- what the processor can ----------------------------------------------------------------------

# PyTorch's names; Linux's are the same without underscores but for these.
_CAPABILITIES = """
    sse sse2 sse3 ssse3 sse4_1 sse4_2 sse4a avx avx2 avx_vnni avx512_f avx512_cd avx512_dq avx512_bw
    avx512_vl avx512_ifma avx512_vbmi avx512_vbmi2 avx512_bitalg avx512_vpopcntdq avx512_vnni
    avx512_bf16 avx512_fp16 avx512_vp2intersect avx512_4vnniw avx512_4fmaps avx_vnni_int8
    avx_vnni_int16 avx_ne_convert avx10_1 avx10_2 amx_bf16 amx_tile amx_int8 amx_fp16 fma3 fma4 f16c
    bmi bmi2 popcnt lzcnt aes sha clflush clflushopt clwb
"""
_LINUX = {"sse3": "pni", "fma3": "fma", "bmi": "bmi1", "lzcnt": "abm", "sha": "sha_ni"}


@functools.cache
def _cpuinfo() -> dict[str, str]:
    """The first processor of /proc/cpuinfo."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        first = file.read().split("\n\n")[0]
        pairs = (line.partition(":") for line in first.split("\n"))
        return {name.strip(): value.strip() for name, _, value in pairs}
    return {}


def _flags() -> set[str]:
    return {flag.replace("_", "") for flag in _cpuinfo().get("flags", "").split()}


def get_capabilities() -> dict[str, Any]:
    """Instruction sets, the processor's name, and how many cores there are."""
    found: dict[str, Any] = {
        "architecture": platform.machine(),
        "cpu_name": _cpuinfo().get("model name", ""),
        "num_logical_cores": os.cpu_count() or 1,
    }
    if platform.machine() == "x86_64":
        flags = _flags()
        for name in _CAPABILITIES.split():
            found[name] = _LINUX.get(name, name).replace("_", "") in flags
    return found


def get_cpu_capability() -> str:
    """The widest vectors of the processor: AVX512, AVX2 or DEFAULT."""
    flags = _flags()
    if {"avx512f", "avx512vl", "avx512bw", "avx512dq", "fma"} <= flags:
        return "AVX512"
    return "AVX2" if {"avx2", "fma"} <= flags else "DEFAULT"


def _is_avx2_supported() -> bool:
    """Whether the processor has AVX2."""
    return get_capabilities().get("avx2", False)


def _is_avx512_supported() -> bool:
    """Whether the processor has AVX-512."""
    return get_capabilities().get("avx512_f", False)


def _is_avx512_bf16_supported() -> bool:
    """Whether the processor multiplies bfloat16 in AVX-512."""
    return get_capabilities().get("avx512_bf16", False)


def _is_vnni_supported() -> bool:
    """Whether the processor multiplies bytes in AVX-512."""
    return get_capabilities().get("avx512_vnni", False)


def _is_amx_tile_supported() -> bool:
    """Whether the processor has AMX's tiles."""
    return get_capabilities().get("amx_tile", False)


def _is_amx_fp16_supported() -> bool:
    """Whether the processor multiplies float16 in AMX's tiles."""
    return get_capabilities().get("amx_fp16", False)


def _come_late(name: str) -> Any:
    if name == "amp":
        import importlib

        return importlib.import_module("tritorch.cpu.amp")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # to checkers every name would be one
    __getattr__ = _come_late
