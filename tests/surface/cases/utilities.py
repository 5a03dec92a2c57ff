"""Swapped tensors, hooks, pickles, printing, and small modules that programs look into."""

from .lines import lines

FAMILIES = {}

FAMILIES["swapped"] = lines("""
    a, c = torch.ones(2), torch.zeros(3); torch.utils.swap_tensors(a, c); a, c
    a, c = torch.ones(2), torch.zeros(3, dtype=torch.int32); torch.utils.swap_tensors(a, c); a.dtype, c.dtype
    a, c = torch.ones(2), nn.Parameter(torch.zeros(3)); torch.utils.swap_tensors(a, c); type(a), type(c), a.requires_grad
    a, c = torch.ones(2), torch.zeros(3); a.mark = 5; torch.utils.swap_tensors(a, c); hasattr(a, "mark"), c.mark
    a, c = g * 2, torch.zeros(3); torch.utils.swap_tensors(a, c); a.grad_fn, c.grad_fn.name()
    a, c = torch.ones(2), torch.zeros(3); import weakref; r = weakref.ref(a); torch.utils.swap_tensors(a, c)
    a, c = torch.ones(2), torch.zeros(3); d = a.data_ptr(); torch.utils.swap_tensors(a, c); c.data_ptr() == d
    a = torch.ones(2); torch.utils.swap_tensors(a, 3)
    a, c = torch.ones(2), torch.ones(2, requires_grad=True); c.sum().backward(); torch.utils.swap_tensors(a, c); a.grad, c.grad
    a, c = torch.ones(2), torch.zeros(3); w = a.view(2); torch.utils.swap_tensors(a, c); w, a
    torch.__future__.set_swap_module_params_on_conversion(True); m = nn.Linear(2, 1); p = m.weight; m.double(); p is m.weight, p.dtype
    torch.__future__.set_swap_module_params_on_conversion(True); m = nn.Linear(2, 1); m.weight.sum().backward(); m.double(); m.weight.grad.dtype
    torch.__future__.set_swap_module_params_on_conversion(True); m = nn.Linear(2, 1); p = m.weight; m.load_state_dict(nn.Linear(2, 1).state_dict()); p is m.weight
    torch.__future__.set_overwrite_module_params_on_conversion(True); m = nn.Linear(2, 1); p = m.weight; m.double(); p is m.weight
    m = nn.Linear(2, 1); p = m.weight; m.double(); p is m.weight, p.dtype
    m = nn.Linear(2, 1); m.load_state_dict(nn.Linear(2, 1).state_dict(), assign=True)
    v.module_load(torch.zeros(3)), v.module_load(torch.zeros(3), assign=True)
    v.module_load(torch.zeros(3, device="meta"))
    torch.utils.set_module(type("A", (), {}), 3)
    """)  # fmt: skip

FAMILIES["tensors_inside"] = lines("""
    v._use_count(), v._version, v._cdata == v._cdata
    v._backward_hooks, g._backward_hooks
    a = g * 2; a.register_hook(lambda t: t); type(a._backward_hooks), len(a._backward_hooks)
    g.register_hook(lambda t: t); len(g._backward_hooks)
    v._base, v[1:]._base is v, v._is_view(), v[1:]._is_view()
    v._post_accumulate_grad_hooks, v._grad, v._grad_fn
    v.output_nr, v.is_leaf, v.retains_grad, v.name, v.names, v.imag if v.is_complex() else None
    v.is_mkldnn, v.is_mps, v.is_xpu, v.is_vulkan, v.is_nested, v.is_quantized, v.is_meta, v.is_ipu
    v.is_xla, v.is_maia, v.is_mtia, v.is_cpu, v.is_cuda, v.is_sparse, v.is_sparse_csr
    v.itemsize, v.nbytes, v.ndim, v.T.shape, x.mT.shape, x.H, x.mH
    v.real is v, v.grad_dtype if hasattr(v, "grad_dtype") else None
    v._is_zerotensor(), v.is_conj(), v.is_neg(), v.is_inference(), v.is_distributed()
    v.data.requires_grad, v.detach()._version, v.shape is v.shape
    v.__torch_dispatch__, v.__torch_function__
    v.__reduce_ex__(2)[0].__name__
    v.__dir__().__class__, "add" in dir(v)
    v.__hash__() == id(v), v.__contains__(2.0), len(v), v.__bool__
    v.__index__()
    torch.tensor(3).__index__(), torch.tensor(2.5).__int__(), torch.tensor(True).__float__()
    torch.tensor(1.5).__index__()
    v.__array__(), v.__array_priority__
    v.__cuda_array_interface__
    v.storage_offset(), v.stride(), v.stride(0), v.size(0), v.dim(), v.nelement()
    v.get_device(), v.type(), v.layout, v.device
    torch.Generator().graphsafe_get_state().__class__
    a = torch.Generator().manual_seed(3); c = torch.Generator(); c.graphsafe_set_state(a.graphsafe_get_state()); torch.rand(1, generator=c) is not None
    a = torch.Generator().manual_seed(3); a.clone_state().initial_seed(), a.device, a.get_state().dtype
    torch.Generator().manual_seed("a")
    torch.Generator().get_offset()
    torch.initial_seed().__class__, torch.random.initial_seed().__class__
    torch.get_rng_state().shape, torch.random.fork_rng().__class__
    torch.set_rng_state(3)
    torch.manual_seed(2**70)
    torch.manual_seed("a")
    torch.manual_seed(-1).__class__
    torch.seed().__class__
    """)  # fmt: skip

