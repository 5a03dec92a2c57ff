"""What programs call of torch._C, PyTorch's extension, and is not native here."""

from __future__ import annotations

import enum
import importlib
import weakref
from typing import Any

from tritorch import _C, autograd, cpu, cuda, overrides
from tritorch.autograd import duals, function, grad_mode, passes
from tritorch.backends import _libraries
from tritorch.compat import settings
from tritorch.compat.torch_private import _awaits as _calls
from tritorch.core import (
    defaults,
    device as devices,
    dispatching,
    gates,
    generator,
    layout as layouts,
    precision,
    storage,
)
from tritorch.core.device import device as Device
from tritorch.core.scopes import ScopeWhenMade
from tritorch.core.size import Size
from tritorch.core.tensor import Tensor
from tritorch.ops.record.checks import broadcast_shapes
from tritorch.ops.shape.factory import from_dlpack
from tritorch.schema.infer import infer_type
from tritorch.schema.tags import Listed
from tritorch.utils import _foreach_utils

has_spectral = settings.has_spectral
_jit_try_infer_type = infer_type
_TensorBase = _C.TensorBase
_TensorMeta = type(Tensor)
_FunctionBase = function._FunctionBase
has_lapack = settings.has_lapack
Generator, default_generator = generator.Generator, generator.default_generator
StorageBase = storage.StorageBase
_has_torch_function = overrides.has_torch_function
_has_torch_function_unary = overrides.has_torch_function_unary
_disabled_torch_function_impl = _C._disabled_torch_function_impl
_disabled_torch_dispatch_impl = dispatching.DISABLED


class _TorchFunctionState(enum.Enum):
    """Who overrides functions: all, only modes, or nobody."""

    ENABLED = 0
    SUBCLASSES_DISABLED = 1
    ALL_DISABLED = 2


def _get_torch_function_state() -> _TorchFunctionState:
    """Who overrides functions now."""
    if gates.modes.disabled:
        return _TorchFunctionState.ALL_DISABLED
    subclasses = _swapped(_C.set_overrides)
    return _TorchFunctionState.ENABLED if subclasses else _TorchFunctionState.SUBCLASSES_DISABLED


def _set_torch_function_state(state: _TorchFunctionState, /) -> None:
    """Says who overrides functions from now on."""
    _C.set_overrides(state is _TorchFunctionState.ENABLED)
    gates.modes.disabled = state is _TorchFunctionState.ALL_DISABLED
    _C.set_function_modes(bool(gates.modes.stack) and not gates.modes.disabled)


def _is_torch_function_enabled() -> bool:
    """Whether classes and modes override functions."""
    return _get_torch_function_state() is _TorchFunctionState.ENABLED


def _is_torch_function_all_disabled() -> bool:
    """Whether neither do."""
    return _get_torch_function_state() is _TorchFunctionState.ALL_DISABLED


def _swapped(exchange: Any) -> bool:
    """What a setting is, which only says so as it is changed."""
    before = exchange(True)
    exchange(before)
    return before


def _set_grad_enabled(mode: bool, /) -> None:
    """Turns recording on or off."""
    _C.set_grad_enabled(mode)


def _get_deterministic_algorithms() -> bool:
    """Whether `use_deterministic_algorithms` is on."""
    return defaults.are_deterministic_algorithms_enabled()


def _set_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """`use_deterministic_algorithms`."""
    defaults.use_deterministic_algorithms(mode, warn_only=warn_only)


def _get_deterministic_algorithms_warn_only() -> bool:
    """True if it is on and only warns."""
    return defaults.is_deterministic_algorithms_warn_only_enabled()


def _get_deterministic_fill_uninitialized_memory() -> bool:
    """True if it fills memory that nobody has written."""
    return defaults.get_fill_uninitialized_memory()


def _set_deterministic_fill_uninitialized_memory(mode: bool, /) -> None:
    """Sets it."""
    defaults.set_fill_uninitialized_memory(mode)


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


_mobile_allocator = False


def _set_default_mobile_cpu_allocator() -> None:
    """Begins a scope in which PyTorch pads the memory of tensors for kernels that read beyond it;
    no kernel here does."""
    global _mobile_allocator
    if _mobile_allocator:
        raise RuntimeError(
            "Already within the scope of another non-default cpu allocator.Cannot set another "
            "allocator."
        )
    _mobile_allocator = True


