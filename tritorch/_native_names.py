"""What programs call of torch._C, PyTorch's extension, and is not native here."""

from __future__ import annotations

from typing import Any

from tritorch import _C, cuda, overrides

_TensorBase = _C.TensorBase
_has_torch_function = overrides.has_torch_function
_has_torch_function_unary = overrides.has_torch_function_unary
_disabled_torch_function_impl = _C._disabled_torch_function_impl


def _log_api_usage_once(event: str, /) -> None:
    """Nobody counts."""


def _log_api_usage_metadata(event: str, metadata: dict[str, str], /) -> None:
    """Nobody counts."""


def _get_tracing_state() -> None:
    """None: nothing is traced."""


def _is_tracing() -> bool:
    """False: nothing is traced."""
    return False


def _get_privateuse1_backend_name() -> str:
    """The name of the device type that nobody renamed."""
    return "privateuseone"


def _cuda_getCurrentRawStream(device: int, /) -> int:
    """The handle of the current stream."""
    return cuda.current_stream(device).cuda_stream


class _Switch:
    """A setting of the compiler that is not there: it keeps what it is set to."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def set(self, value: Any, /) -> Any:
        """The value from before."""
        before, self.value = self.value, value
        return before

    def put(self, value: Any, /) -> None:
        """Sets it."""
        self.value = value

    def get(self) -> Any:
        """The value."""
        return self.value


_jit_set_profiling_executor = _Switch(True).set
_jit_set_profiling_mode = _Switch(True).set
_jit_set_nvfuser_enabled = _Switch(False).put
_texpr, _cpu, _gpu = _Switch(True), _Switch(False), _Switch(False)
_jit_set_texpr_fuser_enabled, _jit_texpr_fuser_enabled = _texpr.put, _texpr.get
_jit_override_can_fuse_on_cpu, _jit_can_fuse_on_cpu = _cpu.put, _cpu.get
_jit_override_can_fuse_on_gpu, _jit_can_fuse_on_gpu = _gpu.put, _gpu.get
