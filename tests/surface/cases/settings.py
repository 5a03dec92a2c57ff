"""Deterministic mode, backends, warnings, absent GPUs, and the modules around: awaits, loaders, build."""

from .lines import each, lines

FAMILIES = {}

_D = "torch.use_deterministic_algorithms(True); "
FAMILIES["deterministic"] = [
    _D + line
    for line in lines("""
    v.put_(i, v)
    v.put_(i, v, accumulate=True)
    v.clone().index_add_(0, i, v)
    v.clone().index_copy_(0, i, v)
    v.clone().index_put_((i,), v)
    v.clone().index_put_((i,), v, accumulate=True)
    v.clone().scatter_add_(0, i, v)
    v.clone().scatter_(0, i, v)
    v.clone().scatter_reduce_(0, i, v, "prod")
    v.clone().index_reduce_(0, i, v, "prod")
    v.gather(0, i)
    v.cumsum(0)
    v.kthvalue(1)
    v.median()
    v.median(0)
    v.histc()
    torch.bincount(i)
    torch.bincount(i, v)
    v.repeat_interleave(2)
    F.max_unpool1d(torch.ones(1, 1, 1), torch.zeros(1, 1, 1, dtype=torch.int64), 2)
    F.max_unpool2d(torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.int64), 2)
    F.max_unpool3d(torch.ones(1, 1, 1, 1, 1), torch.zeros(1, 1, 1, 1, 1, dtype=torch.int64), 2)
    F.nll_loss(torch.zeros(1, 2, 2, 2), torch.zeros(1, 2, 2, dtype=torch.int64))
    F.ctc_loss(torch.zeros(2, 1, 2), torch.ones(1, 1, dtype=torch.int64), [2], [1])
    F.interpolate(x[None, None], scale_factor=2, mode="bilinear").shape
    F.embedding_bag(i[None], x).shape
    F.grid_sample(torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 1, 2))
    F.adaptive_avg_pool2d(x[None, None], 1)
    F.fractional_max_pool2d(torch.zeros(1, 1, 4, 4), 2, output_size=2).shape
    F.adaptive_max_pool2d(x[None, None], 1)
    F.pad(x[None, None], (1, 1, 1, 1), mode="reflect").shape
    v.take(i)
    v.resize_(5)[3:]
    v.clone().set_(torch.zeros(2).untyped_storage())
    torch.empty(2), torch.empty(1, dtype=torch.bool), torch.empty(1, dtype=torch.complex64)
    torch.use_deterministic_algorithms(True, warn_only=True); v.put_(i, v)
    torch.use_deterministic_algorithms(True, warn_only=True); F.max_unpool1d(torch.ones(1, 1, 1), torch.zeros(1, 1, 1, dtype=torch.int64), 2)
    torch.use_deterministic_algorithms(True, warn_only=True); torch.get_deterministic_debug_mode(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms("a")
    """)
] + lines("""
    torch.utils.deterministic
    torch.utils.deterministic.nonsense
    torch.utils.deterministic.nonsense = 1
    torch._C._get_deterministic_fill_uninitialized_memory(), torch._C._get_deterministic_algorithms_warn_only()
    torch._C._set_deterministic_algorithms(True, warn_only=True); torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_deterministic_debug_mode("error"); v.put_(i, v)
    torch.set_deterministic_debug_mode(True)
    torch.set_deterministic_debug_mode(-1)
    torch.set_deterministic_debug_mode(1.0)
    """)  # fmt: skip

