"""Names of torch, torch._C and the modules that programs look into."""

from .lines import each, lines

FAMILIES = {}

FAMILIES["namespaces"] = lines("""
    isinstance(torch.__all__, list), len(torch.__all__) > 600
    sorted({"add", "Tensor", "float32", "nn", "compile", "vmap", "no_grad"} - set(torch.__all__))
    exec("from torch import *", n := {}); sorted({"add", "Tensor", "float32", "zeros", "save"} - set(n))
    exec("from torch import *", n := {}); sorted({"compile", "load", "sym_max", "vmap", "typename"} - set(n))
    exec("from torch.nn import *", n := {}); "Linear" in n, "functional" in n
    exec("from torch.nn.functional import *", n := {}); "relu" in n
    exec("from torch.optim import *", n := {}); "Adam" in n
    {"nn", "optim", "cuda", "save", "compile", "float32", "distributed", "fx"} <= set(dir(torch))
    {"linear", "relu"} <= set(dir(torch.nn.functional)), {"Linear"} <= set(dir(torch.nn))
    torch.functional.einsum is torch.einsum, torch.functional.norm is torch.norm
    torch.functional.__all__[:4]
    torch._tensor.Tensor is torch.Tensor, torch._tensor._convert([v], torch.Tensor)
    torch._VF.__class__, torch._VF.add(v, v)
    torch._VF.lstm, torch._VF.nonsense
    torch._linalg_utils.is_sparse(v), torch._linalg_utils.matmul(None, x) is x
    torch._linalg_utils.get_floating_dtype(i), torch._linalg_utils.bform(x, None, x)
    torch._linalg_utils.symeig(x @ x.T)
    torch._linalg_utils.basis(x).shape, torch._linalg_utils.qform(x, x)
    torch._lowrank.svd_lowrank(x)[1].shape
    torch.autograd.variable.Variable, torch.autograd.Variable
    torch.types.Number, torch.types.Device
    torch.types._int, torch.types._float, torch.types._bool, torch.types._size
    torch.return_types.max, torch.return_types.max.__module__
    torch.return_types.max.n_fields, torch.return_types.max.n_sequence_fields, torch.return_types.max.n_unnamed_fields
    torch.return_types.max([v, i])
    torch.return_types.max((v, i)).values
    torch.return_types.max([v])
    torch.return_types.max(3)
    torch.return_types.qr((v, v))
    v.max(0), type(v.max(0))
    tuple(v.max(0)), v.max(0)[1], v.max(0).indices
    v.max(0)._fields
    copy.copy(v.max(0))
    torch.linalg.qr(x).Q.shape, torch.return_types.linalg_qr
    torch.return_types.all_return_types[:2] if hasattr(torch.return_types, "all_return_types") else None
    len(torch.return_types.__all__)
    torch.PRIVATE_OPS, torch.FatalError, issubclass(torch.FatalError, Exception)
    torch._awaits, torch._C._awaits if hasattr(torch._C, "_awaits") else None
    import torch.optim._multi_tensor as m; m.partialclass
    import torch.optim._multi_tensor as m; m.Adam([g]).defaults["foreach"]
    torch.utils.backcompat.broadcast_warning.enabled, torch.utils.backcompat.keepdim_warning.enabled
    torch.utils.backcompat.broadcast_warning.enabled = True; torch.utils.backcompat.broadcast_warning.enabled
    torch._utils._import_dotted_name("torch.nn.Linear")
    torch._utils._import_dotted_name("torch.nonsense")
    torch._utils._rebuild_tensor(v.storage(), 1, (2,), (1,))
    torch._utils._rebuild_tensor_v2(v.storage(), 0, (3,), (1,), True, {})
    torch._utils._rebuild_parameter(v, True, {})
    torch._utils._rebuild_sparse_tensor(torch.sparse_coo, (torch.tensor([[0]]), torch.tensor([1.0]), (2,), True))
    torch._utils._element_size(torch.float64), torch._utils._element_size(torch.bool)
    torch._utils._type(v, "torch.DoubleTensor"), torch._utils._to(v, torch.device("cpu"))
    torch._utils._take_tensors([v, v], 12).__next__()
    torch._utils._reorder_tensors_as([v], [v])
    torch._utils.classproperty(lambda c: 3).__get__(None, int)
    torch._utils.render_call(torch.add, (1, 2), {"out": None})
    torch._utils.is_compiling(), torch._utils._is_compiling() if hasattr(torch._utils, "_is_compiling") else None
    torch._utils.ExceptionWrapper.__name__, torch._utils.KeyErrorMessage("a")
        torch.multiprocessing._atfork, torch.multiprocessing.reductions.StorageWeakRef
    w = torch.multiprocessing.reductions.StorageWeakRef(v.untyped_storage()); w.expired()
    a = torch.ones(2); w = torch.multiprocessing.reductions.StorageWeakRef(a.untyped_storage()); del a; w.expired()
    w = torch.multiprocessing.reductions.StorageWeakRef(v.untyped_storage()); w == torch.multiprocessing.reductions.StorageWeakRef(v.untyped_storage())
    torch.multiprocessing.reductions.rebuild_tensor(torch.Tensor, v.storage(), (0, (3,), (1,), False))
    sorted(torch.multiprocessing.get_all_sharing_strategies()), torch.multiprocessing.get_sharing_strategy()
    torch.version.git_version is not None, torch.version.cuda, torch.version.debug, torch.version.hip
    torch.__config__.show().__class__, torch.__config__.parallel_info().__class__
    torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True); torch.__future__.get_swap_module_params_on_conversion()
    torch.hub._hub_dir, torch.hub.VAR_DEPENDENCY
    """)  # fmt: skip

