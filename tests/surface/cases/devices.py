"""Devices, streams, events, graphs, and the settings of backends."""

from .lines import each, lines

FAMILIES = {}

_STRINGS = """mps xpu privateuseone hpu mtia xla ipu hip ve fpga maia vulkan lazy opengl opencl meta cpu
    cuda:1 mps:0 xpu:3"""
FAMILIES["device_strings"] = each('torch.device("@")', _STRINGS) + each(
    'torch.device("@").type, torch.device("@").index', "mps xpu:2 privateuseone cpu:0"
) + each('torch.zeros(1, device="@")', "xpu hpu privateuseone meta") + lines("""
    torch.device("cpu", 0), torch.device("cpu:1")
    str(torch.device("xpu:1")), repr(torch.device("mps"))
    torch.device("cuda:0") == torch.device("cuda", 0), torch.device("cuda") == torch.device("cuda:0")
    pickle.loads(pickle.dumps(torch.device("mps")))
    copy.deepcopy(torch.device("cuda:1"))
    torch.device("cpu").__reduce__()
    torch.device("cpu").index = 3
    torch.device.__module__, torch.dtype.__module__, torch.Size.__module__
    torch.layout.__module__, torch.memory_format.__module__, torch.qscheme.__module__
    type(torch.device("cpu")), type(torch.float32), type(torch.strided), type(torch.Size([1]))
    torch.typename(v), torch.typename(torch.device("cpu")), torch.typename(torch.float32), torch.typename(3)
    torch.typename(torch.Size([1])), torch.typename(nn.Linear(1, 1)), torch.typename(nn.Linear), torch.typename([1])
    pickle.dumps(torch.float32, 0), pickle.dumps(torch.Size([2]), 0)
    pickle.loads(pickle.dumps(torch.Size([2, 3]))), pickle.loads(pickle.dumps(torch.float16)) is torch.float16
    copy.copy(torch.float32) is torch.float32, copy.deepcopy(torch.strided) is torch.strided
    with_device = torch.device("meta"); with_device.__enter__(); torch.zeros(2).device
    torch.legacy_contiguous_format, torch.contiguous_format
    torch.zeros(2, 3).contiguous(memory_format=torch.legacy_contiguous_format).shape
    torch.get_device(v), v.get_device()
    torch.get_device_module("cpu"), torch.get_device_module()
    torch.get_device_module("nonsense")
    torch.utils.rename_privateuse1_backend("foo"); torch.device("foo:1"), torch.device("privateuseone:2")
    torch.utils.rename_privateuse1_backend("foo"); torch._C._get_privateuse1_backend_name()
    torch.utils.rename_privateuse1_backend("foo"); torch.utils.rename_privateuse1_backend("bar")
    torch.utils.rename_privateuse1_backend("cuda")
    torch._register_device_module("foo", object())
    torch._register_device_module("privateuseone", sys); torch.privateuseone is sys
    torch._register_device_module("privateuseone", sys); torch._register_device_module("privateuseone", sys)
    torch.utils.generate_methods_for_privateuse1_backend
    torch.utils.rename_privateuse1_backend("foo"); torch.utils.generate_methods_for_privateuse1_backend(for_module=False); v.is_foo
    torch.utils.backend_registration._get_custom_mod_func("x")
    torch._utils._get_available_device_type(), torch._utils._get_device_index("cuda:1")
    torch._utils._get_device_index(3), torch._utils._get_device_index("cpu", allow_cpu=True)
    torch._utils._get_device_index("cpu")
    torch.accelerator.is_available(), torch.accelerator.device_count()
    torch.accelerator.current_accelerator()
    torch.accelerator.current_device_index()
    torch.accelerator.synchronize()
    torch.xpu.is_available(), torch.xpu.device_count(), torch.mtia.is_available(), torch.mtia.device_count()
    torch.has_cuda, torch.has_cudnn, torch.has_mps, torch.has_mkldnn, torch.has_mkl, torch.has_lapack
    torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.is_initialized()
    torch.cuda.has_half, torch.cuda.has_magma
    """)  # fmt: skip

FAMILIES["streams"] = lines("""
    torch.Stream("cpu")
    torch.Stream(device="cpu")
    torch.Stream()
    torch.Stream("cpu", priority=0)
    torch.Stream("nonsense")
    torch.Stream(3)
    torch.Event()
    torch.Event(device="cpu")
    torch.Event("cpu")
    torch.Stream.__module__, torch.Event.__module__, torch.Stream.__name__
    torch.cpu.Stream(), torch.cpu.current_stream()
    torch.cpu.current_device(), torch.cpu.device_count(), torch.cpu.is_initialized()
    torch.cpu.stream(None).__class__
    torch.cpu.synchronize(), torch.cpu.set_device("cpu")
    torch.cuda.current_device()
    torch.cuda.get_device_name()
    torch.cuda.Stream()
    torch.cuda.CUDAGraph is not None
    hasattr(torch.cuda.CUDAGraph, "instantiate"), hasattr(torch.cuda.CUDAGraph, "debug_dump")
    torch.cuda.stream(None) is not None
    torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    torch.cuda.empty_cache()
    torch.cuda.manual_seed(3), torch.cuda.manual_seed_all(3)
    torch.cuda.seed()
    torch.cuda.synchronize()
    torch.cuda.get_device_capability()
    torch.cuda.mem_get_info()
    torch.cuda.get_rng_state_all()
    torch.cuda.init()
    torch.cuda.is_bf16_supported()
    torch.nn.parallel.replicate(nn.Linear(1, 1), [])
    torch.nn.parallel.scatter_gather.is_namedtuple(v.max(0)), torch.nn.parallel.scatter_gather.is_namedtuple(3)
    torch.nn.parallel.gather([], "cpu")
    torch.nn.parallel.parallel_apply([nn.Identity(), nn.Identity()], [v])
    torch.nn.parallel.parallel_apply([], [])
    torch.nn.parallel.data_parallel(nn.Identity(), v)
    """)