FAMILIES["backends_whole"] = (
    each("torch.backends.@.__all__ if hasattr(torch.backends.@, '__all__') else None",
         "cuda cudnn mps mkl mkldnn openmp opt_einsum nnpack kleidiai mha quantized cusparselt cpu miopen")
    + each("torch._C._ConvBackend.@, int(torch._C._ConvBackend.@)", """CudaDepthwise2d CudaDepthwise3d Cudnn
        CudnnTranspose Empty Miopen MiopenDepthwise MiopenTranspose Mkldnn MkldnnEmpty NnpackSpatial Overrideable
        Slow2d Slow3d SlowDilated2d SlowDilated3d SlowTranspose2d SlowTranspose3d Winograd3x3Depthwise Xnnpack2d
        Mps""")
    + each("torch.backends.cuda.preferred_linalg_library(@)", """'magma' 'cusolver' 'default' None
        torch._C._LinalgBackend.Magma torch._C._LinalgBackend.Default 'MAGMA'""")
    + each("torch.backends.cuda.preferred_blas_library(@)", "'cublas' 'cublaslt' 'hipblaslt' 'default' 'ck' None")
    + each("torch.backends.cuda.preferred_rocm_fa_library(@)", "'aotriton' 'ck' 'default' None 'nonsense' 3")
    + each("torch.backends.cuda.@(torch.backends.cuda.SDPAParams(x[None,None],x[None,None],x[None,None],None,0.0,False,False))",
           "can_use_flash_attention can_use_efficient_attention can_use_cudnn_attention")
    + lines("""
    torch._C._ConvBackend.__members__.keys()
    torch._C._ConvBackend(3), torch._C._ConvBackend.Slow2d.name, torch._C._ConvBackend.Slow2d.value
    torch._C._conv_determine_backend_memory_format(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 3, 3), torch._C._ConvBackend.Slow2d)
    torch._C._conv_determine_backend_memory_format(torch.zeros(1, 2, 4, 4).to(memory_format=torch.channels_last), torch.zeros(1, 2, 3, 3), torch._C._ConvBackend.Mkldnn)
    torch._C._conv_determine_backend_memory_format(torch.zeros(1, 2, 4, 4).to(memory_format=torch.channels_last), torch.zeros(1, 2, 3, 3), torch._C._ConvBackend.Slow2d)
    torch._C._conv_determine_backend_memory_format(v, v, 3)
    torch._C._select_conv_backend(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 3, 3), None, [1, 1], [0, 0], [1, 1], True, [0, 0], 1)
    torch._C._select_conv_backend(torch.zeros(0, 1, 4, 4), torch.zeros(1, 1, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    torch._C._LinalgBackend.__members__.keys(), torch._C._BlasBackend.__members__.keys()
    torch._C._get_linalg_preferred_backend(), torch._C._get_blas_preferred_backend()
    torch.backends.cuda.preferred_linalg_library("magma"); torch.backends.cuda.preferred_linalg_library()
    torch.backends.cuda.SDPAParams, torch._C._SDPAParams, torch.nn.attention.SDPBackend.__members__.keys()
    torch.backends.cuda.cuBLASModule, torch.backends.cuda.cuFFTPlanCache, torch.backends.cuda.cuFFTPlanCacheManager
    torch.backends.cuda.cufft_plan_cache.size
    torch.backends.cuda.cufft_plan_cache.max_size
    torch.backends.cuda.cufft_plan_cache["a"]
    torch.backends.cuda.is_ck_sdpa_available()
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True); torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    torch.backends.cuda.enable_cudnn_sdp("a")
    torch.backends.cuda.matmul, torch.backends.cuda.matmul.__class__
    torch.backends.cuda.matmul.allow_tf32 = "a"
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False; torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    sorted(map(str, torch.backends.cudnn.CUDNN_TENSOR_DTYPES))
    torch.backends.cudnn.benchmark_limit = 3; torch.backends.cudnn.benchmark_limit
    torch.backends.cudnn.benchmark_limit = "a"
    torch.backends.cudnn.flags(nonsense=1)
    torch.backends.cudnn.rnn.fp32_precision, torch.backends.cudnn.conv.fp32_precision
    torch.backends.cudnn.rnn.get_cudnn_mode("nonsense")
    torch.backends.cudnn.is_acceptable(v)
    torch.backends.ContextProp, torch.backends.PropModule, torch.backends.GenericModule
    torch.backends.mps.is_built(), torch.backends.mps.is_macos13_or_newer(), torch.backends.mps.is_macos_or_newer(14, 0)
    torch.backends.mkldnn.is_acl_available(), torch.backends.mkldnn.VERBOSE_ON_CREATION
    torch.backends.mkldnn.set_flags(_deterministic=True); torch.backends.mkldnn.deterministic
    torch.backends.mkldnn.flags(enabled=True, nonsense=1)
    torch.backends.mkl.VERBOSE_OFF, torch.backends.mkl.verbose(3)
    torch.backends.opt_einsum.get_opt_einsum().__class__, torch.backends.opt_einsum.enabled
    torch.backends.opt_einsum.flags(enabled=False).__enter__(); torch.backends.opt_einsum.enabled, torch.backends.opt_einsum.strategy
    torch.backends.opt_einsum.set_flags(_enabled=False, _strategy=None)
    torch.backends.opt_einsum.strategy = "greedy"; torch.backends.opt_einsum.strategy
    torch.backends.opt_einsum.strategy = 3
    torch.backends.quantized.engine = "none"
    import torch.backends.xnnpack as m; m.enabled
    import torch.backends.xnnpack as m; m.enabled = True
    import torch.backends.xeon as m; m.__all__
    torch.backends.miopen.immediate = True; torch.backends.miopen.immediate
    torch.backends.cpu.get_cpu_capability().__class__, torch.cpu._is_avx2_supported().__class__
    torch.backends.cpu.get_cpu_capability.__module__
    torch.backends.python_native if hasattr(torch.backends, "python_native") else None
    torch.backends.nonsense
    """)
)  # fmt: skip