FAMILIES["checks"] = lines("""
    torch._check(True), torch._check(False)
    torch._check(False, lambda: "words")
    torch._check(False, "words")
    torch._check(3)
    torch._check(v)
    torch._check_index(False, lambda: "i"), torch._check_value(True)
    torch._check_value(False)
    torch._check_type(False, lambda: "t")
    torch._check_not_implemented(False)
    torch._check_with(KeyError, False, lambda: "k")
    torch._check_with(KeyError, True)
    torch._check_with(3, False, lambda: "k")
    torch._check_with(KeyError, 1, lambda: "k")
    torch._check_is_size(3)
    torch._check_is_size(-1)
    torch._check_is_size(-1, lambda: "neg")
    torch._check_is_size(3, max=2)
    torch._check_tensor_all(b)
    torch._check_tensor_all(torch.tensor([True]), lambda: "all")
    torch._check_tensor_all(v)
    torch._check_tensor_all(3)
    torch._check_tensor_all_with(KeyError, b, lambda: "k")
    torch._constrain_as_size(3)
    torch._constrain_as_size(-1)
    torch._constrain_as_size(torch.tensor(3))
    torch.sym_constrain_range(3, min=1, max=5), torch.sym_constrain_range_for_size(3)
    torch._assert(True, "m")
    torch._assert(False, "m")
    torch._assert(v > 0, "m")
    torch._assert_async(torch.tensor(1)), torch._assert_async(torch.tensor(True), "words")
    torch._assert_async(torch.tensor(0))
    torch._assert_async(torch.tensor(0), "words")
    torch.sym_int(2.5), torch.sym_float(2), torch.sym_max(1, 2), torch.sym_min(1, 2.5), torch.sym_not(True)
    torch.sym_ite(True, 1, 2), torch.sym_sum([1, 2]), torch.sym_sqrt(4), torch.sym_int(-2.5)
    torch.sym_float(type("S", (), {"__sym_float__": lambda s: 7.0})())
    torch.sym_int(type("S", (), {"__int__": lambda s: 7})())
    torch.sym_max(type("S", (), {"__sym_max__": lambda s, o: "mine"})(), 3)
    torch.sym_float("a")
    torch.sym_not(type("S", (), {"__sym_not__": lambda s: "not"})())
    torch.sym_sqrt(type("S", (), {"__sym_sqrt__": lambda s: "root"})())
    torch._sym_sin(0.0), torch._sym_cos(0.0), torch._sym_sqrt(9.0)
    torch.SymInt, torch.SymFloat, torch.SymBool
    torch.sym_fresh_size
    """)  # fmt: skip

