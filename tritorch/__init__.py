"""tritorch: PyTorch's Python API on Triton kernels and NumPy."""

import gc as _gc
import sys as _sys

from tritorch.compat import moved as _moved
from tritorch.compat.extension import require as _require
from tritorch.compat.variables import require as _require_values


def _doctor(arguments: list[str]) -> int:
    from tritorch.cli import doctor

    return doctor.main(arguments)


# What an import makes stays: collections would walk all of it in vain, again and again.
_collects = _gc.isenabled()
_gc.disable()
try:
    _require(_doctor)
    _require_values()
except BaseException:
    if _collects:
        _gc.enable()
    raise
_moved.install(__path__)

from math import e, inf, nan, pi

from tritorch import _C, autograd, linalg, ops, random
from tritorch.autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from tritorch.autograd.grad_mode import is_inference_mode_enabled
from tritorch.compat import late_binding as _late_binding, names as _names
from tritorch.compat.torch_private._ops import ops as _torch_ops
from tritorch.core import dtype as _dtype, gates as _gates, legacy as _legacy
from tritorch.core.defaults import (
    are_deterministic_algorithms_enabled,
    get_default_device,
    get_default_dtype,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled,
    set_default_device,
    set_default_dtype,
    set_deterministic_debug_mode,
    set_warn_always,
    use_deterministic_algorithms,
)
from tritorch.core.device import device
from tritorch.core.dtype import (
    bfloat16,
    bool_ as bool,
    cdouble,
    cfloat,
    complex64,
    complex128,
    double,
    dtype,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    float_ as float,
    half,
    int8,
    int16,
    int32,
    int64,
    int_ as int,
    long,
    short,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tritorch.core.gates import DisableTorchFunction, DisableTorchFunctionSubclass
from tritorch.core.generator import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from tritorch.core.info import finfo, iinfo
from tritorch.core.layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    jagged,
    layout,
    memory_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from tritorch.core.precision import get_float32_matmul_precision, set_float32_matmul_precision
from tritorch.core.printing import get_printoptions, set_printoptions
from tritorch.core.promotion import can_cast, promote_types
from tritorch.core.size import Size
from tritorch.core.storage import UntypedStorage
from tritorch.core.streams import Event, Stream
from tritorch.core.tensor import Tensor, is_tensor, typename
from tritorch.core.typed_storage import TypedStorage, is_storage
from tritorch.host.threads import get_num_threads, set_num_threads
from tritorch.ops.interpret.quantized import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    qscheme,
)
from tritorch.triton import installing as _installing
from tritorch.version import __version__

globals().update(_dtype.STORED)
chalf, bit = _dtype.chalf, _dtype.bit
newaxis = None
OutOfMemoryError = _C.OutOfMemoryError
AcceleratorError = _C.CudaError
is_anomaly_enabled = autograd.anomaly.is_anomaly_enabled
is_anomaly_check_nan_enabled = autograd.anomaly.is_anomaly_check_nan_enabled
set_anomaly_enabled = autograd.anomaly.set_anomaly_enabled
globals().update(_legacy.CPU_TYPES | _legacy.CPU_STORAGES)
_storage_classes = {*_legacy.CPU_STORAGES.values(), *_legacy.CUDA_STORAGES.values()} | {
    UntypedStorage, TypedStorage,
}  # fmt: skip
_tensor_classes = {
    kind
    for types in (_legacy.CPU_TYPES, _legacy.CUDA_TYPES, _legacy.SPARSE_TYPES,
                  _legacy.CUDA_SPARSE_TYPES)
    for kind in types.values()
    if not kind.dtype.is_complex
}  # fmt: skip
set_default_tensor_type = _legacy.set_default_tensor_type
_gates.install()
globals().update(_gates.publish(ops.PUBLIC, __name__))  # what PyTorch has as torch.<name>
_installing.install()
_names.install()
globals()["ops"] = _torch_ops  # operators as objects; the package `tritorch.ops` declares them