_GPU = """torch.zeros(1,device="cuda") v.cuda() v.to("cuda") torch.cuda.current_stream()
    torch.cuda.get_device_properties(0) torch.cuda.ipc_collect()
    torch.cuda.memory_reserved() torch.cuda.memory_stats()
    torch.cuda.utilization() torch.cuda.temperature() torch.cuda.can_device_access_peer(0,1) torch.cuda.get_arch_list()
    torch.cuda.get_gencode_flags()
    torch.cuda.get_rng_state() torch.cuda.set_rng_state(torch.zeros(16,dtype=torch.uint8)) torch.cuda.initial_seed()
    torch.cuda.default_stream() torch.cuda.amp.GradScaler().is_enabled() torch.cuda.device_of(v).__enter__()
    torch.cuda.get_sync_debug_mode() torch.cuda.set_sync_debug_mode(1) torch.cuda.cudart()
    torch.cuda.list_gpu_processes() torch.cuda.is_tf32_supported()
    torch.cuda.clock_rate() torch.cuda.power_draw() torch.cuda.nvtx.range_push("a") torch.cuda.FloatTensor([1])
    torch.cuda.set_per_process_memory_fraction(0.5) torch.cuda.caching_allocator_alloc(3) torch.cuda.host_memory_stats()
    v.pin_memory() v.is_pinned() torch.empty(2,pin_memory=True) torch.Generator("cuda").manual_seed(1)
    nn.Linear(1,1).cuda() nn.Linear(1,1).to("cuda") torch.ones(1,device="mps") torch.ones(1,device="xpu")
    torch.load(io.BytesIO(b"")) v.get_device() v.ipu() v.xpu() v.mtia() v.to("cuda:7") torch.tensor(1,device=0)
    torch.autocast("cuda").__enter__() torch.amp.GradScaler("cuda").is_enabled() torch.cuda.amp.autocast().__class__.__name__
    torch.mps.synchronize() torch.mps.manual_seed(1) torch.xpu.synchronize() torch.xpu.current_device() torch.mtia.synchronize()
    torch.mps.current_allocated_memory() torch.mps.is_available() torch.xpu.get_device_name() torch.xpu.Stream()
    torch.cuda.__all__[:3] torch.cuda.is_bf16_supported(False) torch.cuda.DeferredCudaCallError torch.cuda.CudaError
    torch.accelerator.current_stream() torch.accelerator.set_device_index(0) torch.accelerator.memory_allocated()"""
FAMILIES["no_gpu"] = each("@", _GPU)

