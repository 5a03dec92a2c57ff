"""What tritorch did otherwise: dtypes, constructors, defaults, settings, inference, sparse."""

from .lines import each, lines

FAMILIES = {}

_BUILTIN = "float int bool complex"
FAMILIES["builtin_dtypes"] = [
    line
    for pattern in [
        "",
        "torch.zeros(2, dtype=@)",
        "torch.ones(2, 1, dtype=@)",
        "torch.tensor([1, 0], dtype=@)",
        "torch.as_tensor([1.5, 0], dtype=@)",
        "torch.empty(2, dtype=@).dtype",
        "torch.full((2,), 1, dtype=@)",
        "torch.arange(3, dtype=@)",
        "x.to(@)",
        'x.to("cpu", @)',
        "x.to(dtype=@)",
        "x.sum(dtype=@)",
        "x.sum(0, dtype=@)",
        "x.prod(dtype=@)",
        "x.cumsum(0, dtype=@)",
        "torch.zeros_like(x, dtype=@)",
        "torch.rand_like(x, dtype=@).dtype",
        "x.new_zeros(2, dtype=@)",
        "x.new_tensor([1, 2], dtype=@)",
        "x.type(@)",
        "torch.softmax(x, 0, dtype=@)",
        "torch.can_cast(@, torch.float32)",
        "torch.promote_types(@, torch.int8)",
        "nn.Linear(1, 1, dtype=@).weight.dtype",
        "nn.Linear(1, 1).to(@).weight.dtype",
        "torch.eye(2, dtype=@)",
        "torch.linspace(0, 1, 3, dtype=@)",
        "torch.randn(1, dtype=@).dtype",
        "torch.result_type(x, @)",
        "torch.finfo(@).eps",
        "torch.iinfo(@).max",
        "x.view(@)",
        "torch.set_default_dtype(@)",
        "",
    ]
    if pattern.strip()
    for line in each(pattern.strip(), _BUILTIN)
]

FAMILIES["dlpack"] = lines("""
    a = torch.from_dlpack(v); a[0] = 9; v
    a = torch.from_dlpack(v, copy=True); a[0] = 9; v, a
    a = torch.from_dlpack(v, copy=False); a[0] = 9; v
    torch.from_dlpack(v, device="cpu")
    torch.from_dlpack(np.arange(3.0))
    torch.from_dlpack(np.arange(3.0), copy=True)
    a = torch.from_dlpack(torch.utils.dlpack.to_dlpack(v)); a[0] = 7; v
    torch.to_dlpack(v) is not None
    a = torch.from_dlpack(torch.to_dlpack(v)); a.add_(1); v
    torch.from_dlpack(torch.utils.dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()
    c = torch.utils.dlpack.to_dlpack(v); torch.from_dlpack(c); torch.from_dlpack(c)
    v.__dlpack_device__()
    torch.from_dlpack(g)
    torch.utils.dlpack.to_dlpack(g)
    torch.from_dlpack(3)
    v.__dlpack__(max_version=(1, 0)) is not None
    v.__dlpack__(stream=1)
    v.__dlpack__(copy=True) is not None
    v.__dlpack__(dl_device=(1, 0)) is not None
    torch.from_dlpack(torch.tensor([1 + 2j]).conj())
    """)

FAMILIES["resizing_what_is_numpys"] = lines("""
    a = torch.from_numpy(np.zeros(2)); a.resize_(100)
    a = torch.from_numpy(np.zeros(2)); a.resize_(2)
    a = torch.from_numpy(np.zeros(4)); a.resize_(2)
    torch.from_numpy(np.zeros(2)).untyped_storage().resizable()
    torch.zeros(2).untyped_storage().resizable()
    torch.from_numpy(np.zeros(2)).untyped_storage().resize_(64)
    torch.from_numpy(np.zeros(2)).storage().resizable()
    torch.frombuffer(bytearray(8), dtype=torch.float32).resize_(9)
    torch.frombuffer(bytearray(8), dtype=torch.float32).untyped_storage().resizable()
    torch.from_dlpack(v).untyped_storage().resizable()
    a = torch.from_dlpack(np.zeros(2)); a.resize_(5)
    """)