_C_SAMPLE = [
    "Generator",
    "device",
    "dtype",
    "Size",
    "TensorBase",
    "_TensorBase",
    "layout",
    "memory_format",
    "Stream",
    "Event",
    "_VariableFunctionsClass",
    "_FunctionBase",
    "_LegacyVariableBase",
    "_ImperativeEngine",
    "has_openmp",
    "has_mkl",
    "has_lapack",
    "has_mkldnn",
    "default_generator",
    "_jit_init",
    "_get_default_device",
    "_get_tracing_state",
    "_set_grad_enabled",
    "is_grad_enabled",
    "_is_torch_function_enabled",
    "_disabled_torch_function_impl",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "DispatchKey",
    "DispatchKeySet",
    "FileCheck",
    "Future",
    "StorageBase",
    "_LinAlgError",
    "OutOfMemoryError",
    "_OutOfMemoryError",
    "_DistBackendError",
    "_DistError",
    "_get_deterministic_algorithms",
    "get_num_threads",
    "set_num_threads",
    "_get_cudnn_enabled",
    "_set_cudnn_enabled",
    "_get_cudnn_benchmark",
    "_get_cublas_allow_tf32",
    "_get_flash_sdp_enabled",
    "_get_math_sdp_enabled",
    "_get_mkldnn_enabled",
    "_set_deterministic_algorithms",
    "_get_warnAlways",
    "_from_dlpack",
    "_to_dlpack",
    "autocast_increment_nesting",
    "is_autocast_enabled",
    "set_autocast_enabled",
    "is_inference_mode_enabled",
    "_InferenceMode",
    "_AutoDispatchBelowAutograd",
    "_DisableTorchDispatch",
    "_current_graph_task_id",
    "_dispatch_has_kernel",
    "_dispatch_keys",
    "_jit_get_all_schemas",
    "_jit_get_schemas_for_operator",
    "parse_schema",
    "FunctionSchema",
    "Argument",
    "TensorType",
    "ListType",
    "OptionalType",
    "Type",
    "ScriptModule",
    "_get_privateuse1_backend_name",
    "_rename_privateuse1_backend",
    "_get_accelerator",
    "_multiprocessing_init",
    "_group_tensors_by_device_and_dtype",
    "_infer_size",
    "_remove_worker_pids",
    "_set_worker_pids",
    "_error_if_any_worker_fails",
    "_set_worker_signal_handlers",
    "_get_qengine",
    "_supported_qengines",
    "_log_api_usage_once",
    "_parse_dispatch_key",
    "_sobol",
    "BenchmarkConfig",
    "ThroughputBenchmark",
    "_show_config",
    "_parallel_info",
    "_cxx_flags",
    "_crash_if_csrc_asan",
    "_demangle",
    "_is_cached_tensor",
    "_add_cached_tensor",
    "_set_default_tensor_type",
    "_set_default_dtype",
    "_set_num_interop_threads",
    "_ensureCUDADeviceGuardSet",
    "_autograd_init",
    "_add_docstr",
    "_has_torch_function_variadic",
    "_has_torch_function",
    "_has_torch_function_unary",
    "_len_torch_function_stack",
    "_get_linalg_preferred_backend",
    "_get_blas_preferred_backend",
]
FAMILIES["facade"] = (
    each('callable(getattr(torch._C, "@", None)) or getattr(torch._C, "@", "nothing").__class__.__name__', _C_SAMPLE)
    + lines("""
    torch._C.Generator is torch.Generator, torch._C.device is torch.device, torch._C.Size is torch.Size
    issubclass(torch.Tensor, torch._C.TensorBase), torch._C._TensorBase is torch._C.TensorBase
    torch._C._nn.gelu(x), torch._C._nn.linear(x, x), torch._C._nn.softplus(v)
    torch._C._nn.scaled_dot_product_attention(x[None], x[None], x[None]).shape
    torch._C._nn.avg_pool2d(x[None], 2), torch._C._nn.pad(v, (1, 1)), torch._C._nn.one_hot(i)
    torch._C._nn.cross_entropy_loss(x, torch.tensor([0, 1])), torch._C._nn.mse_loss(v, v)
    torch._C._fft.fft_fft(v), torch._C._linalg.linalg_inv(x), torch._C._special.special_erf(v)
    torch._C._VariableFunctions.add(v, v), torch._C._VariableFunctions.zeros(2)
    torch._C._VariableFunctions._softmax(v, 0, False)
    torch._C._get_tracing_state(), torch._C._is_torch_function_enabled(), torch._C._get_cudnn_enabled()
    torch._C._get_deterministic_algorithms(), torch._C._get_warnAlways(), torch._C._get_cublas_allow_tf32()
    torch._C._set_grad_enabled(False); torch.is_grad_enabled()
    torch._C.is_grad_enabled(), torch._C.is_inference_mode_enabled(), torch._C.is_autocast_enabled()
    torch._C.has_openmp, torch._C.has_lapack, torch._C._has_mps, torch._C._has_cudnn
    torch._C._infer_size(torch.Size((2, 1)), torch.Size((3,)))
    torch._C._infer_size(torch.Size((2,)), torch.Size((3,)))
    torch._C._group_tensors_by_device_and_dtype([[v, i]], False)
    torch._C._onnx.TensorProtoDataType.FLOAT, torch._C._onnx.OperatorExportTypes.ONNX
    torch._C._onnx.TrainingMode.EVAL, torch._C._onnx.PRODUCER_VERSION
    torch._C._onnx.TensorProtoDataType.__members__["INT64"]
    torch._C._FunctionBase, issubclass(torch.autograd.Function, torch._C._FunctionBase)
    torch._C._autograd.DeviceType.CUDA, torch._C._autograd.ProfilerActivity.CPU
    torch._C.default_generator is torch.default_generator
    torch._C._parallel_info().__class__, torch._C._show_config().__class__
    torch._C._get_privateuse1_backend_name(), torch._C._get_accelerator()
    torch._C._from_dlpack(torch._C._to_dlpack(v))
    torch._C._dispatch_has_kernel("aten::add.Tensor"), torch._C._dispatch_has_kernel("aten::nonsense")
    torch._C.DispatchKey.CPU, torch._C._parse_dispatch_key("CUDA")
    torch._C._jit_get_schemas_for_operator("aten::relu")
    torch._C.parse_schema("f(Tensor x, int y=3) -> Tensor")
    torch._C.nonsense
    from torch._C import _nonsense; 3
    torch._C._len_torch_function_stack(), torch._C._has_torch_function((v,)), torch._C._has_torch_function_unary(v)
    torch._C._cast_Float if hasattr(torch._C, "_cast_Float") else None
    torch._cast_Float(i), torch._cast_Int(v), torch._cast_Half(v)
    torch.dtype.__module__, torch.Generator.__module__, torch.Tensor.__module__
    torch.Generator(), repr(torch.default_generator)[:16]
    """)
)  # fmt: skip
