"""The driver that Triton uses: devices, streams, loading and launching come from `_C`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from tritorch import _C
from tritorch.core import late_bound
from tritorch.triton import assemblers, keys, plan
from tritorch.triton.installing import lock


class _Utils:
    """What Triton expects under `driver.utils`."""

    load_binary = staticmethod(_C.load_binary)
    unload_module = staticmethod(_C.unload_module)
    set_printf_fifo_size = staticmethod(_C.set_printf_fifo_size)
    cuOccupancyMaxActiveClusters = staticmethod(_C.max_active_clusters)
    get_current_device = staticmethod(_C.current_device)
    set_current_device = staticmethod(_C.set_device)

    @staticmethod
    def get_default_stream(device: int) -> int:
        return _C.current_stream(device)

    @staticmethod
    def is_stream_capturing(stream: int) -> bool:
        return _C.stream_capture_id(_C.current_device(), stream) != 0

    @staticmethod
    def get_device_capability(device: int) -> tuple[int, int]:
        properties = _C.device_properties(device)
        return properties["major"], properties["minor"]

    @staticmethod
    def get_device_properties(device: int) -> dict[str, int]:
        properties = _C.device_properties(device)
        return {
            "max_shared_mem": properties["shared_memory_per_block_optin"],
            "max_num_regs": properties["regs_per_multiprocessor"],
            "multiprocessor_count": properties["multi_processor_count"],
            "warpSize": properties["warp_size"],
            "sm_clock_rate": properties["clock_rate"],
            "mem_clock_rate": properties["memory_clock_rate"],
            "mem_bus_width": properties["memory_bus_width"],
        }

    @staticmethod
    def fill_tma_descriptor_tiled(
        address: int,
        swizzle: int,
        elem_size: int,
        elem_type: int,
        block_size: list[int],
        shape: list[int],
        strides: list[int],
        padding: int,
    ) -> bytes:
        return _C.encode_tensor_map(
            address, swizzle, elem_size, elem_type, block_size, shape, strides, bool(padding)
        )

    fill_tma_descriptor = fill_tma_descriptor_tiled


@functools.cache
def _has_rounding_flag() -> bool:
    """Triton 3.9's descriptors carry round_f32_to_tf32, and its kernels take it; 3.6's do not."""
    import dataclasses

    from triton.tools.tensor_descriptor import TensorDescriptor

    return any(field.name == "round_f32_to_tf32" for field in dataclasses.fields(TensorDescriptor))


def plan_of(source: Any, metadata: Any) -> dict[str, Any]:
    """The launch plan of a compiled kernel."""
    return plan.plan_of(source.signature, metadata, _has_rounding_flag())


def make_launcher(source: Any, metadata: Any) -> _C.Launcher:
    """What launches a compiled kernel; what Triton calls `launcher_cls`."""
    return plan.launcher(plan_of(source, metadata))


def _run_once(fn: Callable[[], Any], *args: Any, quantiles: Any = None, **options: Any) -> Any:
    """Stands where a timer of autotuned kernels would: a choice that fails is still not taken."""
    fn()
    return [1.0] * len(quantiles) if quantiles else 1.0


def _initialise_specialisation() -> None:
    """Triton 3.6 and 3.7's native argument inspection imports torch, if it can, on its first call.

    Nothing needs it to: it would cost gigabytes and seconds.  Later versions look at sys.modules.
    """
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if version >= (3, 8) or "torch" in sys.modules:
        return
    from triton.runtime.jit import mangle_type

    sys.modules["torch"] = None  # type: ignore[assignment]  # an import fails without a search
    try:
        mangle_type(0)
    finally:
        del sys.modules["torch"]


def choose_assembler(backend: Any) -> None:
    """Makes a backend of Triton run the ptxas that keys of kernels name: Note [Two assemblers]."""
    by_arch = backend.get_ptxas

    def get_ptxas(arch: int) -> Any:
        found = keys.assembler(arch)
        if found is None or not assemblers.is_other(found, arch):
            return by_arch(arch)
        tools = backend.knobs.nvidia
        return tools.ptxas if assemblers.is_newer(arch) else tools.ptxas_blackwell

    backend.get_ptxas = get_ptxas


class TritorchDriver(DriverBase):
    """Stands where Triton's CudaDriver would, without torch, a C compiler or a probe."""

    launcher_cls = staticmethod(make_launcher)

    def __init__(self) -> None:
        self.utils = _Utils()
        self.get_current_stream = _C.current_stream
        self.set_current_device = _C.set_device
        self.get_device_capability = _Utils.get_device_capability

    @classmethod
    def is_active(cls) -> bool:
        return _C.device_count() > 0

    def get_current_device(self) -> int:
        _C.load_driver()  # one clear sentence when there is no GPU
        with lock:
            if _C.is_simulated():
                from tritorch.triton import interpret

                interpret.take_over_launches()
            _initialise_specialisation()
        # Every later call goes straight to the native function.
        self.get_current_device = _C.current_device  # type: ignore[method-assign]
        return _C.current_device()

    def get_current_target(self) -> GPUTarget:
        major, minor = self.get_device_capability(self.get_current_device())
        return GPUTarget("cuda", major * 10 + minor, 32)

    def get_active_torch_device(self) -> Any:
        from tritorch.core.device import device

        return device("cuda", self.get_current_device())

    def get_device_interface(self) -> Any:
        return late_bound.device_interface()

    def get_benchmarker(self) -> Callable[..., Any]:
        if _C.is_simulated():  # times here say nothing of a GPU: any choice is as good
            return _run_once
        return late_bound.do_bench

    def get_empty_cache_for_benchmark(self) -> _C.Array:
        from tritorch.core.dtype import int32

        return late_bound.device_interface().empty((64 * 1024 * 1024,), dtype=int32)

    def clear_cache(self, cache: _C.Array) -> None:
        cache.zero_()

    def map_python_to_cpp_type(self, ty: str) -> str:
        from triton.backends.nvidia.driver import ty_to_cpp

        return ty_to_cpp(ty)

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: int) -> _C.Array:
        return plan.allocate_scratch(size, alignment, stream, True)

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        return args