FAMILIES["constructors"] = lines("""
    torch.Tensor(v.untyped_storage())
    torch.Tensor(v.untyped_storage()).data_ptr() == v.data_ptr()
    torch.Tensor(torch.tensor([1, 2]).untyped_storage()).shape
    torch.Tensor(v.storage())
    torch.Tensor(torch.tensor([1, 2]).storage())
    torch.FloatTensor(v.storage())
    torch.LongTensor(torch.tensor([1, 2]).storage())
    torch.Tensor(3.5)
    torch.Tensor([1], dtype=torch.float64)
    torch.Tensor([1], device="cpu")
    torch.Tensor(2, 3).shape
    torch.Tensor()
    torch.Tensor([])
    torch.Tensor(v)
    torch.Tensor(torch.tensor([1, 2]))
    torch.Tensor((1, 2))
    torch.Tensor([[1, 2], [3, 4]])
    torch.Tensor(torch.Size([2, 2])).shape
    torch.Tensor("a")
    torch.Tensor(True)
    torch.Tensor(None)
    torch.Tensor([1, "a"])
    torch.Tensor(2, "a")
    torch.Tensor(-1)
    torch.Tensor(1, -1)
    torch.Tensor(data=[1])
    torch.Tensor(requires_grad=True)
    torch.Tensor(device="meta")
    torch.Tensor(2, device="meta")
    torch.autograd.Variable([1])
    torch.autograd.Variable(v)
    torch.autograd.Variable(v, requires_grad=True)
    torch.autograd.Variable(v, volatile=True)
    torch.autograd.Variable()
    torch.autograd.Variable(3)
    torch.ByteTensor([300])
    torch.ByteTensor([-1])
    torch.ByteTensor([1.5])
    torch.CharTensor([200])
    torch.ShortTensor([40000])
    torch.IntTensor([2**31])
    torch.LongTensor([2**63])
    torch.LongTensor([1.5])
    torch.BoolTensor([2, 0])
    torch.HalfTensor([1, 2])
    torch.BFloat16Tensor([1, 2])
    torch.DoubleTensor([1, 2])
    torch.IntTensor(2).shape, torch.IntTensor(2).dtype
    torch.FloatTensor(torch.tensor([1, 2]))
    torch.LongTensor(v)
    torch.FloatTensor([1], device="cpu")
    torch.FloatTensor([1], device="meta")
    torch.tensor([300], dtype=torch.uint8)
    torch.tensor(-1, dtype=torch.uint8)
    torch.tensor(2**40, dtype=torch.int32)
    torch.tensor([2**70])
    torch.int32.to_complex()
    torch.bool.to_complex()
    torch.float32.to_complex(), torch.float16.to_complex(), torch.float64.to_complex()
    torch.bfloat16.to_complex()
    torch.complex64.to_real(), torch.complex128.to_real()
    torch.int32.to_real()
    torch.complex64.to_complex()
    torch.Generator().set_state(torch.zeros(5, dtype=torch.uint8))
    torch.Generator().set_state(torch.zeros(5))
    torch.Generator().set_state([1])
    torch.Generator().get_state().shape
    torch.Generator("cpu").device
    torch.Generator("meta")
    torch.Generator("cuda")
    torch.Generator(3)
    torch.device("cuda:300")
    torch.device("cuda:127")
    torch.device("cuda:-1")
    torch.device("cuda", 300)
    torch.device("cuda", -1)
    torch.device("cuda:01")
    torch.device("cuda:")
    torch.device("cuda:1a")
    torch.device("cuda: 1")
    torch.device("cpu:0"), torch.device("cpu", 1)
    torch.device("cpu") == torch.device("cpu:0")
    torch.device("foo")
    torch.device(1.5)
    torch.device(None)
    torch.device(type="cuda", index=1)
    torch.device(torch.device("cpu"))
    torch.device(torch.device("cuda:1"), 0)
    torch.device("cuda:1").index, torch.device("cuda").index
    hash(torch.device("cpu")) == hash(torch.device("cpu"))
    """)

