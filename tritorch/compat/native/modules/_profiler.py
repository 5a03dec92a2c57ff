"""torch._C._profiler: events of profiles, and stacks of Python frames as data."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

from tritorch.profiling.event_trees import (
    AllocationFields as _ExtraFields_Allocation,
    BackendFields as _ExtraFields_Backend,
    EventType as _EventType,
    FrameState as _PyFrameState,
    KinetoFields as _ExtraFields_Kineto,
    ModuleInfo as _NNModuleInfo,
    OptimizerInfo as _OptimizerInfo,
    OutOfMemoryFields as _ExtraFields_OutOfMemory,
    ProfilerEvent as _ProfilerEvent,
    PyCallFields as _ExtraFields_PyCall,
    PyCCallFields as _ExtraFields_PyCCall,
    TensorMetadata as _TensorMetadata,
    TorchOpFields as _ExtraFields_TorchOp,
)
from tritorch.profiling.kinds import (
    ActiveProfilerType,
    ExperimentalConfig as _ExperimentalConfig,
    ProfilerActivity,
    RecordScope,
)

__all__ = [
    "ActiveProfilerType", "ProfilerActivity", "RecordScope", "_EventType", "_ExperimentalConfig",
    "_ExtraFields_Allocation", "_ExtraFields_Backend", "_ExtraFields_Kineto",
    "_ExtraFields_OutOfMemory", "_ExtraFields_PyCCall", "_ExtraFields_PyCall",
    "_ExtraFields_TorchOp", "_NNModuleInfo", "_OptimizerInfo", "_ProfilerEvent", "_PyFrameState",
    "_TensorMetadata", "gather_traceback", "symbolize_tracebacks",
]  # fmt: skip


def gather_traceback(python: bool = True, script: bool = False, cpp: bool = False) -> Any:
    """The frames of now, the innermost first; script, cpp: of other languages, which have none."""
    return list(reversed(traceback.extract_stack()[:-1])) if python else []


def symbolize_tracebacks(tracebacks: Sequence[Any]) -> list[list[dict[str, Any]]]:
    """Names, files and lines of the frames of several."""
    return [
        [{"name": f.name, "filename": f.filename, "line": f.lineno} for f in frames]
        for frames in tracebacks
    ]
