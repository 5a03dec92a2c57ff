"""The profiler of PyTorch's older programs: `profile` with fewer settings."""

from __future__ import annotations

import warnings

from tritorch import _C
from tritorch.autograd import profiler
from tritorch.profiling.kinds import ActiveProfilerType

__all__ = ["profile"]


class profile(profiler.profile):
    """`autograd.profiler.profile`, for programs that still ask for it here."""

    _kind = ActiveProfilerType.LEGACY

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, record_shapes: bool = False,
        with_flops: bool = False, profile_memory: bool = False, with_stack: bool = False,
        with_modules: bool = False,
    ) -> None:  # fmt: skip
        if enabled and use_cuda and _C.device_count() == 0:
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
            use_cuda = False
        super().__init__(
            enabled, use_device="cuda" if use_cuda else None, record_shapes=record_shapes,
            with_flops=with_flops, profile_memory=profile_memory, with_stack=with_stack,
            with_modules=with_modules,
        )  # fmt: skip
