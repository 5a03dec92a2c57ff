"""PyTorch's enumerations of what a profile is asked for and of what its events are."""

from __future__ import annotations

import enum
from typing import Any


class DeviceType(enum.Enum):
    """Kinds of devices, in PyTorch's numbers."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    MTIA = 19
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    PrivateUse1 = 20

    def __int__(self) -> int:
        return self.value


class ProfilerActivity(enum.Enum):
    """The processor or devices whose activities a profile has."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5

    def __int__(self) -> int:
        return self.value


class ActiveProfilerType(enum.Enum):
    """The profiler that runs."""

    NONE = 0
    LEGACY = 1
    KINETO = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5

    def __int__(self) -> int:
        return self.value


class RecordScope(enum.Enum):
    """The kind of thing that an event is of."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9

    def __int__(self) -> int:
        return self.value


for _kind in (DeviceType, ProfilerActivity, RecordScope, ActiveProfilerType):
    _kind.__module__ = "torch._C._profiler" if _kind is not DeviceType else "torch._C._autograd"


class ExperimentalConfig:
    """PyTorch's settings of a profile that may change; what we do not read is kept as given."""

    def __init__(
        self, profiler_metrics: Any = (), profiler_measure_per_kernel: bool = False,
        verbose: bool = False, performance_events: Any = (),
        enable_cuda_sync_events: bool = False, adjust_profiler_step: bool = False,
        disable_external_correlation: bool = False, profile_all_threads: bool = False,
        capture_overload_names: bool = False, record_python_gc_info: bool = False,
        expose_kineto_event_metadata: bool = False, custom_profiler_config: str = "",
        adjust_timestamps: bool = False, trace_only: bool = False,
    ) -> None:  # fmt: skip
        given = dict(locals())
        del given["self"]
        vars(self).update(given)


ExperimentalConfig.__name__ = ExperimentalConfig.__qualname__ = "_ExperimentalConfig"
