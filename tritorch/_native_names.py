"""What programs call of torch._C, PyTorch's extension, and is not native here."""

from __future__ import annotations

from typing import Any

from tritorch import _C, cpu, cuda, overrides
from tritorch.autograd import passes
from tritorch.core import dispatching

_TensorBase = _C.TensorBase
_has_torch_function = overrides.has_torch_function
_has_torch_function_unary = overrides.has_torch_function_unary
_disabled_torch_function_impl = _C._disabled_torch_function_impl
_disabled_torch_dispatch_impl = dispatching.DISABLED


def _len_torch_dispatch_stack() -> int:
    """How many dispatch modes are entered."""
    return len(dispatching.entered.modes)


def _get_dispatch_stack_at(place: int, /) -> Any:
    """The dispatch mode at a place of the stack, the outermost one being first."""
    return dispatching.entered.modes[place]


def _push_on_torch_dispatch_stack(mode: Any, /) -> None:
    """Enters a dispatch mode."""
    dispatching.enter(mode)


def _pop_torch_dispatch_stack(key: Any = None, /) -> Any:
    """Leaves the innermost dispatch mode."""
    return dispatching.leave()


class _DisableTorchDispatch:
    """Inside, neither classes nor modes dispatch."""

    def __enter__(self) -> None:
        self._modes = dispatching.without_modes()
        self._modes.__enter__()
        self._before, dispatching.off.classes = dispatching.off.classes, True

    def __exit__(self, *exception: object) -> None:
        dispatching.off.classes = self._before
        self._modes.__exit__(*exception)


class _AutoDispatchBelowAutograd:
    """Inside, nothing is recorded."""

    def __enter__(self) -> None:
        self._before = _C.set_grad_enabled(False)

    def __exit__(self, *exception: object) -> None:
        _C.set_grad_enabled(self._before)


_current_graph_task_id = passes.current_task
_current_autograd_node = passes.current_node
_will_engine_execute_node = passes.will_execute


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


def _get_cpu_capability() -> str:
    """The widest vectors of the processor: AVX512, AVX2 or DEFAULT."""
    return cpu.get_cpu_capability()


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
