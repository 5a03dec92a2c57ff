"""Modules around tensors: storages of shared memory, awaits, processes, loaders, the build."""

from .lines import each, lines

FAMILIES = {}

_Q = 'warnings.simplefilter("ignore"); '
_CLASSES = "FloatStorage DoubleStorage LongStorage BoolStorage ComplexFloatStorage"
FAMILIES["storages_whole"] = (
    each(_Q + "torch.@._new_shared(2)", _CLASSES)
    + each(_Q + "torch.@._new_shared(2).is_shared()", "FloatStorage ByteStorage")
    + each(_Q + "torch.@(@)".replace("(@)", "([1, 0]).__reduce__()[0].__name__"), _CLASSES)
    + each(_Q + "v.storage().type('torch.@')", _CLASSES + " Nonsense cuda.FloatStorage")
    + each("v.untyped_storage().type('torch.@')", _CLASSES + " Nonsense UntypedStorage")
    + each("v.untyped_storage().type(@)", "torch.FloatStorage torch.UntypedStorage torch.float32 3 None str")
    + each("hasattr(torch.storage.TypedStorage, '@')", """_new_shared_filename _share_filename_cpu_ _get_filename
        _share_fd_cpu_ _shared_incref _shared_decref _weak_ref _free_weak_ref _expired _set_cdata _new_with_weak_ptr
        _new_using_filename_cpu _new_using_fd_cpu _get_legacy_storage_class _setitem _getitem _maybe_wrap_index
        _set_from_file _write_file _release_ipc_counter _untyped_storage _deepcopy _internal_new _to _share_memory_""")
    + each("hasattr(torch.storage.UntypedStorage, '@')", """__reduce__ __getitem__ __iter__ mps xpu is_hpu hpu
        _get_filename resizable float8_e5m2 float8_e4m3fnuz _share_memory_lock _get_shared_fd _new_shared
        pin_memory share_memory_ byteswap from_file __deepcopy__ __sizeof__ _fake_device""")
    + each(_Q + "v.storage().@", """_cdata.__class__ _untyped_storage.__class__ _dtype is_hpu filename
        float8_e5m2().dtype float8_e4m3fn().dtype hpu to() _maybe_wrap_index(-1) _maybe_wrap_index(3)
        _maybe_wrap_index(None) _getitem(0) new() new().size() __sizeof__() nonsense float32 _new_wrapped_storage
        _share_memory_().__class__ _resize_(5)""")
    + lines("""
    u = v.untyped_storage(); u.copy_(torch.zeros(3).untyped_storage()) is u, u.fill_(0) is u, u.resize_(4) is u
    s = v.storage(); s.copy_(torch.FloatStorage([7, 8, 9])) is s, s.fill_(1) is s, torch.FloatStorage(2).resize_(1)
    u = v.untyped_storage(); u.copy_(v.untyped_storage(), False) is u
    u = v.untyped_storage(); u.copy_(3)
    u = v.untyped_storage(); u.copy_()
    u = v.untyped_storage(); u.resize_()
    u = v.untyped_storage(); u.resize_(2.5)
    u = v.untyped_storage(); u.fill_(1.5)
    u = v.untyped_storage(); u.fill_()
    u = v.untyped_storage(); u.new(3).size()
    u = v.untyped_storage(); u[1:3], u[:2].size(), u[-2:].size()
    u = v.untyped_storage(); u[::2]
    u = v.untyped_storage(); u[2:1].size()
    u = v.untyped_storage(); u[0:2] = [1, 2]
    u = v.untyped_storage(); u[99] = 1
    u = v.untyped_storage(); u[-13]
    u = v.untyped_storage(); u[None]
    u = v.untyped_storage(); u[True]
    u = v.untyped_storage(); u.__reduce__()[0].__name__, len(u.__reduce__()[1][0]) > 100
    u = v.untyped_storage(); pickle.loads(pickle.dumps(u)).tolist() == u.tolist()
    u = torch.UntypedStorage._new_shared(4); u._get_shared_fd().__class__, u.filename
    v.untyped_storage()._get_shared_fd()
    v.untyped_storage()._share_filename_cpu_().__class__
    v.untyped_storage()._share_fd_cpu_()[0].__class__, v.untyped_storage()._share_fd_cpu_()[1]
    v.untyped_storage().share_memory_()._get_filename()
    v.untyped_storage()._get_filename(), v.untyped_storage().filename
    v.untyped_storage()._shared_incref()
    torch.storage._warn_typed_storage_removal()
    torch.storage._warn_typed_storage_removal(3)
    torch.storage._reset_warn_typed_storage_removal(), torch.storage._get_always_warn_typed_storage_removal()
    torch.storage._set_always_warn_typed_storage_removal(True); torch.storage._get_always_warn_typed_storage_removal()
    torch.storage._set_always_warn_typed_storage_removal(3)
    v.storage(), v.storage(), 1
    torch.storage.__all__, torch.storage.T, torch.storage.Storage if hasattr(torch.storage, "Storage") else None
    torch.storage._share_memory_map, torch.storage._share_memory_lock_protected(lambda s: 3).__class__
    torch.storage._load_from_bytes(b"")
    torch.storage._new_dtypes() == torch.storage._new_dtypes(), len(torch.storage._new_dtypes())
    torch.storage._get_device_from_module("torch.cuda"), torch.storage._get_device_from_module("torch")
    torch.storage.HAS_NUMPY, torch.storage._maybe_wrap_index if hasattr(torch.storage, "_maybe_wrap_index") else None
    torch.storage._isint(True), torch.storage.cast.__name__
    torch.UntypedStorage(3, device="nonsense")
    torch.UntypedStorage(3, 4, device="cpu")
    torch.UntypedStorage([1], device="meta")
    torch.UntypedStorage(device=3)
    torch.UntypedStorage(nonsense=1)
    torch.UntypedStorage(2**62)
    torch.UntypedStorage(["a"])
    torch.UntypedStorage(None)
    torch.UntypedStorage(1.5)
    torch.UntypedStorage(v)
    torch.UntypedStorage(v.untyped_storage())
    torch._C.StorageBase()
    torch._C.StorageBase(3).__class__, torch._C.StorageBase.__mro__
    warnings.simplefilter("ignore"); torch.FloatStorage([1, "a"])
    warnings.simplefilter("ignore"); torch.FloatStorage(-1)
    warnings.simplefilter("ignore"); torch.FloatStorage(None)
    warnings.simplefilter("ignore"); torch.FloatStorage(v)
    warnings.simplefilter("ignore"); torch.FloatStorage(device="meta")
    warnings.simplefilter("ignore"); torch.FloatStorage([1], nonsense=2)
    warnings.simplefilter("ignore"); torch.FloatStorage(wrap_storage=torch.FloatStorage(1))
    warnings.simplefilter("ignore"); torch.FloatStorage(wrap_storage=v.untyped_storage(), device="cpu")
    warnings.simplefilter("ignore"); torch.TypedStorage(wrap_storage=3, dtype=torch.int8)
    warnings.simplefilter("ignore"); torch.TypedStorage(dtype=torch.int8, device="a")
    warnings.simplefilter("ignore"); torch.TypedStorage(nonsense=3)
    warnings.simplefilter("ignore"); torch.TypedStorage([1], dtype="a")
    warnings.simplefilter("ignore"); torch.TypedStorage._from_buffer(bytearray(b"abcd"), dtype=torch.int8, device="cpu") if hasattr(torch.TypedStorage, "_from_buffer") else None
    warnings.simplefilter("ignore"); torch.TypedStorage.from_buffer(b"abcd", "little")
    warnings.simplefilter("ignore"); torch.TypedStorage.from_file
    warnings.simplefilter("ignore"); torch.FloatStorage.from_buffer()
    warnings.simplefilter("ignore"); torch.FloatStorage.from_buffer(b"abcd", "little", device="cpu")
    warnings.simplefilter("ignore"); torch.FloatStorage.from_file("nonsense", False, 3)
    warnings.simplefilter("ignore"); v.storage().share_memory_().is_shared()
    warnings.simplefilter("ignore"); v.storage()[:2]
    warnings.simplefilter("ignore"); v.storage()[::2]
    warnings.simplefilter("ignore"); s = v.storage(); s[:] = 0; v
    warnings.simplefilter("ignore"); s = v.storage(); s[0:2] = [1]
    warnings.simplefilter("ignore"); s = v.storage(); s[1.5] = 3
    warnings.simplefilter("ignore"); v.storage() == v.storage(), hash(v.storage()).__class__
    warnings.simplefilter("ignore"); v.storage().pin_memory("a")
    warnings.simplefilter("ignore"); v.storage().cpu().__class__, v.storage().clone().data_ptr() == v.data_ptr()
    warnings.simplefilter("ignore"); pickle.loads(pickle.dumps(v.storage())), v.storage().__reduce__()[0].__name__
    v.untyped_storage().pin_memory("a")
    v.untyped_storage().to(torch.float32)
    v._use_count(), torch._C._storage_Use_Count(v.untyped_storage()._cdata).__class__
    torch._conj(v) is v, torch._conj(torch.empty(1, dtype=torch.complex64, device="meta")).is_conj()
    torch._conj_physical(torch.tensor([1j])), torch._neg_view(v), torch._neg_view(v).is_neg()
    torch._C.TensorBase()
    torch._C.TensorBase(v)
    torch._C.TensorBase.__mro__, torch._C._TensorMeta.__mro__
    torch._C.TensorBase.__module__, torch._C.TensorBase.__name__, torch.Tensor.__mro__
    torch._C._LegacyVariableBase, torch._C._LegacyVariableBase.__mro__
    torch._C._LegacyVariableBase()
    torch._C._LegacyVariableBase([1])
    torch.autograd.Variable.__mro__[1:3], isinstance(v, torch.autograd.Variable), type(torch.autograd.Variable)
    torch.autograd.variable.VariableMeta.__mro__, torch.autograd.Variable.__bases__
    torch.autograd.Variable._execution_engine.__class__.__name__
    """)
)  # fmt: skip