FAMILIES["hooks"] = lines("""
    h = g.register_hook(lambda t: t * 2); (g * 3).sum().backward(); g.grad
    h = g.register_hook(lambda t: t * 2); h.remove(); (g * 3).sum().backward(); g.grad
    v.register_hook(lambda t: t)
    g.register_hook(3)
    h = torch.utils.hooks.RemovableHandle({}); h.id.__class__, h.remove(), h.remove()
    h = torch.utils.hooks.RemovableHandle({}); h.__getstate__()[0].__class__
    torch.utils.hooks.unserializable_hook(lambda: 3).__torch_unserializable__
    torch.utils.hooks.warn_if_has_hooks(v)
    g.register_hook(lambda t: t); torch.utils.hooks.warn_if_has_hooks(g)
    torch.utils.hooks.BackwardHook(nn.Identity(), [], []).__class__.__name__
    m = nn.Linear(1, 1); h = m.register_backward_hook(lambda *a: None); h.__class__.__name__
    m = nn.Linear(2, 1); got = []; m.register_backward_hook(lambda m, i, o: got.append([None if t is None else tuple(t.shape) for t in i])); m(torch.ones(3, 2)).sum().backward(); got
    m = nn.Linear(2, 1); got = []; m.register_full_backward_hook(lambda m, i, o: got.append([None if t is None else tuple(t.shape) for t in i])); m(torch.ones(3, 2)).sum().backward(); got
    m = nn.Linear(2, 1); got = []; m.register_full_backward_hook(lambda m, i, o: got.append([None if t is None else tuple(t.shape) for t in i])); m(torch.ones(3, 2, requires_grad=True)).sum().backward(); got
    m = nn.Linear(1, 1); m.register_full_backward_hook(lambda *a: None); m.register_backward_hook(lambda *a: None)
    m = nn.Linear(1, 1); m.register_backward_hook(lambda *a: None); m.register_full_backward_hook(lambda *a: None)
    m = nn.Identity(); m.register_forward_hook(lambda m, i, o: o * 0); m(torch.ones(1))
    m = nn.Identity(); m.register_forward_pre_hook(lambda m, i: (i[0] * 0,)); m(torch.ones(1))
    m = nn.Linear(1, 1); m.register_state_dict_post_hook(lambda *a: None).__class__.__name__
    m = nn.Linear(1, 1); m.register_load_state_dict_pre_hook(lambda *a: None).__class__.__name__
    nn.modules.module.register_module_forward_hook(lambda m, i, o: o * 0); nn.Identity()(v)
    nn.modules.module.register_module_full_backward_hook(lambda *a: None).__class__.__name__
    nn.modules.module.register_module_parameter_registration_hook(lambda m, n, p: None); nn.Linear(1, 1).in_features
    g.register_post_accumulate_grad_hook(lambda p: p.grad.zero_()); (g * 3).sum().backward(); g.grad
    v.register_post_accumulate_grad_hook(lambda p: None)
    (g * 2).register_post_accumulate_grad_hook(lambda p: None)
    torch.autograd.graph.register_multi_grad_hook((g,), lambda gs: None).__class__.__name__
    """)  # fmt: skip