def _unset_default_mobile_cpu_allocator() -> None:
    """Ends that scope."""
    global _mobile_allocator
    if not _mobile_allocator:
        raise RuntimeError(
            "setDefaultMobileCPUAllocator must have been called before "
            "unsetDefaultMobileCPUAllocator."
        )
    _mobile_allocator = False


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
    return from_dlpack(capsule)


def _is_torch_function_mode_enabled() -> bool:
    """Whether a function mode is entered."""
    return bool(gates.modes.stack)


_group_tensors_by_device_and_dtype = _foreach_utils._group_tensors_by_device_and_dtype


class _InferenceMode(ScopeWhenMade):
    """Inference mode as long as the object lives, or inside of `with`."""

    def changes(self, mode: bool = True) -> Any:
        return ((_C.set_inference_mode, mode),)

    def __del__(self) -> None:
        if self.fresh:
            self.__exit__()


_current_graph_task_id = passes.current_task
_current_autograd_node = passes.current_node
_will_engine_execute_node = passes.will_execute
_current_graph_task_execution_order = passes.execution_order


def _is_fwd_grad_enabled() -> bool:
    """True while forward mode carries tangents."""
    return duals.levels.enabled


def _set_fwd_grad_enabled(mode: bool, /) -> None:
    """Sets whether forward mode carries tangents from now on."""
    duals.levels.enabled = mode


class _WeakTensorRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError("expected a tensor")
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """True once the tensor is gone."""
        return self._reference() is None


_EngineBase = _ImperativeEngine = passes.EngineBase
_LegacyVariableBase = autograd.LegacyVariableBase
_Await = _calls.NativeAwait
_awaitable, _awaitable_nowait = _calls._awaitable, _calls._awaitable_nowait
_awaitable_wait = _calls._awaitable_wait


def _set_view_replay_enabled(enabled: bool, /) -> None:
    """Sets whether views are made anew by their own operators after writes: they always are."""
    grad_mode._settings.view_replay = bool(enabled)


def _conv_determine_backend_memory_format(input: Any, weight: Any, backend: Any, /) -> Any:
    """In which format a convolution gives its result."""
    if not isinstance(backend, _ConvBackend):
        raise TypeError(
            "_conv_determine_backend_memory_format(): incompatible function arguments. The "
            "following argument types are supported:\n    1. (arg0: torch.Tensor, arg1: "
            "torch.Tensor, arg2: torch._C._ConvBackend) -> torch.memory_format\n\nInvoked with: "
            f"{input!r}, {weight!r}, {backend!r}"
        )
    last = layouts.channels_last_3d if input.dim() == 5 else layouts.channels_last
    formatted = any(each.is_contiguous(memory_format=last) and not each.is_contiguous()
                    for each in (input, weight) if each.dim() in (4, 5))  # fmt: skip
    takes = backend in (
        _ConvBackend.Cudnn,
        _ConvBackend.CudnnTranspose,
        _ConvBackend.Mkldnn,
        _ConvBackend.MkldnnEmpty,
        _ConvBackend.Slow2d,
        _ConvBackend.Xnnpack2d,
    )
    return last if formatted and takes else layouts.contiguous_format


def _cxx_flags() -> str:
    """The flags that the extension was compiled with."""
    return _C.cxx_flags


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
    return devices.renamed.name


def _get_cpu_capability() -> str:
    """The widest vectors of the processor: AVX512, AVX2 or DEFAULT."""
    return cpu.get_cpu_capability()


def _cuda_getDevice() -> int:
    """The current device."""
    return cuda.current_device()


def _cuda_getDeviceCount() -> int:
    """How many GPUs there are."""
    return cuda.device_count()


def _cuda_emptyCache() -> None:
    """`cuda.empty_cache()`."""
    cuda.empty_cache()


def _cuda_isCurrentStreamCapturing() -> bool:
    """Whether the current stream's work is being captured into a graph."""
    return cuda.is_current_stream_capturing()


def _data_address(tensor: Tensor, /) -> int:
    """Where a tensor's first element is."""
    return tensor.data_ptr()