FAMILIES["warnings_of"] = lines("""
    x.to_sparse_csr()
    torch.sparse_csr_tensor([0, 1], [0], [1.0], size=(1, 1))
    torch.sparse_csc_tensor([0, 1], [0], [1.0])
    x.to_sparse_bsr((1, 1))
    torch.sparse_bsc_tensor([0, 1], [0], [[[1.0]]])
    torch.sparse_compressed_tensor([0, 1], [0], [1.0], layout=torch.sparse_csr).layout
    x.to_sparse_csr(); x.to_sparse_csc().layout
    x.to_sparse_csr() @ x
    torch.zeros(2, dtype=torch.complex32)
    torch.zeros(2, dtype=torch.complex32).dtype
    torch.zeros(2).half().to(torch.complex32).dtype
    torch.complex(v.half(), v.half()).dtype
    torch.view_as_complex(x.half()).dtype
    torch.tensor([1j], dtype=torch.chalf)
    torch.tensor(1j).to(torch.chalf) * 1
    v.storage()
    v.storage().size()
    v.storage_type()
    torch.FloatStorage(2).size()
    torch.TypedStorage(2).size()
    v.to_sparse().type()
    torch.cholesky(x @ x.T)
    torch.qr(x)
    torch.lu(x)
    torch.lstsq(x, x)
    torch.eig(x)
    torch.symeig(x)
    torch.solve(x, x)
    torch.matrix_rank(x)
    torch.triangular_solve(x, x)
    torch.ger(v, v)
    torch.chain_matmul(x, x)
    torch.norm(x)
    torch.svd(x)[1]
    torch.cross(x.new_ones(3, 3), x.new_ones(3, 3))
    torch.range(0, 2)
    torch.meshgrid(v, v)[0].shape
    torch.meshgrid(v, i, indexing="ij")[0].dtype
    torch.stft(torch.zeros(8), 4)
    torch.stft(torch.zeros(8), 4, return_complex=False)
    torch.stft(torch.zeros(8), 4, return_complex=True).shape
    torch.istft(torch.zeros(3, 5, dtype=torch.complex64), 4)
    torch.tensor([1j]).float()
    torch.tensor([1 + 1j]).to(torch.float64)
    torch.tensor([1 + 1j]).int()
    torch.zeros(1).copy_(torch.tensor([1 + 1j]))
    a = torch.zeros(1); a[0] = torch.tensor(1 + 1j); a
    torch.zeros(1).fill_(1j)
    torch.tensor([1j], requires_grad=True).real.sum().backward()
    float(torch.tensor(1j))
    x.T, v.T
    torch.zeros(2, 2, 2).T
    torch.zeros(2, 2, 2).H
    v.mT
    v.reinforce(1)
    v.share_memory_().is_shared()
    v.unflatten(0, (3,)).shape
    torch.tensor([1.0, 2.0], names=("a",))
    torch.tensor([1.0, 2.0]).rename("a").names
    torch.nn.functional.upsample(x[None, None], scale_factor=2).shape
    F.sigmoid(v), F.tanh(v)
    F.softmax(v)
    F.log_softmax(v)
    F.softmin(v)
    F.gumbel_softmax(v).shape
    F.interpolate(x[None, None], scale_factor=2, mode="bilinear", align_corners=None).shape
    F.mse_loss(v, x[:1, :1])
    F.l1_loss(v, v, size_average=False)
    F.smooth_l1_loss(v, x[:1, :1])
    F.cross_entropy(x, torch.tensor([0, 1]), reduce=False)
    nn.MSELoss(size_average=True)
    nn.Softmax()(v)
    F.kl_div(v, v)
    F.dropout2d(v)
    F.grid_sample(torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 1, 2))
    F.affine_grid(torch.zeros(1, 2, 3), (1, 1, 2, 2)).shape
    F.binary_cross_entropy(torch.rand(2), torch.rand(2, 1))
    nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 1).__class__.__name__
    nn.LSTM(1, 1, dropout=0.5)
    nn.init.uniform(torch.zeros(2)).shape
    nn.init.eye_(v)
    nn.init.xavier_uniform_(v)
    nn.utils.clip_grad_norm([g], 1.0)
    nn.utils.weight_norm(nn.Linear(1, 1)).__class__
    nn.Parameter([1])
    nn.Parameter(1)
    nn.ParameterList([v])[0].__class__
    torch.optim.SGD([g], 0.1).zero_grad(), torch.optim.lr_scheduler.StepLR(torch.optim.SGD([g], 0.1), 1).step()
    s = torch.optim.lr_scheduler.StepLR(torch.optim.SGD([g], 0.1), 1); s.step(3)
    torch.optim.lr_scheduler.StepLR(torch.optim.SGD([g], 0.1), 1, verbose=True)
    torch.load(io.BytesIO(pickle.dumps(3)))
    f = io.BytesIO(); torch.save(nn.Linear(1, 1), f); f.seek(0); torch.load(f)
    f = io.BytesIO(); torch.save(v, f); f.seek(0); torch.load(f, map_location="cuda")
    v.nonzero(as_tuple=3)
    torch.nonzero(v, as_tuple=False).shape
    v.new(), v.new(2).shape, v.new([1])
    v.floor_divide(2), torch.floor_divide(v, 2)
    v // 2, 2 // v, v % 2
    torch.div(v, 2, rounding_mode="a")
    i / i, torch.true_divide(i, 2)
    torch.add(v, 1, v)
    torch.addmm(1, x, 1, x, x)
    v.addcmul(1, v, v)
    v.add_(1, v)
    torch.sum(v, 0, True, torch.float64)
    torch.cumsum(v)
    torch.jit.script(lambda t: t)
    torch.set_warn_always(True); torch.zeros(2, 2, 2).T.shape
    torch.is_nonzero(v)
    bool(v)
    bool(torch.tensor([]))
    int(v)
    if_ = torch.tensor(True); if_ and 3
    torch.tensor([1, 2]).index_fill(0, torch.tensor([0]), 1.5)
    v[b]
    v[torch.tensor([1, 0, 1], dtype=torch.uint8)]
    v[1.5]
    v["a"]
    v[5]
    v[None, ..., 0]
    v[[0, 1], [0]]
    v[3:1:-1]
    v[i.float()]
    v[(0, 0)]
    v[i, i]
    v[torch.tensor([5])]
    x[[[0, 1], [1, 0]]]
    np.array(v), np.asarray(x).shape
    torch.from_numpy(np.broadcast_to(np.zeros(1), (2,)))
    torch.tensor(np.float32(3)).dtype, torch.tensor(np.array(["a"], dtype=object))
    torch.tensor([np.zeros(2), np.zeros(2)])
    """)

