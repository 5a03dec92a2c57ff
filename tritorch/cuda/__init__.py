"""CUDA, as in torch.cuda: devices, streams, events, memory and graphs.

Nothing here touches the driver before it is needed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tritorch import _C
from tritorch._C import (
    CudaError as CudaError,
    CudaUnavailableError,
    OutOfMemoryError as OutOfMemoryError,
)
from tritorch.compat import names as _names
from tritorch.core import legacy as _legacy
from tritorch.core.device import cuda_index
from tritorch.core.scopes import ABOUT_TO_CHANGE, Scope
from tritorch.cuda import memory as memory, simulator
from tritorch.cuda.graphed import make_graphed_callables as make_graphed_callables
from tritorch.cuda.graphs import (
    CUDAGraph as CUDAGraph,
    MemPool as MemPool,
    graph as graph,
    graph_pool_handle as graph_pool_handle,
    is_current_stream_capturing as is_current_stream_capturing,
    use_mem_pool as use_mem_pool,
)
from tritorch.cuda.memory import (
    SanitizerError,
    caching_allocator_alloc as caching_allocator_alloc,
    caching_allocator_delete as caching_allocator_delete,
    check_memory,
    empty_cache as empty_cache,
    get_allocator_backend as get_allocator_backend,
    get_per_process_memory_fraction as get_per_process_memory_fraction,
    host_memory_stats as host_memory_stats,
    host_memory_stats_as_nested_dict as host_memory_stats_as_nested_dict,
    max_memory_allocated as max_memory_allocated,
    max_memory_cached as max_memory_cached,
    max_memory_reserved as max_memory_reserved,
    mem_get_info as mem_get_info,
    memory_allocated as memory_allocated,
    memory_cached as memory_cached,
    memory_reserved as memory_reserved,
    memory_snapshot as memory_snapshot,
    memory_stats as memory_stats,
    memory_stats_as_nested_dict as memory_stats_as_nested_dict,
    memory_summary as memory_summary,
    reset_accumulated_host_memory_stats as reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats as reset_accumulated_memory_stats,
    reset_max_memory_allocated as reset_max_memory_allocated,
    reset_max_memory_cached as reset_max_memory_cached,
    reset_peak_host_memory_stats as reset_peak_host_memory_stats,
    reset_peak_memory_stats as reset_peak_memory_stats,
    set_per_process_memory_fraction as set_per_process_memory_fraction,
)
from tritorch.cuda.nvml import (
    clock_rate as clock_rate,
    device_memory_used as device_memory_used,
    list_gpu_processes as list_gpu_processes,
    memory_usage as memory_usage,
    power_draw as power_draw,
    temperature as temperature,
    utilization as utilization,
)
from tritorch.cuda.random import (
    default_generators as default_generators,
    get_rng_state as get_rng_state,
    get_rng_state_all as get_rng_state_all,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    manual_seed_all as manual_seed_all,
    seed as seed,
    seed_all as seed_all,
    set_rng_state as set_rng_state,
    set_rng_state_all as set_rng_state_all,
)
from tritorch.cuda.runtime import (
    CUDAPluggableAllocator as CUDAPluggableAllocator,
    DeferredCudaCallError as DeferredCudaCallError,
    GreenContext as GreenContext,
    change_current_allocator as change_current_allocator,
    check_error as check_error,
    cudart as cudart,
    cudaStatus as cudaStatus,
    current_blas_handle as current_blas_handle,
    current_solver_handle as current_solver_handle,
    get_gencode_flags as get_gencode_flags,
    get_sync_debug_mode as get_sync_debug_mode,
    has_half as has_half,
    has_magma as has_magma,
    ipc_collect as ipc_collect,
    is_tf32_supported as is_tf32_supported,
    set_sync_debug_mode as set_sync_debug_mode,
)
from tritorch.cuda.streams import (
    Event as Event,
    ExternalStream as ExternalStream,
    Stream as Stream,
    StreamContext as StreamContext,
    current_stream as current_stream,
    default_stream as default_stream,
    get_stream_from_external as get_stream_from_external,
    set_stream as set_stream,
    stream as stream,
)
from tritorch.gpu import errors
from tritorch.gpu.arrays import (
    empty,
    empty_pinned,
    from_cuda_array_interface,
    from_dlpack,
    from_numpy,
    zeros,
)

if TYPE_CHECKING:  # what is made at run time
    from tritorch.cuda._made import *  # noqa: F403


if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.cuda import (
        amp as amp,
        comm as comm,
        graphs as graphs,
        nvtx as nvtx,
        random as random,
        sparse as sparse,
        streams as streams,
    )


Array = _C.Array


def is_available() -> bool:
    """Whether there is a GPU (or a simulated one) that tritorch can use."""
    return _C.device_count() > 0


def device_count() -> int:
    """How many GPUs there are; 0 without a driver."""
    return _C.device_count()


def why_unavailable() -> str:
    """What is missing for is_available() to be true, and the fix; empty if nothing is."""
    return _C.why_unavailable()


def init() -> None:
    """Loads the driver now; otherwise it is loaded at first use."""
    _C.load_driver()


def is_initialized() -> bool:
    """Whether the driver is loaded in this process."""
    return _C.driver_loaded()


def is_simulated() -> bool:
    """Whether CUDA is the simulated device."""
    return _C.is_simulated()


def current_device() -> int:
    """The index of the current device of this thread."""
    _C.load_driver()
    return _C.current_device()


def set_device(device: Any) -> None:
    """Makes a device the current one of this thread; a negative index does nothing."""
    index = device if isinstance(device, int) else cuda_index(device)
    if index >= 0:
        _C.ambient_changes()
        _C.set_device(index)


class device(Scope):
    """`with device(1):` makes that device current; None or a negative index does nothing."""

    def __init__(self, device: Any) -> None:
        negative = isinstance(device, int) and device < 0
        self.idx = -1 if device is None or negative else cuda_index(device)
        self.prev_idx = -1

    def changes(self) -> Any:
        if self.idx < 0:
            return ()
        self.prev_idx = _C.current_device()
        return ABOUT_TO_CHANGE, (_C.exchange_device, self.idx)


class device_of(device):
    """`with device_of(x):` makes the device of x current, if x is on a GPU."""

    def __init__(self, obj: Any) -> None:
        super().__init__(getattr(obj, "device_index", -1))


class _DeviceProperties:
    """What the driver says of a device."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def __repr__(self) -> str:
        v = self.__dict__
        return (
            f"_CudaDeviceProperties(name='{v['name']}', major={v['major']}, minor={v['minor']}, "
            f"total_memory={v['total_memory'] // 2**20}MB, "
            f"multi_processor_count={v['multi_processor_count']}, uuid={v['uuid']}, "
            f"L2_cache_size={v['L2_cache_size'] // 2**20}MB)"
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def get_device_properties(device: Any = None) -> Any:
    """Name, capability, memory and limits of a device."""
    return _DeviceProperties(_C.device_properties(cuda_index(device)))


def get_device_name(device: Any = None) -> str:
    """The device's name."""
    return _C.device_properties(cuda_index(device))["name"]


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The major and minor compute capability."""
    properties = _C.device_properties(cuda_index(device))
    return properties["major"], properties["minor"]


def get_arch_list() -> list[str]:
    """The architectures that kernels are tested to compile for; Triton knows others too."""
    return ["sm_80", "sm_90", "sm_100"] if is_available() else []


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one GPU can read another's memory directly."""
    _C.load_driver()
    here, there = cuda_index(device), cuda_index(peer_device)
    for index in (here, there):
        if not 0 <= index < _C.device_count():
            raise AssertionError(f"Invalid device id {index}")
    return _C.can_access_peer(here, there)


def synchronize(device: Any = None) -> None:
    """Waits for all work on a device."""
    index = cuda_index(device)
    _C.flush()  # deferred calls come before
    _C.synchronize(index)
    memory.raise_sanitizer_reports(index)
    errors.check(index)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 has hardware support (sm_80 and later) or, by default, works at all."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def _compile_kernel(
    kernel_source: str,
    kernel_name: str,
    compute_capability: str | None = None,
    cuda_include_dirs: list[str] | None = None,
    nvcc_options: list[str] | None = None,
) -> Any:
    """Refuses CUDA C++: it takes NVRTC, which tritorch neither has nor loads."""
    raise RuntimeError(
        f"cuda._compile_kernel: '{kernel_name}' is CUDA C++, which takes NVRTC to compile; this "
        "package runs kernels of Triton alone. Write it as a `@triton.jit` function"
    )


def _come_late(name: str) -> Any:
    if name in ("amp", "nvtx", "sparse"):  # imported when it is first asked for
        import importlib

        return importlib.import_module(f"tritorch.cuda.{name}")
    raise AttributeError(f"module 'tritorch.cuda' has no attribute {name!r}")


if not TYPE_CHECKING:  # to checkers every name would be one
    __getattr__ = _come_late

globals().update(_legacy.CUDA_TYPES | _legacy.CUDA_STORAGES)
_names.adopt(sys.modules[__name__])