_A = "A = torch.jit._await; "
FAMILIES["awaits"] = lines("""
    torch._awaits._Await, issubclass(torch._awaits._Await, torch._C._Await)
    torch._awaits.__all__
    torch._awaits.W, torch._awaits._PyAwaitMeta.__mro__[0], type(torch._awaits._Await)
    torch._C._Await, torch._C._Await.__module__, torch._C._Await.__qualname__
    torch._C._Await()
    torch._awaits._Await()
    torch._awaits._Await(3)
    torch._awaits._Await[int]
    torch.jit._awaitable(lambda t: t + 1, v).__class__
    torch.jit._awaitable(lambda t: t + 1, v)
    torch.jit._awaitable_wait(torch.jit._awaitable(lambda t: t + 1, v))
    torch.jit._awaitable_nowait(3), torch.jit._awaitable_wait(torch.jit._awaitable_nowait(3))
    torch.jit._awaitable(lambda t: t + 1, v).wait()
    torch.jit._awaitable(lambda t: t + 1, v).fn(v), torch.jit._awaitable(lambda t: t + 1, v).args()
    torch.jit._awaitable(lambda t: t + 1, v).is_nowait(), torch.jit._awaitable_nowait(3).is_nowait()
    torch.jit._awaitable_nowait(3).fn()
    torch.jit._awaitable_nowait(3).args()
    torch.jit._awaitable(lambda: 1 / 0).wait()
    torch.jit._awaitable(3)
    torch.jit._awaitable()
    torch.jit._awaitable_wait(3)
    torch.jit._awaitable(lambda t: t + 1, v) + 1
    torch.jit._awaitable(lambda t: t + 1, v).shape
    torch.jit._awaitable(lambda t: t + 1, v).nonsense
    torch.jit._awaitable(lambda t: t + 1, v)[0]
    torch.jit._awaitable(lambda t: print("called") or t, v).wait()
    w = torch.jit._awaitable(lambda t: print("called") or t, v); w.wait(), w.wait()
    torch.add(torch.jit._awaitable(lambda t: t + 1, v), 1)
    isinstance(torch.jit._awaitable_nowait(3), torch._awaits._Await), isinstance(torch.jit._awaitable_nowait(3), torch._C._Await)
    torch.jit._await._awaitable.__module__, torch.jit._await.__name__
    torch.jit._awaitable.__name__, torch.jit._awaitable_wait.__name__
    torch._jit_internal._Await is torch._awaits._Await
    torch._jit_internal.is_await(torch._awaits._Await[int]), torch._jit_internal.is_await(int)
    torch._C._awaitable_nowait(3).wait(), torch._C._awaitable_wait(torch._C._awaitable_nowait(3))
    torch.futures.Future().__class__, torch._C.Future, isinstance(torch.futures.Future(), torch._C.Future)
    torch.jit.fork(lambda t: t + 1, v).wait(), torch.jit.wait(torch.jit.fork(lambda: 3))
    sorted(k for k in dir(torch._C._Await) if not k.startswith("_"))
    """)

