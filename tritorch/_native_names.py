"""What programs call of torch._C, PyTorch's extension, and is not native here."""

from __future__ import annotations

import enum
import importlib
from typing import Any

from tritorch import _C, cpu, cuda, overrides
from tritorch.autograd import function
from tritorch.core import defaults, dispatch_keys, dispatching, gates, generator, settings, storage
from tritorch.core.device import device as Device
from tritorch.core.published import PUBLIC
from tritorch.core.size import Size
from tritorch.ops.checks import broadcast_shapes
from tritorch.schema import table
from tritorch.schema.infer import infer_type

has_spectral = settings.has_spectral
_jit_try_infer_type = infer_type
_TensorBase = _C.TensorBase
_FunctionBase = function.FunctionCtx
has_lapack = settings.has_lapack
default_generator = generator.default_generator
StorageBase = storage.StorageBase
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


def _len_torch_function_stack() -> int:
    """How many function modes are entered."""
    return len(gates.modes.stack)


def _get_function_stack_at(place: int, /) -> Any:
    """The function mode at a place of the stack, the outermost one being first."""
    return gates.modes.stack[place]


def _push_on_torch_function_stack(mode: Any, /) -> None:
    """Enters a function mode."""
    gates.push_mode(mode)


def _pop_torch_function_stack() -> Any:
    """Leaves the innermost function mode."""
    return gates.pop_mode()


class _DisableTorchDispatch:
    """Inside, neither classes nor modes dispatch."""

    def __enter__(self) -> None:
        self._modes = dispatching.without_modes()
        self._modes.__enter__()
        self._before, dispatching.off.classes = dispatching.off.classes, True

    def __exit__(self, *exception: object) -> None:
        dispatching.off.classes = self._before
        self._modes.__exit__(*exception)


class _TorchFunctionState(enum.Enum):
    """Who overrides functions: all, only modes, or nobody."""

    ENABLED = 0
    SUBCLASSES_DISABLED = 1
    ALL_DISABLED = 2


def _get_torch_function_state() -> _TorchFunctionState:
    """Who overrides functions now."""
    if not _swapped(_C.set_function_modes):
        return _TorchFunctionState.ALL_DISABLED
    subclasses = _swapped(_C.set_overrides)
    return _TorchFunctionState.ENABLED if subclasses else _TorchFunctionState.SUBCLASSES_DISABLED


def _set_torch_function_state(state: _TorchFunctionState, /) -> None:
    """Says who overrides functions from now on."""
    _C.set_overrides(state is _TorchFunctionState.ENABLED)
    _C.set_function_modes(state is not _TorchFunctionState.ALL_DISABLED)


def _swapped(exchange: Any) -> bool:
    """What a setting is, which only says so as it is changed."""
    before = exchange(True)
    exchange(before)
    return before


class _AutoDispatchBelowAutograd:
    """Inside, nothing is recorded."""

    def __enter__(self) -> None:
        self._before = _C.set_grad_enabled(False)

    def __exit__(self, *exception: object) -> None:
        _C.set_grad_enabled(self._before)


def _set_grad_enabled(mode: bool, /) -> None:
    """Turns recording on or off."""
    _C.set_grad_enabled(mode)


def _get_deterministic_algorithms() -> bool:
    """Whether `use_deterministic_algorithms` is on."""
    return defaults.are_deterministic_algorithms_enabled()


def _set_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """`use_deterministic_algorithms`."""
    defaults.use_deterministic_algorithms(mode, warn_only=warn_only)


def _get_warnAlways() -> bool:
    """Whether `set_warn_always` is on."""
    return defaults.is_warn_always_enabled()


def _get_default_device() -> str:
    """The default device."""
    return str(defaults.get_default_device())


def _set_default_dtype(kind: Any, /) -> None:
    """`set_default_dtype`."""
    defaults.set_default_dtype(kind)


def _settings(name: str) -> Any:
    return importlib.import_module(f"tritorch.backends.{name}")


def _get_cudnn_enabled() -> bool:
    """`torch.backends.cudnn.enabled`."""
    return _settings("cudnn").enabled


def _set_cudnn_enabled(value: bool, /) -> None:
    """Sets `torch.backends.cudnn.enabled`."""
    _settings("cudnn").enabled = value


def _get_cudnn_benchmark() -> bool:
    """`torch.backends.cudnn.benchmark`."""
    return _settings("cudnn").benchmark


def _set_cudnn_benchmark(value: bool, /) -> None:
    """Sets `torch.backends.cudnn.benchmark`."""
    _settings("cudnn").benchmark = value


def _get_cudnn_deterministic() -> bool:
    """`torch.backends.cudnn.deterministic`."""
    return _settings("cudnn").deterministic