_TYPES = """torch.DoubleTensor torch.HalfTensor torch.BFloat16Tensor torch.FloatTensor
    torch.LongTensor torch.cuda.FloatTensor torch.float64 "torch.DoubleTensor"
    "torch.cuda.FloatTensor" "nonsense" torch.IntTensor 3"""
FAMILIES["default_types"] = (
    each("torch.set_default_tensor_type(@)", _TYPES)
    + each("torch.set_default_tensor_type(@); torch.get_default_dtype(), torch.Tensor([1]).dtype",
           'torch.DoubleTensor torch.HalfTensor "torch.DoubleTensor"')
    + each("torch.set_default_dtype(torch.@)", "float8_e4m3fn float8_e5m2 int32 float64 half complex64")
    + each("torch.set_default_dtype(torch.@); torch.tensor(1j).dtype, torch.tensor(1.0).dtype, "
           "torch.zeros(1).dtype, torch.complex(torch.zeros(1), torch.zeros(1)).dtype",
           "float16 bfloat16 float64")
    + lines("""
    torch.set_default_tensor_type(torch.cuda.FloatTensor)
    torch.set_default_dtype(torch.float64); torch.Tensor([1]).dtype, torch.Tensor(2).dtype
    torch.set_default_dtype("float64")
    torch.set_default_device("meta"); torch.zeros(2).device, torch.Tensor([1]).device
    torch.set_default_device("nonsense")
    torch.set_default_device(None); torch.get_default_device()
    torch.set_default_device("cpu"); torch.get_default_device()
    torch.get_default_dtype()
    """)
)  # fmt: skip

_SETTERS = """set_warn_always use_deterministic_algorithms set_deterministic_debug_mode
    set_flush_denormal set_num_threads set_num_interop_threads set_float32_matmul_precision
    set_anomaly_enabled set_printoptions set_grad_enabled"""
FAMILIES["settings"] = (
    each("torch.@(1)", _SETTERS) + each('torch.@("a")', _SETTERS) + each("torch.@(None)", _SETTERS)
    + lines("""
    torch.use_deterministic_algorithms(True, warn_only=1)
    torch.use_deterministic_algorithms(True); torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True); torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn"); torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode(3)
    torch.set_deterministic_debug_mode("nonsense")
    torch.set_warn_always(True); torch.is_warn_always_enabled()
    torch.set_float32_matmul_precision("nonsense"); torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high"); torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium"); torch.backends.cuda.matmul.allow_tf32
    torch.set_float32_matmul_precision("highest"); torch.backends.cuda.matmul.allow_tf32
    torch.set_num_threads(0)
    torch.set_num_threads(-1)
    torch.set_num_threads(1.5)
    torch.set_num_interop_threads(-1)
    torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = False; torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = 1
    torch.use_deterministic_algorithms(True); torch.empty(3)
    torch.use_deterministic_algorithms(True); torch.empty(2, dtype=torch.int32)
    torch.use_deterministic_algorithms(True); torch.empty_like(v), torch.empty_strided((2,), (1,))
    torch.use_deterministic_algorithms(True); v.new_empty(2), torch.zeros(1).resize_(3)[1:]
    torch.use_deterministic_algorithms(True); torch.utils.deterministic.fill_uninitialized_memory = False; torch.empty(2).shape
    """)
)  # fmt: skip

