"""Names of torch.cuda that stand for CUDA's runtime library and what it brings with it.

tritorch calls the driver alone.  What the runtime's functions are asked for is answered by the
driver; what belongs to libraries that are not here (cuBLAS, cuSOLVER) is an error that says so.
"""

from __future__ import annotations

import enum
import sys
import warnings
from typing import Any

from tritorch import _C
from tritorch.core.device import cuda_index
from tritorch.gpu import arrays

has_half = True  # half types compute in float32 on every GPU
has_magma = False


class DeferredCudaCallError(Exception):
    """A call that waited for CUDA to start, and failed then."""


class cudaStatus(enum.IntEnum):
    """The statuses that programs compare with."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


def check_error(res: int) -> None:
    """RuntimeError (CudaError) unless the status is 0."""
    if int(res) != cudaStatus.SUCCESS:
        error = _C.CudaError(f"CUDA error: status {int(res)}")
        error.code = int(res)
        raise error


class _Runtime:
    """What programs call on `torch.cuda.cudart()`."""

    class cudaError(enum.IntEnum):
        """Statuses."""

        success = 0

    def cudaMemGetInfo(self, device: int) -> tuple[int, int]:
        """Free and total bytes."""
        return _C.mem_get_info(cuda_index(device))

    def cudaDeviceSynchronize(self) -> cudaError:
        """Waits for the current device."""
        from tritorch import cuda

        cuda.synchronize()
        return self.cudaError.success

    def cudaStreamSynchronize(self, stream: int) -> cudaError:
        """Waits for a stream, by its handle."""
        from tritorch.cuda.streams import ExternalStream

        ExternalStream(stream).synchronize()
        return self.cudaError.success

    def cudaGetErrorString(self, error: Any) -> str:
        """What a status is called."""
        return "no error" if int(error) == 0 else f"status {int(error)}"


_runtime = _Runtime()


def cudart() -> Any:
    """The runtime's functions that have a counterpart in the driver."""
    _C.load_driver()
    return _runtime


def _absent(library: str) -> RuntimeError:
    return RuntimeError(
        f"tritorch does not use {library}: there is no handle of it. Matrices are multiplied by "
        "Triton kernels, and factorised on the host"
    )


def current_blas_handle() -> int:
    """An error: there is no cuBLAS."""
    raise _absent("cuBLAS")


def current_solver_handle() -> int:
    """An error: there is no cuSOLVER."""
    raise _absent("cuSOLVER")


def get_gencode_flags() -> str:
    """nvcc's flags for the architectures that kernels are tested on."""
    from tritorch import cuda

    numbers = [arch.removeprefix("sm_") for arch in cuda.get_arch_list()]
    return " ".join(f"-gencode compute=compute_{n},code=sm_{n}" for n in numbers)


def is_tf32_supported() -> bool:
    """Whether the GPU multiplies in TF32: sm_80 and later."""
    from tritorch import cuda

    return cuda.is_available() and cuda.get_device_capability()[0] >= 8


def ipc_collect() -> None:
    """Frees GPU memory that other processes have given back."""
    _C.load_driver()
    collect_loans()


def collect_loans() -> None:
    """Frees memory that was lent and has come back, if this process ever lent any."""
    lending = sys.modules.get("tritorch.core.lending")
    if lending is not None:
        lending.collect()


# ---- waiting for the GPU by mistake --------------------------------------------------------------

_MODES = ("default", "warn", "error")
_sync_mode = 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Whether copies from the GPU, for which the host waits, warn ("warn", 1) or raise ("error",
    2); "default" or 0: neither."""
    global _sync_mode
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`"
            )
        debug_mode = _MODES.index(debug_mode)
    if not 0 <= debug_mode < len(_MODES):
        raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
    _C.load_driver()
    _sync_mode = debug_mode
    arrays.before_waiting = _complain if debug_mode else None


def get_sync_debug_mode() -> int:
    """0, 1 (warn) or 2 (error)."""
    _C.load_driver()
    return _sync_mode


def _complain() -> None:
    message = "called a synchronizing CUDA operation"
    if _sync_mode == 2:
        raise RuntimeError(message)
    warnings.warn(message, stacklevel=4)


# ---- what this allocator is not ------------------------------------------------------------------


class CUDAPluggableAllocator:
    """An allocator from a shared library, which tritorch cannot use: its own is part of it."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        raise RuntimeError(
            "tritorch's allocator cannot be replaced: its graphs, pools and sanitizer work on its "
            "own blocks. TRITORCH_CUDA_ALLOC_CONF changes its settings"
        )


def change_current_allocator(allocator: Any) -> None:
    """An error: the allocator cannot be replaced."""
    CUDAPluggableAllocator("", "", "")


class GreenContext:
    """A context on a part of the multiprocessors, which tritorch does not make."""

    @staticmethod
    def create(num_sms: int, device_id: int = 0) -> GreenContext:
        """An error: all launches go through the device's primary context."""
        raise RuntimeError(
            "tritorch launches in each device's primary context; there are no green contexts"
        )
