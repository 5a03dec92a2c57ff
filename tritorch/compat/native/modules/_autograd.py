"""torch._C._autograd: what PyTorch's tools ask profiles for."""

from __future__ import annotations

from tritorch.profiling.kinds import ActiveProfilerType, DeviceType
from tritorch.profiling.kineto import (
    KinetoEvent as _KinetoEvent,
    ProfilerResult as _ProfilerResult,
)
from tritorch.profiling.recordings import Recorder

__all__ = ["DeviceType", "_KinetoEvent", "_ProfilerResult", "_profiler_type"]


def _profiler_type() -> ActiveProfilerType:
    """Which profiler runs."""
    running = Recorder.active
    return ActiveProfilerType.NONE if running is None else running.kind