FAMILIES["inference"] = lines("""
    with_inference = torch.inference_mode(); with_inference
    torch.inference_mode()(lambda: torch.ones(1))().is_inference()
    a = torch.inference_mode()(torch.ones)(2); a.add_(1)
    a = torch.inference_mode()(torch.ones)(2); a[0] = 5; a
    a = torch.inference_mode()(torch.ones)(2); a.requires_grad_()
    a = torch.inference_mode()(torch.ones)(2); a.requires_grad = True
    a = torch.inference_mode()(torch.ones)(2); a._version
    a = torch.inference_mode()(torch.ones)(2); a * g[:2]
    a = torch.inference_mode()(torch.ones)(2); a + g[:2]
    a = torch.inference_mode()(torch.ones)(2); a.view(1, 2).is_inference()
    a = torch.inference_mode()(torch.ones)(2); a.clone().is_inference()
    a = torch.inference_mode()(torch.ones)(2); (a + 1).is_inference()
    a = torch.inference_mode()(torch.ones)(2); a.detach().is_inference()
    a = torch.inference_mode()(torch.ones)(2); a.data.is_inference()
    a = torch.inference_mode()(torch.ones)(2); torch.ones(2).copy_(a)
    a = torch.inference_mode()(torch.ones)(2); a.copy_(torch.zeros(2))
    a = torch.inference_mode()(torch.ones)(2); a.resize_(3).shape
    a = torch.inference_mode()(torch.ones)(2); a.set_(torch.ones(3))
    a = torch.inference_mode()(torch.ones)(2); torch.add(v[:2], 1, out=a)
    a = torch.inference_mode()(torch.ones)(2); torch.nn.Parameter(a).is_inference()
    a = torch.inference_mode()(torch.ones)(2); copy.deepcopy(a).is_inference()
    a = torch.inference_mode()(torch.ones)(2); a.t_()
    a = torch.inference_mode()(torch.ones)(2); a.zero_()
    a = torch.inference_mode()(torch.ones)(2); torch.mul(g[:2], a.clone())
    a = torch.inference_mode()(torch.ones)(2); (g[:2] * 2).add_(a)
    a = torch.inference_mode()(torch.ones)(2); (g[:2] * 2).mul_(a)
    torch.inference_mode(mode=False)(torch.ones)(1).is_inference()
    torch.inference_mode()(lambda: (g * 2).requires_grad)()
    torch.inference_mode()(lambda: g.add_(1))()
    torch.inference_mode()(lambda: v.add_(1)._version)()
    torch.inference_mode()(lambda: v.view(3).is_inference())()
    torch.is_inference_mode_enabled()
    torch.inference_mode()(torch.is_inference_mode_enabled)()
    torch.is_inference(v), v.is_inference()
    torch._C._InferenceMode(True) is not None
    """)

FAMILIES["sparse"] = lines("""
    torch.sparse.mm(x.to_sparse_csr(), x, "max")
    torch.sparse.mm(x.to_sparse_csr(), x, "sum")
    torch.sparse.mm(x.to_sparse_csr(), x, "mean")
    torch.sparse.mm(x.to_sparse_csr(), x, "amax")
    torch.sparse.mm(x.to_sparse_csr(), x, "amin")
    torch.sparse.mm(x.to_sparse_csr(), x, reduce="mean")
    torch.sparse.mm(x.to_sparse(), x, "mean")
    torch.sparse.mm(x.to_sparse_csr(), x, "nonsense")
    torch.sparse.mm(x, x)
    x.to_sparse().storage_offset()
    x.to_sparse_csr().storage_offset()
    x.to_sparse().stride()
    x.to_sparse_csr().stride()
    x.to_sparse().storage()
    x.to_sparse().untyped_storage()
    x.to_sparse().data_ptr()
    x.to_sparse().is_contiguous()
    x.to_sparse().sparse_dim(), x.to_sparse().dense_dim()
    x.sparse_dim()
    x.to_sparse()._nnz(), x.to_sparse().is_coalesced()
    torch.cuda.sparse.FloatTensor
    torch.sparse.FloatTensor
    torch.sparse.FloatTensor(torch.tensor([[0, 1]]), torch.tensor([1.0, 2.0]), torch.Size([3]))
    torch.sparse.DoubleTensor(2, 3)
    torch.cuda.sparse.DoubleTensor
    x.to_sparse().type()
    isinstance(x.to_sparse(), torch.sparse.FloatTensor)
    """)