FAMILIES["removed"] = (
    each("torch.@", "btrifact gels potrf unsqueeze_ rfft irfft stack_ gesv trtrs symeig_ potri")
    + each("v.@", "volatile creator btrifact gels potrf rfft ger_ cross_ trtrs")
    + each("x.@(x)", "triangular_solve cholesky_solve resize_as")
    + each("x.@()", "qr svd lu pinverse logdet slogdet inverse")
    + each("torch.@(x)", "qr lu svd pinverse slogdet inverse det logdet")
    + lines("""
    torch.lu(x)[0].shape, type(torch.lu(x)), x.lu().__class__
    torch.lu(x, get_infos=True)[2], torch.lu(x, get_infos=True)
    x.lu(get_infos=True)
    torch.lu(v)
    torch.lu(x, pivot=False)
    torch.lu_unpack(*torch.lu(x))
    torch.lu_unpack(*torch.linalg.lu_factor(x))._fields if hasattr(torch.lu_unpack(*torch.linalg.lu_factor(x)), "_fields") else None
    torch.lu_solve(x, *torch.linalg.lu_factor(x))
    torch.functional.__all__
    torch.functional.lu.__name__, torch.functional.Sequence.__name__
    x.norm(), x.norm(dim=0, p="fro"), torch.norm(x, "nuc")
    torch.norm(x, "nonsense")
    torch.norm(i)
    torch.norm(x, p="fro", dim=(0, 1, 2))
    """)
)

