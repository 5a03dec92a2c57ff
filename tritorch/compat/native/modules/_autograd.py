"""torch._C._autograd: saved tensors, versions, and what PyTorch's tools ask profiles for."""

from __future__ import annotations

from collections.abc import Sequence

from tritorch.autograd.passes import retains_graph as _get_current_graph_task_keep_graph
from tritorch.autograd.saved import SavedTensor, hook_stack
from tritorch.core.tensor import Tensor
from tritorch.profiling.kinds import ActiveProfilerType, DeviceType
from tritorch.profiling.kineto import (
    KinetoEvent as _KinetoEvent,
    ProfilerResult as _ProfilerResult,
)
from tritorch.profiling.recordings import Recorder

__all__ = [
    "DeviceType", "SavedTensor", "_KinetoEvent", "_ProfilerResult",
    "_get_current_graph_task_keep_graph", "_profiler_type",
    "_saved_tensors_hooks_get_disabled_error_message", "_saved_tensors_hooks_is_enabled",
    "_unsafe_set_version_counter",
]  # fmt: skip


def _profiler_type() -> ActiveProfilerType:
    """Which profiler runs."""
    running = Recorder.active
    return ActiveProfilerType.NONE if running is None else running.kind


def _saved_tensors_hooks_is_enabled() -> bool:
    """Whether saved tensors may be packed."""
    return hook_stack.disabled is None


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    """Why they may not."""
    return hook_stack.disabled


def _unsafe_set_version_counter(tensors: Sequence[Tensor], versions: Sequence[int]) -> None:
    """Says how often the memory of tensors was written."""
    if len(tensors) != len(versions):
        raise RuntimeError(
            f"tensors_size={len(tensors)}, but versions_size={len(versions)}: they must be equal"
        )
    for tensor, version in zip(tensors, versions):
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        tensor._shared.version = version