FAMILIES["compile_backends"] = lines("""
    torch.compile(lambda x: x, backend="nonsense")
    torch.compile(lambda x: x, backend="nonsense")(v)
    torch.compile(lambda x: x, mode="nonsense")
    torch.compile(lambda x: x, options={"nonsense": 1})
    torch.compile(lambda x: x, mode="default", options={})
    torch.compile(3)
    torch.compile(lambda x: x, backend="inductor", mode="max-autotune") is not None
    torch._dynamo.exc.InvalidBackend
    torch._dynamo.exc.InvalidBackend("a")
    issubclass(torch._dynamo.exc.InvalidBackend, Exception)
    torch._dynamo.list_backends()
    torch.compiler.list_backends()
    "inductor" in torch._dynamo.list_backends(None)
    torch.compiler.is_compiling(), torch.compiler.is_dynamo_compiling(), torch.compiler.is_exporting()
    torch.compiler.disable(lambda: 3)()
    torch.compiler.set_stance("nonsense")
    torch.compiler.set_stance("force_eager") is not None
    """)

_QUIET = """
    torch.ones(2) / 0
    torch.zeros(2) / 0
    torch.log(torch.zeros(2))
    torch.log(-torch.ones(2))
    torch.exp(torch.full((2,), 1000.0))
    torch.sqrt(-torch.ones(2))
    torch.zeros(0).mean()
    torch.zeros(0).var()
    torch.zeros(1).std()
    torch.ones(2, dtype=torch.int32) // 0
    torch.ones(2, dtype=torch.int32) % 0
    torch.zeros(2).pow(-1)
    torch.full((2,), 1e38) * 1e38
    torch.full((2,), 70000.0).half()
    torch.tensor([float("nan")]).int().shape
    torch.tensor([1e20]).long().shape
    torch.acos(torch.tensor([2.0]))
    torch.atanh(torch.ones(1))
    torch.zeros(2).reciprocal()
    torch.zeros(2).rsqrt()
    torch.tensor([200], dtype=torch.uint8) * 2
    torch.logsumexp(torch.full((2,), -float("inf")), 0)
    torch.softmax(torch.full((2,), -float("inf")), 0)
    torch.linalg.inv(torch.zeros(2, 2))
    torch.xlogy(torch.zeros(1), torch.zeros(1))
    torch.special.gammaln(torch.zeros(1))
    torch.nansum(torch.tensor([float("nan")]))
    torch.tensor([1e300], dtype=torch.float64).float()
    torch.nn.functional.normalize(torch.zeros(2), dim=0)
    torch.cov(torch.zeros(1, 1))
    """
FAMILIES["numpy_is_quiet"] = [
    f'warnings.simplefilter("error"); {line}' for line in lines(_QUIET)
] + [
    'warnings.simplefilter("error"); y = torch.@(g * 0); y.sum().backward(); g.grad'.replace("@", n)
    for n in ["log", "sqrt", "reciprocal", "rsqrt", "exp", "sigmoid", "tanh", "abs", "sinh", "acos", "atanh", "log1p", "expm1"]
] + lines("""
    warnings.simplefilter("error"); (g / 0).sum().backward(); g.grad
    warnings.simplefilter("error"); (g[:0].mean()).backward(); g.grad
    warnings.simplefilter("error"); g.std().backward(); g.grad
    warnings.simplefilter("error"); (g * 1e38 * 1e38).sum().backward(); g.grad
    warnings.simplefilter("error"); g.prod().backward(); g.grad
    warnings.simplefilter("error"); (g * 0).norm().backward(); g.grad
    warnings.simplefilter("error"); np.seterr(all="raise"); torch.ones(1) / 0
""")  # fmt: skip