def _is_alias_of(tensor: Tensor, other: Tensor, /) -> bool:
    """Whether two tensors have one memory."""
    return tensor.untyped_storage() == other.untyped_storage()


def _has_storage(tensor: Tensor, /) -> bool:
    """Whether a tensor has memory of its own kind: a dense one has."""
    return tensor.layout is layouts.strided


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
_optimize = _Switch(True)
_get_graph_executor_optimize, _set_graph_executor_optimize = _optimize.get, _optimize.put
_jit_set_nvfuser_enabled = _Switch(False).put
_texpr, _cpu, _gpu = _Switch(True), _Switch(False), _Switch(False)
_jit_set_texpr_fuser_enabled, _jit_texpr_fuser_enabled = _texpr.put, _texpr.get
_jit_override_can_fuse_on_cpu, _jit_can_fuse_on_cpu = _cpu.put, _cpu.get
_jit_override_can_fuse_on_gpu, _jit_can_fuse_on_gpu = _gpu.put, _gpu.get


def _rename_privateuse1_backend(name: str, /) -> None:
    """`torch.utils.rename_privateuse1_backend`."""
    from tritorch.utils.backend_registration import rename_privateuse1_backend

    rename_privateuse1_backend(name)


_LinalgBackend, _BlasBackend, _ROCmFABackend = (
    _libraries._LinalgBackend, _libraries._BlasBackend, _libraries._ROCmFABackend,
)  # fmt: skip


def _get_linalg_preferred_backend() -> Any:
    """`torch.backends.cuda.preferred_linalg_library()`."""
    return _libraries.linalg.choose()


def _set_linalg_preferred_backend(backend: Any, /) -> None:
    """Sets it."""
    _libraries.linalg.choose(backend)


def _get_blas_preferred_backend() -> Any:
    """`torch.backends.cuda.preferred_blas_library()`."""
    return _libraries.blas.choose()


def _set_blas_preferred_backend(backend: Any, /) -> None:
    """Sets it."""
    _libraries.blas.choose(backend)


def _get_fp32_precision_getter(backend: str, op: str) -> str:
    """How a backend multiplies float32 in an operation."""
    return precision.get_fp32_precision(backend, op)


def _set_fp32_precision_setter(backend: str, op: str, how: str) -> str:
    """Sets it."""
    precision.set_fp32_precision(backend, op, how)
    return how


class _ConvBackend(Listed):
    """What computes a convolution, by PyTorch's names."""

    CudaDepthwise2d = 0
    CudaDepthwise3d = 1
    Cudnn = 2
    CudnnTranspose = 3
    Empty = 4
    Miopen = 5
    MiopenDepthwise = 6
    MiopenTranspose = 7
    Mkldnn = 8
    MkldnnEmpty = 10
    NnpackSpatial = 11
    Overrideable = 12
    Slow2d = 13
    Slow3d = 14
    SlowDilated2d = 15
    SlowDilated3d = 16
    SlowTranspose2d = 17
    SlowTranspose3d = 18
    Winograd3x3Depthwise = 19
    Xnnpack2d = 20
    Mps = 21


def _select_conv_backend(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, bias_sizes: Any = None,
) -> _ConvBackend:  # fmt: skip
    """What computes a convolution: on the CPU products of unfolded pieces, on a GPU a kernel of
    tritorch's, which PyTorch's names call `Overrideable`, or one for depthwise layers."""
    if 0 in input.shape or 0 in weight.shape:
        return _ConvBackend.Empty
    dims = "3d" if weight.dim() == 5 else "2d"
    if input.is_cuda:
        from tritorch.gpu.nn import conv

        alone = input.shape[1] == groups  # one input channel for each group
        outputs = weight.shape[1] if transposed else weight.shape[0] // groups
        direct = alone and outputs <= conv.DIRECT
        name = f"CudaDepthwise{dims}" if direct else "Overrideable"
    elif transposed:
        name = f"SlowTranspose{dims}"
    else:
        name = f"SlowDilated{dims}" if any(each != 1 for each in dilation) else f"Slow{dims}"
    return _ConvBackend[name]


def _are_functorch_transforms_active() -> bool:
    """Whether a function is being transformed (vmap, grad, jvp) now."""
    from tritorch.compat.native.modules._functorch import peek_interpreter_stack

    return peek_interpreter_stack() is not None