FAMILIES["small_modules"] = lines("""
    torch.utils.collect_env.get_pretty_env_info().__class__
    torch.utils._import_utils._check_module_exists("numpy"), torch.utils._import_utils.dill_available()
    import torch.utils.model_zoo; torch.utils.model_zoo.load_url.__name__, torch.utils.model_zoo.tqdm.__class__
    import torch.utils.benchmark; torch.utils.benchmark.Timer("1").collect_callgrind.__name__
    import torch.utils.benchmark as b; b.CopyIfCallgrind(3).value, b.CopyIfCallgrind(3, setup="x").setup
    import torch.utils.benchmark as b; b.Timer("1").collect_callgrind(repeats=0)
    import torch.utils.benchmark as b; list(b.FunctionCounts((b.FunctionCount(3, "f"),), False) * 2)
    import torch.utils.model_dump as d; d.hierarchical_pickle({"a": (1, [None])}), d.hierarchical_pickle(object())
    import torch.utils.show_pickle as s, io, pickle; s.DumpUnpickler(io.BytesIO(pickle.dumps(len))).load()
    torch.utils.collect_env.get_libc_version(), torch.utils.collect_env.run("echo a; exit 3")
    import torch.utils.file_baton; torch.utils.file_baton.FileBaton("x").lock_file_path
    torch.utils._exposed_in.exposed_in("torch.x")(lambda: 3).__module__
    torch.utils._ordered_set.OrderedSet([3, 1, 3, 2])
    torch.utils._ordered_set.OrderedSet([3, 1]) | {5}, 1 in torch.utils._ordered_set.OrderedSet([1])
    torch.utils._stats.count(lambda: 3)()
    torch.utils._traceback.format_frame.__name__
    import torch.utils._device; torch.utils._device.DeviceContext.__name__, torch.utils._device.set_device("meta")(lambda: torch.zeros(1).device)()
    torch.utils._mode_utils.no_dispatch().__class__, torch.utils._mode_utils.all_same_mode([1, 1])
    torch.utils._typing_utils.not_none(3)
    torch.utils._typing_utils.not_none(None)
    torch.utils._config_module.ConfigModule.__name__
    torch._jit_internal.is_optional(int | None), torch._jit_internal.is_union(int | str), torch._jit_internal.is_final(int)
    torch._jit_internal.is_dict(__import__("typing").Dict)
    torch._jit_internal.is_list(__import__("typing").List)
    torch._jit_internal.boolean_dispatch.__name__, torch._jit_internal._overload.__name__
    torch._jit_internal.BroadcastingList2[int], torch._jit_internal.is_tuple(tuple[int, int])
    torch._namedtensor_internals.__name__
    torch._tensor_str._str(v), torch._tensor_str.PRINT_OPTS.precision
    torch._tensor_str.PRINT_OPTS
    torch.set_printoptions(precision=2); torch._tensor_str.PRINT_OPTS.precision, torch.tensor(1.23456)
    torch._tensor_str.printoptions(precision=1).__class__
    torch._sources.get_source_lines_and_file(torch.nn.Linear.forward).__class__
    torch._C._get_custom_class_python_wrapper.__name__
    torch.classes, torch.classes.loaded_libraries
    torch.classes.a.B
    torch.ops, torch.ops.aten, torch.ops.aten.add, torch.ops.aten.add.Tensor
    torch.ops.aten.nonsense
    torch.ops.nonsense, torch.ops.nonsense.op
    torch.overrides.get_overridable_functions().__class__, torch.overrides.is_tensor_like(v)
    torch.overrides.resolve_name(torch.add), torch.overrides.resolve_name(torch.Tensor.add)
    torch.testing.make_tensor((2,), dtype=torch.int32, device="cpu").dtype
    torch.testing._utils.freeze_rng_state.__name__
    torch.hub.get_dir().__class__, torch.hub.set_dir("/tmp/h")
    torch.random.fork_rng(enabled=False).__class__, torch.quasirandom.SobolEngine(2).draw(2)
    torch.serialization.get_default_load_endianness(), torch.serialization.get_default_mmap_options().__class__
    torch.serialization.get_crc32_options()
    torch.futures.Future().done(), torch.futures.collect_all([]).wait()
    torch.monitor.Aggregation.MEAN, torch.monitor.Stat.__name__
    torch.jit.is_scripting(), torch.jit.is_tracing(), torch.onnx.is_in_onnx_export()
    torch._dynamo.is_compiling(), torch._dynamo.disable(lambda: 3)(), torch._dynamo.reset()
    torch._dynamo.config.suppress_errors, torch._dynamo.config.cache_size_limit
    torch._disable_dynamo(lambda: 3)(), torch._compile._disable_dynamo(lambda: 4)()
    torch._logging.set_logs(), torch._logging.warning_once.__name__
    torch._logging.set_logs(dynamo=3)
    torch._logging.set_logs(graph=3)
    torch._logging.set_logs(modules={"nonsense": 10})
    torch._logging.getArtifactLogger("torch.x", "nonsense")
    torch._logging.getArtifactLogger("torch.x", "graph").name, torch._logging.DEFAULT_LOGGING
    str(torch._logging.LazyString(lambda: "lazy")), torch._logging.trace_structured("event")
    torch.distributed.get_rank()
    torch.distributed.get_world_size()
    torch.distributed.get_backend()
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    torch.utils.data.distributed.DistributedSampler([1, 2])
    list(torch.utils.data.distributed.DistributedSampler([1, 2, 3], 2, 1, shuffle=False))
    import torch.utils._contextlib as c; c.context_decorator(contextlib.nullcontext, int)
    import torch.utils._contextlib as c; c.context_decorator(torch.no_grad(), len)
    import torch.utils._contextlib as c; c.context_decorator(lambda: torch.no_grad(), lambda: torch.is_grad_enabled())()
    import torch.utils._contextlib as c; issubclass(torch.no_grad, c._DecoratorContextManager)
    import torch.utils._foreach_utils as f; f._has_foreach_support([v], v.device), f._get_fused_kernels_supported_devices()
    torch.package.PackageExporter.__name__
    torch.ao.quantization.QConfig.__name__, torch.ao.nn.quantized.Linear.__name__
    """)  # fmt: skip