FAMILIES["processes"] = (
    each("import torch.multiprocessing.pool, torch.multiprocessing.queue; torch.multiprocessing.@.__all__ if hasattr(torch.multiprocessing.@, '__all__') else None",
         "pool queue reductions spawn _atfork")
    + each("hasattr(torch.multiprocessing.reductions, '@')", """SharedCache StorageWeakRef fd_id init_reductions
        rebuild_cuda_tensor rebuild_event rebuild_meta_tensor rebuild_nested_tensor rebuild_sparse_compressed_tensor
        rebuild_sparse_coo_tensor rebuild_sparse_tensor rebuild_storage_empty rebuild_storage_fd rebuild_storage_filename
        rebuild_tensor rebuild_typed_storage rebuild_typed_storage_child reduce_event reduce_nested_tensor
        reduce_sparse_tensor reduce_storage reduce_tensor reduce_typed_storage reduce_typed_storage_child
        shared_cache storage_from_cache""")
    + lines("""
    torch.multiprocessing.__all__
    import torch.multiprocessing.pool, torch.multiprocessing.queue; torch.multiprocessing.pool.Pool, torch.multiprocessing.pool.Pool.__mro__[1], torch.multiprocessing.pool.clean_worker.__name__
    import torch.multiprocessing.pool, torch.multiprocessing.queue; torch.multiprocessing.queue.Queue, torch.multiprocessing.queue.SimpleQueue.__mro__[1:3], torch.multiprocessing.queue.ConnectionWrapper
    import torch.multiprocessing.pool, torch.multiprocessing.queue; torch.multiprocessing.queue.ConnectionWrapper(3).conn
    import torch.multiprocessing.pool, torch.multiprocessing.queue; torch.multiprocessing.queue.ConnectionWrapper(3).nonsense
    import torch.multiprocessing.pool, torch.multiprocessing.queue; torch.multiprocessing.queue.ConnectionWrapper(None).conn
    import torch.multiprocessing.pool, torch.multiprocessing.queue; a, c = torch.multiprocessing.Pipe(); w = torch.multiprocessing.queue.ConnectionWrapper(a); w.send({"a": 1}); torch.multiprocessing.queue.ConnectionWrapper(c).recv()
    q = torch.multiprocessing.SimpleQueue(); q.put(v); q.get()
    import torch.multiprocessing.pool, torch.multiprocessing.queue; q = torch.multiprocessing.queue.SimpleQueue(ctx=torch.multiprocessing.get_context()); q.put(v); q.get()
    type(torch.multiprocessing.Queue()), type(torch.multiprocessing.SimpleQueue())
    torch.multiprocessing.Pool, torch.multiprocessing.get_context("spawn").__class__
    sorted(torch.multiprocessing.get_all_sharing_strategies()), sorted(torch.multiprocessing._all_sharing_strategies)
    torch.multiprocessing.set_sharing_strategy("file_system"); torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing._sharing_strategy, torch.multiprocessing._set_thread_name("a"), torch.multiprocessing._get_thread_name()
    torch.multiprocessing.ProcessException("a", 1, 2), torch.multiprocessing.ProcessRaisedException("a", 1, 2).__reduce__()
    torch.multiprocessing.ProcessExitedException("a", 1, 2, 3, "SIGTERM").__reduce__()
    torch.multiprocessing.ProcessExitedException.__mro__, torch.multiprocessing.ProcessException("a", 1, 2).pid
    torch.multiprocessing.spawn.__name__, torch.multiprocessing.start_processes.__name__, torch.multiprocessing.SpawnContext.__mro__
    torch.multiprocessing.ProcessContext([], []).join()
    torch.multiprocessing.ProcessContext([], []).pids()
    torch.multiprocessing.spawn(print, nprocs=0)
    torch.multiprocessing.start_processes(print, nprocs=0)
    torch.multiprocessing.start_processes(print, nprocs=1, start_method="nonsense")
    torch.multiprocessing.ENV_VAR_PARALLEL_START if hasattr(torch.multiprocessing, "ENV_VAR_PARALLEL_START") else torch.multiprocessing.spawn
    torch.multiprocessing.spawn.ENV_VAR_PARALLEL_START
    torch.multiprocessing.init_reductions is torch.multiprocessing.reductions.init_reductions
    torch.multiprocessing.reductions.reduce_tensor(v)[0].__name__, torch.multiprocessing.reductions.reduce_tensor(g)[1][2][3]
    torch.multiprocessing.reductions.reduce_tensor(g * 2)
    torch.multiprocessing.reductions.reduce_tensor(torch.zeros(2, device="meta"))[0].__name__
    torch.multiprocessing.reductions.reduce_tensor(x.to_sparse())[0].__name__, torch.multiprocessing.reductions.reduce_tensor(x.to_sparse_csr())[0].__name__
    torch.multiprocessing.reductions.reduce_storage(v.untyped_storage())[0].__name__
    torch.multiprocessing.reductions.reduce_storage(torch.zeros(0).untyped_storage())
    torch.multiprocessing.reductions.reduce_storage(torch.zeros(1, device="meta").untyped_storage())
    torch.multiprocessing.reductions.reduce_typed_storage(v.storage())[0].__name__
    torch.multiprocessing.reductions.rebuild_storage_empty(torch.UntypedStorage).size()
    torch.multiprocessing.reductions.rebuild_meta_tensor(torch.Tensor, (2,), (1,), 0, torch.float32, 8, False)
    torch.multiprocessing.reductions.shared_cache.limit, torch.multiprocessing.reductions.SharedCache.__mro__
    c = torch.multiprocessing.reductions.SharedCache(); c["a"] = torch.multiprocessing.reductions.StorageWeakRef(v.untyped_storage()); len(c), c.get("b"), c.free_dead_references()
    torch.multiprocessing.reductions.StorageWeakRef.__slots__, torch.multiprocessing.reductions.StorageWeakRef(3)
    torch.multiprocessing.reductions.fd_id(0).__class__, torch.multiprocessing.reductions.storage_from_cache(torch.UntypedStorage, "a")
    torch.multiprocessing.reductions.ForkingPickler, torch.multiprocessing.reductions.multiprocessing.__name__
    torch.multiprocessing._atfork.register_after_fork(3)
    torch.multiprocessing._prctl_pr_set_pdeathsig.__name__, torch.multiprocessing._atfork.register_after_fork.__name__
    """)
)  # fmt: skip