FAMILIES["shapes_and_einsum"] = lines("""
    torch.broadcast_shapes((2, 3), (3,), ())
    torch.broadcast_shapes((2, 3), (4,))
    torch.broadcast_shapes((2, -1))
    torch.broadcast_shapes(2, (3, 1))
    torch.broadcast_shapes("a")
    torch.broadcast_shapes((2, 1), (-2,))
    torch.broadcast_shapes()
    torch.broadcast_shapes([1.5])
    torch.broadcast_shapes(None)
    torch.broadcast_shapes((0,), (1,)), torch.broadcast_shapes(torch.Size([1]), [3])
    torch.broadcast_shapes((0,), (2,))
    torch.broadcast_tensors(v, x)
    torch.broadcast_tensors(v, 3)
    torch.broadcast_tensors()
    torch.broadcast_tensors([v, x[:1, :1]])[1].shape
    torch.einsum("i", v), torch.einsum("i->", v), torch.einsum("ij->ji", x)
    torch.einsum("ij", v)
    torch.einsum("i,j", v)
    torch.einsum("i", v, v)
    torch.einsum("i->ii", v)
    torch.einsum("i->j", v)
    torch.einsum("ij,jk->ik", x, v)
    torch.einsum("i1", x)
    torch.einsum("i.j", x)
    torch.einsum("i...->...", x)
    torch.einsum("......", x)
    torch.einsum("...", x).shape, torch.einsum("...->", x)
    torch.einsum("i->...i...", v)
    torch.einsum("ij->", x), torch.einsum("ii", x), torch.einsum("ii->i", x)
    torch.einsum("ii", torch.zeros(2, 3))
    torch.einsum("ij,ij->i", x, torch.zeros(2, 3))
    torch.einsum(3)
    torch.einsum("i")
    torch.einsum()
    torch.einsum("", torch.tensor(2.0)), torch.einsum("->", torch.tensor(2.0))
    torch.einsum(x, [0, 1]), torch.einsum(x, [0, 1], [1, 0])
    torch.einsum(x, [0, 52])
    torch.einsum(x, [0, -1])
    torch.einsum(x, [Ellipsis, 0], [0])
    torch.einsum(x, "ij")
    torch.einsum("i,i", [v, v])
    torch.einsum("i, i -> ", v, v)
    torch.einsum("i->i->", v)
    torch.einsum("iI->Ii", x)
    torch.einsum("ij>i", x)
    torch.einsum("i,i", v, i)
    torch.einsum("i", 3)
    torch.split(v, 2), torch.split(v, [1, 2])
    torch.split(v, [1, 1])
    torch.split(v, -1)
    torch.split(v, 0)
    torch.split(v, "a")
    torch.tensordot(x, x, 1), torch.tensordot(x, x, ([0], [1]))
    torch.tensordot(x, x, -1)
    torch.tensordot(x, x, 5)
    torch.tensordot(x, v)
    torch.tensordot(x, x, ([0], [0, 1]))
    torch.tensordot(x, x, "a")
    torch.cartesian_prod(v), torch.cartesian_prod(v[:1], i[:2])
    torch.cartesian_prod(x)
    torch.block_diag(v, x, torch.tensor(1.0))
    torch.block_diag(torch.zeros(1, 1, 1))
    torch.block_diag(3)
    torch.cdist(x, x, 2.0, "nonsense")
    torch.cdist(v, v)
    torch.cdist(x, torch.zeros(2, 3))
    torch.cdist(x, x, -1)
    torch.atleast_1d(torch.tensor(1)), torch.atleast_2d(v), torch.atleast_3d([v, x])[0].shape
    torch.atleast_2d(3)
    torch.unravel_index(torch.tensor(5), (2, 3)), torch.unravel_index(torch.tensor([1, 5]), 6)
    torch.unravel_index(torch.tensor(6), (2, 3))
    torch.unravel_index(torch.tensor(-7), (2, 3))
    torch.unravel_index(v, (2, 3))
    torch.unravel_index(3, (2, 3))
    torch.unravel_index(torch.tensor(1), -1)
    torch.unravel_index(torch.tensor(1), (2, -3))
    torch.unravel_index(torch.tensor(1), "a")
    torch.unravel_index(torch.tensor(1), ())
    torch.unique(i, return_inverse=True, return_counts=True)
    torch.unique(x, dim=5)
    torch.unique_consecutive(i, return_counts=True)
    torch.meshgrid(v, v, indexing="a")
    torch.meshgrid(x, indexing="ij")
    torch.meshgrid(v, i, indexing="ij")[0].shape
    torch.meshgrid([])
    torch.align_tensors(v, v)
    torch.stft(v, 4, return_complex=True)
    torch.chain_matmul(x)
    torch.chain_matmul()
    torch.chain_matmul(v, x)
    """)