def _set_cudnn_deterministic(value: bool, /) -> None:
    """Sets `torch.backends.cudnn.deterministic`."""
    _settings("cudnn").deterministic = value


def _get_cudnn_allow_tf32() -> bool:
    """`torch.backends.cudnn.allow_tf32`."""
    return _settings("cudnn").allow_tf32


def _set_cudnn_allow_tf32(value: bool, /) -> None:
    """Sets `torch.backends.cudnn.allow_tf32`."""
    _settings("cudnn").allow_tf32 = value


def _get_cublas_allow_tf32() -> bool:
    """`torch.backends.cuda.matmul.allow_tf32`."""
    return _settings("cuda").matmul.allow_tf32


def _set_cublas_allow_tf32(value: bool, /) -> None:
    """Sets `torch.backends.cuda.matmul.allow_tf32`."""
    _settings("cuda").matmul.allow_tf32 = value


def _get_mkldnn_enabled() -> bool:
    """`torch.backends.mkldnn.enabled`."""
    return _settings("mkldnn").enabled


def _get_flash_sdp_enabled() -> bool:
    """`torch.backends.cuda.flash_sdp_enabled()`."""
    return _settings("cuda").flash_sdp_enabled()


def _get_math_sdp_enabled() -> bool:
    """`torch.backends.cuda.math_sdp_enabled()`."""
    return _settings("cuda").math_sdp_enabled()


def _get_mem_efficient_sdp_enabled() -> bool:
    """`torch.backends.cuda.mem_efficient_sdp_enabled()`."""
    return _settings("cuda").mem_efficient_sdp_enabled()


def _infer_size(a: Any, b: Any, /) -> Any:
    """The shape that two broadcast to."""
    for place, size in enumerate((a, b)):
        if not isinstance(size, Size):
            raise RuntimeError(f"expected a torch.Size as argument {place + 1}")
    return Size(broadcast_shapes(a, b))


def _parallel_info() -> str:
    """How many threads compute on the CPU, and which."""
    return importlib.import_module("tritorch.__config__").parallel_info()


def _show_config() -> str:
    """What tritorch is made of."""
    return importlib.import_module("tritorch.__config__").show()


def _get_accelerator(check: bool | None = None) -> Device:
    """The GPU's type where there is one, else the CPU."""
    return Device("cuda" if cuda.is_available() else "cpu")


def _to_dlpack(tensor: Any, /) -> Any:
    """A capsule of DLPack with a tensor's memory."""
    return importlib.import_module("tritorch.utils.dlpack").to_dlpack(tensor)


def _from_dlpack(capsule: Any, /) -> Any:
    """A tensor in the memory of a capsule of DLPack."""
    return PUBLIC["from_dlpack"](capsule)


def _parse_dispatch_key(name: str, /) -> Any:
    """The dispatch key of a name; None for what is none."""
    return dispatch_keys.DispatchKey.__members__.get(name)


def _dispatch_has_kernel(name: str, /) -> bool:
    """Whether there is an operator of a name, "aten::add.Tensor"."""
    stem, _, overload = name.partition(".")
    return overload in table.overloads(stem.removeprefix("aten::"))


def _jit_get_schemas_for_operator(name: str, /) -> list[Any]:
    """The schemas of an operator's overloads."""
    stem = name.removeprefix("aten::")
    return [table.find(stem, overload) for overload in table.overloads(stem)]


def _jit_get_all_schemas() -> list[Any]:
    """The schemas of all operators of ATen."""
    return [table.find(n, overload) for n in table.names() for overload in table.overloads(n)]


def _is_torch_function_mode_enabled() -> bool:
    """Whether a function mode is entered."""
    return bool(gates.modes.stack)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Any, with_indices: bool = False
) -> dict[Any, Any]:
    """Lists of tensors side by side, by the device and dtype of those in the first list."""
    groups: dict[Any, Any] = {}
    for place, row in enumerate(zip(*tensorlistlist)):
        first = next((x for x in tensorlistlist[0][place : place + 1] if x is not None), None)
        key = (None, None) if first is None else (first.device, first.dtype)
        lists, indices = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for into, each in zip(lists, row):
            into.append(each)
        if with_indices:
            indices.append(place)
    return groups


class _InferenceMode:
    """Inference mode as long as the object lives, or inside of `with`."""

    def __init__(self, mode: bool = True) -> None:
        self._mode, self._before = mode, _C.set_inference_mode(mode)

    def __enter__(self) -> None:
        _C.set_inference_mode(self._mode)

    def __exit__(self, *exception: object) -> None:
        self._restore()

    def _restore(self) -> None:
        if self._before is not None:
            _C.set_inference_mode(self._before)
            self._before = None

    def __del__(self) -> None:
        self._restore()


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
