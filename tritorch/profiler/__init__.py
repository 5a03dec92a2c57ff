"""What a program does, and how long: `profile`, `record_function`, schedules, traces."""

import os
from typing import TYPE_CHECKING

from tritorch.autograd.profiler import (
    KinetoStepTracker as KinetoStepTracker,
    kineto_available,
    record_function,
)
from tritorch.optim.optimizer import (
    Optimizer as Optimizer,
    register_optimizer_step_post_hook as register_optimizer_step_post_hook,
)
from tritorch.profiler import itt as itt
from tritorch.profiler.execution_trace import ExecutionTraceObserver
from tritorch.profiler.profiler import (
    ProfilerAction,
    _KinetoProfile,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from tritorch.profiling.kinds import (
    DeviceType,
    ExperimentalConfig as _ExperimentalConfig,
    ProfilerActivity,
    RecordScope as RecordScope,
)

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.profiler import profiler as profiler


__all__ = [
    "DeviceType", "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity",
    "kineto_available", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip


def _optimizer_post_hook(optimizer: Optimizer, args: object, kwargs: object) -> None:
    KinetoStepTracker.increment_step("Optimizer")


if os.environ.get("KINETO_USE_DAEMON"):  # who profiles from outside counts steps, too
    register_optimizer_step_post_hook(_optimizer_post_hook)