# Imported when they are first asked for.
_LATE = """
    __config__ __future__ accelerator amp ao backends compiler cpu cuda
    distributed distributions export func mtia nested nn
    fft futures fx hub jit library masked monitor mps multiprocessing onnx optim overrides
    package profiler quantization quasirandom return_types serialization signal sparse special
    storage testing
    torch_version types utils version xpu
"""
_ELSEWHERE = {
    name: module
    for module, names in {
        "compilation.package.loaded": "load_package",
        "compilation.package.packaging": "save_package",
        "compat.as_torch": "as_torch load_ipython_extension",
        "_classes": "classes",
        "_compile": "_disable_dynamo",
        "compat.devices": """
            _import_device_backends _is_device_backend_autoload_enabled _register_device_module
            """,
        "compat.starting": """
            _TorchCompileAOTInductorWrapper _TorchCompileInductorWrapper _TorchCompileWrapper
            _load_global_deps _preload_cuda_deps _running_with_deploy get_file_path
            prepare_multiprocessing_environment
            """,
        "amp": "autocast GradScaler",
        "amp.state": """
            autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache
            get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype
            get_autocast_ipu_dtype get_autocast_xla_dtype
            is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled
            is_autocast_ipu_enabled is_autocast_xla_enabled
            set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled
            set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype
            set_autocast_ipu_dtype set_autocast_ipu_enabled
            set_autocast_xla_dtype set_autocast_xla_enabled
            """,
        "_utils": "get_device_module",
        "compiler": "compile",
        "compat.native.dispatch_keys": "DispatchKey DispatchKeySet",
        "compat.settings": """
            _assert _assert_async _check _check_index _check_is_size _check_not_implemented
            _check_tensor_all _check_tensor_all_with _check_type _check_value _check_with
            _constrain_as_size
            FatalError compiled_with_cxx11_abi get_num_interop_threads has_lapack has_mkl
            has_openmp has_spectral init_num_threads is_vulkan_available set_flush_denormal
            set_num_interop_threads
            """,
        "arrays.sym_functions": """
            sym_constrain_range sym_constrain_range_for_size sym_float sym_fresh_size sym_int
            _sym_acos _sym_asin _sym_atan _sym_cos _sym_cosh _sym_log2 _sym_sin _sym_sinh
            _sym_sqrt _sym_tan _sym_tanh
            sym_ite sym_max sym_min sym_not sym_sqrt sym_sum
            """,
        "core.storage": "StorageBase",
        "arrays.symbolic": "SymBool SymFloat SymInt",
        "func.vmap": "vmap",
        "futures": "Future fork wait",
        "jit._containers": """
            ScriptDict ScriptDictIterator ScriptDictKeyIterator ScriptList ScriptListIterator
            """,
        "jit._errors": "JITException",
        "jit._given": """
            AliasDb ArgumentSpec Capsule Code CompleteArgumentSpec ConcreteModuleType
            ConcreteModuleTypeBuilder DeepCopyMemoTable ExecutionPlan Gradient
            GraphExecutorState IODescriptor InterfaceType LiteScriptModule OperatorInfo
            ScriptClass ScriptClassFunction ScriptModule
            ScriptModuleSerializer ScriptObjectProperty SerializationStorageContext
            StaticModule TracingState
            """,
        "ops.quantized.packed": "ScriptObject",
        "ops.quantized.internal": """
            _choose_qparams_per_tensor _empty_affine_quantized _empty_per_channel_affine_quantized
            _fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine
            _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
            _fused_moving_avg_obs_fq_helper _make_per_channel_quantized_tensor
            _make_per_tensor_quantized_tensor _rowwise_prune _saturate_weight_to_fp16
            """,
        "ops.quantized.packed_weights": """
            _convert_weight_to_int4pack _convert_weight_to_int4pack_for_cpu
            _dyn_quant_matmul_4bit _dyn_quant_pack_4bit_weight _weight_int4pack_mm
            _weight_int4pack_mm_for_cpu _weight_int4pack_mm_with_scales_and_zeros
            _weight_int8pack_mm
            """,
        "ops.quantized.recurrent": "quantized_gru quantized_lstm",
        "jit.ir.graph": "Block Graph Node Use Value",
        "jit.ir.parsing": "parse_ir",
        "jit.calls": "ScriptFunction ScriptMethod",
        "jit._logging": "AVG AggregationType LockingLogger LoggerBase NoopLogger SUM",
        "jit._script": "CompilationUnit import_ir_module import_ir_module_from_buffer",
        "jit._sources": "CallStack ErrorReport",
        "jit._tree_views": "merge_type_from_type_comment parse_type_comment",
        "jit._views": "BufferDict ModuleDict ParameterDict",
        "_higher_order_ops.control": "cond while_loop",
        "random": "thread_safe_generator",
        "testing": "FileCheck",
        "utils.dlpack": "to_dlpack",
        "schema": """
            AnyType Argument AwaitType BoolType ClassType ComplexType DeviceObjType DictType
            EnumType FloatType FunctionSchema FutureType InferredType IntType ListType
            NoneType NumberType OptionalType PyObjectType RRefType StreamObjType StringType
            SymBoolType SymIntType Tag TensorType TupleType Type UnionType parse_schema
            unify_type_list
            """,
        "serialization": "load save",
        "serialization.contexts": "DeserializationStorageContext",
        "serialization.records": "PyTorchFileReader PyTorchFileWriter",
        "utils.throughput_benchmark": "BenchmarkConfig BenchmarkExecutionStats ThroughputBenchmark",
    }.items()
    for name in names.split()
}