FAMILIES["loaders"] = (
    each("torch.utils.data._utils.@", """MP_STATUS_CHECK_INTERVAL HAS_NUMPY python_exit_status collate fetch pin_memory
        signal_handling worker _set_python_exit_flag DATAPIPE_SHARED_SEED""")
    + each("hasattr(torch.utils.data._utils.worker, '@')", """_worker_loop ManagerWatchdog WorkerInfo get_worker_info
        _ResumeIteration _IterableDatasetStopIteration _generate_state _share_dist_seed _worker_info IS_WINDOWS
        KeyErrorMessage MP_STATUS_CHECK_INTERVAL""")
    + each("hasattr(torch.utils.data.dataloader, '@')", """_InfiniteConstantSampler _DatasetKind _BaseDataLoaderIter
        _SingleProcessDataLoaderIter _MultiProcessingDataLoaderIter _sharding_worker_init_fn _share_dist_seed
        default_collate get_worker_info _utils _get_distributed_settings _AugmentedDataset logger""")
    + lines("""
    torch.utils.data._utils.signal_handling._set_SIGCHLD_handler(), torch.utils.data._utils.signal_handling._SIGCHLD_handler_set
    torch.utils.data._utils.signal_handling._set_worker_pids(1, (2, 3)), torch.utils.data._utils.signal_handling._error_if_any_worker_fails()
    torch.utils.data._utils.signal_handling._remove_worker_pids(3)
    torch.utils.data._utils.worker._generate_state(1, 2), torch.utils.data._utils.worker.WorkerInfo(id=1, seed=2)
    torch.utils.data._utils.worker.WorkerInfo(id=1).nonsense
    torch.utils.data._utils.worker.WorkerInfo(id=1).id = 3
    torch.utils.data._utils.worker._ResumeIteration(3), torch.utils.data._utils.worker._IterableDatasetStopIteration(3)
    torch.utils.data._utils.worker.ManagerWatchdog().is_alive()
    torch.utils.data._utils.worker.get_worker_info()
    torch.utils.data._utils.fetch._MapDatasetFetcher([1, 2], True, list, False).fetch([0, 1])
    torch.utils.data._utils.fetch._IterableDatasetFetcher([1, 2], True, list, False).fetch([0, 0, 0])
    f = torch.utils.data._utils.fetch._IterableDatasetFetcher([1], True, list, False); f.fetch([0]), f.ended, f.fetch([0])
    torch.utils.data._utils.fetch._BaseDatasetFetcher([], True, list, False).fetch([0])
    torch.utils.data._utils.pin_memory.pin_memory([v, "a", 3])
    torch.utils.data._utils.pin_memory._pin_memory_loop.__name__
    torch.utils.data._utils.collate.default_convert([np.zeros(1), "a", {"b": np.float32(1)}])
    torch.utils.data._utils.collate.default_convert(object).__class__
    torch.utils.data._utils.collate.default_collate([v, v])
    torch.utils.data._utils.collate.default_collate([1, "a"])
    torch.utils.data._utils.collate.default_collate([object()])
    torch.utils.data._utils.collate.default_collate([None])
    torch.utils.data._utils.collate.default_collate([[1, 2], [3]])
    torch.utils.data._utils.collate.default_collate([v, x])
    torch.utils.data._utils.collate.default_collate([np.array(["a"])])
    torch.utils.data._utils.collate.default_collate([{"a": 1}, {"a": 2}]), torch.utils.data._utils.collate.default_collate(["a", "b"])
    torch.utils.data._utils.collate.default_collate([])
    torch.utils.data._utils.collate.default_collate_err_msg_format
    torch.utils.data._utils.collate.np_str_obj_array_pattern.pattern
    list(torch.utils.data._utils.collate.default_collate_fn_map)
    torch.utils.data._utils.collate.collate([1, 2], collate_fn_map={int: lambda b, collate_fn_map: sum(b)})
    torch.utils.data._utils.collate.collate([1, 2])
    torch.utils.data._utils.collate.collate_tensor_fn([v, v]).shape, torch.utils.data._utils.collate.collate_int_fn([1, 2])
    torch.utils.data._DatasetKind.Map, torch.utils.data._DatasetKind.Iterable
    torch.utils.data._DatasetKind.create_fetcher(0, [1], True, list, False).__class__
    next(iter(torch.utils.data.dataloader._InfiniteConstantSampler()))
    torch.utils.data.dataloader._InfiniteConstantSampler().__class__.__mro__
    torch.utils.data.__all__
    torch.utils.data.dataloader.__all__, torch.utils.data.dataset.__all__, torch.utils.data.sampler.__all__
    torch.utils.data.DataLoader([1], num_workers=-1)
    torch.utils.data.DataLoader([1], timeout=-1)
    torch.utils.data.DataLoader([1], prefetch_factor=2)
    torch.utils.data.DataLoader([1], persistent_workers=True)
    torch.utils.data.DataLoader([1], batch_size=None, shuffle=True).batch_sampler
    torch.utils.data.DataLoader([1], batch_size=None, drop_last=True)
    torch.utils.data.DataLoader([1], shuffle="a")
    torch.utils.data.DataLoader([1], sampler=[0], shuffle=True)
    torch.utils.data.DataLoader([1], batch_sampler=[[0]], batch_size=2)
    torch.utils.data.DataLoader([1], num_workers=1, multiprocessing_context="nonsense")
    torch.utils.data.DataLoader([1], num_workers=1, multiprocessing_context=3)
    torch.utils.data.DataLoader([1], multiprocessing_context="fork")
    torch.utils.data.DataLoader([1], num_workers=1, prefetch_factor=-1)
    d = torch.utils.data.DataLoader([1]); d.batch_size = 3
    d = torch.utils.data.DataLoader([1]); d.nonsense = 3; d.nonsense
    d = torch.utils.data.DataLoader([1]); len(d), d._auto_collation, d._index_sampler.__class__, d._dataset_kind, d._iterator
    d = torch.utils.data.DataLoader([1]); next(iter(d)), iter(d).__class__, iter(d)._next_index()
    d = torch.utils.data.DataLoader([1, 2]); k = iter(d); k._next_data(), k._num_yielded, k.__getstate__
    d = torch.utils.data.DataLoader([1, 2]); pickle.dumps(iter(d))
    torch.utils.data.BatchSampler([1], 0, False)
    torch.utils.data.BatchSampler([1], 1, 3)
    torch.utils.data.RandomSampler([1], replacement=3)
    torch.utils.data.RandomSampler([1], num_samples=0)
    torch.utils.data.RandomSampler([])
    torch.utils.data.WeightedRandomSampler([1.0], 0)
    torch.utils.data.WeightedRandomSampler([[1.0]], 1)
    torch.utils.data.TensorDataset(v, x)
    torch.utils.data.random_split([1, 2], [1, 2])
    torch.utils.data.random_split([1, 2], [0.5, 0.6])
    torch.utils.data.ConcatDataset([])
    torch.utils.data.ConcatDataset([[1]])[2]
    torch.utils.data.Dataset()[0]
    torch.utils.data.Dataset() + torch.utils.data.Dataset()
    iter(torch.utils.data.IterableDataset())
    torch.utils.data.Sampler([1])
    torch.utils.data.Subset([1, 2], [1]).__getitems__([0]), torch.utils.data.StackDataset([1], [2])[0]
    torch.utils.data.StackDataset()
    torch.utils.data.StackDataset([1], [2, 3])
    """)
)  # fmt: skip

