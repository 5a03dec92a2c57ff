"""torch._C._autograd: saved tensors, versions, and what PyTorch's tools ask profiles for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.autograd import nodes
from tritorch.autograd.passes import retains_graph as _get_current_graph_task_keep_graph
from tritorch.autograd.profiler import kineto_available
from tritorch.autograd.saved import SavedTensor, hook_stack
from tritorch.core.tensor import Tensor
from tritorch.profiling.kinds import ActiveProfilerType, DeviceType, ProfilerActivity as _Activity
from tritorch.profiling.kineto import (
    KinetoEvent as _KinetoEvent,
    ProfilerResult as _ProfilerResult,
)
from tritorch.profiling.recordings import Recorder

__all__ = [
    "DeviceType", "SavedTensor", "_KinetoEvent", "_ProfilerResult",
    "_get_current_graph_task_keep_graph", "_get_data_attr", "_get_sequence_nr", "_kineto_step",
    "_pop_saved_tensors_default_hooks", "_profiler_enabled", "_profiler_type",
    "_push_saved_tensors_default_hooks", "_saved_tensors_hooks_disable",
    "_saved_tensors_hooks_enable", "_saved_tensors_hooks_get_disabled_error_message",
    "_saved_tensors_hooks_is_enabled", "_supported_activities", "_unsafe_set_version_counter",
    "kineto_available",
]  # fmt: skip


def _profiler_type() -> ActiveProfilerType:
    """Which profiler runs."""
    running = Recorder.active
    return ActiveProfilerType.NONE if running is None else running.kind


def _profiler_enabled() -> bool:
    """True while a profiler runs."""
    return Recorder.active is not None


def _supported_activities() -> set[_Activity]:
    """The activities that a profile can record here."""
    kinds = {_Activity.CPU}
    return kinds | {_Activity.CUDA} if _C.device_count() else kinds


def _kineto_step() -> None:
    """Steps are counted by the profiler itself."""


def _get_sequence_nr() -> int:
    """The number of the next node of this thread."""
    return int(getattr(nodes.Node(), "_node_sequence", 0))


def _get_data_attr(tensor: Tensor, /) -> Tensor:
    """`tensor.data`."""
    return tensor.data


def _unsafe_set_version_counter(tensors: Any, versions: Any, /) -> None:
    """Says how often tensors have been written."""
    if isinstance(tensors, Tensor) or not (
        isinstance(tensors, Sequence) and isinstance(versions, Sequence)
    ):
        raise TypeError(
            "_unsafe_set_version_counter(): incompatible function arguments. The following "
            "argument types are supported:\n    1. (arg0: collections.abc.Sequence[torch.Tensor], "
            "arg1: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None"
            f"\n\nInvoked with: {tensors!r}, {versions!r}"
        )
    for tensor, version in zip(tensors, versions):
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        tensor._shared.version = version


def _push_saved_tensors_default_hooks(
    pack: Callable[..., Any], unpack: Callable[..., Any], /
) -> None:
    """From now on saved tensors are packed by these functions."""
    if hook_stack.disabled is not None:
        raise RuntimeError(hook_stack.disabled)
    hook_stack.hooks = [*hook_stack.hooks, (pack, unpack)]
    _C.set_saving_hooks(True)


def _pop_saved_tensors_default_hooks() -> None:
    """Ends what `_push_saved_tensors_default_hooks` began."""
    hook_stack.hooks = hook_stack.hooks[:-1]
    _C.set_saving_hooks(bool(hook_stack.hooks))


def _saved_tensors_hooks_is_enabled() -> bool:
    """True where hooks may be entered."""
    return hook_stack.disabled is None


def _saved_tensors_hooks_disable(message: str, fail_if_non_empty: bool = True, /) -> None:
    """From now on entering hooks raises with this message."""
    if hook_stack.hooks and fail_if_non_empty:
        raise RuntimeError(message)
    hook_stack.disabled = message


def _saved_tensors_hooks_enable() -> None:
    """Hooks may be entered again."""
    hook_stack.disabled = None


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    """The message of an error where hooks may not be entered."""
    return hook_stack.disabled