_BACKENDS = (
    "cuda cudnn mps mkl mkldnn openmp opt_einsum nnpack kleidiai miopen cusparselt mha quantized"
)
FAMILIES["backends"] = (
    each("torch.backends.@.is_available()", "cudnn mps mkl mkldnn openmp nnpack kleidiai miopen cusparselt")
    + each("torch.backends.@", _BACKENDS)
    + each("torch.backends.cudnn.@", "enabled benchmark deterministic allow_tf32 benchmark_limit fp32_precision")
    + each("torch.backends.cudnn.@ = 1", "enabled benchmark deterministic allow_tf32")
    + each("torch.backends.cudnn.@ = True; torch.backends.cudnn.@", "enabled benchmark deterministic allow_tf32")
    + each("torch.backends.cuda.matmul.@", """allow_tf32 fp32_precision
        allow_fp16_reduced_precision_reduction allow_bf16_reduced_precision_reduction
        allow_fp16_accumulation""")
    + each("torch.backends.cuda.@()", """flash_sdp_enabled mem_efficient_sdp_enabled math_sdp_enabled
        cudnn_sdp_enabled preferred_linalg_library preferred_blas_library is_built
        fp16_bf16_reduction_math_sdp_allowed preferred_rocm_fa_library is_flash_attention_available""")
    + each("torch.backends.@.fp32_precision", "cudnn.conv cudnn.rnn mkldnn.matmul mkldnn.conv mkldnn.rnn cuda.matmul mkldnn")
    + each('torch.backends.@.fp32_precision = "ieee"; torch.backends.@.fp32_precision',
           "cudnn.conv cudnn.rnn mkldnn.matmul mkldnn.conv mkldnn.rnn cuda.matmul mkldnn cudnn")
    + each('torch.backends.@.fp32_precision = "nonsense"', "cudnn.conv mkldnn.matmul cuda.matmul")
    + lines("""
    torch.backends.fp32_precision
    torch.backends.fp32_precision = "ieee"; torch.backends.fp32_precision, torch.backends.cudnn.fp32_precision
    torch.backends.fp32_precision = "tf32"; torch.backends.cudnn.conv.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision
    torch.backends.fp32_precision = "nonsense"
    torch.backends.flags(fp32_precision="ieee").__enter__(); torch.backends.fp32_precision
    torch.backends.flags_frozen()
    torch.backends.disable_global_flags(); torch.backends.flags_frozen()
    torch.backends.disable_global_flags(); torch.backends.cudnn.enabled = False
    torch.backends.disable_global_flags(); torch.backends.cudnn.flags(enabled=False).__enter__(); torch.backends.cudnn.enabled
    torch.backends.cudnn.flags(enabled=False, benchmark=True).__enter__(); torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark
    torch.backends.cudnn.set_flags(_enabled=False); torch.backends.cudnn.enabled
    torch.backends.cudnn.version()
    torch.backends.cudnn.is_acceptable(v)
    torch.backends.cudnn.nonsense
    torch.backends.mkldnn.enabled, torch.backends.mkldnn.deterministic, torch.backends.mkldnn.allow_tf32
    torch.backends.mkldnn.set_flags(False); torch.backends.mkldnn.enabled
    torch.backends.mkldnn.flags(enabled=False).__enter__(); torch.backends.mkldnn.enabled
    torch.backends.mkldnn.verbose(0).__class__, torch.backends.mkl.verbose(0).__class__
    torch.backends.mkldnn.VERBOSE_OFF, torch.backends.mkl.VERBOSE_ON
    torch.backends.mkldnn.verbose(7).__enter__()
    torch.backends.nnpack.flags(enabled=False).__enter__(); torch.backends.nnpack.is_available()
    torch.backends.nnpack.set_flags(True)
    torch.backends.opt_einsum.is_available() in (True, False), torch.backends.opt_einsum.strategy
    torch.backends.opt_einsum.strategy = "nonsense"
    torch.backends.opt_einsum.enabled = "a"
    torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False); torch.backends.mha.get_fastpath_enabled()
    torch.backends.cusparselt.version(), torch.backends.cusparselt.get_max_alg_id()
    torch.backends.cuda.preferred_linalg_library("nonsense")
    torch.backends.cuda.preferred_linalg_library(3)
    torch.backends.cuda.preferred_blas_library("nonsense")
    torch.backends.cuda.preferred_blas_library(3)
    torch.backends.cuda.cufft_plan_cache
    torch.backends.cuda.cufft_plan_cache[0]
    torch.backends.cuda.enable_flash_sdp(False); torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.enable_math_sdp(False); torch.backends.cuda.math_sdp_enabled()
    torch.backends.cuda.enable_mem_efficient_sdp(1)
    torch.backends.cuda.sdp_kernel(enable_flash=False).__class__
    torch.backends.cuda.matmul.allow_tf32 = True; torch.get_float32_matmul_precision()
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False; torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = (True, False); torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    torch.backends.cuda.matmul.nonsense
    torch.backends.cuda.matmul.nonsense = 1
    torch.backends.quantized.engine, torch.backends.quantized.supported_engines
    torch.backends.quantized.engine = "nonsense"
    torch.backends.miopen.immediate
    torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    torch.backends.__all__ if hasattr(torch.backends, "__all__") else None
    torch._C._ConvBackend.Slow2d, torch._C._ConvBackend.Empty
    torch._C._select_conv_backend(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    torch._C._BlasBackend.Cublas, torch._C._LinalgBackend.Cusolver
    """)
)  # fmt: skip