FAMILIES["build_and_monitor"] = lines("""
    torch.monitor.__all__ if hasattr(torch.monitor, "__all__") else None
    torch.monitor._WaitCounter, torch.monitor._WaitCounter("a").guard().__class__.__name__
    torch.monitor._WaitCounter("a").guard().__enter__()
    torch._C._monitor._WaitCounter("a"), torch._C._monitor._WaitCounter()
    torch.monitor._WaitCounterTracker if hasattr(torch.monitor, "_WaitCounterTracker") else None
    torch.monitor.Stat("a", [torch.monitor.Aggregation.SUM], 1.5)
    torch.monitor.Stat("a", [torch.monitor.Aggregation.SUM], __import__("datetime").timedelta(seconds=1)).name
    s = torch.monitor.Stat("a", [torch.monitor.Aggregation.SUM, torch.monitor.Aggregation.COUNT], __import__("datetime").timedelta(hours=1)); s.add(2.0); s.count, s.get()
    torch.monitor.Aggregation.__members__.keys(), torch.monitor.Aggregation.SUM.value
    torch.monitor.Event(name="a", timestamp=3, data={})
    torch.monitor.Event("a", __import__("datetime").datetime(2020, 1, 1), {"b": 1}).data
    torch.monitor.data_value_t
    torch.monitor.register_event_handler(lambda e: print(e.name)); torch.monitor.log_event(torch.monitor.Event("a", __import__("datetime").datetime(2020, 1, 1), {}))
    h = torch.monitor.register_event_handler(print); h.__class__.__name__, torch.monitor.unregister_event_handler(h)
    torch.monitor.unregister_event_handler(3)
    torch.monitor.log_event(3)
    torch.monitor.TensorboardEventHandler.__init__.__name__, torch.monitor.STAT_EVENT
    torch.__config__._cxx_flags().__class__, torch.__config__.show().__class__
    sorted(k for k in dir(torch.__config__) if not k.startswith("__"))
    torch.__config__.show(3)
    torch.__config__.nonsense
    torch._C._cxx_flags().__class__, torch._C._show_config().count("PyTorch built with")
    torch.__config__.show()[:19], torch.__config__.parallel_info()[:20]
    torch._load_global_deps(), torch._running_with_deploy(), torch._load_global_deps.__module__
    torch._TorchCompileWrapper, torch._TorchCompileWrapper("a", "b", {}, False)
    torch._TorchCompileInductorWrapper.__init__.__name__, torch._TorchCompileAOTInductorWrapper.__mro__[1].__name__
    torch._TorchCompileWrapper(lambda g, e: g, None, None, None) == 3
    w = torch._TorchCompileWrapper(lambda g, e: g, "default", {"a": 1}, None); w.kwargs, w.dynamic, w.compiler_fn.__name__
    torch._TorchCompileWrapper("eager", "default", None, True).compiler_name
    torch._import_device_backends.__name__, torch._is_device_backend_autoload_enabled()
    torch._preload_cuda_deps if hasattr(torch, "_preload_cuda_deps") else None
    torch._get_origin(torch.add) if hasattr(torch, "_get_origin") else None
    torch.typename(torch.add), torch.typename("a"), torch.typename(None), torch.typename(torch)
    torch.is_tensor(3), torch.is_storage(3), torch.is_warn_always_enabled()
    torch.USE_GLOBAL_DEPS, torch.USE_RTLD_GLOBAL_WITH_LIBTORCH, torch.platform.__name__
    torch.__version__.__class__, torch.__version__ >= "2.0", torch.__version__ > (1, 0)
    torch.__version__ < "nonsense"
    torch.torch_version.TorchVersion("2.1") == "2.1", torch.torch_version.TorchVersion("2.1") > (2, "a")
    torch.version.__all__ if hasattr(torch.version, "__all__") else None
    torch.e, torch.pi, torch.inf, torch.nan, torch.newaxis
    torch.BFloat16Storage.__module__, torch.compile.__module__, torch.manual_seed.__module__, torch.add.__module__
    torch.chunk is torch._C._VariableFunctions.chunk, torch.unravel_index.__module__, torch.vmap.__module__
    torch.get_file_path("torch", "x") if hasattr(torch, "get_file_path") else None
    torch.prepare_multiprocessing_environment("a") if hasattr(torch, "prepare_multiprocessing_environment") else None
    torch._assert(3, 4)
    torch._warn_once if hasattr(torch, "_warn_once") else None
    torch._tensor_classes.__class__, torch._storage_classes.__class__, len(torch._storage_classes)
    torch._C.ThroughputBenchmark, torch.utils.ThroughputBenchmark, torch.utils.ThroughputBenchmark.__module__
    torch.utils.ThroughputBenchmark(3)
    torch.utils.ThroughputBenchmark(nn.Linear(1, 1)).__class__.__mro__
    torch.utils.throughput_benchmark.format_time(time_us=3), torch.utils.throughput_benchmark.format_time(time_ms=3), torch.utils.throughput_benchmark.format_time(time_s=3)
    torch.utils.throughput_benchmark.format_time()
    torch.utils.throughput_benchmark.format_time(1, 2)
    torch.utils.throughput_benchmark.ExecutionStats.__init__.__name__
    t = torch.utils.ThroughputBenchmark(nn.Linear(1, 1)); t.run_once(torch.ones(1, 1)).shape
    t = torch.utils.ThroughputBenchmark(nn.Linear(1, 1)); t.benchmark(num_calling_threads=1, num_warmup_iters=1, num_iters=1)
    torch._C.BenchmarkConfig().num_iters, torch._C.BenchmarkConfig().num_calling_threads, torch._C.BenchmarkConfig().profiler_output_path
    torch._C.BenchmarkExecutionStats, torch._C.BenchmarkExecutionStats.__module__
    torch.utils.__all__ if hasattr(torch.utils, "__all__") else None
    torch._tensor.__all__ if hasattr(torch._tensor, "__all__") else None
    torch.library.__all__
    torch.overrides.__all__
    torch.serialization.__all__
    torch.hub.__all__
    torch.random.__all__
    torch.types.__all__
    torch.futures.__all__
    torch.quasirandom.SobolEngine.MAXDIM, torch.torch_version.__all__
    torch.optim.__all__
    torch.optim.lr_scheduler.__all__
    torch.nn.attention.__all__
    torch.nn.utils.__all__ if hasattr(torch.nn.utils, "__all__") else None
    torch.nn.parameter.__all__, torch.nn.parallel.__all__
    torch.sparse.__all__
    torch.special.__all__
    torch.fft.__all__
    torch.linalg.__all__ if hasattr(torch.linalg, "__all__") else None
    torch.amp.__all__ if hasattr(torch.amp, "__all__") else None
    torch.cpu.__all__, torch.accelerator.__all__
    torch.testing.__all__
    torch.nested.__all__, torch.masked.__all__
    torch.distributions.__all__
    torch.jit.__all__
    torch.__all__[:30]
    """)