PRIVATE_OPS = ("unique_dim",)
legacy_contiguous_format = contiguous_format


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE.split(), *_ELSEWHERE})


def _all() -> list[str]:
    """What `from torch import *` takes: PyTorch's list, as far as the names are here."""
    import types

    here = {*globals(), *_ELSEWHERE}
    names = [n for n in _names.offered("") if n in here and not n.startswith("_")]
    return [n for n in names if not isinstance(globals().get(n), types.ModuleType)]


def __getattr__(name: str) -> object:
    import importlib

    if name == "__all__":
        globals()["__all__"] = _all()
        return globals()["__all__"]
    if name in _LATE.split() or _moved.home_of(f"tritorch.{name}") or _moved.is_private(name):
        return importlib.import_module(f"tritorch.{name}")
    if name in _ELSEWHERE:
        found = getattr(importlib.import_module(f"tritorch.{_ELSEWHERE[name]}"), name)
        globals()[name] = found
        return found
    if name in _BUILT:
        import warnings

        asked = getattr(importlib.import_module(f"tritorch.backends.{name[4:]}"), _BUILT[name])
        warnings.warn(
            f"'{name}' is deprecated, please use 'torch.{asked.__module__.partition('.')[2]}."
            f"{asked.__name__}()'",
            stacklevel=2,
        )
        return asked()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# PyTorch's deprecated names of what its backends' modules say.
_BUILT = {"has_cuda": "is_built", "has_cudnn": "is_available", "has_mps": "is_built",
          "has_mkldnn": "is_available"}  # fmt: skip


def _of_extension(name: str) -> object:
    from tritorch.compat.native import dispatch, names as _native_names

    for module in (_native_names, dispatch):
        if name in vars(module):
            return vars(module)[name]
    from tritorch.compat.native import scripting  # TorchScript's, which few programs ask for

    if name.startswith("_") and name in vars(scripting):
        return vars(scripting)[name]
    raise AttributeError(f"module {_C.__name__!r} has no attribute {name!r}")


_C.__getattr__ = _of_extension  # type: ignore[attr-defined]
_C.__path__ = [f"{place}/compat/native/modules" for place in __path__]  # type: ignore[attr-defined]
_names.adopt(_sys.modules[__name__])
if _collects:
    if not _gc.get_freeze_count():
        _gc.freeze()
        _gc.unfreeze()  # all that is there is old now, and nothing was walked
    _gc.enable()
